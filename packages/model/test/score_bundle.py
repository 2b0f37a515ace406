"""Scores a bundle with nothing but public Python libraries.

Reads a JSON list of {"dir", "batch", "dense", "ids"} from standard input, and writes a list of the scores of each way to
run the dense network to standard output. Tables are read and pooled with safetensors and NumPy.
"""

import json
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors import safe_open
from safetensors.numpy import load_file


def pool(bundle, spec, batch, ids):
    pooled = np.empty((batch, len(spec["features"]), spec["embeddingDim"]), np.float32)
    with safe_open(f"{bundle}/tables.safetensors", framework="np") as tables:
        names = [name for name in tables.keys() if not name.startswith("__padding_")]
        assert sorted(names) == sorted(feature["name"] for feature in spec["features"]), names
        for index, feature in enumerate(spec["features"]):
            table = tables.get_tensor(feature["name"])
            assert table.dtype == np.float32
            assert table.shape == (feature["vocabularySize"], spec["embeddingDim"])
            rows = table[np.array(ids[index]).reshape(batch, feature["hotSize"])]
            pooled[:, index] = rows.sum(axis=1)
    return pooled


def score_onnx(bundle, dense, pooled):
    onnx.checker.check_model(f"{bundle}/dense.onnx", full_check=True)
    session = onnxruntime.InferenceSession(f"{bundle}/dense.onnx", providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"dense": dense, "pooled": pooled})[0]


def score_stablehlo(bundle, buckets, dense, pooled):
    """One result a bucket that holds the batch: its module compiled, run on the padded batch, and cut."""
    import jax

    device = jax.devices("cpu")[0]
    weights = load_file(f"{bundle}/dense.safetensors")
    with open(f"{bundle}/dense.stablehlo.mlir") as file:
        text = file.read()
    names = next(line for line in text.splitlines() if line.startswith("// arguments: ")).split()[2:]
    modules = text.split("// -----\n")
    assert len(modules) == len(buckets), (len(modules), buckets)
    results = {}
    for bucket, module_text in zip(buckets, modules):
        assert f"module @dense_b{bucket} " in module_text
        if bucket < len(dense):
            continue
        padding = bucket - len(dense)
        values = {
            "dense": np.pad(dense, ((0, padding), (0, 0))),
            "pooled": np.pad(pooled, ((0, padding), (0, 0), (0, 0))),
        }
        program = device.client.compile_and_load(module_text, [device])
        arguments = [jax.device_put(values[name] if name in values else weights[name], device) for name in names]
        results[str(bucket)] = np.asarray(program.execute(arguments)[0])[: len(dense)].tolist()
    return results


def score(request):
    bundle, batch = request["dir"], request["batch"]
    with open(f"{bundle}/model.json") as file:
        model = json.load(file)
    spec = model["spec"]
    dense = np.array(request["dense"], np.float32).reshape(batch, spec["denseFeatures"])
    pooled = pool(bundle, spec, batch, request["ids"])
    weights = load_file(f"{bundle}/dense.safetensors")
    logits = dense @ weights["simulated.w"] + pooled.reshape(batch, -1) @ weights["simulated.v"]
    return {
        "simulated": (1 / (1 + np.exp(-logits))).tolist(),
        "onnx": score_onnx(bundle, dense, pooled).tolist(),
        "stablehlo": score_stablehlo(bundle, model["buckets"], dense, pooled),
    }


json.dump([score(request) for request in json.load(sys.stdin)], sys.stdout)
