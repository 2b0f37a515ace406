"""The threads that handle requests, and which of the requests came too late."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_thread = threading.local()


def came_while_draining() -> bool:
    """Whether the request that this thread handles arrived after ``HandlerPool.begin_drain``."""
    return getattr(_thread, "late", False)


class HandlerPool(ThreadPoolExecutor):
    """A thread pool for ``grpc.server`` that can tell requests that were in from those that came later.

    gRPC's own shutdown answers the later ones with CANCELLED, as if the client had given up. Here they are handled, in
    a thread of their own and so without waiting for the earlier ones, and can be refused with a code that says "ask
    another server".
    """

    def __init__(self, num_threads: int) -> None:
        super().__init__(num_threads, thread_name_prefix="handler")
        self._count_lock = threading.Lock()
        self._unfinished = 0
        self._idle = threading.Event()
        self._late_pool: ThreadPoolExecutor | None = None

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with self._count_lock:
            late_pool = self._late_pool
            if late_pool is None:
                self._unfinished += 1
        if late_pool is not None:
            return late_pool.submit(_run_late, function, *args, **kwargs)
        return super().submit(self._run, function, *args, **kwargs)

    def begin_drain(self) -> None:
        """Requests that arrive from now on came late. Called once."""
        with self._count_lock:
            self._late_pool = ThreadPoolExecutor(1, thread_name_prefix="late")
            if self._unfinished == 0:
                self._idle.set()

    def wait_idle(self, seconds: float) -> bool:
        """Waits until every earlier request is done; False if some are not after ``seconds``."""
        return self._idle.wait(seconds)

    def _run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        finally:
            with self._count_lock:
                self._unfinished -= 1
                if self._unfinished == 0 and self._late_pool is not None:
                    self._idle.set()


def _run_late(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    _thread.late = True
    function(*args, **kwargs)
