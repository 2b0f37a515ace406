import json
import math
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from conftest import Model, write_model, write_safetensors
from dlrm_py.bundle import BundleError, read_bundle, read_tensors
from dlrm_py.embedding import load_tables


def test_model_json_is_read(model: Model) -> None:
    bundle = read_bundle(model.dir)
    assert (bundle.name, bundle.version, bundle.buckets) == ("tiny", "3", (1, 2, 4, 8))
    assert [(f.name, f.vocabulary_size, f.hot_size) for f in bundle.spec.features] == [
        ("sparse_0", 10, 1),
        ("sparse_1", 7, 3),
        ("sparse_2", 300, 5),
    ]
    assert bundle.spec.dense_network.top_mlp == (5, 1)
    assert (bundle.spec.ids_per_example, bundle.spec.pooled_width) == (9, 24)


def test_files_of_the_safetensors_library_are_read(tmp_path: Path) -> None:
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(math.pi, np.float32)}
    safetensors.numpy.save_file(tensors, tmp_path / "x.safetensors")
    read = read_tensors(tmp_path / "x.safetensors")
    assert sorted(read) == ["a", "b"]
    for name, tensor in tensors.items():
        assert np.array_equal(read[name], tensor)


def test_the_files_these_tests_write_are_read_by_the_safetensors_library(model: Model) -> None:
    read = safetensors.numpy.load_file(model.dir / "tables.safetensors")
    for index, table in enumerate(model.tables):
        assert np.array_equal(read[f"sparse_{index}"], table)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"formatVersion": 2}, "formatVersion 1 expected, got 2"),
        ({"buckets": []}, "buckets must be ascending positive numbers, got []"),
        ({"buckets": [2, 1]}, "buckets must be ascending positive numbers, got [2, 1]"),
        ({"buckets": [0, 1]}, "buckets must be ascending positive numbers, got [0, 1]"),
        ({"spec": {}}, "KeyError: 'features'"),
    ],
)
def test_a_wrong_model_json_is_refused(model: Model, tmp_path: Path, change: dict, message: str) -> None:
    text = json.loads((model.dir / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**text, **change}))
    with pytest.raises(BundleError) as caught:
        read_bundle(tmp_path)
    assert str(caught.value) == f"{tmp_path / 'model.json'}: {message}"


def test_pooling_other_than_sum_is_refused(model: Model, tmp_path: Path) -> None:
    text = json.loads((model.dir / "model.json").read_text())
    text["spec"]["features"][1]["pooling"] = "mean"
    (tmp_path / "model.json").write_text(json.dumps(text))
    with pytest.raises(BundleError, match='feature sparse_1: pooling "sum" expected, got \'mean\''):
        read_bundle(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        read_bundle(tmp_path / "none")
    assert str(caught.value) == f"{tmp_path / 'none' / 'model.json'}: No such file or directory"


def test_tables_of_another_shape_type_or_name_are_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    tables = {"sparse_0": model.tables[0], "sparse_1": model.tables[1][:-1], "sparse_2": model.tables[2]}
    write_safetensors(tmp_path / "tables.safetensors", tables)
    with pytest.raises(BundleError, match=r"tensor sparse_1: F32 \[7, 8\] expected, got F32 \[6, 8\]"):
        load_tables(read_bundle(tmp_path))
    del tables["sparse_1"]
    write_safetensors(tmp_path / "tables.safetensors", tables)
    with pytest.raises(BundleError, match="tensor sparse_1 is missing"):
        load_tables(read_bundle(tmp_path))


@pytest.mark.parametrize("kept", [0, 7, 8, 100, 4103, 4104, 4200, -1])
def test_a_file_that_was_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    write_model(tmp_path)
    path = tmp_path / "tables.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(BundleError, match=str(path)):
        load_tables(read_bundle(tmp_path))


def test_damaged_headers_never_do_worse_than_a_bundle_error(tmp_path: Path) -> None:
    write_model(tmp_path)
    path = tmp_path / "dense.safetensors"
    whole = path.read_bytes()
    text = whole[8 : 8 + 1000]
    rng = np.random.default_rng(11)
    refused = 0
    for _ in range(400):
        damaged = bytearray(text)
        for at in rng.integers(0, len(damaged), int(rng.integers(1, 4))):
            damaged[at] = rng.integers(0, 256) if rng.random() < 0.5 else rng.choice(list(b'0123456789[]{},:"-.e'))
        path.write_bytes(whole[:8] + bytes(damaged) + whole[1008:])
        try:
            tensors = read_tensors(path)
        except BundleError:
            refused += 1
        else:
            assert all(tensor.dtype == np.float32 for tensor in tensors.values())
    assert 0 < refused <= 400
