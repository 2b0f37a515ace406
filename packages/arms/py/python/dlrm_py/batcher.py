"""A dynamic batcher: requests that arrive within a short window run as one batch."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import grpc
import numpy as np
import numpy.typing as npt

from dlrm_py.request import DecodedRequest, RequestError

#: Runs a batch in two steps, so that the next batch can be looked up while this one is on the device.
#: ``look_up(requests)`` checks and looks up, and returns what is left to do: a function that runs the batch on the device
#: and returns, for each request, its scores (batch,) or what is wrong with it.
Outcome = npt.NDArray[np.float32] | RequestError
LookUp = Callable[[Sequence[DecodedRequest]], Callable[[], Sequence[Outcome]]]


class _Pending:
    __slots__ = ("done", "outcome", "request")

    def __init__(self, request: DecodedRequest, done: threading.Lock) -> None:
        self.request = request
        self.done = done
        self.outcome: Outcome | None = None


class Batcher:
    """Joins requests of many threads; each waits for its own scores.

    A batch closes when ``window_seconds`` have passed since its oldest request, or when it has ``max_examples``; if every
    worker is busy then, it goes on growing until one is free. ``look_ups`` batches at a time are being looked up, and one
    more can be on the device: as many workers as both together. A request larger than ``max_examples`` is a batch of its
    own.
    """

    def __init__(
        self, new_worker: Callable[[], LookUp], *, window_seconds: float, max_examples: int, look_ups: int
    ) -> None:
        self._window_seconds = window_seconds
        self._max_examples = max_examples
        self._waiting: deque[_Pending] = deque()
        self._examples = 0
        self._oldest = 0.0
        self._changed = threading.Condition(threading.Lock())
        self._look_ups = threading.Semaphore(look_ups)
        self._local = threading.local()
        for index in range(look_ups + 1):
            threading.Thread(target=self._work, args=(new_worker(),), name=f"batch-{index}", daemon=True).start()

    def score(self, request: DecodedRequest) -> npt.NDArray[np.float32]:
        """Scores (batch,); raises RequestError. Blocks, GIL released."""
        done = getattr(self._local, "done", None)
        if done is None:
            done = self._local.done = threading.Lock()
            done.acquire()
        pending = _Pending(request, done)
        with self._changed:
            if not self._waiting:
                self._oldest = time.monotonic()
            self._waiting.append(pending)
            before = self._examples
            self._examples = before + request.batch
            # Nobody has to be woken by what only makes an open batch larger.
            if before == 0 or before < self._max_examples <= self._examples:
                self._changed.notify()
        done.acquire()
        outcome = pending.outcome
        if isinstance(outcome, RequestError):
            raise outcome
        assert outcome is not None
        return outcome

    def _work(self, look_up: LookUp) -> None:
        while True:
            with self._look_ups:
                batch = self._collect()
                requests = [pending.request for pending in batch]
                try:
                    run = look_up(requests)
                except Exception as error:  # noqa: BLE001
                    run = _failed(len(batch), error)
            try:
                outcomes = run()
            except Exception as error:  # noqa: BLE001
                outcomes = _failed(len(batch), error)()
            for pending, outcome in zip(batch, outcomes, strict=True):
                pending.outcome = outcome
                pending.done.release()

    def _collect(self) -> list[_Pending]:
        """The next batch, once it is closed."""
        with self._changed:
            while True:
                if self._waiting:
                    left = self._oldest + self._window_seconds - time.monotonic()
                    if left <= 0 or self._examples >= self._max_examples:
                        return self._take()
                    self._changed.wait(left)
                else:
                    self._changed.wait()

    def _take(self) -> list[_Pending]:
        waiting = self._waiting
        batch = [waiting.popleft()]
        examples = batch[0].request.batch
        while waiting and examples + waiting[0].request.batch <= self._max_examples:
            pending = waiting.popleft()
            examples += pending.request.batch
            batch.append(pending)
        self._examples -= examples
        if waiting:
            # What did not fit is older than this moment, and waits for no further window.
            self._changed.notify()
        return batch


def _failed(count: int, error: Exception) -> Callable[[], Sequence[Outcome]]:
    outcome = (
        error
        if isinstance(error, RequestError)
        else RequestError(grpc.StatusCode.INTERNAL, f"the batch failed: {type(error).__name__}: {error}")
    )
    return lambda: [outcome] * count
