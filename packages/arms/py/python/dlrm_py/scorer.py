"""What answers decoded requests: each by itself, or in batches."""

from __future__ import annotations

from dlrm_py.batch_scoring import new_worker
from dlrm_py.batcher import Batcher
from dlrm_py.embedding import EmbeddingTables
from dlrm_py.lane import Lanes
from dlrm_py.options import ServerOptions
from dlrm_py.predictor import Predictor
from dlrm_py.request import Limits, RequestDecoder
from dlrm_py.service import Scorer


def make_scorer(
    options: ServerOptions, limits: Limits, tables: EmbeddingTables, lanes: Lanes, decoder: RequestDecoder
) -> Scorer:
    """The scorer of one process. It opens at most ``num_lanes(options)`` lanes."""
    if options.window_seconds is None:
        return Predictor(tables, lanes, decoder)
    return Batcher(
        lambda: new_worker(tables, lanes, decoder),
        window_seconds=options.window_seconds,
        max_examples=limits.max_batch_size,
        look_ups=options.look_ups,
    )


def num_lanes(options: ServerOptions) -> int:
    """Threads of a process that score: those that handle requests, or the workers of the batcher."""
    return options.num_threads if options.window_seconds is None else options.look_ups + 1
