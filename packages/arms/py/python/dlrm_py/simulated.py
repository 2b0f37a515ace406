"""A simulated accelerator: known scores after a known time, so that a machine without one shows the host's cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dlrm_py.bundle import Bundle, BundleError, read_tensors

FIXED_SECONDS = 350e-6
SECONDS_PER_EXAMPLE = 4e-6


class SimulatedDevice:
    """Runs one batch at a time and is busy for 350 µs + 4 µs an example of the padded batch.

    The calling thread computes ``sigmoid(w · dense + v · flatten(pooled))``, then sleeps, GIL released, for what is left.
    """

    name = "simulated accelerator"

    def __init__(
        self,
        w: npt.NDArray[np.float32],
        v: npt.NDArray[np.float32],
        buckets: tuple[int, ...],
        *,
        fixed_seconds: float = FIXED_SECONDS,
        seconds_per_example: float = SECONDS_PER_EXAMPLE,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.buckets = buckets
        self._w = w
        self._v = v
        self._fixed_seconds = fixed_seconds
        self._seconds_per_example = seconds_per_example
        self._clock = clock
        self._sleep = sleep
        self._busy = threading.Lock()

    @classmethod
    def from_bundle(cls, bundle: Bundle, buckets: tuple[int, ...]) -> SimulatedDevice:
        tensors = read_tensors(bundle.dense_path, ("simulated.w", "simulated.v"))
        w, v = tensors["simulated.w"], tensors["simulated.v"]
        if w.shape != (bundle.spec.dense_features,) or v.shape != (bundle.spec.pooled_width,):
            raise BundleError(
                f"{bundle.dense_path}: simulated.w [{bundle.spec.dense_features}] and simulated.v "
                f"[{bundle.spec.pooled_width}] expected, got {list(w.shape)} and {list(v.shape)}"
            )
        return cls(w, v, buckets)

    def run(self, dense: npt.NDArray[np.float32], pooled: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        bucket = len(dense)
        with self._busy:
            end = self._clock() + self._fixed_seconds + self._seconds_per_example * bucket
            scores = simulated_scores(self._w, self._v, dense, pooled)
            left = end - self._clock()
            if left > 0:
                self._sleep(left)
        return scores


def simulated_scores(
    w: npt.NDArray[np.float32],
    v: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32],
    pooled: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    """``sigmoid(w · dense + v · flatten(pooled))``, (batch,)."""
    scores = pooled.reshape(len(dense), -1) @ v
    scores += dense @ w
    # 1 / (1 + exp(-x)), in place.
    np.negative(scores, out=scores)
    np.exp(scores, out=scores)
    scores += np.float32(1)
    return np.reciprocal(scores, out=scores)
