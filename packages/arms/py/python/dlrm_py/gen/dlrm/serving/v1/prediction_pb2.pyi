from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_TYPE_UNSPECIFIED: _ClassVar[DataType]
    DATA_TYPE_FLOAT32: _ClassVar[DataType]
    DATA_TYPE_INT32: _ClassVar[DataType]
    DATA_TYPE_INT64: _ClassVar[DataType]
    DATA_TYPE_FLOAT64: _ClassVar[DataType]
    DATA_TYPE_FLOAT16: _ClassVar[DataType]
    DATA_TYPE_BFLOAT16: _ClassVar[DataType]
    DATA_TYPE_INT8: _ClassVar[DataType]
    DATA_TYPE_UINT8: _ClassVar[DataType]
    DATA_TYPE_BOOL: _ClassVar[DataType]

class Pooling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    POOLING_UNSPECIFIED: _ClassVar[Pooling]
    POOLING_SUM: _ClassVar[Pooling]
    POOLING_MEAN: _ClassVar[Pooling]
DATA_TYPE_UNSPECIFIED: DataType
DATA_TYPE_FLOAT32: DataType
DATA_TYPE_INT32: DataType
DATA_TYPE_INT64: DataType
DATA_TYPE_FLOAT64: DataType
DATA_TYPE_FLOAT16: DataType
DATA_TYPE_BFLOAT16: DataType
DATA_TYPE_INT8: DataType
DATA_TYPE_UINT8: DataType
DATA_TYPE_BOOL: DataType
POOLING_UNSPECIFIED: Pooling
POOLING_SUM: Pooling
POOLING_MEAN: Pooling

class HostBuffer(_message.Message):
    __slots__ = ("data_type", "shape", "data")
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    data_type: DataType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, data_type: _Optional[_Union[DataType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ("model", "inputs", "version")
    class InputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: HostBuffer
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[HostBuffer, _Mapping]] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    model: str
    inputs: _containers.MessageMap[str, HostBuffer]
    version: str
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Mapping[str, HostBuffer]] = ..., version: _Optional[str] = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ("outputs", "version")
    class OutputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: HostBuffer
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[HostBuffer, _Mapping]] = ...) -> None: ...
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.MessageMap[str, HostBuffer]
    version: str
    def __init__(self, outputs: _Optional[_Mapping[str, HostBuffer]] = ..., version: _Optional[str] = ...) -> None: ...

class GetModelMetadataRequest(_message.Message):
    __slots__ = ("model", "version")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...

class GetModelMetadataResponse(_message.Message):
    __slots__ = ("model", "version", "inputs", "outputs", "tables", "buckets", "limits")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    inputs: _containers.RepeatedCompositeFieldContainer[TensorMetadata]
    outputs: _containers.RepeatedCompositeFieldContainer[TensorMetadata]
    tables: _containers.RepeatedCompositeFieldContainer[TableMetadata]
    buckets: _containers.RepeatedScalarFieldContainer[int]
    limits: Limits
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[TensorMetadata, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[TensorMetadata, _Mapping]]] = ..., tables: _Optional[_Iterable[_Union[TableMetadata, _Mapping]]] = ..., buckets: _Optional[_Iterable[int]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class TensorMetadata(_message.Message):
    __slots__ = ("name", "data_types", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPES_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    data_types: _containers.RepeatedScalarFieldContainer[DataType]
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., data_types: _Optional[_Iterable[_Union[DataType, str]]] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class TableMetadata(_message.Message):
    __slots__ = ("input", "vocabulary_size", "embedding_dim", "hot_size", "pooling")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    VOCABULARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_DIM_FIELD_NUMBER: _ClassVar[int]
    HOT_SIZE_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    input: str
    vocabulary_size: int
    embedding_dim: int
    hot_size: int
    pooling: Pooling
    def __init__(self, input: _Optional[str] = ..., vocabulary_size: _Optional[int] = ..., embedding_dim: _Optional[int] = ..., hot_size: _Optional[int] = ..., pooling: _Optional[_Union[Pooling, str]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_message_bytes", "max_examples_per_request", "max_batch_size", "max_enqueued_examples")
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_EXAMPLES_PER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_ENQUEUED_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    max_message_bytes: int
    max_examples_per_request: int
    max_batch_size: int
    max_enqueued_examples: int
    def __init__(self, max_message_bytes: _Optional[int] = ..., max_examples_per_request: _Optional[int] = ..., max_batch_size: _Optional[int] = ..., max_enqueued_examples: _Optional[int] = ...) -> None: ...
