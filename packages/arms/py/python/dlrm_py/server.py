"""``python -m dlrm_py.server``: serves a bundle over gRPC from one CPython process."""

from __future__ import annotations

from dlrm_py.process_setup import prepare_process

prepare_process()  # Before anything imports NumPy.

import argparse  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from dataclasses import dataclass  # noqa: E402

from dlrm_py.bundle import Bundle, BundleError, read_bundle  # noqa: E402
from dlrm_py.device import PLATFORMS, Device, open_device  # noqa: E402
from dlrm_py.embedding import EmbeddingTables, load_tables  # noqa: E402
from dlrm_py.lifecycle import Listener, StartError, log  # noqa: E402
from dlrm_py.predictor import Predictor  # noqa: E402
from dlrm_py.request import Limits, RequestDecoder  # noqa: E402
from dlrm_py.service import PredictionService, largest_message_bytes  # noqa: E402

DEFAULT_NUM_THREADS = 8
DEFAULT_MAX_BATCH_SIZE = 4096
DEFAULT_WARM_UP_EXAMPLES = 256
DEFAULT_DRAIN_SECONDS = 10.0
PROGRESS_SECONDS = 2.0


class Stopped(Exception):
    """Asked to stop before the model was loaded."""


@dataclass(frozen=True)
class ServerOptions:
    bundle: str
    host: str
    port: int
    platform: str
    num_threads: int
    max_batch_size: int
    max_examples_per_request: int | None
    max_message_bytes: int | None
    warm_up_examples: int
    drain_seconds: float
    compilation_cache_dir: str | None


def parse_options(arguments: Sequence[str] | None = None) -> ServerOptions:
    parser = argparse.ArgumentParser(
        prog="python -m dlrm_py.server",
        description="Serves a ranking-model bundle over gRPC from one CPython process.",
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
        help="threads that handle requests, and at most as many of XLA on the CPU (default, also 0: 8)",
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
        default=DEFAULT_WARM_UP_EXAMPLES,
        help="batches of up to so many examples are compiled before serving, larger ones at first use (default: %(default)s)",
    )
    parser.add_argument(
        "--drain-timeout-ms",
        type=_at_least(0),
        default=int(DEFAULT_DRAIN_SECONDS * 1000),
        help="how long requests may take to finish after SIGTERM (default: %(default)s)",
    )
    parser.add_argument("--compilation-cache-dir", metavar="DIR", help="keeps what JAX compiles, for the next start")
    options = parser.parse_args(arguments)
    return ServerOptions(
        bundle=options.bundle,
        host=options.host,
        port=options.port,
        platform=options.platform,
        num_threads=options.num_threads or DEFAULT_NUM_THREADS,
        max_batch_size=options.max_batch_size,
        max_examples_per_request=options.max_examples_per_request,
        max_message_bytes=options.max_message_bytes,
        warm_up_examples=options.warm_up_examples,
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


def load_model(
    options: ServerOptions, bundle: Bundle, limits: Limits, stop: threading.Event
) -> tuple[EmbeddingTables, Device]:
    """Reads the tables and readies the device, saying how far it is; raises Stopped if ``stop`` is set meanwhile."""
    last_said = time.monotonic()

    def on_bytes(done: int, total: int) -> None:
        nonlocal last_said
        if stop.is_set():
            raise Stopped
        now = time.monotonic()
        if now - last_said >= PROGRESS_SECONDS and done < total:
            last_said = now
            log(f"reading embedding tables: {done / 1e9:.1f} of {total / 1e9:.1f} GB")

    def on_step(line: str) -> None:
        if stop.is_set():
            raise Stopped
        log(line)

    started = time.monotonic()
    tables = load_tables(bundle, on_bytes)
    log(f"read {len(tables.rows):,} rows, {tables.num_bytes / 1e9:.2f} GB, in {time.monotonic() - started:.1f} s")
    device = open_device(
        options.platform,
        bundle,
        max_batch_size=limits.max_batch_size,
        warm_up_examples=options.warm_up_examples,
        num_threads=options.num_threads,
        compilation_cache_dir=options.compilation_cache_dir,
        on_progress=on_step,
    )
    return tables, device


def run(options: ServerOptions) -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    bundle = read_bundle(options.bundle)
    limits = resolve_limits(options, bundle)
    service = PredictionService()
    listener = Listener(service, max_message_bytes=limits.max_message_bytes, num_threads=options.num_threads)
    port = listener.start(options.host, options.port)
    # From here on the port answers: health NOT_SERVING, predictions UNAVAILABLE, until the model is there.
    try:
        tables, device = load_model(options, bundle, limits, stop)
        decoder = RequestDecoder(bundle, limits)
        service.serve(bundle, decoder, Predictor(tables, device, decoder), limits, device.buckets)
        listener.set_serving()
        log(f"device: {device.name}")
        print(f"serving {bundle.name} version {bundle.version} on {options.host}:{port}", flush=True)
        stop.wait()
        log("draining")
    except Stopped:
        log("stopped while the model was being loaded")
    finally:
        listener.drain(options.drain_seconds)


def main() -> int:
    options = parse_options()
    try:
        run(options)
    except (StartError, BundleError, ValueError) as error:
        log(f"dlrm_py.server: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
