"""The batcher alone, with look-ups that the test holds back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import grpc
import numpy as np
import pytest

from conftest import HOT_SIZES, Example, Model, random_example, simulated64
from dlrm_py.batch_ids import join_ids
from dlrm_py.batch_scoring import new_worker
from dlrm_py.batcher import Batcher, Outcome
from dlrm_py.bundle import read_bundle
from dlrm_py.embedding import load_tables
from dlrm_py.lane import LocalLanes
from dlrm_py.request import DecodedRequest, Limits, RequestDecoder, RequestError
from dlrm_py.simulated import SimulatedDevice

FOREVER = 3600.0


def request_of(batch: int, value: float = 0.0) -> DecodedRequest:
    return DecodedRequest(batch, np.full((batch, 1), value, np.float32), np.zeros(batch, np.int32))


class Recorder:
    """Look-ups that note what they are given and answer each example with its dense feature."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.may_run = threading.Semaphore(0)
        self.fail: Exception | None = None

    def look_up(self, requests: Sequence[DecodedRequest]) -> Callable[[], Sequence[Outcome]]:
        self.batches.append([request.batch for request in requests])
        self.entered.release()
        self.may_run.acquire()
        if self.fail is not None:
            raise self.fail
        return lambda: [request.dense[:, 0] for request in requests]


class Caller(threading.Thread):
    def __init__(self, batcher: Batcher, request: DecodedRequest) -> None:
        super().__init__(daemon=True)
        self._call = lambda: batcher.score(request)
        self.scores: np.ndarray | None = None
        self.error: RequestError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.scores = self._call()
        except RequestError as error:
            self.error = error


def make(recorder: Recorder, window_seconds: float, max_examples: int = 8) -> Batcher:
    return Batcher(lambda: recorder.look_up, window_seconds=window_seconds, max_examples=max_examples, look_ups=1)


def wait_until_waiting(batcher: Batcher, requests: int) -> None:
    while len(batcher._waiting) < requests:
        pass


def test_a_batch_closes_when_it_is_full_long_before_its_window_ends() -> None:
    recorder = Recorder()
    batcher = make(recorder, FOREVER)
    callers = [Caller(batcher, request_of(2, value)) for value in (1, 2, 3, 4)]
    recorder.may_run.release()
    for caller in callers:
        caller.join()
    assert recorder.batches == [[2, 2, 2, 2]]
    assert sorted(float(caller.scores[1]) for caller in callers) == [1, 2, 3, 4]


def test_a_batch_closes_at_the_end_of_its_window() -> None:
    recorder = Recorder()
    recorder.may_run.release()
    caller = Caller(make(recorder, 0.001), request_of(3, 5))
    caller.join()
    assert recorder.batches == [[3]]
    assert caller.scores.tolist() == [5, 5, 5]


def test_a_batch_goes_on_growing_while_no_worker_is_free_and_has_no_more_examples_than_it_may() -> None:
    recorder = Recorder()
    batcher = make(recorder, 0)
    callers = [Caller(batcher, request_of(1))]
    recorder.entered.acquire()
    for number, batch in enumerate((3, 4, 2, 20, 1)):
        callers.append(Caller(batcher, request_of(batch, batch)))
        wait_until_waiting(batcher, number + 1)
    for _ in range(5):
        recorder.may_run.release()
    for caller in callers:
        caller.join()
    # 20 examples are more than a batch may have, so they are one of their own.
    assert recorder.batches == [[1], [3, 4], [2], [20], [1]]
    assert [len(caller.scores) for caller in callers] == [1, 3, 4, 2, 20, 1]


def test_what_fails_fails_for_its_own_batch_only() -> None:
    recorder = Recorder()
    batcher = make(recorder, 0)
    recorder.fail = ValueError("no")
    recorder.may_run.release()
    failed = Caller(batcher, request_of(1))
    failed.join()
    recorder.fail = None
    recorder.may_run.release()
    good = Caller(batcher, request_of(1, 7))
    good.join()
    assert failed.error.code == grpc.StatusCode.INTERNAL
    assert failed.error.message == "the batch failed: ValueError: no"
    assert good.scores.tolist() == [7]


@pytest.mark.parametrize("sizes", [(2,), (3, 3, 3), (1, 4, 2), (1, 1)])
@pytest.mark.parametrize("dtypes", [(np.int32,), (np.int64,), (np.int32, np.int64)])
def test_joined_ids_are_feature_major_again(model: Model, sizes: tuple[int, ...], dtypes: tuple[type, ...]) -> None:
    spec = read_bundle(model.dir).spec
    examples = [random_example(size, seed, dtypes[seed % len(dtypes)]) for seed, size in enumerate(sizes)]
    requests = [DecodedRequest(len(e.dense), e.dense, e.feature_major) for e in examples]
    expected = [np.concatenate([e.ids[feature] for e in examples]) for feature in range(len(HOT_SIZES))]
    assert np.array_equal(join_ids(spec, requests), Example(examples[0].dense, expected).feature_major)


@pytest.fixture(scope="module")
def look_up(model: Model):
    bundle = read_bundle(model.dir)
    weights = model.weights
    device = SimulatedDevice(
        weights["simulated.w"], weights["simulated.v"], bundle.buckets, fixed_seconds=0, seconds_per_example=0
    )
    decoder = RequestDecoder(bundle, Limits(1 << 20, 20, 8))
    return new_worker(load_tables(bundle), LocalLanes(device, bundle.spec), decoder)


@pytest.mark.parametrize("sizes", [(1,), (2, 2, 2), (1, 4, 3), (20,)])
def test_each_request_of_a_batch_gets_its_own_scores(look_up, model: Model, sizes: tuple[int, ...]) -> None:
    examples = [random_example(size, seed) for seed, size in enumerate(sizes)]
    outcomes = look_up([DecodedRequest(len(e.dense), e.dense, e.feature_major) for e in examples])()
    assert len(outcomes) == len(sizes)
    for example, scores in zip(examples, outcomes, strict=True):
        np.testing.assert_allclose(scores, simulated64(model, example), rtol=0, atol=2e-6)


def test_an_id_out_of_its_table_fails_its_request_and_no_other(look_up, model: Model) -> None:
    examples = [random_example(2, seed) for seed in range(3)]
    examples[1].ids[2][1, 0] = 300
    requests = [DecodedRequest(2, e.dense, e.feature_major) for e in examples]
    outcomes = look_up(requests)()
    assert outcomes[1].message == 'input "sparse_2" has id 300 at [1, 0]: 0 to 299 expected'
    for index in (0, 2):
        np.testing.assert_allclose(outcomes[index], simulated64(model, examples[index]), rtol=0, atol=2e-6)
    (alone,) = look_up(requests[1:2])()
    assert alone.message == outcomes[1].message
