"""The way of one thread to the device: input buffers of its own, and a call that runs them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dlrm_py.bundle import ModelSpec
from dlrm_py.device import Device
from dlrm_py.memory import aligned_zeros


class Lane(Protocol):
    """Used by one thread at a time."""

    #: Batch sizes the device runs, ascending.
    buckets: tuple[int, ...]

    def reserve(self, rows: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Input buffers of at least ``rows`` rows: dense (rows, dense features) and pooled (rows, features,
        embedding_dim), each from a multiple of 64 bytes on. The same memory for each call that asks for no more rows
        than an earlier one."""
        ...

    def run(self, batch: int, bucket: int) -> npt.NDArray[np.float32]:
        """Scores (batch,) of the first ``batch`` rows of the buffers. Rows up to ``bucket`` are padding: any finite
        numbers. Blocks, GIL released."""
        ...


class Lanes(Protocol):
    """Gives each thread a lane of its own."""

    def open(self) -> Lane: ...


class LocalLanes:
    """Lanes to a device of this process."""

    def __init__(self, device: Device, spec: ModelSpec) -> None:
        self._device = device
        self._spec = spec

    def open(self) -> Lane:
        return _LocalLane(self._device, self._spec)


class _LocalLane:
    def __init__(self, device: Device, spec: ModelSpec) -> None:
        self._device = device
        self._spec = spec
        self.buckets = device.buckets
        self._dense = aligned_zeros((0, spec.dense_features))
        self._pooled = aligned_zeros((0, len(spec.features), spec.embedding_dim))

    def reserve(self, rows: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        if len(self._pooled) < rows:
            self._dense = aligned_zeros((rows, self._spec.dense_features))
            self._pooled = aligned_zeros((rows, len(self._spec.features), self._spec.embedding_dim))
        return self._dense, self._pooled

    def run(self, batch: int, bucket: int) -> npt.NDArray[np.float32]:
        return self._device.run(self._dense[:bucket], self._pooled[:bucket])[:batch]
