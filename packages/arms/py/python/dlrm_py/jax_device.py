"""The dense network of DLRM-DCNv2 in JAX, compiled for every batch size it will see."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dlrm_py.bundle import Bundle, BundleError, DenseNetworkSpec, ModelSpec, read_tensors
from dlrm_py.memory import aligned_zeros


def weight_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the dense network's weights, in the bundle's words."""
    network = spec.dense_network
    shapes: dict[str, tuple[int, ...]] = {}

    def mlp(name: str, width: int, layers: tuple[int, ...]) -> None:
        for index, out in enumerate(layers):
            shapes[f"{name}.{index}.weight"] = (width, out)
            shapes[f"{name}.{index}.bias"] = (out,)
            width = out

    width = spec.embedding_dim + spec.pooled_width
    mlp("bottom_mlp", spec.dense_features, network.bottom_mlp)
    for index in range(network.cross_layers):
        shapes[f"cross.{index}.v"] = (width, network.cross_projection)
        shapes[f"cross.{index}.u"] = (network.cross_projection, width)
        shapes[f"cross.{index}.bias"] = (width,)
    mlp("top_mlp", width, network.top_mlp)
    return shapes


def read_weights(bundle: Bundle) -> dict[str, npt.NDArray[np.float32]]:
    """The dense network's weights, with their shapes checked; raises BundleError."""
    shapes = weight_shapes(bundle.spec)
    weights = read_tensors(bundle.dense_path, shapes)
    for name, shape in shapes.items():
        if weights[name].shape != shape:
            raise BundleError(
                f"{bundle.dense_path}: tensor {name}: {list(shape)} expected, got {list(weights[name].shape)}"
            )
    return weights


def prepare_weights(weights: dict[str, npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[np.float32]]:
    """Weights as ``dense_network`` takes them: matrices transposed, [out, in].

    XLA on the CPU multiplies a small batch by such a matrix up to three times as fast as by one stored [in, out], which
    it packs anew at every call; at one example, and on other devices, it makes no difference.
    """
    return {
        name: np.ascontiguousarray(weight.T) if weight.ndim == 2 else weight for name, weight in weights.items()
    }


def dense_network(network: DenseNetworkSpec, weights: dict[str, Any], dense: Any, pooled: Any) -> Any:
    """Scores (batch,) of ``dense`` (batch, dense features) and ``pooled`` (batch, features, embedding_dim).

    ``weights`` are those of ``prepare_weights``.
    """
    import jax
    import jax.numpy as jnp

    def multiply(x: Any, name: str) -> Any:
        return jax.lax.dot_general(x, weights[name], (((1,), (1,)), ((), ())))

    def linear(x: Any, name: str) -> Any:
        return multiply(x, f"{name}.weight") + weights[f"{name}.bias"]

    z = dense
    for index in range(len(network.bottom_mlp)):
        z = jax.nn.relu(linear(z, f"bottom_mlp.{index}"))
    x0 = jnp.concatenate((z, pooled.reshape(pooled.shape[0], -1)), axis=1)
    x = x0
    for index in range(network.cross_layers):
        projected = multiply(multiply(x, f"cross.{index}.v"), f"cross.{index}.u")
        x = x0 * (projected + weights[f"cross.{index}.bias"]) + x
    last = len(network.top_mlp) - 1
    for index in range(last + 1):
        x = linear(x, f"top_mlp.{index}")
        if index < last:
            x = jax.nn.relu(x)
    return jax.nn.sigmoid(x[:, 0])


def configure_jax(platform: str, device_threads: int, compilation_cache_dir: str | None) -> Any:
    """Imports JAX for one platform; raises RuntimeError if it has no such device. Must come before any import of JAX.

    ``device_threads`` limits XLA's own threads on the CPU; 0: as many as CPUs that this process may use.
    """
    os.environ["JAX_PLATFORMS"] = platform
    # The size of XLA's thread pool on the CPU, and no more of them than CPUs that this process may use.
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ["NPROC"] = str(min(device_threads or cpus, cpus))
    import jax

    # On the CPU the network runs in the thread that asks for it: handing it to another costs as much as the whole
    # of a small network (133 µs of CPU against 67 for dcnv2-lite and one example).
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    if platform != "cpu":
        # TPUs and GPUs would otherwise round the inputs of products to fewer bits than the model's float32.
        jax.config.update("jax_default_matmul_precision", "highest")
    if compilation_cache_dir is not None:
        jax.config.update("jax_compilation_cache_dir", compilation_cache_dir)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return jax


class JaxDevice:
    """The dense network on one JAX device. Makes its process's JAX one of the platform's."""

    def __init__(
        self,
        platform: str,
        bundle: Bundle,
        buckets: tuple[int, ...],
        *,
        device_threads: int,
        compilation_cache_dir: str | None = None,
    ) -> None:
        self._jax = configure_jax(platform, device_threads, compilation_cache_dir)
        self._spec = bundle.spec
        self.buckets = buckets
        self._device = self._jax.devices()[0]
        self.name = f"JAX {self._jax.__version__}, {self._device.platform} ({self._device.device_kind})"
        weights = self._jax.device_put(prepare_weights(read_weights(bundle)), self._device)
        leaves, tree = self._jax.tree.flatten(weights)
        # A tuple is what jit's dispatch takes apart fastest.
        self._weights = tuple(leaves)

        def scores(leaves: tuple[Any, ...], dense: Any, pooled: Any) -> Any:
            return dense_network(bundle.spec.dense_network, self._jax.tree.unflatten(tree, leaves), dense, pooled)

        self._scores = self._jax.jit(scores)

    def warm_up(self, examples: int, on_progress: Callable[[str], None] = lambda _line: None) -> None:
        """Compiles the network for each bucket up to that of ``examples`` and runs it, so that no request waits for it."""
        last = self.buckets[min(bisect_left(self.buckets, examples), len(self.buckets) - 1)]
        for bucket in self.buckets:
            if bucket > last:
                break
            on_progress(f"compiling the dense network for batches of {bucket} (of 1 to {last})")
            self.run(
                aligned_zeros((bucket, self._spec.dense_features)),
                aligned_zeros((bucket, len(self._spec.features), self._spec.embedding_dim)),
            )

    def run(self, dense: npt.NDArray[np.float32], pooled: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        # Waits for the scores, GIL released, so the inputs (which the CPU device reads in place) are free afterwards.
        return np.asarray(self._scores(self._weights, dense, pooled))
