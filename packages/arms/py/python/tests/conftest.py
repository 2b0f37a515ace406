"""Fixtures: a small model whose files are written here, with no code of the server, and a server process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

SOURCES = Path(__file__).resolve().parent.parent

VOCABULARY_SIZES = (10, 7, 300)
HOT_SIZES = (1, 3, 5)
NAMES = ("sparse_0", "sparse_1", "sparse_2")
EMBEDDING_DIM = 8
DENSE_FEATURES = 4
BUCKETS = (1, 2, 4, 8)
NETWORK = {"bottomMlp": [6, EMBEDDING_DIM], "crossLayers": 2, "crossProjection": 3, "topMlp": [5, 1]}


class Model(NamedTuple):
    dir: Path
    tables: list[np.ndarray]
    weights: dict[str, np.ndarray]


def write_safetensors(path: Path, tensors: dict[str, np.ndarray], *, align: int = 1) -> None:
    """Float32 tensors, each at a multiple of ``align`` bytes of the file, with gaps as U8 tensors ``__padding_<i>``."""
    header_bytes = 4096
    data = b""
    header: dict[str, object] = {}
    for index, (name, tensor) in enumerate(tensors.items()):
        gap = -(8 + header_bytes + len(data)) % align
        if gap:
            header[f"__padding_{index}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [len(data), len(data) + gap]}
            data += b"\0" * gap
        raw = tensor.astype("<f4").tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    assert len(text) <= header_bytes
    path.write_bytes(header_bytes.to_bytes(8, "little") + text.ljust(header_bytes) + data)


def random_weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    width = EMBEDDING_DIM * (1 + len(NAMES))
    shapes = {
        "bottom_mlp.0.weight": (DENSE_FEATURES, 6),
        "bottom_mlp.0.bias": (6,),
        "bottom_mlp.1.weight": (6, EMBEDDING_DIM),
        "bottom_mlp.1.bias": (EMBEDDING_DIM,),
        "cross.0.v": (width, 3),
        "cross.0.u": (3, width),
        "cross.0.bias": (width,),
        "cross.1.v": (width, 3),
        "cross.1.u": (3, width),
        "cross.1.bias": (width,),
        "top_mlp.0.weight": (width, 5),
        "top_mlp.0.bias": (5,),
        "top_mlp.1.weight": (5, 1),
        "top_mlp.1.bias": (1,),
        "simulated.w": (DENSE_FEATURES,),
        "simulated.v": (EMBEDDING_DIM * len(NAMES),),
    }
    return {name: rng.uniform(-0.5, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def write_model(directory: Path) -> Model:
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    tables = [rng.uniform(-1, 1, (rows, EMBEDDING_DIM)).astype(np.float32) for rows in VOCABULARY_SIZES]
    weights = random_weights(rng)
    write_safetensors(directory / "tables.safetensors", dict(zip(NAMES, tables, strict=True)), align=4096)
    write_safetensors(directory / "dense.safetensors", weights)
    features = [
        {"name": name, "vocabularySize": rows, "hotSize": hot_size, "pooling": "sum"}
        for name, rows, hot_size in zip(NAMES, VOCABULARY_SIZES, HOT_SIZES, strict=True)
    ]
    spec = {
        "name": "tiny",
        "embeddingDim": EMBEDDING_DIM,
        "denseFeatures": DENSE_FEATURES,
        "features": features,
        "denseNetwork": NETWORK,
    }
    model = {"formatVersion": 1, "name": "tiny", "version": "3", "seed": 1, "spec": spec, "buckets": BUCKETS, "files": {}}
    (directory / "model.json").write_text(json.dumps(model))
    return Model(directory, tables, weights)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return write_model(tmp_path_factory.mktemp("bundle") / "tiny")


class Example(NamedTuple):
    dense: np.ndarray
    #: One array a feature, (batch, hot size).
    ids: list[np.ndarray]

    @property
    def feature_major(self) -> np.ndarray:
        return np.concatenate([part.reshape(-1) for part in self.ids])


def random_example(batch: int, seed: int, dtype: type = np.int32) -> Example:
    rng = np.random.default_rng([batch, seed])
    ids = [
        rng.integers(0, rows, (batch, hot_size)).astype(dtype)
        for rows, hot_size in zip(VOCABULARY_SIZES, HOT_SIZES, strict=True)
    ]
    return Example(rng.normal(size=(batch, DENSE_FEATURES)).astype(np.float32), ids)


def pooled64(model: Model, ids: list[np.ndarray]) -> np.ndarray:
    """Sums of bags in float64, (batch, features, embedding_dim), by plain loops."""
    batch = len(ids[0])
    pooled = np.zeros((batch, len(ids), EMBEDDING_DIM))
    for b in range(batch):
        for feature, part in enumerate(ids):
            for row in part[b]:
                pooled[b, feature] += model.tables[feature][row].astype(np.float64)
    return pooled


def simulated64(model: Model, example: Example) -> np.ndarray:
    pooled = pooled64(model, example.ids).reshape(len(example.dense), -1)
    weights = model.weights
    logits = example.dense.astype(np.float64) @ weights["simulated.w"] + pooled @ weights["simulated.v"].astype(float)
    return 1 / (1 + np.exp(-logits))


def network64(model: Model, example: Example) -> np.ndarray:
    """The dense network in NumPy float64, from the words of the bundle's format."""
    weights = {name: weight.astype(np.float64) for name, weight in model.weights.items()}
    z = example.dense.astype(np.float64)
    for index in (0, 1):
        z = np.maximum(z @ weights[f"bottom_mlp.{index}.weight"] + weights[f"bottom_mlp.{index}.bias"], 0)
    x0 = np.concatenate([z, pooled64(model, example.ids).reshape(len(z), -1)], axis=1)
    x = x0
    for index in (0, 1):
        x = x0 * ((x @ weights[f"cross.{index}.v"]) @ weights[f"cross.{index}.u"] + weights[f"cross.{index}.bias"]) + x
    hidden = np.maximum(x @ weights["top_mlp.0.weight"] + weights["top_mlp.0.bias"], 0)
    return 1 / (1 + np.exp(-(hidden @ weights["top_mlp.1.weight"] + weights["top_mlp.1.bias"])[:, 0]))


class ServerProcess(NamedTuple):
    process: subprocess.Popen[str]
    port: int


def start_command(*arguments: str, start_new_session: bool = False) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "dlrm_py.server", *arguments],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )


StartServer = Callable[..., ServerProcess]


@pytest.fixture(scope="module")
def start_server(model: Model) -> Iterator[StartServer]:
    """Starts servers on free ports of 127.0.0.1; those that still run at the end are killed."""
    processes = []

    def start(*arguments: str) -> ServerProcess:
        process = start_command("--bundle", str(model.dir), "--port", "0", *arguments)
        processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("serving tiny version 3 on 127.0.0.1:"):
            process.kill()
            raise AssertionError(f"the server did not start: {line!r}\n{process.communicate()[1]}")
        return ServerProcess(process, int(line.rsplit(":", 1)[1]))

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One JSON line a finished test for the program that runs this suite, if it names a file."""
    path = os.environ.get("DLRM_PYTEST_REPORT")
    if path is None or (report.when != "call" and report.outcome == "passed"):
        return
    with open(path, "a", encoding="utf-8") as file:
        print(json.dumps({"id": report.nodeid, "outcome": report.outcome, "text": report.longreprtext}), file=file)
