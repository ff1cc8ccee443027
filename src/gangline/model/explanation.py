"""Why a gang waits: a value with facts, and sentences made from it for people.

Made by the scheduler as a by-product of its decision; jobs that ask for the same share one. Never parsed: whoever needs
a fact reads the field.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gangline.model.clock import Timestamp
from gangline.model.identity import JobId, QueueName
from gangline.model.resources import GPU_MEMORY


class Constraint(StrEnum):
    """The one thing that holds a gang back first."""

    UNKNOWN_QUEUE = "unknown-queue"
    NOT_A_LEAF = "not-a-leaf"
    CLOSED_QUEUE = "closed-queue"
    """The queue, or one above it, is for other tenants."""
    BACKING_OFF = "backing-off"
    QUEUE_LIMIT = "queue-limit"
    QUEUE_SHARE = "queue-share"
    BORROWING_LIMIT = "borrowing-limit"
    """The queue has its guarantee and all that it may borrow."""
    LENDING_LIMIT = "lending-limit"
    """Another queue keeps what is left of its guarantee for itself."""
    NOT_GUARANTEED = "not-guaranteed"
    """It may not be stopped, and its queue takes such jobs only within its guarantee."""
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
class Ahead:
    """A gang that comes before another in line: what it needs at least, and why it comes first."""

    job_id: JobId
    queue: QueueName
    replicas: int
    gpu_millis: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceInLine:
    """Where a gang stands, counted from 1: among all that wait, and in its queue. ``ahead`` has the first of those
    before it, of which there are ``place - 1``."""

    queue: QueueName
    place: int
    waiting: int
    place_in_queue: int
    waiting_in_queue: int
    ahead: tuple[Ahead, ...] = ()

    def words(self) -> tuple[str, ...]:
        """The same for a person."""
        here = f"It is number {self.place_in_queue} of {self.waiting_in_queue} in queue '{self.queue}'"
        all_told = f", number {self.place} of {self.waiting} in all" if self.waiting > self.waiting_in_queue else ""
        lines = [f"{here}{all_told}."]
        for each in self.ahead:
            gpus = f" with {each.gpu_millis / 1000:g} GPU" if each.gpu_millis else ""
            replicas = f"{each.replicas} replica{'s' if each.replicas != 1 else ''}"
            lines.append(f"Ahead of it: {each.job_id} ({replicas}{gpus}), because {each.reason}.")
        more = self.place - 1 - len(self.ahead)
        return (*lines, f"{more} more are ahead of it.") if more else tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything that is known about why a gang waits.

    ``constraint`` is what holds it back first; None means that no scheduling cycle has looked at it yet.
    ``sentences`` say the rest to the one who asked, and call other jobs as that person knows them.
    ``role`` is the one that did not fit; ``wanted`` of its replicas must fit and ``possible`` do. ``missing`` has
    the amounts that are short at least, where it must have them; ``at_most`` what its queue may have, for a gang that
    asks for more than that. ``holders`` occupy what it could use, those that end first first.
    """

    sentences: tuple[str, ...] = ()
    constraint: Constraint | None = None
    queue: QueueName | None = None
    nearest: QueueName | None = None
    nodes: int = 0
    excluded: tuple[Excluded, ...] = ()
    role: str | None = None
    wanted: int = 0
    possible: int = 0
    missing: Mapping[str, int] = field(default_factory=dict)
    at_most: Mapping[str, int] = field(default_factory=dict)
    level: str | None = None
    beside: bool = False
    """Whether it is the role, or a group of it, that must lie in one domain of the level, and not the whole gang."""
    holders: tuple[JobId, ...] = ()
    behind: JobId | None = None
    helps: tuple[str, ...] = ()
    predicted_start_at: Timestamp | None = None
    unreached: bool = False
    """Whether nobody was looked for who could make room for it, because too many others came before."""
    line: PlaceInLine | None = None
    """Where it stands in line; None if it is in no line."""

    @property
    def others(self) -> frozenset[JobId]:
        """Every other job that it speaks of."""
        ahead = () if self.line is None else (each.job_id for each in self.line.ahead)
        return frozenset((*self.holders, *ahead, *(() if self.behind is None else (self.behind,))))

    def naming(self, names: Mapping[JobId, str]) -> "Explanation":
        """The same with other jobs called by name where a name is given: for sentences, not to be kept."""
        holders = tuple(JobId(names.get(holder, holder)) for holder in self.holders)
        behind = None if self.behind is None else JobId(names.get(self.behind, self.behind))
        line = self.line
        if line is not None:
            ahead = (replace(each, job_id=JobId(names.get(each.job_id, each.job_id))) for each in line.ahead)
            line = replace(line, ahead=tuple(ahead))
        return replace(self, holders=holders, behind=behind, line=line)

    def words(self) -> tuple[str, ...]:
        """The same for a person, most important first."""
        lines = [_REASONS[self.constraint](self)] if self.constraint is not None else []
        lines += [f"{excluded.nodes} of {self.nodes} nodes: {excluded.rule}." for excluded in self.excluded]
        if self.missing:
            lines.append(f"Missing: {', '.join(amount_text(*item) for item in self.missing.items())}.")
        if self.holders:
            lines.append(f"Held by: {', '.join(self.holders)}.")
        lines += self.helps
        if self.unreached:
            lines.append("Who could make room for it has not been looked at yet; that is done first in a moment.")
        return (*lines, *(() if self.line is None else self.line.words()))


