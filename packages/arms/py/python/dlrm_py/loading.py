"""Loads the parts of a model, says how far it is, and stops when asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dlrm_py.bundle import Bundle
from dlrm_py.device import Device, open_device
from dlrm_py.embedding import EmbeddingTables, load_tables
from dlrm_py.options import ServerOptions

PROGRESS_SECONDS = 2.0


class Stopped(Exception):
    """Asked to stop before the model was loaded."""


def load_tables_with_progress(bundle: Bundle, stop: threading.Event, log: Callable[[str], None]) -> EmbeddingTables:
    """Raises Stopped if ``stop`` is set meanwhile, and BundleError."""
    started = last_said = time.monotonic()

    def on_bytes(done: int, total: int) -> None:
        nonlocal last_said
        if stop.is_set():
            raise Stopped
        now = time.monotonic()
        if now - last_said >= PROGRESS_SECONDS and done < total:
            last_said = now
            log(f"reading embedding tables: {done / 1e9:.1f} of {total / 1e9:.1f} GB")

    tables = load_tables(bundle, on_bytes)
    log(f"read {len(tables.rows):,} rows, {tables.num_bytes / 1e9:.2f} GB, in {time.monotonic() - started:.1f} s")
    return tables


def open_device_with_progress(
    options: ServerOptions, bundle: Bundle, max_batch_size: int, stop: threading.Event, log: Callable[[str], None]
) -> Device:
    """Raises Stopped if ``stop`` is set meanwhile, and BundleError."""

    def on_step(line: str) -> None:
        if stop.is_set():
            raise Stopped
        log(line)

    device = open_device(
        options.platform,
        bundle,
        max_batch_size=max_batch_size,
        warm_up_examples=options.warm_up_examples,
        device_threads=options.device_threads,
        compilation_cache_dir=options.compilation_cache_dir,
        on_progress=on_step,
    )
    log(f"device: {device.name}")
    return device
