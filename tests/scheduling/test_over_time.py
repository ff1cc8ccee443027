"""What must hold over many cycles: decisions are carried out by the real lifecycle, and time passes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.lifecycle import Event, advance
from gangline.lifecycle.events import GangEvicted, GangGrown, GangPlaced, GangShrunk, GangStopped
from gangline.model import Job, JobId, Node, Queue, Timestamp
from gangline.scheduling import CycleMemory, Decision, Policies
from gangline.scheduling.gangs.holdings import DEMANDS_KEPT
from tests.scheduling.builders import AT_ONCE, NOW, cycle, job, nodes, queue, role
from tests.scheduling.test_properties import gangs, machines

STEP_SECONDS = 100.0
"""Longer than a gang is left alone for."""


class Course:
    """A cluster whose machines obey at once."""

    def __init__(
        self, nodes: list[Node], jobs: list[Job], queues: tuple[Queue, ...] = (), policies: Policies | None = None
    ) -> None:
        self.nodes = nodes
        self.queues = queues
        self.jobs = {each.id: each for each in jobs}
        self.policies = policies or AT_ONCE
        self.memory: CycleMemory | None = None
        self.now = float(NOW)

    def step(self, seconds: float = STEP_SECONDS) -> Decision:
        """Decide, carry it out, and let time pass."""
        decision = self.decide()
        self.carry_out(decision, seconds)
        return decision

    def decide(self) -> Decision:
        jobs = list(self.jobs.values())
        return cycle(self.nodes, jobs, self.queues, self.policies, now=self.now, memory=self.memory)

    def carry_out(self, decision: Decision, seconds: float = STEP_SECONDS) -> None:
        self.memory = decision.memory
        at = Timestamp(self.now)
        for eviction in decision.evictions:
            self.tell(GangEvicted(job_id=eviction.job_id, at=at, reason=eviction.reason))
            self.end(eviction.job_id)
        for shrink in decision.shrinks:
            self.tell(GangShrunk(job_id=shrink.job_id, at=at, removed=shrink.removed, reason=shrink.reason))
        for start in decision.starts:
            self.tell(GangPlaced(job_id=start.job_id, at=at, placement=start.placement, gpu_slots=start.gpu_slots))
        for grow in decision.grows:
            self.tell(GangGrown(job_id=grow.job_id, at=at, added=grow.added, gpu_slots=grow.gpu_slots))
        self.now += seconds

    def tell(self, event: Event) -> None:
        self.jobs[event.job_id] = advance(self.jobs[event.job_id], event).job

    def end(self, job_id: JobId) -> None:
        """The gang's machines are free."""
        self.tell(GangStopped(job_id=job_id, at=Timestamp(self.now), attempt=self.jobs[job_id].attempt))


@settings(max_examples=60, deadline=None)
@given(machines(), st.data())
def test_evictions_never_go_round_in_circles(nodes: list[Node], data: st.DataObject) -> None:
    """Nobody comes and nobody ends: after a while everybody has the place that is theirs, and nothing more happens."""
    queues = (queue("a", guarantee={"gpus": data.draw(st.integers(0, 3))}, weight=2), queue("b"))
    course = Course(nodes, [data.draw(gangs(f"early{i}", queues=("a", "b"))) for i in range(3)], queues)
    course.step()
    for each in (data.draw(gangs(f"late{i}", queues=("a", "b"))) for i in range(3)):
        course.jobs[each.id] = each
    stopped: list[tuple[JobId, JobId | None]] = []
    for _ in range(25):
        decision = course.step()
        stopped += [(each.job_id, each.beneficiary) for each in decision.evictions]
    assert not any((beneficiary, victim) in stopped for victim, beneficiary in stopped), "A for B, then B for A"
    assert len(stopped) == len(set(stopped)), "the same victim for the same beneficiary twice"
    for _ in range(5):
        decision = course.step()
        assert not decision.evictions
        assert not decision.starts


def test_a_large_gang_starts_within_the_stated_bound_whatever_keeps_arriving() -> None:
    """Small gangs that promise to be gone at once, and are not, could pass it forever: there is room for one again
    and again."""
    longest = 700.0
    waits = {}
    for patience in (1000.0, 1e9):
        course = Course(nodes(2), [], policies=Policies(patience_seconds=patience))
        ends: dict[JobId, float] = {}
        for number in range(80):
            if number == 20:
                course.jobs[JobId("large")] = job("large", role(16), age=NOW - course.now)
            if number > 20 or number % 4 == 0:
                small = job(f"s{number:02d}", role(4), age=NOW - course.now, expected_seconds=1.0)
                course.jobs[small.id] = small
            for job_id in [each for each, at in ends.items() if at <= course.now]:
                course.end(job_id)
                del course.jobs[job_id], ends[job_id]
            began = course.now
            decision = course.step(50.0)
            ends |= {start.job_id: began + longest for start in decision.starts}
            if JobId("large") in ends:
                waits[patience] = began - course.jobs[JobId("large")].created_at
                break
    assert 1000.0 < waits[1000.0] <= 1000.0 + longest + 50.0
    assert 1e9 not in waits, "without the bound it would still be waiting"


def test_demands_of_jobs_long_gone_are_forgotten() -> None:
    machines, memory = nodes(1, cpus=1000, gpus=0), None
    for number in range(30):
        shapes = range(number * 100 + 1, number * 100 + 101)
        waiting = [job(f"j{shape}", role(cpus=2000 + shape, gpus=0)) for shape in shapes]
        memory = cycle(machines, waiting, memory=memory).memory
    assert memory is not None
    assert len(memory.holdings.demands) <= DEMANDS_KEPT + 2 * 100 + 100
