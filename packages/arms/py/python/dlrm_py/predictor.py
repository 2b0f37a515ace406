"""Scores a decoded request: lookup, padding, device."""

from __future__ import annotations

import threading
from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from dlrm_py.device import Device
from dlrm_py.embedding import EmbeddingTables, Gatherer, IdLayout, Ids
from dlrm_py.memory import aligned_zeros
from dlrm_py.request import DecodedRequest, RequestDecoder


class Predictor:
    """Safe to call from several threads: each has buffers of its own, kept from call to call."""

    def __init__(self, tables: EmbeddingTables, device: Device, decoder: RequestDecoder) -> None:
        self._tables = tables
        self._device = device
        self._decoder = decoder
        self._local = threading.local()

    def score(self, request: DecodedRequest) -> npt.NDArray[np.float32]:
        """Scores (batch,); raises RequestError if an id is out of its vocabulary.

        A request larger than the device's largest batch is run in pieces.
        """
        gatherer = getattr(self._local, "gatherer", None)
        if gatherer is None:
            gatherer = self._local.gatherer = Gatherer(self._tables)
        batch, dense, ids = request
        largest = self._device.buckets[-1]
        layout = gatherer.layout(batch) if batch <= largest else IdLayout(self._tables, batch)
        outside = layout.first_outside(ids)
        if outside is not None:
            raise self._decoder.out_of_vocabulary_error(request, outside)
        if batch <= largest:
            return self._run(gatherer, batch, dense, ids)
        pieces = []
        for first in range(0, batch, largest):
            end = min(first + largest, batch)
            pieces.append(self._run(gatherer, end - first, dense[first:end], self._ids_of(request, first, end)))
        return np.concatenate(pieces)

    def _run(
        self, gatherer: Gatherer, batch: int, dense: npt.NDArray[np.float32], ids: Ids
    ) -> npt.NDArray[np.float32]:
        buckets = self._device.buckets
        bucket = buckets[bisect_left(buckets, batch)]
        # Rows beyond the batch are what an earlier request left there: any finite numbers will do.
        pooled = gatherer.reserve(bucket)
        gatherer.gather(ids, batch)
        if batch < bucket:
            padded = aligned_zeros((bucket, dense.shape[1]))
            padded[:batch] = dense
            dense = padded
        return self._device.run(dense, pooled)[:batch]

    def _ids_of(self, request: DecodedRequest, first: int, end: int) -> Ids:
        """The ids of examples ``first`` to ``end - 1``, feature-major again."""
        parts = []
        offset = 0
        for feature in self._tables.spec.features:
            hot_size = feature.hot_size
            parts.append(request.ids[offset + first * hot_size : offset + end * hot_size])
            offset += request.batch * hot_size
        return np.concatenate(parts)
