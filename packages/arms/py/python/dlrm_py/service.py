"""The two services of the wire, on grpcio."""

from __future__ import annotations

import math
from typing import NoReturn, Protocol

import grpc
import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from dlrm_py.bundle import Bundle
from dlrm_py.gen.dlrm.serving.v1 import prediction_pb2 as pb
from dlrm_py.handler_pool import came_while_draining
from dlrm_py.request import DecodedRequest, Limits, RequestDecoder, RequestError, check_model

SERVICE_NAME = "dlrm.serving.v1.PredictionService"
FEATURE_MESSAGE_BYTES = 256
MEBIBYTE = 1 << 20


class Scorer(Protocol):
    """What answers a decoded request: directly, or by way of a batcher."""

    def score(self, request: DecodedRequest) -> npt.NDArray[np.float32]:
        """Scores (batch,); raises RequestError."""
        ...


def largest_message_bytes(bundle: Bundle, max_examples: int) -> int:
    """What a request of ``max_examples`` can take with int64 ids, in whole MiB."""
    spec = bundle.spec
    num_bytes = max_examples * (8 * spec.ids_per_example + 4 * spec.dense_features)
    num_bytes += (len(spec.features) + 1) * FEATURE_MESSAGE_BYTES
    return min(math.ceil(num_bytes / MEBIBYTE) * MEBIBYTE, 2**31 - 1)


class PredictionService:
    """``dlrm.serving.v1.PredictionService`` for one model, which may come later than the port."""

    def __init__(self) -> None:
        self._bundle: Bundle | None = None
        self._decoder: RequestDecoder | None = None
        self._scorer: Scorer | None = None
        self._metadata = b""

    def serve(
        self, bundle: Bundle, decoder: RequestDecoder, scorer: Scorer, limits: Limits, buckets: tuple[int, ...]
    ) -> None:
        """From now on requests are answered; before, they are UNAVAILABLE."""
        self._bundle = bundle
        self._decoder = decoder
        self._metadata = model_metadata(bundle, limits, buckets).SerializeToString()
        self._scorer = scorer

    def handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        # No (de)serializers: messages are parsed here, in the handler's thread and with an error of our own, instead of
        # in the one thread that polls for everybody's events.
        return {
            "Predict": grpc.unary_unary_rpc_method_handler(self._predict),
            "GetModelMetadata": grpc.unary_unary_rpc_method_handler(self._get_model_metadata),
        }

    def _predict(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        scorer = self._scorer
        try:
            if scorer is None or self._decoder is None or self._bundle is None:
                raise RequestError(grpc.StatusCode.UNAVAILABLE, "the server is starting: the model is being loaded")
            if came_while_draining():
                raise RequestError(grpc.StatusCode.UNAVAILABLE, "the server is draining: ask another one")
            request = self._decoder.decode(message)
            scores = scorer.score(request)
        except RequestError as error:
            _abort(context, error)
        response = pb.PredictResponse(version=self._bundle.version)
        output = response.outputs["scores"]
        output.data_type = pb.DATA_TYPE_FLOAT32
        output.shape.append(request.batch)
        output.data = scores.tobytes()
        return response.SerializeToString()

    def _get_model_metadata(self, message: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            if self._scorer is None or self._bundle is None:
                raise RequestError(grpc.StatusCode.UNAVAILABLE, "the server is starting: the model is being loaded")
            try:
                request = pb.GetModelMetadataRequest.FromString(message)
            except DecodeError as error:
                raise RequestError(
                    grpc.StatusCode.INVALID_ARGUMENT, f"the request is not a GetModelMetadataRequest message: {error}"
                ) from error
            check_model(self._bundle, request.model, request.version)
        except RequestError as error:
            _abort(context, error)
        return self._metadata


def _abort(context: grpc.ServicerContext, error: RequestError) -> NoReturn:
    context.abort(error.code, error.message)
    raise AssertionError("abort returned")  # It raises; this tells the type checker.


def model_metadata(bundle: Bundle, limits: Limits, buckets: tuple[int, ...]) -> pb.GetModelMetadataResponse:
    spec = bundle.spec
    inputs = [
        pb.TensorMetadata(name="dense", data_types=[pb.DATA_TYPE_FLOAT32], shape=[-1, spec.dense_features]),
        *(
            pb.TensorMetadata(
                name=feature.name, data_types=[pb.DATA_TYPE_INT32, pb.DATA_TYPE_INT64], shape=[-1, feature.hot_size]
            )
            for feature in spec.features
        ),
    ]
    tables = [
        pb.TableMetadata(
            input=feature.name,
            vocabulary_size=feature.vocabulary_size,
            embedding_dim=spec.embedding_dim,
            hot_size=feature.hot_size,
            pooling=pb.POOLING_SUM,
        )
        for feature in spec.features
    ]
    return pb.GetModelMetadataResponse(
        model=bundle.name,
        version=bundle.version,
        inputs=inputs,
        outputs=[pb.TensorMetadata(name="scores", data_types=[pb.DATA_TYPE_FLOAT32], shape=[-1])],
        tables=tables,
        buckets=buckets,
        limits=pb.Limits(
            max_message_bytes=limits.max_message_bytes,
            max_examples_per_request=limits.max_examples_per_request,
            max_batch_size=limits.max_batch_size,
        ),
    )
