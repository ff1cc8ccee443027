"""Threads that are there from the start, and do what was asked for before they end."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from threading import Event, current_thread

import pytest

from gangline.storage.sql.thread_pool import ThreadPool


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    made = ThreadPool(1, "worker")
    yield made
    made.shutdown()


def test_a_result_and_an_error_reach_whoever_asked(pool: ThreadPool) -> None:
    assert pool.submit(lambda: current_thread().name).result(10) == "worker-0"
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(10)
    assert pool.submit(divmod, 7, 2).result(10) == (3, 1)


def test_what_was_cancelled_before_its_turn_is_not_done(pool: ThreadPool) -> None:
    gate, done = Event(), Event()
    blocking = pool.submit(gate.wait)
    cancelled, after = pool.submit(done.set), pool.submit(done.is_set)
    assert cancelled.cancel()
    gate.set()
    assert blocking.result(10)
    assert after.result(10) is False
    with pytest.raises(CancelledError):
        cancelled.result()


def test_what_was_asked_for_before_the_end_is_done_and_nothing_after_it(pool: ThreadPool) -> None:
    gate = Event()
    first, second = pool.submit(gate.wait), pool.submit(lambda: "done")
    pool.shutdown(wait=False)
    with pytest.raises(RuntimeError, match="told to end"):
        pool.submit(gate.wait)
    gate.set()
    assert (first.result(10), second.result(10)) == (True, "done")