def amount_text(name: str, amount: int) -> str:
    """An amount as a person writes it."""
    if name.startswith("gpu_millis"):
        kind = name.removeprefix("gpu_millis").removeprefix(".")
        return f"{amount / 1000:g} {kind} GPU".replace("  ", " ")
    if name == "cpu_millis":
        return f"{amount / 1000:g} CPU"
    if name == "memory_mib":
        return f"{amount} MiB memory"
    if name == GPU_MEMORY:
        return f"{amount} MiB GPU memory"
    return f"{amount} {name}"


def _fits(why: Explanation) -> str:
    return f"{why.possible} of the {why.wanted} '{why.role}' replicas that it needs fit now"


def _too_much(why: Explanation) -> str | None:
    if not why.at_most:
        return None
    asked = [
        f"{amount_text(name, amount + why.missing[name])} of at most {amount_text(name, amount)}"
        for name, amount in why.at_most.items()
    ]
    if why.constraint is Constraint.NOT_GUARANTEED:
        return (
            f"It may not be stopped (preemptible: false), and queue '{why.queue}' takes such jobs only within its "
            f"guarantee: {', '.join(asked)}."
        )
    extent = _EXTENTS.get(why.constraint, "at all")
    return f"It asks for more than queue '{why.queue}' may have {extent}: {', '.join(asked)}."


_EXTENTS: Mapping[Constraint | None, str] = {
    Constraint.QUEUE_SHARE: "without borrowing",
    Constraint.BORROWING_LIMIT: "with all that it may borrow",
}


_REASONS: Mapping[Constraint, Callable[[Explanation], str]] = {
    Constraint.UNKNOWN_QUEUE: lambda why: (
        f"There is no queue '{why.queue}'." + (f" Did you mean '{why.nearest}'?" if why.nearest else "")
    ),
    Constraint.NOT_A_LEAF: lambda why: (
        f"Queue '{why.queue}' has queues below it and takes no jobs itself; use for example '{why.nearest}'."
    ),
    Constraint.CLOSED_QUEUE: lambda why: f"Queue '{why.queue}' is not for this tenant; use one that admits it.",
    Constraint.BACKING_OFF: lambda why: "It failed and waits before its next attempt.",
    Constraint.QUEUE_LIMIT: lambda why: _too_much(why) or f"Queue '{why.queue}' is at its limit.",
    Constraint.QUEUE_SHARE: lambda why: (
        _too_much(why) or f"Queue '{why.queue}' may not borrow and has used its own share."
    ),
    Constraint.BORROWING_LIMIT: lambda why: (
        _too_much(why) or f"With it queue '{why.queue}' would have more than its guarantee and all that it may borrow."
    ),
    Constraint.LENDING_LIMIT: lambda why: (
        f"Queue '{why.queue}' keeps what is left of its guarantee for itself and lends no more."
    ),
    Constraint.NOT_GUARANTEED: lambda why: (
        _too_much(why)
        or f"It may not be stopped (preemptible: false), and the guarantee of queue '{why.queue}' is taken by others "
        "that may not."
    ),
    Constraint.NODES: lambda why: f"No node may run its '{why.role}' replicas.",
    Constraint.TOO_LARGE: lambda why: (
        f"It would not fit even if everything else stopped: {why.possible} of {why.wanted} '{why.role}' replicas would."
    ),
    Constraint.RESOURCES: lambda why: f"Not enough is free: {_fits(why)}.",
    Constraint.TOPOLOGY: lambda why: (
        f"No single {why.level} has room for all its '{why.role}' replicas beside the rest of it: "
        f"{why.possible} of {why.wanted} fit now in the best one."
        if why.beside
        else f"No single {why.level} has room for all of it: {_fits(why)} in the best one."
    ),
    Constraint.NEIGHBOURS: lambda why: "No node with room for it satisfies its affinity to other jobs and replicas.",
    Constraint.RESERVATION: lambda why: f"It would delay '{why.behind}', which is first in line.",
    Constraint.MAKING_ROOM: lambda why: "Others are being stopped to make room for it.",
    Constraint.TERMINATING: lambda why: "It waits for its nodes to release what others held there.",
    Constraint.DEFECT: lambda why: (
        "Internal error: the scheduler fails on this job; see the service log. "
        "It is looked at again when it is changed."
    ),
}
