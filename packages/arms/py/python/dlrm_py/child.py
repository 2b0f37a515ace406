"""``python -m dlrm_py.child``: a process that the supervisor starts, a frontend or the owner of the device.

Its one argument is a ``ChildTask`` as JSON. It ignores SIGTERM and SIGINT, which reach a whole group of processes at
Ctrl-C, and does what the supervisor says over a socket: ``go`` to serve, ``drain`` to end. If the supervisor is gone,
however it ended, the process ends at once.
"""

from __future__ import annotations

from dlrm_py.process_setup import prepare_process

prepare_process()  # Before anything imports NumPy.

import os  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
from collections.abc import Callable  # noqa: E402

from dlrm_py.bundle import BundleError, read_bundle  # noqa: E402
from dlrm_py.child_task import ChildTask  # noqa: E402
from dlrm_py.device import device_buckets  # noqa: E402
from dlrm_py.lifecycle import Listener, StartError, log  # noqa: E402
from dlrm_py.loading import Stopped, load_tables_with_progress, open_device_with_progress  # noqa: E402
from dlrm_py.options import resolve_limits  # noqa: E402
from dlrm_py.owner import DeviceOwner  # noqa: E402
from dlrm_py.request import RequestDecoder  # noqa: E402
from dlrm_py.ring import RingFrontend, RingOwner  # noqa: E402
from dlrm_py.scorer import make_scorer  # noqa: E402
from dlrm_py.service import PredictionService  # noqa: E402

#: Exit code of a child whose supervisor is gone.
ORPHANED = 3


class Control:
    """The child's end of the socket to its supervisor."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self.go = threading.Event()
        self.stop = threading.Event()
        self.on_drain: Callable[[], None] = lambda: None
        threading.Thread(target=self._read, name="control", daemon=True).start()

    def say(self, word: str) -> None:
        self._socket.sendall(f"{word}\n".encode())

    def _read(self) -> None:
        try:
            for line in self._socket.makefile("r"):
                if line == "go\n":
                    self.go.set()
                elif line == "drain\n":
                    self.stop.set()
                    self.go.set()
                    self.on_drain()
        except OSError:
            pass
        # The end of the socket is the end of the supervisor. Nothing here has to be put in order.
        os._exit(ORPHANED)


def run_owner(task: ChildTask, control: Control) -> None:
    options = task.options
    bundle = read_bundle(options.bundle)
    rings = [RingOwner(ring.memory, task.shape, slot_bells=ring.slot_bells) for ring in task.rings]
    limits = resolve_limits(options, bundle)
    device = open_device_with_progress(options, bundle, limits.max_batch_size, control.stop, _log_as(task))
    owner = DeviceOwner(rings, device, task.owner_bell, merge=options.window_seconds is not None)
    control.on_drain = owner.stop
    control.say("ready")
    if not control.stop.is_set():
        owner.serve()


def run_frontend(task: ChildTask, control: Control) -> None:
    options = task.options
    bundle = read_bundle(options.bundle)
    limits = resolve_limits(options, bundle)
    buckets = device_buckets(bundle, limits.max_batch_size)
    service = PredictionService()
    listener = Listener(
        service, max_message_bytes=limits.max_message_bytes, num_threads=options.num_threads, reuse_port=True
    )
    listener.start(options.host, options.port)
    try:
        tables = load_tables_with_progress(bundle, control.stop, _log_as(task))
        (files,) = task.rings
        ring = RingFrontend(
            files.memory, task.shape, buckets, owner_bell=task.owner_bell, slot_bells=files.slot_bells
        )
        decoder = RequestDecoder(bundle, limits)
        scorer = make_scorer(options, limits, tables, ring, decoder)
        control.say("ready")
        # Until every process is ready: a connection may be any frontend's.
        control.go.wait()
        service.serve(bundle, decoder, scorer, limits, buckets)
        listener.set_serving()
        control.say("serving")
        control.stop.wait()
    finally:
        listener.drain(options.drain_seconds)


def _log_as(task: ChildTask) -> Callable[[str], None]:
    return lambda line: log(f"{task.name}: {line}")


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # Blocked by the supervisor until they are ignored.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGINT))
    task = ChildTask.from_json(sys.argv[1])
    control = Control(task.control)
    try:
        if task.role == "owner":
            run_owner(task, control)
        else:
            run_frontend(task, control)
    except Stopped:
        pass
    except (StartError, BundleError, ValueError) as error:
        log(f"dlrm_py.server: {task.name}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
