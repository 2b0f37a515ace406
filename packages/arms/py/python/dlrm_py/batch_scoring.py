"""How a worker of the batcher looks up a batch and runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dlrm_py.batch_ids import join_ids
from dlrm_py.batcher import LookUp, Outcome
from dlrm_py.embedding import EmbeddingTables, IdLayout
from dlrm_py.lane import Lanes
from dlrm_py.predictor import score_request
from dlrm_py.request import DecodedRequest, RequestDecoder, RequestError
from dlrm_py.scoring import ScoringThread


def new_worker(tables: EmbeddingTables, lanes: Lanes, decoder: RequestDecoder) -> LookUp:
    """``look_up`` of one worker thread, with buffers of its own."""
    thread = ScoringThread(tables, lanes.open())

    def look_up(requests: Sequence[DecodedRequest]) -> Callable[[], Sequence[Outcome]]:
        if len(requests) == 1 and requests[0].batch > thread.largest:
            return lambda: [score_request(thread, tables, decoder, requests[0])]
        examples = sum(request.batch for request in requests)
        ids = join_ids(tables.spec, requests)
        if thread.gatherer.layout(examples).first_outside(ids) is not None:
            return _without_bad(requests, _errors(tables, decoder, requests), look_up)
        dense = requests[0].dense if len(requests) == 1 else np.concatenate([request.dense for request in requests])
        thread.look_up(examples, dense, ids)

        def run() -> Sequence[Outcome]:
            # A copy: the lane's memory may be written again while the waiting threads read.
            scores = thread.run(examples).copy()
            outcomes = []
            first = 0
            for request in requests:
                outcomes.append(scores[first : first + request.batch])
                first += request.batch
            return outcomes

        return run

    return look_up


def _errors(
    tables: EmbeddingTables, decoder: RequestDecoder, requests: Sequence[DecodedRequest]
) -> list[RequestError | None]:
    """What is wrong with each request's ids."""
    errors: list[RequestError | None] = []
    for request in requests:
        outside = IdLayout(tables, request.batch).first_outside(request.ids)
        errors.append(None if outside is None else decoder.out_of_vocabulary_error(request, outside))
    return errors


def _without_bad(
    requests: Sequence[DecodedRequest], errors: Sequence[RequestError | None], look_up: LookUp
) -> Callable[[], Sequence[Outcome]]:
    """The good requests as a batch of their own, and for the others their errors."""
    good = [request for request, error in zip(requests, errors, strict=True) if error is None]
    run = look_up(good) if good else list

    def run_all() -> Sequence[Outcome]:
        scores = iter(run())
        return [next(scores) if error is None else error for error in errors]

    return run_all
