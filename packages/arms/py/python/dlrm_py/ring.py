"""A ring in shared memory between one frontend process and the owner of the device.

Each thread of a frontend that scores has a slot: the inputs of one batch and room for its scores. To have a slot run, the
frontend appends an entry to its ring; the owner takes entries in order, runs each where it lies and rings the bell (an
eventfd) of the slot. One process writes each word, so there is no lock between processes.

    word 0          entries ever appended, written by the frontend after the entry and everything the entry is about
    entries         slot, batch, bucket: one for each slot, which is never full, as a slot has at most one entry
    states          one for each slot: 0, or the length of an error message, written by the owner before the bell
    messages        256 bytes for each slot
    slots           dense (rows, dense features), pooled (rows, features, embedding_dim), scores (rows)
"""

from __future__ import annotations

import mmap
import os
import threading
from dataclasses import dataclass
from typing import NamedTuple

import grpc
import numpy as np
import numpy.typing as npt

from dlrm_py.bundle import ModelSpec
from dlrm_py.lane import Lane
from dlrm_py.request import RequestError

_WORD_BYTES = 8
_ENTRY_WORDS = 3
_MESSAGE_BYTES = 256
# Slots begin at pages, parts of a slot at cache lines.
_PAGE_BYTES = 4096
_LINE_BYTES = 64


