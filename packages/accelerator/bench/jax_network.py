"""The dense network of DLRM-DCNv2 by jax.jit: prints what it runs on, then microseconds a call for each number of calls that it reads.

Arguments: dense.safetensors, the batch, and a PJRT plugin or nothing for JAX's own CPU client.
"""

import json
import os
import sys
import time

import numpy as np

safetensors, batch, plugin = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if plugin:
    os.environ["JAX_PLATFORMS"] = "measured"
    from jax._src import xla_bridge

    xla_bridge.register_plugin("measured", library_path=plugin, options={"cpu_device_count": 1})
else:
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

with open(safetensors, "rb") as file:
    content = file.read()
header_end = 8 + int.from_bytes(content[:8], "little")
weights = {}
for name, entry in json.loads(content[8:header_end]).items():
    if name.startswith("__"):
        continue
    begin, end = (header_end + offset for offset in entry["data_offsets"])
    weights[name] = jax.device_put(np.frombuffer(content[begin:end], np.float32).reshape(entry["shape"]))


def layers(prefix, part):
    return [weights[f"{prefix}.{i}.{part}"] for i in range(100) if f"{prefix}.{i}.{part}" in weights]


parameters = {
    "bottom": list(zip(layers("bottom_mlp", "weight"), layers("bottom_mlp", "bias"))),
    "cross": list(zip(layers("cross", "v"), layers("cross", "u"), layers("cross", "bias"))),
    "top": list(zip(layers("top_mlp", "weight"), layers("top_mlp", "bias"))),
}


@jax.jit
def network(parameters, dense, pooled):
    z = dense
    for weight, bias in parameters["bottom"]:
        z = jax.nn.relu(z @ weight + bias)
    x0 = jnp.concatenate([z, pooled.reshape(batch, -1)], axis=1)
    x = x0
    for v, u, bias in parameters["cross"]:
        x = x0 * ((x @ v) @ u + bias) + x
    for i, (weight, bias) in enumerate(parameters["top"]):
        x = (jax.nn.relu(x) if i > 0 else x) @ weight + bias
    return jax.nn.sigmoid(x.reshape(batch))


random = np.random.default_rng(1)
dense = random.uniform(-1, 1, (batch, 13)).astype(np.float32)
pooled = random.uniform(-0.5, 0.5, (batch, 26, 128)).astype(np.float32)


def call():
    return np.asarray(network(parameters, dense, pooled))


for _ in range(3):
    call()
device = jax.devices()[0]
print(f"jax.jit {jax.__version__}, {'the same plugin' if plugin else 'its own ' + device.platform}", flush=True)
for line in sys.stdin:
    calls = int(line)
    began = time.perf_counter()
    for _ in range(calls):
        call()
    print((time.perf_counter() - began) * 1e6 / calls, flush=True)
