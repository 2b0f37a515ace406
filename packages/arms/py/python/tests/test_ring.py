"""Rings and the owner of the device, both sides in one process."""

from __future__ import annotations

import os
import sys
import threading

import grpc
import numpy as np
import pytest

if sys.platform != "linux":
    pytest.skip("rings need Linux", allow_module_level=True)

from dlrm_py.memory import shared_file
from dlrm_py.owner import DeviceOwner
from dlrm_py.request import RequestError
from dlrm_py.ring import Entry, RingFrontend, RingOwner, RingShape

SHAPE = RingShape(slots=3, rows=8, dense_features=2, features=3, embedding_dim=4)
BUCKETS = (1, 2, 4, 8)


class SumDevice:
    """Scores are sums, so that each shows which row it is of."""

    name = "sums"
    buckets = BUCKETS

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.fail: Exception | None = None

    def run(self, dense: np.ndarray, pooled: np.ndarray) -> np.ndarray:
        assert len(dense) == len(pooled)
        assert dense.ctypes.data % 64 == pooled.ctypes.data % 64 == 0
        if self.fail is not None:
            raise self.fail
        self.sizes.append(len(dense))
        return dense.sum(axis=1) + 1000 * pooled.reshape(len(dense), -1).sum(axis=1)


class Pair:
    """A frontend and the owner's side of its ring."""

    def __init__(self, owner_bell: int) -> None:
        self.memory = shared_file(SHAPE.num_bytes)
        bells = [os.eventfd(0) for _ in range(SHAPE.slots)]
        self.descriptors = [self.memory, *bells]
        self.frontend = RingFrontend(self.memory, SHAPE, BUCKETS, owner_bell=owner_bell, slot_bells=bells)
        self.owner = RingOwner(self.memory, SHAPE, slot_bells=bells)


@pytest.fixture
def bell():
    bell = os.eventfd(0)
    yield bell
    os.close(bell)


@pytest.fixture
def pairs(bell: int):
    pairs = [Pair(bell), Pair(bell)]
    yield pairs
    for pair in pairs:
        for descriptor in pair.descriptors:
            os.close(descriptor)


def fill(lane, batch: int, value: int) -> np.ndarray:
    """Inputs of a batch; returns the scores they must get."""
    dense, pooled = lane.reserve(batch)
    dense[:batch] = value
    pooled[:batch] = np.arange(batch, dtype=np.float32)[:, None, None]
    return 2 * value + 12000 * np.arange(batch, dtype=np.float32)


class InterruptedLock:
    """A lock, after each release of which another thread has its turn."""

    def __init__(self, turns: list) -> None:
        self._lock = threading.Lock()
        self._turns = turns

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._turns:
            self._turns.pop()()


def test_threads_that_append_at_once_lose_no_entry(pairs: list[Pair]) -> None:
    ring = pairs[0]
    # Another thread appends as soon as the first one leaves a critical section.
    ring.frontend._lock = InterruptedLock([lambda: ring.frontend.append(1, 2, 2)])
    ring.frontend.append(0, 1, 1)
    assert ring.owner.take() == Entry(0, 1, 1)
    assert ring.owner.take() == Entry(1, 2, 2)
    assert ring.owner.take() is None


def test_entries_come_in_order_and_the_ring_goes_round(pairs: list[Pair]) -> None:
    ring = pairs[0]
    for turn in range(10):
        entries = [Entry(slot, 1 + (turn + slot) % 8, 8) for slot in range(SHAPE.slots)]
        for entry in entries:
            ring.frontend.append(*entry)
        assert [ring.owner.take() for _ in entries] == entries
        assert ring.owner.take() is None