def _round_up(num_bytes: int, to: int) -> int:
    return -(-num_bytes // to) * to


@dataclass(frozen=True)
class RingShape:
    """Sizes of a ring; both sides compute the same places from it."""

    slots: int
    #: Rows of a slot: the device's largest bucket.
    rows: int
    dense_features: int
    features: int
    embedding_dim: int

    @classmethod
    def of(cls, spec: ModelSpec, *, slots: int, rows: int) -> RingShape:
        return cls(slots, rows, spec.dense_features, len(spec.features), spec.embedding_dim)

    @property
    def dense_bytes(self) -> int:
        return _round_up(4 * self.rows * self.dense_features, _LINE_BYTES)

    @property
    def pooled_bytes(self) -> int:
        return _round_up(4 * self.rows * self.features * self.embedding_dim, _LINE_BYTES)

    @property
    def slot_bytes(self) -> int:
        return _round_up(self.dense_bytes + self.pooled_bytes + 4 * self.rows, _PAGE_BYTES)

    @property
    def entries_at(self) -> int:
        return _LINE_BYTES

    @property
    def states_at(self) -> int:
        return _round_up(self.entries_at + self.slots * _ENTRY_WORDS * _WORD_BYTES, _LINE_BYTES)

    @property
    def messages_at(self) -> int:
        return self.states_at + self.slots * _WORD_BYTES

    @property
    def slots_at(self) -> int:
        return _round_up(self.messages_at + self.slots * _MESSAGE_BYTES, _PAGE_BYTES)

    @property
    def num_bytes(self) -> int:
        return self.slots_at + self.slots * self.slot_bytes


class Entry(NamedTuple):
    slot: int
    batch: int
    bucket: int


class Slot(NamedTuple):
    dense: npt.NDArray[np.float32]
    pooled: npt.NDArray[np.float32]
    scores: npt.NDArray[np.float32]


class _Mapping:
    """A ring's file, mapped; ``descriptor`` stays the caller's."""

    def __init__(self, descriptor: int, shape: RingShape) -> None:
        self.shape = shape
        # Never unmapped: views of it live as long as the process.
        memory = memoryview(mmap.mmap(descriptor, shape.num_bytes))
        words = memory.cast("q")
        self.appended = words[:1]
        first = shape.entries_at // _WORD_BYTES
        self.entries = words[first : first + shape.slots * _ENTRY_WORDS]
        first = shape.states_at // _WORD_BYTES
        self.states = words[first : first + shape.slots]
        self.messages = [
            memory[shape.messages_at + slot * _MESSAGE_BYTES :][:_MESSAGE_BYTES] for slot in range(shape.slots)
        ]
        self.slots = [self._slot(memory, slot) for slot in range(shape.slots)]

    def _slot(self, memory: memoryview, slot: int) -> Slot:
        shape = self.shape
        start = shape.slots_at + slot * shape.slot_bytes
        rows = shape.rows

        def floats(at: int, *dimensions: int) -> npt.NDArray[np.float32]:
            size = rows * int(np.prod(dimensions, dtype=int))
            return np.frombuffer(memory, np.float32, size, start + at).reshape(rows, *dimensions)

        return Slot(
            floats(0, shape.dense_features),
            floats(shape.dense_bytes, shape.features, shape.embedding_dim),
            floats(shape.dense_bytes + shape.pooled_bytes),
        )


class RingFrontend:
    """The frontend's side: lanes to the device, one for each slot."""

    def __init__(
        self, descriptor: int, shape: RingShape, buckets: tuple[int, ...], *, owner_bell: int, slot_bells: list[int]
    ) -> None:
        self._mapping = _Mapping(descriptor, shape)
        self.buckets = buckets
        self._owner_bell = owner_bell
        self._slot_bells = slot_bells
        self._opened = 0
        self._appended = 0
        self._lock = threading.Lock()
        self._barrier = threading.Lock()

    def open(self) -> Lane:
        with self._lock:
            slot = self._opened
            if slot == self._mapping.shape.slots:
                raise RuntimeError(f"more threads score than the ring has slots: {slot}")
            self._opened += 1
        return _RingLane(self, slot, self._mapping, self._slot_bells[slot])

    def append(self, slot: int, batch: int, bucket: int) -> None:
        """Has a slot run; its bell says when it has."""
        mapping = self._mapping
        # One section: an entry that another thread could write over before it is counted would be lost.
        with self._lock:
            at = self._appended % mapping.shape.slots * _ENTRY_WORDS
            mapping.entries[at] = slot
            mapping.entries[at + 1] = batch
            mapping.entries[at + 2] = bucket
            # What orders these writes on CPUs that would not: a lock that is taken and left is a barrier.
            with self._barrier:
                self._appended += 1
            mapping.appended[0] = self._appended
        os.eventfd_write(self._owner_bell, 1)


class _RingLane:
    def __init__(self, ring: RingFrontend, slot: int, mapping: _Mapping, bell: int) -> None:
        self.buckets = ring.buckets
        self._ring = ring
        self._slot = slot
        self._bell = bell
        self._mapping = mapping
        self._dense, self._pooled, self._scores = mapping.slots[slot]

    def reserve(self, rows: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        assert rows <= len(self._pooled)
        return self._dense, self._pooled

    def run(self, batch: int, bucket: int) -> npt.NDArray[np.float32]:
        """Raises RequestError if the device failed. The scores are the slot's memory: the next run overwrites them."""
        self._ring.append(self._slot, batch, bucket)
        os.eventfd_read(self._bell)
        state = self._mapping.states[self._slot]
        if state:
            message = bytes(self._mapping.messages[self._slot][:state]).decode("utf-8", "replace")
            raise RequestError(grpc.StatusCode.INTERNAL, message)
        return self._scores[:batch]


class RingOwner:
    """The owner's side of one ring."""

    def __init__(self, descriptor: int, shape: RingShape, *, slot_bells: list[int]) -> None:
        self._mapping = _Mapping(descriptor, shape)
        self._slot_bells = slot_bells
        self._taken = 0

    def peek(self) -> Entry | None:
        """The oldest entry that was not taken yet."""
        mapping = self._mapping
        if mapping.appended[0] == self._taken:
            return None
        at = self._taken % mapping.shape.slots * _ENTRY_WORDS
        return Entry(*mapping.entries[at : at + _ENTRY_WORDS])

    def take(self) -> Entry | None:
        """``peek``, and the next call sees the entry after it."""
        entry = self.peek()
        if entry is not None:
            self._taken += 1
        return entry

    def slot(self, entry: Entry) -> Slot:
        return self._mapping.slots[entry.slot]

    def answer(self, entry: Entry, scores: npt.NDArray[np.float32]) -> None:
        """``scores`` (batch,)."""
        self._mapping.slots[entry.slot].scores[: entry.batch] = scores
        self._mapping.states[entry.slot] = 0
        os.eventfd_write(self._slot_bells[entry.slot], 1)

    def fail(self, entry: Entry, message: str) -> None:
        text = (message or "the device failed").encode()[:_MESSAGE_BYTES]
        self._mapping.messages[entry.slot][: len(text)] = text
        self._mapping.states[entry.slot] = len(text)
        os.eventfd_write(self._slot_bells[entry.slot], 1)
