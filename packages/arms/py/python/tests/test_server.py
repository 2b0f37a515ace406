"""The server process and its listener, over real gRPC."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from conftest import Model, ServerProcess, StartServer, network64, random_example, simulated64, start_command
from dlrm_py.bundle import read_bundle
from dlrm_py.gen.dlrm.serving.v1 import prediction_pb2 as pb
from dlrm_py.lifecycle import Listener, StartError
from dlrm_py.request import Limits, RequestDecoder
from dlrm_py.service import SERVICE_NAME, PredictionService
from test_request import BAD_REQUESTS, INVALID, message_of

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
RPC_SECONDS = 60


class Client:
    def __init__(self, port: int) -> None:
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{port}", options=(("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
        )
        self.predict_bytes = self.channel.unary_unary(f"/{SERVICE_NAME}/Predict")
        self.metadata_bytes = self.channel.unary_unary(f"/{SERVICE_NAME}/GetModelMetadata")
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def predict(self, request: pb.PredictRequest) -> pb.PredictResponse:
        return pb.PredictResponse.FromString(self.predict_bytes(request.SerializeToString(), timeout=RPC_SECONDS))

    def scores(self, batch: int, seed: int) -> np.ndarray:
        return scores_of(self.predict(message_of(random_example(batch, seed))))

    def status(self, service: str = "") -> int:
        return self.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=RPC_SECONDS).status


def scores_of(response: pb.PredictResponse) -> np.ndarray:
    assert list(response.outputs) == ["scores"]
    output = response.outputs["scores"]
    assert output.data_type == pb.DATA_TYPE_FLOAT32
    scores = np.frombuffer(output.data, "<f4")
    assert list(output.shape) == [len(scores)]
    return scores


#: One process or several, each request by itself or in batches: the same on the wire.
MODES = {
    "py": (),
    "py-batch": ("--batching", "window"),
    "py-mp": ("--num-processes", "2"),
    "py-mp-batch": ("--num-processes", "2", "--batching", "window"),
}


@pytest.fixture(scope="module", params=MODES.values(), ids=MODES)
def sim(request: pytest.FixtureRequest, start_server: StartServer) -> ServerProcess:
    return start_server("--platform", "sim", "--max-examples-per-request", "20", "--num-threads", "4", *request.param)


@pytest.fixture(scope="module")
def client(sim: ServerProcess) -> Iterator[Client]:
    client = Client(sim.port)
    yield client
    client.channel.close()


@pytest.mark.parametrize("batch", [1, 2, 3, 8, 9, 20])
def test_scores_of_the_simulated_accelerator_come_back(client: Client, model: Model, batch: int) -> None:
    response = client.predict(message_of(random_example(batch, 5)))
    assert response.version == "3"
    np.testing.assert_allclose(scores_of(response), simulated64(model, random_example(batch, 5)), rtol=0, atol=2e-6)


def test_int64_ids_give_the_scores_of_int32_ids(client: Client) -> None:
    as_int64 = scores_of(client.predict(message_of(random_example(4, 6, np.int64))))
    assert np.array_equal(as_int64, client.scores(4, 6))


def test_scores_of_the_dense_network_come_back(start_server: StartServer, model: Model) -> None:
    server = start_server("--platform", "cpu", "--warm-up-examples", "2", "--num-threads", "2")
    client = Client(server.port)
    for batch in (1, 3, 8, 9):
        np.testing.assert_allclose(
            client.scores(batch, 5), network64(model, random_example(batch, 5)), rtol=0, atol=2e-6
        )
    client.channel.close()


@pytest.mark.parametrize(("apply", "code", "message"), BAD_REQUESTS, ids=[text for _change, _code, text in BAD_REQUESTS])
def test_a_bad_request_gets_its_status_over_the_wire(client: Client, apply, code: grpc.StatusCode, message: str) -> None:
    request = message_of(random_example(2, 1))
    apply(request)
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(request)
    assert (caught.value.code(), caught.value.details()) == (code, message)


@pytest.mark.parametrize(
    ("feature", "place", "bad_id", "message"),
    [
        (0, (0, 0), 10, 'input "sparse_0" has id 10 at [0, 0]: 0 to 9 expected'),
        (1, (1, 2), -1, 'input "sparse_1" has id -1 at [1, 2]: 0 to 6 expected'),
        (2, (1, 4), 2**31 - 1, 'input "sparse_2" has id 2147483647 at [1, 4]: 0 to 299 expected'),
        (2, (0, 3), 2**32, 'input "sparse_2" has id 4294967296 at [0, 3]: 0 to 299 expected'),
    ],
)
def test_an_id_out_of_its_table_is_named(
    client: Client, feature: int, place: tuple[int, int], bad_id: int, message: str
) -> None:
    example = random_example(2, 1, np.int64)
    example.ids[feature][place] = bad_id
    with pytest.raises(grpc.RpcError) as caught:
        client.predict(message_of(example))
    assert (caught.value.code(), caught.value.details()) == (INVALID, message)


def test_bytes_that_are_no_message_are_an_invalid_argument(client: Client) -> None:
    for call in (client.predict_bytes, client.metadata_bytes):
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\xff\xff", timeout=RPC_SECONDS)
        assert caught.value.code() == INVALID
        assert "message" in caught.value.details()


def test_a_message_over_the_limit_is_resource_exhausted(start_server: StartServer) -> None:
    client = Client(start_server("--platform", "sim", "--max-message-bytes", "1000").port)
    assert len(client.scores(1, 1)) == 1
    with pytest.raises(grpc.RpcError) as caught:
        client.scores(20, 1)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in caught.value.details()
    assert "1000" in caught.value.details()
    client.channel.close()


def test_good_requests_are_unharmed_by_bad_ones_beside_them(sim: ServerProcess, model: Model) -> None:
    wrong: list[str] = []

    def work(thread: int) -> None:
        client = Client(sim.port)
        for turn in range(60):
            batch = 1 + (thread + turn) % 9
            if thread % 2 == 0:
                scores = client.scores(batch, thread)
                if not np.allclose(scores, simulated64(model, random_example(batch, thread)), rtol=0, atol=2e-6):
                    wrong.append(f"thread {thread}, turn {turn}: scores {scores}")
                continue
            apply, code, message = BAD_REQUESTS[(7 * thread + turn) % len(BAD_REQUESTS)]
            request = message_of(random_example(2, thread))
            apply(request)
            try:
                client.predict(request)
                wrong.append(f"thread {thread}, turn {turn}: not refused with {message}")
            except grpc.RpcError as error:
                if (error.code(), error.details()) != (code, message):
                    wrong.append(f"thread {thread}, turn {turn}: {error.code()} {error.details()}")
        client.channel.close()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_health_and_metadata_are_answered(client: Client) -> None:
    assert client.status() == SERVING
    assert client.status(SERVICE_NAME) == SERVING
    with pytest.raises(grpc.RpcError) as caught:
        client.status("other")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    request = pb.GetModelMetadataRequest(model="tiny").SerializeToString()
    metadata = pb.GetModelMetadataResponse.FromString(client.metadata_bytes(request, timeout=RPC_SECONDS))
    assert (metadata.model, metadata.version, list(metadata.buckets)) == ("tiny", "3", [1, 2, 4, 8])
    assert [(i.name, list(i.data_types), list(i.shape)) for i in metadata.inputs] == [
        ("dense", [pb.DATA_TYPE_FLOAT32], [-1, 4]),
        ("sparse_0", [pb.DATA_TYPE_INT32, pb.DATA_TYPE_INT64], [-1, 1]),
        ("sparse_1", [pb.DATA_TYPE_INT32, pb.DATA_TYPE_INT64], [-1, 3]),
        ("sparse_2", [pb.DATA_TYPE_INT32, pb.DATA_TYPE_INT64], [-1, 5]),
    ]
    assert [(o.name, list(o.shape)) for o in metadata.outputs] == [("scores", [-1])]
    assert [(t.input, t.vocabulary_size, t.embedding_dim, t.hot_size, t.pooling) for t in metadata.tables] == [
        ("sparse_0", 10, 8, 1, pb.POOLING_SUM),
        ("sparse_1", 7, 8, 3, pb.POOLING_SUM),
        ("sparse_2", 300, 8, 5, pb.POOLING_SUM),
    ]
    limits = metadata.limits
    assert (limits.max_message_bytes, limits.max_examples_per_request, limits.max_batch_size) == (1 << 20, 20, 8)
    with pytest.raises(grpc.RpcError) as caught:
        client.metadata_bytes(pb.GetModelMetadataRequest(model="x").SerializeToString(), timeout=RPC_SECONDS)
    assert (caught.value.code(), caught.value.details()) == (
        grpc.StatusCode.NOT_FOUND,
        'model "x" is unknown: "tiny" expected',
    )


def test_a_port_in_use_is_a_clear_error(sim: ServerProcess, model: Model) -> None:
    process = start_command("--bundle", str(model.dir), "--platform", "sim", "--port", str(sim.port))
    out, err = process.communicate(timeout=RPC_SECONDS)
    assert process.returncode == 1
    assert out == ""
    assert f"dlrm_py.server: cannot listen on 127.0.0.1:{sim.port}: Address already in use\n" in err


def test_a_bundle_that_is_not_there_is_a_clear_error(tmp_path) -> None:
    process = start_command("--bundle", str(tmp_path / "none"), "--port", "0")
    _out, err = process.communicate(timeout=RPC_SECONDS)
    assert process.returncode == 1
    assert err == f"dlrm_py.server: {tmp_path / 'none' / 'model.json'}: No such file or directory\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: --bundle"),
        (["--bundle", "x", "--port", "-1"], "argument --port: expected a whole number of at least 0, got '-1'"),
        (["--bundle", "x", "--platform", "gpu"], "argument --platform: invalid choice: 'gpu'"),
        (["--bundle", "x", "--num-thread", "1"], "unrecognized arguments: --num-thread 1"),
    ],
)
def test_wrong_usage_ends_with_code_2(arguments: list[str], message: str) -> None:
    process = start_command(*arguments)
    _out, err = process.communicate(timeout=RPC_SECONDS)
    assert process.returncode == 2
    assert message in err


@pytest.mark.parametrize(
    ("number", "mode"),
    [(signal.SIGTERM, "py"), (signal.SIGINT, "py-batch"), (signal.SIGTERM, "py-mp-batch"), (signal.SIGINT, "py-mp")],
)
def test_a_signal_under_load_ends_with_code_0_and_no_request_half_answered(
    start_server: StartServer, model: Model, number: signal.Signals, mode: str
) -> None:
    server = start_server("--platform", "sim", *MODES[mode])
    expected = simulated64(model, random_example(8, 1))
    outcomes: list[str] = []
    answered = threading.Semaphore(0)

    def work() -> None:
        client = Client(server.port)
        while True:
            try:
                good = np.allclose(client.scores(8, 1), expected, rtol=0, atol=2e-6)
                outcomes.append("right" if good else "wrong")
                answered.release()
            except grpc.RpcError as error:
                outcomes.append(error.code().name)
                client.channel.close()
                return

    threads = [threading.Thread(target=work) for _ in range(12)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        answered.acquire()
    server.process.send_signal(number)
    _out, err = server.process.communicate(timeout=RPC_SECONDS)
    for thread in threads:
        thread.join()
    assert server.process.returncode == 0
    assert "draining" in err
    assert "Traceback" not in err
    # CANCELLED is gRPC's word for a request that comes in the moment its connection is closed.
    assert {"right"} < set(outcomes) <= {"right", "UNAVAILABLE", "CANCELLED"}


class HeldScorer:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.may_answer = threading.Event()

    def score(self, request) -> np.ndarray:
        self.entered.release()
        assert self.may_answer.wait(RPC_SECONDS)
        return np.full(request.batch, 0.25, np.float32)


@pytest.fixture
def held(model: Model) -> Iterator[tuple[Listener, PredictionService, Client]]:
    service = PredictionService()
    listener = Listener(service, max_message_bytes=1 << 20, num_threads=4)
    client = Client(listener.start("127.0.0.1", 0))
    yield listener, service, client
    client.channel.close()
    listener.drain(0)


def serve_held(service: PredictionService, model: Model) -> HeldScorer:
    bundle = read_bundle(model.dir)
    limits = Limits(1 << 20, 20, 8)
    scorer = HeldScorer()
    service.serve(bundle, RequestDecoder(bundle, limits), scorer, limits, bundle.buckets)
    return scorer


def test_before_the_model_is_there_health_is_not_serving_and_requests_are_unavailable(held, model: Model) -> None:
    listener, service, client = held
    assert client.status() == NOT_SERVING
    assert client.status(SERVICE_NAME) == NOT_SERVING
    for call in (client.predict_bytes, client.metadata_bytes):
        with pytest.raises(grpc.RpcError) as caught:
            call(b"", timeout=RPC_SECONDS)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        assert caught.value.details() == "the server is starting: the model is being loaded"
    serve_held(service, model).may_answer.set()
    listener.set_serving()
    assert client.status() == SERVING
    assert np.array_equal(client.scores(2, 1), [0.25, 0.25])


def test_draining_says_not_serving_refuses_new_requests_and_answers_those_that_are_in(held, model: Model) -> None:
    listener, service, client = held
    scorer = serve_held(service, model)
    listener.set_serving()
    watch = client.health.Watch(health_pb2.HealthCheckRequest(), timeout=RPC_SECONDS)
    assert next(watch).status == SERVING
    message = message_of(random_example(2, 1)).SerializeToString()
    waiting = client.predict_bytes.future(message, timeout=RPC_SECONDS)
    scorer.entered.acquire()
    drain = threading.Thread(target=listener.drain, args=(RPC_SECONDS,))
    drain.start()
    assert next(watch).status == NOT_SERVING
    watch.cancel()
    with pytest.raises(grpc.RpcError) as caught:
        client.predict_bytes(message, timeout=RPC_SECONDS)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert caught.value.details() == "the server is draining: ask another one"
    assert not waiting.done()
    scorer.may_answer.set()
    assert np.array_equal(scores_of(pb.PredictResponse.FromString(waiting.result())), [0.25, 0.25])
    drain.join()


def test_a_listener_that_cannot_bind_says_why() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        listener = Listener(PredictionService(), max_message_bytes=1 << 20, num_threads=1)
        with pytest.raises(StartError) as caught:
            listener.start("127.0.0.1", port)
    assert str(caught.value) == f"cannot listen on 127.0.0.1:{port}: Address already in use"
