"""The ids of several requests as those of one batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlrm_py.bundle import ModelSpec
from dlrm_py.embedding import Ids
from dlrm_py.request import DecodedRequest


def join_ids(spec: ModelSpec, requests: Sequence[DecodedRequest]) -> Ids:
    """Feature-major ids of all examples of ``requests``, in order. int32 if all are int32, otherwise int64."""
    if len(requests) == 1:
        return requests[0].ids
    size = requests[0].batch
    dtype = requests[0].ids.dtype
    if all(request.batch == size and request.ids.dtype == dtype for request in requests):
        return _join_equal(spec, requests, size, dtype)
    parts = []
    for feature, start in zip(spec.features, _starts(spec), strict=True):
        for batch, _dense, ids in requests:
            parts.append(ids[start * batch : (start + feature.hot_size) * batch])
    return np.concatenate(parts)


def _join_equal(spec: ModelSpec, requests: Sequence[DecodedRequest], size: int, dtype: np.dtype) -> Ids:
    """Requests of one size and type: one copy a feature, whatever their number."""
    count = len(requests)
    # (requests, ids of a request)
    stacked = np.concatenate([request.ids for request in requests]).reshape(count, -1)
    joined = np.empty(stacked.size, dtype)
    for feature, start in zip(spec.features, _starts(spec), strict=True):
        first, last = start * size, (start + feature.hot_size) * size
        joined[first * count : last * count].reshape(count, last - first)[...] = stacked[:, first:last]
    return joined


def _starts(spec: ModelSpec) -> list[int]:
    """Ids of an example that stand before those of each feature."""
    starts = [0]
    for feature in spec.features[:-1]:
        starts.append(starts[-1] + feature.hot_size)
    return starts
