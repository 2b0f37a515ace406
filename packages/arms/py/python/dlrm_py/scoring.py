"""Lookup, padding and device for one batch, in one thread."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from dlrm_py.embedding import EmbeddingTables, Gatherer, Ids
from dlrm_py.lane import Lane


class ScoringThread:
    """What one thread scores with: a gatherer that writes into the buffers of its lane to the device."""

    def __init__(self, tables: EmbeddingTables, lane: Lane) -> None:
        self._lane = lane
        self._buckets = lane.buckets
        self._dense = lane.reserve(0)[0]
        self.gatherer = Gatherer(tables, self._reserve)
        #: Most examples of one ``look_up``.
        self.largest = lane.buckets[-1]

    def look_up(self, batch: int, dense: npt.NDArray[np.float32], ids: Ids) -> None:
        """Fills the lane's buffers: ``dense`` (batch, dense features), and the pooled rows of ``ids``, which are
        feature-major and inside their tables."""
        self.gatherer.reserve(self._bucket(batch))
        self.gatherer.gather(ids, batch)
        self._dense[:batch] = dense

    def run(self, batch: int) -> npt.NDArray[np.float32]:
        """Scores (batch,) of what was looked up last."""
        # Rows beyond the batch are what an earlier one left there: any finite numbers will do.
        return self._lane.run(batch, self._bucket(batch))

    def _bucket(self, batch: int) -> int:
        return self._buckets[bisect_left(self._buckets, batch)]

    def _reserve(self, rows: int) -> npt.NDArray[np.float32]:
        self._dense, pooled = self._lane.reserve(self._bucket(rows))
        return pooled
