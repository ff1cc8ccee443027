"""Many small tasks side by side, and tries that are repeated while that helps."""

import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0

_JITTER = random.Random()
"""Of our own: a program's use of the global one must be repeatable whatever transfers do beside it."""


class StoreError(OSError):
    """A store did not do what it was asked, and may do it if it is asked again."""


def run_side_by_side(tasks: Iterable[Callable[[], None]], lanes: int) -> None:
    """Do every task, this many at a time; the first failure ends all and is raised once those under way have ended."""
    turn, waiting, failures = threading.Lock(), iter(tasks), list[BaseException]()

    def work() -> None:
        try:
            while not failures:
                with turn:
                    task = next(waiting, None)
                if task is None:
                    return
                task()
        except BaseException as error:  # noqa: BLE001  # raised again by whoever waits for the lanes
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        failures.append(error)
        raise
    if failures:
        raise failures[0]


def persist(action: Callable[[], T], patience_seconds: float) -> T:
    """Repeat an action that fails with StoreError, with growing pauses, for as long as patience lasts."""
    pause, deadline = _FIRST_PAUSE_SECONDS, time.monotonic() + patience_seconds
    while True:
        try:
            return action()
        except StoreError:
            if time.monotonic() + pause > deadline:
                raise
        # Many that were refused together should not come back together.
        time.sleep(pause * _JITTER.uniform(0.5, 1.0))
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
