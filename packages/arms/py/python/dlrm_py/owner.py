"""What the owner of the device does: takes what frontends append to their rings, and runs it."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dlrm_py.device import Device
from dlrm_py.memory import aligned_zeros
from dlrm_py.ring import Entry, RingOwner

#: An entry and the ring it came from.
_Taken = tuple[RingOwner, Entry]


class DeviceOwner:
    """Runs entries of several rings on one device, in one thread; no ring waits for another that is always busy.

    With ``merge``, everything that waits at a moment runs as one batch, up to the device's largest; nothing ever waits
    for more to come. Without, each entry runs by itself.
    """

    def __init__(self, rings: Sequence[RingOwner], device: Device, bell: int, *, merge: bool) -> None:
        self._rings = list(rings)
        self._device = device
        self._bell = bell
        self._merge = merge
        self._next = 0
        self._stopped = threading.Event()
        self._dense = np.empty((0, 0), np.float32)
        self._pooled = np.empty((0, 0, 0), np.float32)

    def serve(self) -> None:
        """Until ``stop``. Entries that are there by then are run."""
        while not self._stopped.is_set():
            # Rung for each entry: those that an earlier turn has already seen cost one turn more.
            os.eventfd_read(self._bell)
            self.run_waiting()

    def stop(self) -> None:
        """From any thread."""
        self._stopped.set()
        os.eventfd_write(self._bell, 1)

    def run_waiting(self) -> None:
        """Runs entries until no ring has any."""
        while taken := self._take_all() if self._merge else self._take_one():
            try:
                self._run(taken)
            except Exception as error:  # noqa: BLE001
                for ring, entry in taken:
                    ring.fail(entry, f"the device failed: {type(error).__name__}: {error}")

    def _take_one(self) -> list[_Taken]:
        for ring in self._rings_from(self._next):
            entry = ring.take()
            if entry is not None:
                self._next = (self._rings.index(ring) + 1) % len(self._rings)
                return [(ring, entry)]
        return []

    def _take_all(self) -> list[_Taken]:
        """An entry of each ring in turn, until none is left that fits."""
        largest = self._device.buckets[-1]
        taken: list[_Taken] = []
        examples = 0
        again = True
        while again:
            again = False
            for ring in self._rings_from(self._next):
                entry = ring.peek()
                if entry is not None and examples + entry.batch <= largest:
                    ring.take()
                    taken.append((ring, entry))
                    examples += entry.batch
                    again = True
        self._next = (self._next + 1) % len(self._rings)
        return taken

    def _rings_from(self, first: int) -> list[RingOwner]:
        return self._rings[first:] + self._rings[:first]

    def _run(self, taken: Sequence[_Taken]) -> None:
        if len(taken) == 1:
            ring, entry = taken[0]
            slot = ring.slot(entry)
            scores = self._device.run(slot.dense[: entry.bucket], slot.pooled[: entry.bucket])
            ring.answer(entry, scores[: entry.batch])
            return
        examples = sum(entry.batch for _ring, entry in taken)
        buckets = self._device.buckets
        bucket = buckets[bisect_left(buckets, examples)]
        slots = [ring.slot(entry) for ring, entry in taken]
        self._reserve(bucket, slots[0].dense, slots[0].pooled)
        first = 0
        for (_ring, entry), slot in zip(taken, slots, strict=True):
            last = first + entry.batch
            self._dense[first:last] = slot.dense[: entry.batch]
            self._pooled[first:last] = slot.pooled[: entry.batch]
            first = last
        scores = self._device.run(self._dense[:bucket], self._pooled[:bucket])
        first = 0
        for ring, entry in taken:
            ring.answer(entry, scores[first : first + entry.batch])
            first += entry.batch

    def _reserve(self, rows: int, dense: npt.NDArray[np.float32], pooled: npt.NDArray[np.float32]) -> None:
        if len(self._pooled) < rows:
            self._dense = aligned_zeros((rows, *dense.shape[1:]))
            self._pooled = aligned_zeros((rows, *pooled.shape[1:]))
