"""The default order: who has had little goes first, nobody is stopped again and again, and users take turns."""

from dataclasses import replace
from typing import ClassVar

import pytest

from gangline.model import Job, Phase, PhaseEntry, Retry, Tenant, Timestamp
from gangline.scheduling import Policies
from gangline.scheduling.plugins.orders import OVERDUE_SECONDS, SPARED_SECONDS, LeastAttained, PriorityThenAge
from tests.scheduling.builders import NOW, cycle, job, nodes, role, running

ORDER = LeastAttained()
FRESH = ORDER.rank(job("fresh"), NOW)


def of(tenant: str, each: Job) -> Job:
    return replace(each, spec=replace(each.spec, tenant=Tenant(tenant)))


def rerun(stops: int, *, since: float) -> Job:
    """A gang that has had far too much and was stopped so often; it runs again."""
    gang = running(job("x", role(8)), {"n0": 8}, since=since, checkpoint=since)
    phases = (Phase.PROCESSING, Phase.RESUMED) * stops
    before = tuple(
        PhaseEntry(phase=phase, at=Timestamp(NOW - 90_000 + 20_000 * number), reason="Stopped")
        for number, phase in enumerate(phases)
    )
    return replace(gang, history=(gang.history[0], *before, *gang.history[1:]))


def test_priority_comes_before_service() -> None:
    tired = running(job("x", role(8), priority=60), {"n0": 8}, since=90_000)
    assert ORDER.rank(tired, NOW) < FRESH
    decision = cycle(nodes(1), [tired, job("j", role(8), priority=50)])
    assert not decision.evictions


def test_a_gang_that_was_stopped_is_spared_for_longer_each_time() -> None:
    for stops in (1, 2):
        spared = stops * SPARED_SECONDS
        assert ORDER.rank(rerun(stops, since=spared - 1), NOW) == FRESH
        assert ORDER.rank(rerun(stops, since=spared + 1), NOW) > FRESH


def test_a_gang_that_never_saved_anything_is_not_stopped_for_what_it_has_had() -> None:
    gang = running(job("x", role(8)), {"n0": 8}, since=900_000)
    assert ORDER.rank(gang, NOW) == FRESH
    assert ORDER.changes_at(gang, NOW) is None


def test_what_runs_for_ever_is_not_measured_by_what_it_has_had() -> None:
    service = running(job("x", role(8), retry=Retry.ALWAYS), {"n0": 8}, since=900_000)
    assert ORDER.rank(service, NOW) == FRESH
    assert ORDER.changes_at(service, NOW) is None


def test_whoever_has_waited_for_a_day_counts_as_one_that_has_had_nothing() -> None:
    had = replace(rerun(1, since=0), holding=False)
    waits = (*had.history[:-2], PhaseEntry(phase=Phase.RESUMED, at=NOW, reason="Stopped"))
    stopped = replace(had, history=waits)
    assert ORDER.rank(stopped, Timestamp(NOW + OVERDUE_SECONDS - 1)) > FRESH
    assert ORDER.rank(stopped, Timestamp(NOW + OVERDUE_SECONDS)) == FRESH


def test_a_cycle_follows_when_a_gang_will_have_had_enough() -> None:
    gang = running(job("x", role(8)), {"n0": 8}, since=3600, checkpoint=3600)
    decision = cycle(nodes(1), [gang, job("j", role(8))])
    assert not decision.evictions
    assert decision.wake_at is not None
    later = cycle(nodes(1), [gang, job("j", role(8))], now=decision.wake_at)
    assert [each.job_id for each in later.evictions] == ["x"]


@pytest.mark.parametrize(
    ("policies", "want"),
    [(Policies(), {"many-0", "one"}), (Policies(job_order=PriorityThenAge()), {"many-0", "many-1"})],
    ids=["users take turns", "first come, first served"],
)
def test_twenty_jobs_of_one_user_do_not_precede_everybody(policies: Policies, want: set[str]) -> None:
    many = [of("many", job(f"many-{i}", age=100 - i)) for i in range(20)]
    decision = cycle(nodes(1, gpus=2), [*many, of("other", job("one"))], policies=policies)
    assert {str(start.job_id) for start in decision.starts} == want


def test_what_a_user_has_running_counts() -> None:
    held = of("many", running(job("held", role(4)), {"n0": 4}, since=10))
    waiting = [of("many", job("more", age=100)), of("other", job("one", role(2)))]
    decision = cycle(nodes(1, gpus=6), [held, *waiting])
    assert {str(start.job_id) for start in decision.starts} == {"one"}


class Counting(LeastAttained):
    """The default, which says how often it was asked for the rank of somebody who runs."""

    asked: ClassVar[list[str]] = []

    def rank(self, job: Job, now: Timestamp) -> float:
        """Remember the question."""
        if job.holding:
            self.asked.append(job.id)
        return LeastAttained.rank(self, job, now)


def test_the_rank_of_a_gang_is_worked_out_once_until_it_changes() -> None:
    gang = running(job("x", role(8)), {"n0": 8}, since=3600, checkpoint=3600)
    jobs, policies = [gang, job("j", role(8))], Policies(job_order=Counting())
    decision = cycle(nodes(1), jobs, policies=policies)
    decision = cycle(nodes(1), jobs, policies=policies, now=NOW + 60, memory=decision.memory)
    assert Counting.asked == ["x"]
    assert decision.wake_at is not None
    later = cycle(nodes(1), jobs, policies=policies, now=decision.wake_at, memory=decision.memory)
    assert [each.job_id for each in later.evictions] == ["x"]
    assert Counting.asked == ["x", "x"]
