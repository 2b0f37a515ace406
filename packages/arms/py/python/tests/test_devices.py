import threading

import numpy as np
import pytest

from conftest import BUCKETS, HOT_SIZES, Model, network64, random_example, simulated64
from dlrm_py.bundle import Bundle, BundleError, read_bundle
from dlrm_py.device import Device, open_device
from dlrm_py.embedding import Gatherer, load_tables
from dlrm_py.lane import LocalLanes
from dlrm_py.predictor import Predictor
from dlrm_py.request import DecodedRequest, Limits, RequestDecoder, RequestError
from dlrm_py.simulated import SimulatedDevice

BATCHES = (1, 2, 3, 5, 8, 9, 20)


@pytest.fixture(scope="module")
def bundle(model: Model) -> Bundle:
    return read_bundle(model.dir)


def make_predictor(bundle: Bundle, device: Device) -> Predictor:
    lanes = LocalLanes(device, bundle.spec)
    return Predictor(load_tables(bundle), lanes, RequestDecoder(bundle, Limits(1 << 20, 64, BUCKETS[-1])))


def score(predictor: Predictor, batch: int, seed: int) -> np.ndarray:
    example = random_example(batch, seed)
    return predictor.score(DecodedRequest(batch, example.dense, example.feature_major))


@pytest.mark.parametrize("platform", ["cpu", "sim"])
def test_scores_equal_the_float64_reference_for_every_size_with_padding_and_in_pieces(
    platform: str, model: Model, bundle: Bundle
) -> None:
    device = open_device(platform, bundle, max_batch_size=8, warm_up_examples=2, device_threads=1)
    predictor = make_predictor(bundle, device)
    reference = network64 if platform == "cpu" else simulated64
    for batch in BATCHES:
        scores = score(predictor, batch, 1)
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, reference(model, random_example(batch, 1)), rtol=0, atol=2e-6)


def test_jax_leaves_its_inputs_alone_and_its_scores_are_not_views_of_them(bundle: Bundle) -> None:
    device = open_device("cpu", bundle, max_batch_size=8, warm_up_examples=8, device_threads=1)
    gatherer = Gatherer(load_tables(bundle))
    example = random_example(8, 3)
    pooled = gatherer.gather(example.feature_major, 8)
    before = pooled.copy()
    scores = device.run(example.dense, gatherer.reserve(8))
    kept = scores.copy()
    assert np.array_equal(pooled, before)
    pooled[...] = 0
    assert np.array_equal(scores, kept)


class FakeTime:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def clock(self) -> float:
        # Every look at the clock costs 10 µs.
        self.now += 10e-6
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.mark.parametrize("bucket", BUCKETS)
def test_the_simulated_device_sleeps_for_what_is_left_of_350_us_and_4_us_an_example(bucket: int) -> None:
    time = FakeTime()
    w, v = np.ones(2, np.float32), np.ones(12, np.float32)
    device = SimulatedDevice(w, v, BUCKETS, clock=time.clock, sleep=time.sleep)
    device.run(np.zeros((bucket, 2), np.float32), np.zeros((bucket, 3, 4), np.float32))
    assert time.slept == pytest.approx([350e-6 + 4e-6 * bucket - 10e-6], abs=1e-9)


def test_the_simulated_device_does_not_sleep_when_the_time_is_over() -> None:
    time = FakeTime()
    device = SimulatedDevice(
        np.ones(2, np.float32),
        np.ones(12, np.float32),
        BUCKETS,
        fixed_seconds=5e-6,
        seconds_per_example=0,
        clock=time.clock,
        sleep=time.sleep,
    )
    device.run(np.zeros((1, 2), np.float32), np.zeros((1, 3, 4), np.float32))
    assert time.slept == []


def test_the_simulated_device_runs_one_call_at_a_time() -> None:
    entered = threading.Semaphore(0)
    may_leave = threading.Semaphore(0)
    inside: list[int] = []
    most_inside: list[int] = []

    def sleep(_seconds: float) -> None:
        inside.append(1)
        most_inside.append(len(inside))
        entered.release()
        may_leave.acquire()
        inside.pop()

    weights = (np.ones(2, np.float32), np.ones(12, np.float32))
    device = SimulatedDevice(*weights, BUCKETS, clock=lambda: 0.0, sleep=sleep)
    arguments = (np.zeros((1, 2), np.float32), np.zeros((1, 3, 4), np.float32))
    threads = [threading.Thread(target=device.run, args=arguments) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in threads:
        entered.acquire()
        may_leave.release()
    for thread in threads:
        thread.join()
    assert most_inside == [1, 1, 1, 1]


def test_a_predictor_is_right_in_many_threads_at_once(model: Model, bundle: Bundle) -> None:
    tensors = model.weights
    device = SimulatedDevice(tensors["simulated.w"], tensors["simulated.v"], BUCKETS, fixed_seconds=0, seconds_per_example=0)
    predictor = make_predictor(bundle, device)
    wrong: list[tuple[int, int]] = []

    def work(thread: int) -> None:
        for turn in range(60):
            batch = BATCHES[(thread + turn) % len(BATCHES)]
            expected = simulated64(model, random_example(batch, thread))
            if not np.allclose(score(predictor, batch, thread), expected, rtol=0, atol=2e-6):
                wrong.append((thread, turn))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("batch", [2, 20])
def test_an_id_outside_its_table_is_named_also_when_the_request_runs_in_pieces(batch: int, bundle: Bundle) -> None:
    device = open_device("sim", bundle, max_batch_size=8, warm_up_examples=8, device_threads=1)
    example = random_example(batch, 1)
    example.ids[1][batch - 1, 2] = 7
    with pytest.raises(RequestError) as caught:
        make_predictor(bundle, device).score(DecodedRequest(batch, example.dense, example.feature_major))
    assert caught.value.message == f'input "sparse_1" has id 7 at [{batch - 1}, 2]: 0 to 6 expected'
    assert HOT_SIZES[1] == 3


def test_a_max_batch_size_below_the_smallest_bucket_is_refused(bundle: Bundle) -> None:
    with pytest.raises(ValueError, match="max batch size 0 is smaller than the model's smallest bucket, 1"):
        open_device("sim", bundle, max_batch_size=0, warm_up_examples=1, device_threads=1)


def test_weights_of_another_shape_are_refused(model: Model, bundle: Bundle, tmp_path) -> None:
    from dataclasses import replace

    from conftest import write_safetensors

    weights = {**model.weights, "cross.1.u": np.zeros((4, 32), np.float32), "simulated.v": np.zeros(23, np.float32)}
    write_safetensors(tmp_path / "dense.safetensors", weights)
    other = replace(bundle, dir=tmp_path)
    with pytest.raises(BundleError, match=r"tensor cross\.1\.u: \[3, 32\] expected, got \[4, 32\]"):
        open_device("cpu", other, max_batch_size=8, warm_up_examples=8, device_threads=1)
    with pytest.raises(BundleError, match=r"simulated\.v \[24\] expected, got \[4\] and \[23\]"):
        open_device("sim", other, max_batch_size=8, warm_up_examples=8, device_threads=1)
