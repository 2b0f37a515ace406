from __future__ import annotations

import grpc
import numpy as np
import pytest

from conftest import DENSE_FEATURES, HOT_SIZES, NAMES, Example, Model, random_example
from dlrm_py.bundle import read_bundle
from dlrm_py.gen.dlrm.serving.v1 import prediction_pb2 as pb
from dlrm_py.request import DecodedRequest, Limits, RequestDecoder, RequestError

MAX_EXAMPLES = 20


@pytest.fixture(scope="module")
def decoder(model: Model) -> RequestDecoder:
    return RequestDecoder(read_bundle(model.dir), Limits(1 << 20, MAX_EXAMPLES, 8))


def put(request: pb.PredictRequest, name: str, data_type: int, array: np.ndarray) -> None:
    buffer = request.inputs[name]
    buffer.data_type = data_type
    buffer.shape.extend(array.shape)
    buffer.data = array.tobytes()


def message_of(example: Example) -> pb.PredictRequest:
    request = pb.PredictRequest()
    put(request, "dense", pb.DATA_TYPE_FLOAT32, example.dense)
    for name, ids in zip(NAMES, example.ids, strict=True):
        put(request, name, pb.DATA_TYPE_INT32 if ids.dtype == np.int32 else pb.DATA_TYPE_INT64, ids)
    return request


def assert_same(decoded: DecodedRequest, example: Example) -> None:
    assert decoded.batch == len(example.dense)
    assert np.array_equal(decoded.dense, example.dense)
    assert np.array_equal(decoded.ids, example.feature_major)


@pytest.mark.parametrize("batch", [1, 2, 7, MAX_EXAMPLES])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_good_request_is_decoded_as_it_was_sent(decoder: RequestDecoder, batch: int, dtype: type) -> None:
    example = random_example(batch, 1, dtype)
    message = message_of(example).SerializeToString()
    assert_same(decoder.decode(message), example)
    assert_same(decoder.decode_carefully(message), example)
    assert decoder.decode(message).ids.dtype == dtype


def test_int32_and_int64_may_be_mixed_and_model_and_version_may_be_named(decoder: RequestDecoder) -> None:
    example = random_example(3, 1)
    example = Example(example.dense, [example.ids[0].astype(np.int64), *example.ids[1:]])
    request = message_of(example)
    request.model = "tiny"
    request.version = "3"
    assert_same(decoder.decode(request.SerializeToString()), example)


def test_the_order_of_inputs_in_the_message_does_not_matter(decoder: RequestDecoder) -> None:
    example = random_example(2, 1)
    assert_same(decoder.decode(in_reverse(message_of(example))), example)


def in_order(request: pb.PredictRequest) -> bytes:
    return written(request, ("dense", *NAMES))


def in_reverse(request: pb.PredictRequest) -> bytes:
    return written(request, (*reversed(NAMES), "dense"))


def written(request: pb.PredictRequest, names: tuple[str, ...]) -> bytes:
    """The inputs in this order; protobuf writes a map in any, another in each process."""
    message = b""
    for name in names:
        one = pb.PredictRequest()
        one.inputs[name].CopyFrom(request.inputs[name])
        message += one.SerializeToString()
    return message


def learned(decoder: RequestDecoder) -> int:
    return sum(len(layouts) for layouts in decoder._layouts.values())


