"""Reads a model bundle: ``model.json``, ``tables.safetensors`` and ``dense.safetensors``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

FORMAT_VERSION = 1
# Largest safetensors header that is read; the format's own limit.
MAX_HEADER_BYTES = 100_000_000
# Bytes read at a time: large enough to cost nothing, small enough to stop and to report between.
READ_CHUNK_BYTES = 32 << 20


class BundleError(Exception):
    """A file of the bundle is missing, damaged or not of this model; the message names it."""


@dataclass(frozen=True)
class Feature:
    """One categorical input and its embedding table."""

    name: str
    vocabulary_size: int
    hot_size: int


@dataclass(frozen=True)
class DenseNetworkSpec:
    bottom_mlp: tuple[int, ...]
    cross_layers: int
    cross_projection: int
    top_mlp: tuple[int, ...]


@dataclass(frozen=True)
class ModelSpec:
    embedding_dim: int
    dense_features: int
    features: tuple[Feature, ...]
    dense_network: DenseNetworkSpec

    @property
    def ids_per_example(self) -> int:
        return sum(feature.hot_size for feature in self.features)

    @property
    def pooled_width(self) -> int:
        """Elements of an example's pooled vectors: features × embedding_dim."""
        return len(self.features) * self.embedding_dim


@dataclass(frozen=True)
class Bundle:
    dir: Path
    name: str
    version: str
    spec: ModelSpec
    #: Padded batch sizes of the device, ascending.
    buckets: tuple[int, ...]

    @property
    def tables_path(self) -> Path:
        return self.dir / "tables.safetensors"

    @property
    def dense_path(self) -> Path:
        return self.dir / "dense.safetensors"


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor stands in a safetensors file."""

    dtype: str
    shape: tuple[int, ...]
    #: From the start of the file.
    offset: int
    num_bytes: int


def read_bundle(directory: str | os.PathLike[str]) -> Bundle:
    """Reads ``model.json``; raises BundleError."""
    path = Path(directory).resolve()
    model_path = path / "model.json"
    try:
        model = json.loads(model_path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BundleError(f"{model_path}: {error.strerror or error}") from error
    except ValueError as error:
        raise BundleError(f"{model_path}: not JSON: {error}") from error
    try:
        if model["formatVersion"] != FORMAT_VERSION:
            raise BundleError(f"{model_path}: formatVersion {FORMAT_VERSION} expected, got {model['formatVersion']!r}")
        bundle = Bundle(
            dir=path,
            name=str(model["name"]),
            version=str(model["version"]),
            spec=_parse_spec(model["spec"], model_path),
            buckets=tuple(int(bucket) for bucket in model["buckets"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"{model_path}: {type(error).__name__}: {error}") from error
    if not bundle.buckets or list(bundle.buckets) != sorted(set(bundle.buckets)) or bundle.buckets[0] < 1:
        raise BundleError(f"{model_path}: buckets must be ascending positive numbers, got {list(bundle.buckets)}")
    return bundle


def _parse_spec(spec: dict[str, Any], model_path: Path) -> ModelSpec:
    features = []
    for feature in spec["features"]:
        if feature.get("pooling", "sum") != "sum":
            raise BundleError(
                f"{model_path}: feature {feature['name']}: pooling \"sum\" expected, got {feature['pooling']!r}"
            )
        features.append(
            Feature(
                name=str(feature["name"]),
                vocabulary_size=int(feature["vocabularySize"]),
                hot_size=int(feature["hotSize"]),
            )
        )
    network = spec["denseNetwork"]
    return ModelSpec(
        embedding_dim=int(spec["embeddingDim"]),
        dense_features=int(spec["denseFeatures"]),
        features=tuple(features),
        dense_network=DenseNetworkSpec(
            bottom_mlp=tuple(int(width) for width in network["bottomMlp"]),
            cross_layers=int(network["crossLayers"]),
            cross_projection=int(network["crossProjection"]),
            top_mlp=tuple(int(width) for width in network["topMlp"]),
        ),
    )


def read_safetensors_header(file: BinaryIO, path: Path) -> dict[str, TensorEntry]:
    """The tensors of a safetensors file, padding left out; raises BundleError if the header cannot be right."""
    file_bytes = os.fstat(file.fileno()).st_size
    prefix = file.read(8)
    header_bytes = int.from_bytes(prefix, "little")
    if len(prefix) < 8 or header_bytes > min(MAX_HEADER_BYTES, file_bytes - 8):
        raise BundleError(f"{path}: not a safetensors file, or cut short ({file_bytes} bytes)")
    try:
        header = json.loads(file.read(header_bytes))
        entries = {}
        for name, tensor in header.items():
            if name == "__metadata__" or name.startswith("__padding_"):
                continue
            begin, end = (int(at) for at in tensor["data_offsets"])
            offset = 8 + header_bytes + begin
            if not 0 <= begin <= end or offset + (end - begin) > file_bytes:
                raise BundleError(
                    f"{path}: tensor {name} ends at byte {8 + header_bytes + end}, the file has {file_bytes}"
                )
            entries[name] = TensorEntry(str(tensor["dtype"]), tuple(tensor["shape"]), offset, end - begin)
        return entries
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"{path}: damaged safetensors header: {type(error).__name__}: {error}") from error


def _expect_float32(
    entries: dict[str, TensorEntry], name: str, shape: tuple[int, ...] | None, path: Path
) -> TensorEntry:
    entry = entries.get(name)
    if entry is None:
        raise BundleError(f"{path}: tensor {name} is missing")
    if entry.dtype != "F32" or (shape is not None and entry.shape != shape):
        wanted = "" if shape is None else f" {list(shape)}"
        raise BundleError(f"{path}: tensor {name}: F32{wanted} expected, got {entry.dtype} {list(entry.shape)}")
    if entry.num_bytes != 4 * math.prod(entry.shape):
        raise BundleError(
            f"{path}: tensor {name}: {4 * math.prod(entry.shape)} bytes expected, got {entry.num_bytes}"
        )
    return entry


def read_tensors(path: Path, names: Iterable[str] | None = None) -> dict[str, npt.NDArray[np.float32]]:
    """Float32 tensors of a safetensors file (all of them by default), each in an array of its own."""
    with _open(path) as file:
        entries = read_safetensors_header(file, path)
        tensors = {}
        for name in entries if names is None else names:
            entry = _expect_float32(entries, name, None, path)
            tensor = np.empty(entry.shape, np.float32)
            read_into(file, entry.offset, tensor, path)
            tensors[name] = tensor
        return tensors


def read_table_into(
    file: BinaryIO,
    entries: dict[str, TensorEntry],
    path: Path,
    feature: Feature,
    rows: npt.NDArray[np.float32],
    on_bytes: Callable[[int], None] = lambda _count: None,
) -> None:
    """Reads a feature's table into ``rows`` (vocabulary_size, embedding_dim)."""
    entry = _expect_float32(entries, feature.name, rows.shape, path)
    read_into(file, entry.offset, rows, path, on_bytes)


def read_into(
    file: BinaryIO,
    offset: int,
    array: npt.NDArray[np.float32],
    path: Path,
    on_bytes: Callable[[int], None] = lambda _count: None,
) -> None:
    """Fills a C-contiguous array from the file, chunk by chunk, with the GIL released while reading."""
    file.seek(offset)
    view = memoryview(array.reshape(-1)).cast("B")
    at = 0
    while at < len(view):
        count = file.readinto(view[at : at + READ_CHUNK_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise BundleError(f"{path}: ended at byte {offset + at}, {len(view) - at} bytes early")
        at += count
        on_bytes(count)


def open_tables(bundle: Bundle) -> tuple[BinaryIO, dict[str, TensorEntry]]:
    file = _open(bundle.tables_path)
    try:
        return file, read_safetensors_header(file, bundle.tables_path)
    except BaseException:
        file.close()
        raise


def _open(path: Path) -> BinaryIO:
    try:
        # Unbuffered: tables are read in large pieces straight into their arrays.
        return open(path, "rb", buffering=0)  # type: ignore[return-value]
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from error
