"""What runs the dense network, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dlrm_py.bundle import Bundle

PLATFORMS = ("cpu", "sim", "cuda", "tpu")


class Device(Protocol):
    """Scores a padded batch. Safe to call from several threads."""

    #: For logs, for instance ``jax cpu``.
    name: str
    #: Batch sizes it runs, ascending; a batch is padded to the next one.
    buckets: tuple[int, ...]

    def run(
        self, dense: npt.NDArray[np.float32], pooled: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Scores (bucket,) of ``dense`` (bucket, dense features) and ``pooled`` (bucket, features, embedding_dim).

        The inputs are the caller's again when it returns.
        """
        ...


def device_buckets(bundle: Bundle, max_batch_size: int) -> tuple[int, ...]:
    """Buckets of the bundle up to ``max_batch_size``; raises ValueError if there is none."""
    buckets = tuple(bucket for bucket in bundle.buckets if bucket <= max_batch_size)
    if not buckets:
        raise ValueError(
            f"max batch size {max_batch_size} is smaller than the model's smallest bucket, {bundle.buckets[0]}"
        )
    return buckets


def open_device(
    platform: str,
    bundle: Bundle,
    *,
    max_batch_size: int,
    warm_up_examples: int,
    device_threads: int,
    compilation_cache_dir: str | None = None,
    on_progress: Callable[[str], None] = lambda _line: None,
) -> Device:
    """The device of a platform, for every bucket up to ``max_batch_size``.

    Buckets up to ``warm_up_examples`` are compiled now, larger ones when they are first used.
    """
    buckets = device_buckets(bundle, max_batch_size)
    if platform == "sim":
        from dlrm_py.simulated import SimulatedDevice

        return SimulatedDevice.from_bundle(bundle, buckets)
    # Imported where it is used: with the simulated device, JAX's memory and start-up time are not this server's.
    from dlrm_py.jax_device import JaxDevice

    device = JaxDevice(
        platform, bundle, buckets, device_threads=device_threads, compilation_cache_dir=compilation_cache_dir
    )
    device.warm_up(warm_up_examples, on_progress)
    return device
