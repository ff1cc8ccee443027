"""Where a waiting gang stands in line and what is ahead of it: read off a decision, so that it costs a cycle nothing.

The controller asks when somebody wants to know. ``Decision.explanations`` has the gangs that wait in the order in which
the cycle let them pass, so nothing is decided here a second time.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from functools import cached_property

from gangline.model import Job, JobId, Timestamp
from gangline.model.explanation import Ahead, Constraint, Explanation, PlaceInLine
from gangline.scheduling.plugins.interface import SharedOrder
from gangline.scheduling.plugins.orders import LeastAttained
from gangline.scheduling.policies import Policies

NOT_IN_LINE = frozenset(
    {
        Constraint.UNKNOWN_QUEUE,
        Constraint.NOT_A_LEAF,
        Constraint.CLOSED_QUEUE,
        Constraint.BACKING_OFF,
        Constraint.DEFECT,
    }
)
"""Whoever waits for one of these reasons has no turn at all."""

AHEAD_SHOWN = 5


class Line:
    """The line as one cycle left it: who waited on, in what order."""

    def __init__(
        self,
        explanations: Mapping[JobId, Explanation],
        jobs: Mapping[JobId, Job],
        nominated: Collection[JobId],
        policies: Policies,
        now: Timestamp,
    ) -> None:
        self._explanations = explanations
        self._jobs = jobs
        self._nominated = nominated
        self._policies = policies
        self._now = now

    @cached_property
    def _order(self) -> list[JobId]:
        known = self._explanations.items()
        return [job_id for job_id, why in known if why.constraint not in NOT_IN_LINE and job_id in self._jobs]

    @cached_property
    def _places(self) -> dict[JobId, tuple[int, int]]:
        """The place of everybody: in all, and in its queue."""
        counts: Counter[str] = Counter()
        places = {}
        for place, job_id in enumerate(self._order, 1):
            queue = self._jobs[job_id].spec.queue
            counts[queue] += 1
            places[job_id] = (place, counts[queue])
        return places

    @cached_property
    def _lengths(self) -> Counter[str]:
        return Counter(self._jobs[job_id].spec.queue for job_id in self._order)

    def place_of(self, job_id: JobId) -> PlaceInLine | None:
        """Where a gang stands; None if it is in no line."""
        found = self._places.get(job_id)
        if found is None:
            return None
        place, in_queue = found
        job = self._jobs[job_id]
        return PlaceInLine(
            queue=job.spec.queue,
            place=place,
            waiting=len(self._order),
            place_in_queue=in_queue,
            waiting_in_queue=self._lengths[job.spec.queue],
            ahead=tuple(self._ahead(self._jobs[other], job) for other in self._order[: min(place - 1, AHEAD_SHOWN)]),
        )

    def _ahead(self, first: Job, job: Job) -> Ahead:
        return Ahead(
            job_id=first.id,
            queue=first.spec.queue,
            replicas=sum(role.least for role in first.spec.roles),
            gpu_millis=sum(role.least * role.resources.gpu_millis for role in first.spec.roles),
            reason=self._why(first, job),
        )

    def _why(self, first: Job, job: Job) -> str:
        """Why one gang comes before another; each is so, though of several reasons it names one."""
        order, now = self._policies.job_order, self._now
        if first.id in self._nominated:
            return "room is being made for it"
        if first.spec.queue != job.spec.queue:
            return f"queue '{first.spec.queue}' is served before queue '{job.spec.queue}'"
        covered = f"what queue '{first.spec.queue}' deserves is enough for it"
        if order.rank(first, now) > order.rank(job, now):
            return covered
        if order.rank(first, now) != order.rank(job, now):
            if first.spec.priority > job.spec.priority:
                return f"its priority is {first.spec.priority}, not {job.spec.priority}"
            least = isinstance(order, LeastAttained)
            return "it has had less machine time" if least else "the order of the queue ranks it higher"
        if order.key(first, now) != order.key(job, now):
            return "the order of the queue puts it first"
        if isinstance(order, SharedOrder) and order.party(first) != order.party(job) and _age(job) < _age(first):
            return f"{order.party(first)} has less in the queue than {order.party(job)}"
        return "it was submitted earlier" if _age(first) < _age(job) else covered


def _age(job: Job) -> tuple[Timestamp, JobId]:
    return (job.created_at, job.id)
