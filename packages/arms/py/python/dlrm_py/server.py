"""``python -m dlrm_py.server``: serves a bundle over gRPC from CPython, from one process or from several."""

from __future__ import annotations

from dlrm_py.process_setup import prepare_process

prepare_process()  # Before anything imports NumPy.

import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402

from dlrm_py.bundle import BundleError, read_bundle  # noqa: E402
from dlrm_py.lane import LocalLanes  # noqa: E402
from dlrm_py.lifecycle import Listener, StartError, log  # noqa: E402
from dlrm_py.loading import Stopped, load_tables_with_progress, open_device_with_progress  # noqa: E402
from dlrm_py.options import ServerOptions, parse_options, resolve_limits  # noqa: E402
from dlrm_py.request import RequestDecoder  # noqa: E402
from dlrm_py.scorer import make_scorer  # noqa: E402
from dlrm_py.service import PredictionService  # noqa: E402


def run_one_process(options: ServerOptions) -> None:
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
        tables = load_tables_with_progress(bundle, stop, log)
        device = open_device_with_progress(options, bundle, limits.max_batch_size, stop, log)
        decoder = RequestDecoder(bundle, limits)
        scorer = make_scorer(options, limits, tables, LocalLanes(device, bundle.spec), decoder)
        service.serve(bundle, decoder, scorer, limits, device.buckets)
        listener.set_serving()
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
        if options.num_processes == 0:
            run_one_process(options)
        else:
            # Imported where it is used: it needs Linux.
            from dlrm_py.supervisor import run_processes

            run_processes(options)
    except (StartError, BundleError, ValueError) as error:
        log(f"dlrm_py.server: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
