from __future__ import annotations

import threading

import pytest

from dlrm_py.handler_pool import HandlerPool, came_while_draining


def test_calls_that_were_in_are_done_in_order_and_later_ones_are_known_as_late() -> None:
    pool = HandlerPool(1)
    may_go_on = threading.Event()
    seen: list[tuple[str, bool]] = []

    def call(name: str) -> None:
        if name == "held":
            may_go_on.wait()
        seen.append((name, came_while_draining()))

    pool.submit(call, "held")
    pool.submit(call, name="second")
    pool.begin_drain()
    pool.submit(call, "late").result()
    assert seen == [("late", True)]
    assert not pool.wait_idle(0)
    may_go_on.set()
    assert pool.wait_idle(60)
    assert seen == [("late", True), ("held", False), ("second", False)]


def test_a_callback_is_called_once_whether_it_comes_before_the_end_of_the_call_or_after() -> None:
    pool = HandlerPool(2)
    for turn in range(500):
        called = threading.Semaphore(0)
        count: list[int] = []
        gate = threading.Event()
        call = pool.submit(gate.wait if turn % 2 else int)
        call.add_done_callback(lambda _call: (count.append(1), called.release()))
        gate.set()
        called.acquire()
        assert count == [1]
    pool.begin_drain()
    assert pool.wait_idle(60)


def test_a_call_that_fails_is_reported_and_costs_no_thread(capfd: pytest.CaptureFixture[str]) -> None:
    pool = HandlerPool(1)

    def fail() -> None:
        raise ValueError("no")

    failed = threading.Event()
    pool.submit(fail).add_done_callback(lambda _call: failed.set())
    done = threading.Event()
    pool.submit(done.set)
    assert failed.wait(60)
    assert done.wait(60)
    pool.begin_drain()
    assert pool.wait_idle(60)
    assert "ValueError: no" in capfd.readouterr().err
