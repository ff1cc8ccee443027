"""The state of the service as a forecast needs it, for commands that look ahead."""

from typing import TYPE_CHECKING

from gangline.cli import terminal
from gangline.cli.output import formatting
from gangline.model import Timestamp
from gangline.sdk import Client

if TYPE_CHECKING:
    from gangline.forecast.course import State


def state_of(client: Client) -> "State":
    """Ask the service for everything that bears on who starts when."""
    # The scheduler brings NumPy with it, which most commands do not need.
    from gangline.forecast.course import State

    return State(
        jobs=client.unfinished(),
        nodes=client.nodes(),
        queues=tuple(record.spec for record in client.queues.list()),
        now=terminal.now(),
    )


def moment_text(at: Timestamp | None, now: Timestamp) -> str:
    """Write when something is expected."""
    if at is None:
        return "not in sight"
    return "now" if at - now < 1 else f"in {formatting.duration(at - now)}"
