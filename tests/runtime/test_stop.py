"""The notice that a replica is to stop."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from gangline.runtime.stop import StopNotice

SIGNAL = signal.SIGUSR1


@pytest.fixture(autouse=True)
def _signal_is_put_back() -> Iterator[None]:
    before = signal.getsignal(SIGNAL)
    yield
    signal.signal(SIGNAL, before)


def test_the_signal_sets_the_notice() -> None:
    notice = StopNotice(SIGNAL)
    assert not notice.stopping()

    os.kill(os.getpid(), SIGNAL)

    assert notice.stopping()


def test_callbacks_are_called_once_however_often_the_signal_comes() -> None:
    notice = StopNotice(SIGNAL)
    calls: list[str] = []
    notice.on_stop(lambda: calls.append("stop"))

    os.kill(os.getpid(), SIGNAL)
    os.kill(os.getpid(), SIGNAL)

    assert calls == ["stop"]


def test_a_callback_that_comes_late_is_called_at_once() -> None:
    notice = StopNotice(SIGNAL)
    notice.stopping()
    os.kill(os.getpid(), SIGNAL)
    calls: list[str] = []

    notice.on_stop(lambda: calls.append("stop"))

    assert calls == ["stop"]


def test_the_previous_handler_is_called_too() -> None:
    calls: list[int] = []

    def previous(number: int, _: FrameType | None) -> None:
        calls.append(number)

    signal.signal(SIGNAL, previous)
    notice = StopNotice(SIGNAL)
    notice.stopping()

    os.kill(os.getpid(), SIGNAL)

    assert calls == [SIGNAL]


def test_other_threads_may_ask_but_leave_the_handler_alone() -> None:
    notice = StopNotice(SIGNAL)
    before = signal.getsignal(SIGNAL)
    answers: list[bool] = []

    thread = threading.Thread(target=lambda: answers.append(notice.stopping()))
    thread.start()
    thread.join()

    assert answers == [False]
    assert signal.getsignal(SIGNAL) == before


def test_forked_workers_can_still_be_ended_by_the_signal_and_call_nobody_back() -> None:
    program = """
import multiprocessing, signal, sys
from gangline import runtime

forking = multiprocessing.get_context("fork")
started = forking.Event()

def work():
    started.set()
    signal.pause()
    sys.exit(7)

runtime.on_stop(lambda: print("called back", flush=True))
worker = forking.Process(target=work)
worker.start()
started.wait()
worker.terminate()
worker.join()
print(worker.exitcode)
"""
    assert output_of(program) == f"{-signal.SIGTERM}\n"


def test_a_forked_worker_that_asks_has_a_notice_of_its_own() -> None:
    program = """
import multiprocessing, os, signal
from gangline import runtime

def work():
    runtime.stopping()
    os.kill(os.getpid(), signal.SIGTERM)
    print("worker", runtime.stopping(), flush=True)

runtime.stopping()
worker = multiprocessing.get_context("fork").Process(target=work)
worker.start()
worker.join()
print("program", runtime.stopping())
"""
    assert output_of(program) == "worker True\nprogram False\n"


def output_of(program: str) -> str:
    """Run a program of its own: a test process has threads, which do not survive forking."""
    return subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True
    ).stdout
