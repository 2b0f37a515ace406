"""Options of ``python -m dlrm_py.server``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlrm_py.bundle import Bundle
from dlrm_py.device import PLATFORMS
from dlrm_py.request import Limits
from dlrm_py.service import largest_message_bytes

DEFAULT_NUM_THREADS = 8
# A request holds its thread while it waits for its batch, so threads bound the size of a batch.
DEFAULT_BATCHING_THREADS = 64
DEFAULT_BATCH_TIMEOUT_MICROS = 1000
DEFAULT_MAX_BATCH_SIZE = 4096
DEFAULT_DRAIN_SECONDS = 10.0
MAX_LOOK_UPS = 4


@dataclass(frozen=True)
class ServerOptions:
    bundle: str
    host: str
    port: int
    platform: str
    #: Of each process that handles requests.
    num_threads: int
    #: Of XLA on the CPU; 0: as many as CPUs.
    device_threads: int
    #: Processes that handle requests; 0: this one does.
    num_processes: int
    #: Seconds a batch waits for more requests; None: no batching.
    window_seconds: float | None
    max_batch_size: int
    max_examples_per_request: int | None
    max_message_bytes: int | None
    warm_up_examples: int
    drain_seconds: float
    compilation_cache_dir: str | None

    @property
    def look_ups(self) -> int:
        """Batches that one process looks up at a time."""
        processes = max(self.num_processes, 1)
        return max(1, min(available_cpus() // processes, MAX_LOOK_UPS))


def available_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_options(arguments: Sequence[str] | None = None) -> ServerOptions:
    parser = argparse.ArgumentParser(
        prog="python -m dlrm_py.server",
        description="Serves a ranking-model bundle over gRPC from CPython.",
        allow_abbrev=False,
    )
    parser.add_argument("--bundle", required=True, metavar="DIR", help="directory of the model bundle")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_at_least(0), default=8500, help="port; 0 takes a free one (default: %(default)s)")
    parser.add_argument(
        "--platform",
        choices=PLATFORMS,
        default="cpu",
        help="what runs the dense network; sim is a simulated accelerator (default: %(default)s)",
    )
    parser.add_argument(
        "--num-threads",
        type=_at_least(0),
        default=0,
        help=f"threads of a process that handle requests (default, also 0: {DEFAULT_NUM_THREADS}, with batching "
        f"{DEFAULT_BATCHING_THREADS})",
    )
    parser.add_argument(
        "--device-threads",
        type=_at_least(0),
        default=0,
        help="threads of the dense network on the CPU, and no more than CPUs (default, also 0: one for each CPU)",
    )
    parser.add_argument(
        "--num-processes",
        type=_at_least(0),
        default=0,
        help="processes that share the port, each with its own copy of the tables, and one more that owns the device "
        "(default: 0, everything in one process)",
    )
    parser.add_argument(
        "--batching",
        choices=("off", "window"),
        default="off",
        help="window: requests wait up to the batch timeout for others, and run together (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-timeout-micros",
        type=_at_least(0),
        default=DEFAULT_BATCH_TIMEOUT_MICROS,
        help="longest wait for other requests (default: %(default)s)",
    )
    parser.add_argument(
        "--max-batch-size",
        type=_at_least(1),
        default=DEFAULT_MAX_BATCH_SIZE,
        help="most examples the device runs together (default: %(default)s)",
    )
    parser.add_argument(
        "--max-examples-per-request",
        type=_at_least(1),
        help="most examples in one request (default: 4096, or the max batch size if that is larger)",
    )
    parser.add_argument(
        "--max-message-bytes",
        type=_at_least(1),
        help="largest request message, bytes (default: what the largest request takes, in whole MiB)",
    )
    parser.add_argument(
        "--warm-up-examples",
        type=_at_least(1),
        help="batches of up to so many examples are compiled before serving, larger ones at first use (default: the max "
        "batch size)",
    )
    parser.add_argument(
        "--drain-timeout-ms",
        type=_at_least(0),
        default=int(DEFAULT_DRAIN_SECONDS * 1000),
        help="how long requests may take to finish after SIGTERM (default: %(default)s)",
    )
    parser.add_argument("--compilation-cache-dir", metavar="DIR", help="keeps what JAX compiles, for the next start")
    options = parser.parse_args(arguments)
    batching = options.batching == "window"
    return ServerOptions(
        bundle=options.bundle,
        host=options.host,
        port=options.port,
        platform=options.platform,
        num_threads=options.num_threads or (DEFAULT_BATCHING_THREADS if batching else DEFAULT_NUM_THREADS),
        device_threads=options.device_threads,
        num_processes=options.num_processes,
        window_seconds=options.batch_timeout_micros / 1e6 if batching else None,
        max_batch_size=options.max_batch_size,
        max_examples_per_request=options.max_examples_per_request,
        max_message_bytes=options.max_message_bytes,
        warm_up_examples=options.warm_up_examples or options.max_batch_size,
        drain_seconds=options.drain_timeout_ms / 1000,
        compilation_cache_dir=options.compilation_cache_dir,
    )


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {least}, got {text!r}")
        return value

    return parse


def resolve_limits(options: ServerOptions, bundle: Bundle) -> Limits:
    max_batch_size = min(options.max_batch_size, bundle.buckets[-1])
    max_examples = options.max_examples_per_request or max(DEFAULT_MAX_BATCH_SIZE, max_batch_size)
    return Limits(
        max_message_bytes=options.max_message_bytes or largest_message_bytes(bundle, max_examples),
        max_examples_per_request=max_examples,
        max_batch_size=max_batch_size,
    )