def test_a_message_that_looks_like_an_accepted_one_is_decoded_without_parsing(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = RequestDecoder(read_bundle(model.dir), Limits(1 << 20, MAX_EXAMPLES, 8))
    kinds = [(1, np.int32), (1, np.int64), (3, np.int32)]
    for batch, dtype in kinds:
        for write in (in_order, in_reverse):
            decoder.decode(write(message_of(random_example(batch, 1, dtype))))
    assert learned(decoder) == 6
    nan = message_of(random_example(1, 2))
    nan.inputs["dense"].data = np.array([0, 1, np.nan, 2], np.float32).tobytes()
    with pytest.raises(RequestError) as caught:
        decoder.decode(nan.SerializeToString())
    assert caught.value.message == 'input "dense" has nan at [0, 2]: finite numbers expected'

    monkeypatch.setattr(decoder, "_parse", None)
    for batch, dtype in kinds:
        example = random_example(batch, 2, dtype)
        for write in (in_order, in_reverse):
            decoded = decoder.decode(write(message_of(example)))
            assert_same(decoded, example)
            assert decoded.ids.dtype == dtype


@pytest.mark.parametrize("named", [{"model": "MODEL"}, {"version": "VERSION"}, {"model": "MODEL", "version": "VERSION"}])
def test_a_message_that_names_its_model_is_decoded_without_parsing_too(
    model: Model, monkeypatch: pytest.MonkeyPatch, named: dict[str, str]
) -> None:
    bundle = read_bundle(model.dir)
    names = {"MODEL": bundle.name, "VERSION": bundle.version}
    decoder = RequestDecoder(bundle, Limits(1 << 20, MAX_EXAMPLES, 8))

    def message(seed: int) -> pb.PredictRequest:
        request = message_of(random_example(2, seed))
        for field, name in named.items():
            setattr(request, field, names[name])
        return request

    with monkeypatch.context() as patched:
        patched.setattr(decoder, "decode_carefully", None)
        assert_same(decoder.decode(message(1).SerializeToString()), random_example(2, 1))
    assert learned(decoder) == 1
    # Another name of the same length is another model.
    for field, name in named.items():
        other = message(1)
        setattr(other, field, "x" * len(names[name]))
        with pytest.raises(RequestError) as caught:
            decoder.decode(other.SerializeToString())
        assert caught.value.code is grpc.StatusCode.NOT_FOUND
    monkeypatch.setattr(decoder, "_parse", None)
    assert_same(decoder.decode(message(2).SerializeToString()), random_example(2, 2))


def test_a_message_with_an_input_twice_is_right_and_not_learned(model: Model) -> None:
    decoder = RequestDecoder(read_bundle(model.dir), Limits(1 << 20, MAX_EXAMPLES, 8))
    first, second = random_example(2, 1), random_example(2, 2)
    twice = message_of(first).SerializeToString() + message_of(second).SerializeToString()
    for _ in range(2):
        assert_same(decoder.decode(twice), second)
    assert learned(decoder) == 0


def test_no_more_layouts_are_learned_than_may_be(model: Model) -> None:
    decoder = RequestDecoder(read_bundle(model.dir), Limits(1 << 20, 200, 8))
    for batch in range(1, 101):
        assert_same(decoder.decode(message_of(random_example(batch, 1)).SerializeToString()), random_example(batch, 1))
    assert learned(decoder) == 64


def change(name: str, **fields: object):
    """A change of one input."""

    def apply(request: pb.PredictRequest) -> None:
        buffer = request.inputs[name]
        for field, value in fields.items():
            if field == "shape":
                del buffer.shape[:]
                buffer.shape.extend(value)
            else:
                setattr(buffer, field, value)

    return apply


def drop(name: str):
    def apply(request: pb.PredictRequest) -> None:
        del request.inputs[name]

    return apply


def with_dense(value: float, at: tuple[int, int]):
    def apply(request: pb.PredictRequest) -> None:
        dense = np.zeros((2, DENSE_FEATURES), np.float32)
        dense[at] = value
        request.inputs["dense"].data = dense.tobytes()

    return apply


def name_model(model: str, version: str):
    def apply(request: pb.PredictRequest) -> None:
        request.model = model
        request.version = version

    return apply


INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED

#: Changes of a good request of two examples, and the error for each.
BAD_REQUESTS = [
    (name_model("other", ""), NOT_FOUND, 'model "other" is unknown: "tiny" expected'),
    (name_model("x" * 70, ""), NOT_FOUND, f'model "{"x" * 64}…" is unknown: "tiny" expected'),
    (name_model("tiny", "4"), NOT_FOUND, 'version "4" of model "tiny" is unknown: "3" expected'),
    (pb.PredictRequest.Clear, INVALID, 'input "dense" is missing: 4 inputs expected, got 0'),
    (drop("dense"), INVALID, 'input "dense" is missing: 4 inputs expected, got 3'),
    (drop("sparse_1"), INVALID, 'input "sparse_1" is missing: 4 inputs expected, got 3'),
    (
        change("sparse_3", data_type=2, shape=[2, 1], data=b"\0" * 8),
        INVALID,
        'input "sparse_3" is unknown: dense, sparse_0, sparse_1, sparse_2 expected',
    ),
    (change("dense", data_type=2), INVALID, 'input "dense" has type INT32: FLOAT32 expected'),
    (change("dense", data_type=0), INVALID, 'input "dense" has type UNSPECIFIED: FLOAT32 expected'),
    (change("sparse_2", data_type=1), INVALID, 'input "sparse_2" has type FLOAT32: INT32 or INT64 expected'),
    (change("sparse_0", data_type=99), INVALID, 'input "sparse_0" has type DataType(99): INT32 or INT64 expected'),
    (change("dense", shape=[2, 5]), INVALID, 'input "dense" has shape [2, 5]: [2, 4] expected'),
    (change("dense", shape=[8]), INVALID, 'input "dense" has shape [8]: [8, 4] expected'),
    (change("dense", shape=[2, 2, 2]), INVALID, 'input "dense" has shape [2, 2, 2]: [2, 4] expected'),
    (change("dense", shape=[]), INVALID, 'input "dense" has shape []: [B, 4] expected, with at least 1 example'),
    (change("dense", shape=[0, 4], data=b""), INVALID, 'input "dense" has shape [0, 4]: [B, 4] expected, with at least 1 example'),
    (change("dense", shape=[-1, 4]), INVALID, 'input "dense" has shape [-1, 4]: [B, 4] expected, with at least 1 example'),
    (
        change("dense", shape=[21, 4], data=b"\0" * 336),
        EXHAUSTED,
        'input "dense" has 21 examples: at most 20 a request expected (--max-examples-per-request)',
    ),
    (
        change("dense", shape=[2**62, 4]),
        EXHAUSTED,
        f'input "dense" has {2**62} examples: at most 20 a request expected (--max-examples-per-request)',
    ),
    (change("sparse_1", shape=[2, 2]), INVALID, 'input "sparse_1" has shape [2, 2]: [2, 3] expected'),
    (change("sparse_1", shape=[3, 3], data=b"\0" * 36), INVALID, 'input "sparse_1" has shape [3, 3]: [2, 3] expected'),
    (change("sparse_1", shape=[6]), INVALID, 'input "sparse_1" has shape [6]: [2, 3] expected'),
    (change("sparse_1", shape=[1] * 9), INVALID, 'input "sparse_1" has shape [9 dimensions]: [2, 3] expected'),
    (change("dense", data=b"\0" * 31), INVALID, 'input "dense" has 31 bytes of data: 32 expected for FLOAT32 [2, 4]'),
    (change("dense", data=b""), INVALID, 'input "dense" has 0 bytes of data: 32 expected for FLOAT32 [2, 4]'),
    (change("sparse_2", data=b"\0" * 41), INVALID, 'input "sparse_2" has 41 bytes of data: 40 expected for INT32 [2, 5]'),
    (change("sparse_2", data_type=3), INVALID, 'input "sparse_2" has 40 bytes of data: 80 expected for INT64 [2, 5]'),
    (with_dense(float("nan"), (1, 2)), INVALID, 'input "dense" has nan at [1, 2]: finite numbers expected'),
    (with_dense(float("inf"), (0, 0)), INVALID, 'input "dense" has inf at [0, 0]: finite numbers expected'),
    (with_dense(float("-inf"), (1, 3)), INVALID, 'input "dense" has -inf at [1, 3]: finite numbers expected'),
]


@pytest.mark.parametrize(("apply", "code", "message"), BAD_REQUESTS, ids=[text for _change, _code, text in BAD_REQUESTS])
def test_a_bad_request_is_refused_with_what_was_expected_and_what_came(
    decoder: RequestDecoder, apply, code: grpc.StatusCode, message: str
) -> None:
    request = message_of(random_example(2, 1))
    apply(request)
    with pytest.raises(RequestError) as caught:
        decoder.decode(request.SerializeToString())
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize("message", [b"\xff", b"\x12\x05ab", b"\x0a\x01\xff"])
def test_bytes_that_are_no_message_are_refused(decoder: RequestDecoder, message: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        decoder.decode(message)
    assert caught.value.code == INVALID
    assert caught.value.message.startswith("the request is not a PredictRequest message: ")


def test_any_position_of_an_id_is_named_by_input_example_and_place(decoder: RequestDecoder) -> None:
    batch = 3
    example = random_example(batch, 1)
    decoded = DecodedRequest(batch, example.dense, example.feature_major)
    position = 0
    limits = {"sparse_0": 9, "sparse_1": 6, "sparse_2": 299}
    for name, hot_size, ids in zip(NAMES, HOT_SIZES, example.ids, strict=True):
        for b in range(batch):
            for h in range(hot_size):
                error = decoder.out_of_vocabulary_error(decoded, position)
                assert error.code == INVALID
                assert error.message == f'input "{name}" has id {ids[b, h]} at [{b}, {h}]: 0 to {limits[name]} expected'
                position += 1


def test_mutated_messages_are_refused_or_decoded_alike_by_both_ways_of_decoding(decoder: RequestDecoder) -> None:
    rng = np.random.default_rng(3)
    accepted = refused = 0
    for turn in range(3000):
        message = bytearray(message_of(random_example(1 + turn % 3, turn)).SerializeToString())
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(0, len(message)))
            kind = rng.integers(0, 3)
            if kind == 0:
                message[at] = int(rng.integers(0, 256))
            elif kind == 1:
                del message[at : at + int(rng.integers(1, 4))]
            else:
                message[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 4)), dtype=np.uint8))
        outcomes = []
        for decode in (decoder.decode, decoder.decode_carefully):
            try:
                batch, dense, ids = decode(bytes(message))
                outcomes.append((batch, dense.tobytes(), ids.astype(np.int64).tobytes()))
            except RequestError as error:
                outcomes.append((error.code, error.message))
        assert outcomes[0] == outcomes[1]
        if isinstance(outcomes[0][0], int):
            accepted += 1
        else:
            refused += 1
    assert accepted > 100
    assert refused > 100