@pytest.mark.parametrize("merge", [False, True])
def test_scores_come_back_to_the_thread_that_asked(pairs: list[Pair], bell: int, merge: bool) -> None:
    owner = DeviceOwner([pair.owner for pair in pairs], SumDevice(), bell, merge=merge)
    serving = threading.Thread(target=owner.serve)
    serving.start()
    wrong: list[object] = []

    def work(pair: Pair, number: int) -> None:
        lane = pair.frontend.open()
        for turn in range(200):
            batch = 1 + (number + turn) % 8
            expected = fill(lane, batch, 10 * number + turn)
            scores = lane.run(batch, next(bucket for bucket in BUCKETS if bucket >= batch))
            if not np.array_equal(scores, expected):
                wrong.append((number, turn, scores.copy()))

    threads = [
        threading.Thread(target=work, args=(pair, number)) for number, pair in enumerate(pairs * SHAPE.slots)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owner.stop()
    serving.join()
    assert wrong == []


def append_filled(pair: Pair, batches: list[int]) -> list[np.ndarray]:
    expected = []
    for slot, batch in enumerate(batches):
        lane = pair.frontend.open()
        expected.append(fill(lane, batch, slot))
        pair.frontend.append(slot, batch, next(bucket for bucket in BUCKETS if bucket >= batch))
    return expected


def scores_of(pair: Pair, batches: list[int]) -> list[list[float]]:
    return [pair.frontend._mapping.slots[slot].scores[:batch].tolist() for slot, batch in enumerate(batches)]


def test_without_merging_each_entry_runs_alone_and_rings_take_turns(pairs: list[Pair], bell: int) -> None:
    device = SumDevice()
    expected = [append_filled(pairs[0], [1, 3, 8]), append_filled(pairs[1], [5])]
    DeviceOwner([pair.owner for pair in pairs], device, bell, merge=False).run_waiting()
    assert device.sizes == [1, 8, 4, 8]
    assert scores_of(pairs[0], [1, 3, 8]) == [part.tolist() for part in expected[0]]
    assert scores_of(pairs[1], [5]) == [expected[1][0].tolist()]


def test_merging_runs_together_what_fits_and_leaves_the_rest_for_the_next_batch(pairs: list[Pair], bell: int) -> None:
    device = SumDevice()
    expected = [append_filled(pairs[0], [1, 3, 8]), append_filled(pairs[1], [2, 5])]
    DeviceOwner([pair.owner for pair in pairs], device, bell, merge=True).run_waiting()
    # In turn: 1, 2, 3; then neither 5 nor 8 fits any more. The next turn begins with the second ring.
    assert device.sizes == [8, 8, 8]
    assert scores_of(pairs[0], [1, 3, 8]) == [part.tolist() for part in expected[0]]
    assert scores_of(pairs[1], [2, 5]) == [part.tolist() for part in expected[1]]


@pytest.mark.parametrize("merge", [False, True])
def test_a_device_that_fails_fails_the_requests_and_goes_on(pairs: list[Pair], bell: int, merge: bool) -> None:
    device = SumDevice()
    owner = DeviceOwner([pair.owner for pair in pairs], device, bell, merge=merge)
    serving = threading.Thread(target=owner.serve)
    serving.start()
    lane = pairs[0].frontend.open()
    expected = fill(lane, 2, 3)
    device.fail = MemoryError("x" * 300)
    with pytest.raises(RequestError) as caught:
        lane.run(2, 2)
    device.fail = None
    scores = lane.run(2, 2)
    owner.stop()
    serving.join()
    assert caught.value.code == grpc.StatusCode.INTERNAL
    assert caught.value.message.startswith("the device failed: MemoryError: xxx")
    assert len(caught.value.message) == 256
    assert scores.tolist() == expected.tolist()


def test_more_threads_than_slots_are_an_error(pairs: list[Pair]) -> None:
    for _ in range(SHAPE.slots):
        pairs[0].frontend.open()
    with pytest.raises(RuntimeError, match="more threads score than the ring has slots: 3"):
        pairs[0].frontend.open()


def test_shared_memory_has_no_name_and_is_had_without_room_in_its_folder(tmp_path) -> None:
    before = os.listdir("/dev/shm")
    in_folder = shared_file(1 << 20)
    elsewhere = shared_file(1 << 50, "/dev/shm")
    without_folder = shared_file(4096, str(tmp_path / "none"))
    try:
        assert os.listdir("/dev/shm") == before
        assert [os.fstat(file).st_size for file in (in_folder, elsewhere, without_folder)] == [1 << 20, 1 << 50, 4096]
        assert [os.fstat(file).st_nlink for file in (in_folder, elsewhere, without_folder)] == [0, 0, 0]
    finally:
        for file in (in_folder, elsewhere, without_folder):
            os.close(file)
