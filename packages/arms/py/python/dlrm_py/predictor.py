"""Scores each request by itself."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from dlrm_py.embedding import EmbeddingTables, IdLayout, Ids
from dlrm_py.lane import Lanes
from dlrm_py.request import DecodedRequest, RequestDecoder
from dlrm_py.scoring import ScoringThread


class Predictor:
    """Safe to call from several threads: each has buffers of its own, kept from call to call."""

    def __init__(self, tables: EmbeddingTables, lanes: Lanes, decoder: RequestDecoder) -> None:
        self._tables = tables
        self._lanes = lanes
        self._decoder = decoder
        self._local = threading.local()

    def score(self, request: DecodedRequest) -> npt.NDArray[np.float32]:
        """Scores (batch,); raises RequestError if an id is out of its vocabulary.

        A request larger than the device's largest batch is run in pieces.
        """
        thread = getattr(self._local, "scoring", None)
        if thread is None:
            thread = self._local.scoring = ScoringThread(self._tables, self._lanes.open())
        return score_request(thread, self._tables, self._decoder, request)


def score_request(
    thread: ScoringThread, tables: EmbeddingTables, decoder: RequestDecoder, request: DecodedRequest
) -> npt.NDArray[np.float32]:
    """Scores (batch,) of one request, in pieces if it is larger than the device's largest batch; raises RequestError."""
    batch, dense, ids = request
    largest = thread.largest
    layout = thread.gatherer.layout(batch) if batch <= largest else IdLayout(tables, batch)
    outside = layout.first_outside(ids)
    if outside is not None:
        raise decoder.out_of_vocabulary_error(request, outside)
    if batch <= largest:
        thread.look_up(batch, dense, ids)
        return thread.run(batch)
    pieces = []
    for first in range(0, batch, largest):
        end = min(first + largest, batch)
        thread.look_up(end - first, dense[first:end], _ids_of(tables, request, first, end))
        pieces.append(thread.run(end - first).copy())
    return np.concatenate(pieces)


def _ids_of(tables: EmbeddingTables, request: DecodedRequest, first: int, end: int) -> Ids:
    """The ids of examples ``first`` to ``end - 1``, feature-major again."""
    parts = []
    offset = 0
    for feature in tables.spec.features:
        hot_size = feature.hot_size
        parts.append(request.ids[offset + first * hot_size : offset + end * hot_size])
        offset += request.batch * hot_size
    return np.concatenate(parts)
