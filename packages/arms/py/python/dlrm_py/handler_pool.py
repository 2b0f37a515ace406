"""The threads that handle requests, and which of the requests came too late."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
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

    It has the interface of its base and nothing of what makes that slow: futures that can be waited for and cancelled,
    and threads that are started when they are needed.
    """

    def __init__(self, num_threads: int) -> None:
        super().__init__(1)  # Starts no thread before it is given work, and is given none.
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._drain_lock = threading.Lock()
        self._late_pool: ThreadPoolExecutor | None = None
        self._handlers = [
            threading.Thread(target=self._handle, name=f"handler_{index}", daemon=True) for index in range(num_threads)
        ]
        for thread in self._handlers:
            thread.start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        with self._drain_lock:
            if self._late_pool is None:
                call = _Call(function, args, kwargs)
                self._calls.put(call)
                return call
        return self._late_pool.submit(_run_late, function, *args, **kwargs)

    def begin_drain(self) -> None:
        """Requests that arrive from now on came late. Called once."""
        with self._drain_lock:
            self._late_pool = ThreadPoolExecutor(1, thread_name_prefix="late")
            # After all that came earlier, since the queue keeps its order.
            for _ in self._handlers:
                self._calls.put(None)

    def wait_idle(self, seconds: float) -> bool:
        """After ``begin_drain``: waits until every earlier request is done; False if some are not after ``seconds``."""
        deadline = time.monotonic() + seconds
        for thread in self._handlers:
            thread.join(max(deadline - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in self._handlers)

    def _handle(self) -> None:
        get = self._calls.get
        while True:
            call = get()
            if call is None:
                return
            try:
                call.run()
            except Exception:  # noqa: BLE001
                # gRPC reports what goes wrong in handlers: this is what it did not expect itself.
                traceback.print_exc()
            # The request's memory is not kept until the next one comes.
            del call


class _Call:
    """A call in the pool, and as much of a future as ``grpc.server`` asks for."""

    __slots__ = ("_args", "_callback", "_done", "_function", "_kwargs", "_uncalled")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._callback: Callable[[Any], Any] | None = None
        self._done = False
        # Emptied by whoever calls the callback: both threads may come to do it at the same moment.
        self._uncalled = [True]

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        """Called once."""
        self._callback = callback
        if self._done:
            self._call_back()

    def run(self) -> None:
        try:
            self._function(*self._args, **self._kwargs)
        finally:
            self._done = True
            if self._callback is not None:
                self._call_back()

    def _call_back(self) -> None:
        try:
            self._uncalled.pop()
        except IndexError:
            return
        assert self._callback is not None
        self._callback(self)


def _run_late(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    _thread.late = True
    function(*args, **kwargs)
