"""Time as the core sees it: a number that arrives with an event, never something that is looked up."""

from typing import NewType, Protocol

Timestamp = NewType("Timestamp", float)
"""Seconds since the Unix epoch (or since the start of a simulation)."""


class Clock(Protocol):
    """Where the composition root gets the time from; the core never holds one."""

    def now(self) -> Timestamp:
        """Return the present time."""
        ...
