"""A tenant's share of the machines, in a tree."""

from dataclasses import dataclass, field

from gangline.errors import InvalidInputError
from gangline.model.identity import DEFAULT_QUEUE, QueueName, Tenant, check_name
from gangline.model.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue. Only leaves hold jobs.

    ``guarantee`` is never reclaimed; ``weight`` divides the rest among siblings; ``limit`` is a ceiling that
    borrowing cannot pass (None: no ceiling). An amount of zero in ``limit`` means none of that resource. With
    ``tenants``, nobody else may use the queue or one below it.
    """

    name: QueueName
    parent: QueueName | None = None
    weight: int = 1
    guarantee: Resources = field(default_factory=Resources)
    limit: Resources | None = None
    may_borrow: bool = True
    tenants: tuple[Tenant, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "queue")
        if self.weight < 1:
            raise InvalidInputError(f"{self.weight} is too small", field="weight", expected="1 or more")

    def admits(self, tenant: Tenant) -> bool:
        """Whether this tenant's jobs may stand here, as far as this queue is concerned."""
        return not self.tenants or tenant in self.tenants


ROOT_QUEUE = Queue(name=DEFAULT_QUEUE)
