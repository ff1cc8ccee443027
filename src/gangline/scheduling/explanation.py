"""Why a gang waits: a value with facts, and sentences made from it for people.

Made by the cycle as a by-product of its decision; jobs that ask for the same share one. Never parsed: whoever needs
a fact reads the field.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gangline.model import JobId, QueueName, Timestamp


class Constraint(StrEnum):
    """The one thing that holds a gang back first."""

    UNKNOWN_QUEUE = "unknown-queue"
    NOT_A_LEAF = "not-a-leaf"
    CLOSED_QUEUE = "closed-queue"
    """The queue, or one above it, is for other tenants."""
    BACKING_OFF = "backing-off"
    QUEUE_LIMIT = "queue-limit"
    QUEUE_SHARE = "queue-share"
    NODES = "nodes"
    """No node may be used at all, whatever is free."""
    TOO_LARGE = "too-large"
    """It would not fit if everything else stopped."""
    RESOURCES = "resources"
    TOPOLOGY = "topology"
    NEIGHBOURS = "neighbours"
    """It fits, but not beside those it wants to be near, or only beside those it keeps away from."""
    RESERVATION = "reservation"
    """It fits, but would delay the gang that is first in line."""
    MAKING_ROOM = "making-room"
    """Others are being stopped for it."""
    TERMINATING = "terminating"
    """Others have ended, and their nodes have not released yet what they held."""
    DEFECT = "defect"
    """The scheduler fails on it, so it is left out of its decisions."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """How many nodes one rule excludes, counted on its own: a node may fail several rules."""

    rule: str
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that is known about why a gang waits.

    ``role`` is the one that did not fit; ``wanted`` of its replicas must fit and ``possible`` do. ``missing`` has
    the amounts that are short in total (empty when the total is there but scattered). ``holders`` occupy what it
    could use, those that end first first.
    """

    constraint: Constraint
    queue: QueueName | None = None
    nearest: QueueName | None = None
    nodes: int = 0
    excluded: tuple[Excluded, ...] = ()
    role: str | None = None
    wanted: int = 0
    possible: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    level: str | None = None
    holders: tuple[JobId, ...] = ()
    behind: JobId | None = None
    helps: tuple[str, ...] = ()
    predicted_start: Timestamp | None = None

    def naming(self, names: Mapping[JobId, str]) -> "Explanation":
        """The same with other jobs called by name where a name is given: for sentences, not to be kept."""
        holders = tuple(JobId(names.get(holder, holder)) for holder in self.holders)
        behind = None if self.behind is None else JobId(names.get(self.behind, self.behind))
        return replace(self, holders=holders, behind=behind)

    def sentences(self) -> tuple[str, ...]:
        """The same for a person, most important first."""
        lines = [_REASONS[self.constraint](self)]
        lines += [f"{excluded.nodes} of {self.nodes} nodes: {excluded.rule}." for excluded in self.excluded]
        if self.missing:
            lines.append(f"Missing: {', '.join(amount_text(*item) for item in self.missing.items())}.")
        if self.holders:
            lines.append(f"Held by: {', '.join(self.holders)}.")
        lines += self.helps
        return tuple(lines)


def amount_text(name: str, amount: int) -> str:
    """An amount as a person writes it."""
    if name.startswith("gpu_millis"):
        kind = name.removeprefix("gpu_millis").removeprefix(".")
        return f"{amount / 1000:g} {kind} GPU".replace("  ", " ")
    if name == "cpu_millis":
        return f"{amount / 1000:g} CPU"
    if name == "memory_mib":
        return f"{amount} MiB memory"
    return f"{amount} {name}"


def _fits(why: Explanation) -> str:
    return f"{why.possible} of the {why.wanted} '{why.role}' replicas that it needs fit now"


_REASONS: Mapping[Constraint, Callable[[Explanation], str]] = {
    Constraint.UNKNOWN_QUEUE: lambda why: (
        f"There is no queue '{why.queue}'." + (f" Did you mean '{why.nearest}'?" if why.nearest else "")
    ),
    Constraint.NOT_A_LEAF: lambda why: (
        f"Queue '{why.queue}' has queues below it and takes no jobs itself; use for example '{why.nearest}'."
    ),
    Constraint.CLOSED_QUEUE: lambda why: f"Queue '{why.queue}' is not for this tenant; use one that admits it.",
    Constraint.BACKING_OFF: lambda why: "It failed and waits before its next attempt.",
    Constraint.QUEUE_LIMIT: lambda why: f"Queue '{why.queue}' is at its limit.",
    Constraint.QUEUE_SHARE: lambda why: f"Queue '{why.queue}' may not borrow and has used its own share.",
    Constraint.NODES: lambda why: f"No node may run its '{why.role}' replicas.",
    Constraint.TOO_LARGE: lambda why: (
        f"It would not fit even if everything else stopped: {why.possible} of {why.wanted} '{why.role}' replicas would."
    ),
    Constraint.RESOURCES: lambda why: f"Not enough is free: {_fits(why)}.",
    Constraint.TOPOLOGY: lambda why: f"No single {why.level} has room for all of it: {_fits(why)} in the best one.",
    Constraint.NEIGHBOURS: lambda why: "No node with room for it has the company that it wants, and no other.",
    Constraint.RESERVATION: lambda why: f"It would delay '{why.behind}', which is first in line.",
    Constraint.MAKING_ROOM: lambda why: "Others are being stopped to make room for it.",
    Constraint.TERMINATING: lambda why: "It waits for its nodes to release what others held there.",
    Constraint.DEFECT: lambda why: (
        "The scheduler fails on it, which is a defect of Gangline; the service's log has the details. "
        "It is looked at again when it is changed."
    ),
}
