"""A tenant's share of the machines, in a tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_QUEUE, QueueName, Tenant, check_name
from gangline.model.resources import NamedAmounts, Resources

MOST_WEIGHT = 1_000_000
"""Weights are compared with each other, as numbers of limited precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue. Only leaves hold jobs.

    ``guarantee`` is never reclaimed; the rest goes to the siblings with the highest ``priority`` first, and among those
    ``weight`` divides it; ``limit`` is a ceiling that borrowing cannot pass (None: no ceiling). An amount of zero in
    ``limit`` means none of that resource, and what it does not name is not limited. With ``tenants``, nobody else may
    use the queue or one below it.
    ``gpu_millis.TYPE`` among extended amounts counts the GPUs of one type.
    """

    name: QueueName
    parent: Annotated[QueueName | None, "The queue that this one is a part of."] = None
    weight: Annotated[
        int, "How much of what the parent has left this queue gets, compared with the queues beside it."
    ] = 1
    priority: Annotated[
        int, "Of what the parent has left, queues beside this one with a lower priority get what it does not ask for."
    ] = 0
    guarantee: Annotated[
        Resources, "What the queue can always get back, if others have borrowed it: cpu, memory, gpu, devices."
    ] = field(default_factory=Resources)
    limit: Annotated[
        NamedAmounts | None,
        "What the jobs of the queue never hold more of, together; what is not named is not limited.",
    ] = None
    may_borrow: Annotated[bool, "Whether the queue may use what its siblings leave idle."] = True
    borrowing_limit: Annotated[
        NamedAmounts | None,
        "How much beyond its guarantee the queue may have at most; what is not named is not limited.",
    ] = None
    lending_limit: Annotated[
        NamedAmounts | None,
        "How much of its guarantee others may use while the queue does not; what is not named is lent whole.",
    ] = None
    minimum_run_seconds: Annotated[
        float | None, "How long a job of the queue runs before it may be stopped for another; else as the service says."
    ] = None
    non_preemptible_within_guarantee: Annotated[
        bool, "Whether jobs that may not be stopped must fit in the guarantee, all of them together."
    ] = False
    tenants: Annotated[
        tuple[Tenant, ...], "The tenants whose jobs may use the queue and those below it; all if it is left out."
    ] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "queue")
        for tenant in self.tenants:
            check_name(tenant, "tenants")
        if not 1 <= self.weight <= MOST_WEIGHT:
            size = "small" if self.weight < 1 else "large"
            raise InvalidInputError(f"{self.weight} is too {size}", field="weight", expected=f"1 to {MOST_WEIGHT}")
        if self.minimum_run_seconds is not None and not self.minimum_run_seconds >= 0:
            raise InvalidInputError(
                f"{self.minimum_run_seconds} is negative", field="minimum_run", expected="zero or more seconds"
            )

    @property
    def tenant(self) -> None:
        """A queue belongs to no tenant, whoever may use it."""
        return None

    def admits(self, tenant: Tenant) -> bool:
        """Whether this tenant's jobs may stand here, as far as this queue is concerned."""
        return not self.tenants or tenant in self.tenants


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """What a queue has used, where that counts (``usage_half_life_seconds``): kept so that a restart forgives nothing.

    ``past_use`` is its share of the cluster up to ``past_use_at``, averaged with ever less weight; since then it has
    had ``using``.
    """

    past_use: float = 0.0
    past_use_at: Timestamp | None = None
    using: float = 0.0

    @property
    def state(self) -> str:
        """There is nothing to wait for."""
        return "ready"

    @property
    def settled(self) -> bool:
        """Nothing is ever done for it."""
        return True


ROOT_QUEUE = Queue(name=DEFAULT_QUEUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """What the other jobs of a queue hold together, and how many of them wait."""

    used: Resources = field(default_factory=Resources)
    waiting: int = 0


def queue_path(name: QueueName, queues: Mapping[QueueName, Queue]) -> tuple[Queue, ...]:
    """A queue and everything above it; parents in a circle end where they began."""
    path: dict[QueueName, Queue] = {}
    above: QueueName | None = name
    while above is not None and above in queues and above not in path:
        path[above] = queues[above]
        above = queues[above].parent
    return tuple(path.values())
