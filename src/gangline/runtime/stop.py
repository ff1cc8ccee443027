"""The stop notice: the engine sends SIGTERM, and kills when the grace period is over.

A training loop asks `stopping()` once per step and leaves when it is true. The signal handler is installed at the
first call, so that a program that never asks keeps the system's default: to die at once. So does a forked process,
until it asks for itself: whoever ends its workers by a signal must not wait for them in vain.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType


class StopNotice:
    """Remembers that the stop signal came, and tells those who asked to be told."""

    def __init__(self, signal_number: int = signal.SIGTERM) -> None:
        self._signal = signal_number
        self._installed = False
        self._received = False
        self._callbacks: list[Callable[[], None]] = []
        self._previous: Callable[[int, FrameType | None], object] | int | None = None
        if hasattr(os, "register_at_fork"):  # nothing forks on Windows
            os.register_at_fork(after_in_child=self._uninstall)

    def stopping(self) -> bool:
        """Whether the stop notice has come."""
        self._install()
        return self._received

    def received(self) -> bool:
        """Whether the notice has come to a program that asked for it; unlike `stopping`, leaves the signal alone."""
        return self._received

    def on_stop(self, callback: Callable[[], None]) -> None:
        """Have `callback` called in the main thread when the notice comes; at once if it already has."""
        self._install()
        self._callbacks.append(callback)
        if self._received:
            callback()

    def take_back(self) -> None:
        """Hear of the signal again instead of a handler that a framework has installed since `stopping` was asked."""
        self._install()
        if self._installed and threading.current_thread() is threading.main_thread():
            signal.signal(self._signal, self._receive)

    def _install(self) -> None:
        # Python lets only the main thread install a handler; other threads read what it saw.
        if self._installed or threading.current_thread() is not threading.main_thread():
            return
        self._previous = signal.signal(self._signal, self._receive)
        self._installed = True

    def _uninstall(self) -> None:
        if self._installed:
            signal.signal(self._signal, signal.SIG_DFL if self._previous is None else self._previous)
            self._installed = False
        self._callbacks.clear()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        first, self._received = not self._received, True
        if first:
            for callback in self._callbacks:
                callback()
        if callable(self._previous):
            self._previous(number, frame)


_notice = StopNotice()
stopping = _notice.stopping
received = _notice.received
on_stop = _notice.on_stop
take_back = _notice.take_back
