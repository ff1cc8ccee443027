"""Use is added up from the histories of jobs: by whom, when, and what of it was idle."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gangline.model import Job, Phase, Resources, Tenant, Timestamp
from gangline.model.jobs.job import PhaseEntry
from gangline.model.team.accounting import Group, Period, Use, periods_between, report
from gangline.testing.builders import make_job, make_role, make_spec

HOUR = 3600.0
MIDNIGHT = datetime(2030, 1, 31, tzinfo=UTC).timestamp()


def job(name: str, *phases: tuple[Phase, float], tenant: str = "vision", finished: float | None = None) -> Job:
    """A job of two replicas with two CPUs and a GPU each, whose phases begin at hours after midnight."""
    resources = Resources(cpu_millis=2000, memory_mib=1024, gpu_millis=1000)
    spec = make_spec(name=name, tenant=Tenant(tenant), roles=(make_role(replicas=2, resources=resources),))
    history = tuple(PhaseEntry(phase=phase, at=at(hour), reason="Because") for phase, hour in phases)
    ended = None if finished is None else Timestamp(MIDNIGHT + finished * HOUR)
    return replace(make_job(spec=spec), replicas=(), created_at=history[0].at, history=history, finished_at=ended)


WHOLE = (
    (Phase.QUEUED, 0),
    (Phase.STARTING, 1),
    (Phase.PROCESSING, 2),
    (Phase.STORING, 5),
    (Phase.COMPLETED, 6),
)


def at(hours: float) -> Timestamp:
    return Timestamp(MIDNIGHT + hours * HOUR)


def test_hours_are_held_waited_and_idle() -> None:
    found = report(
        [Use.of(job("a", *WHOLE, finished=6), "alice")],
        since=at(0),
        until=at(24),
        now=at(24),
        by=(Group.TENANT, Group.USER),
        every=None,
        prices={"gpu": 2.0, "cpu": 0.1},
    )
    (row,) = found.rows
    assert (row.tenant, row.queue, row.user, row.jobs) == ("vision", "", "alice", 1)
    assert (row.gpu_hours, row.cpu_hours, row.memory_gib_hours) == (10, 20, 10)
    assert (row.waiting_hours, row.idle_gpu_hours, row.idle_cpu_hours) == (1, 4, 8)
    assert row.cost == pytest.approx(22)


def test_a_job_that_runs_counts_until_now_and_only_within_the_time() -> None:
    running = job("a", (Phase.QUEUED, 0), (Phase.STARTING, 0), (Phase.PROCESSING, 0))
    found = report([Use.of(running)], since=at(1), until=at(3), now=at(50), by=(), every=None, prices={})
    assert [row.gpu_hours for row in found.rows] == [4]
    found = report([Use.of(running)], since=at(1), until=at(3), now=at(2), by=(), every=None, prices={})
    assert [row.gpu_hours for row in found.rows] == [2]


def test_use_is_divided_by_group_and_by_day() -> None:
    over_midnight = job("a", (Phase.QUEUED, 20), (Phase.PROCESSING, 22), (Phase.COMPLETED, 26), finished=26)
    other = job("b", (Phase.QUEUED, 1), (Phase.PROCESSING, 1), (Phase.COMPLETED, 2), tenant="speech", finished=2)
    found = report(
        [Use.of(over_midnight), Use.of(other)],
        since=at(0),
        until=at(48),
        now=at(48),
        by=(Group.TENANT,),
        every=Period.DAY,
        prices={},
    )
    assert [(row.begins_at, row.tenant, row.gpu_hours) for row in found.rows] == [
        (at(0), "speech", 2),
        (at(0), "vision", 4),
        (at(24), "vision", 4),
    ]


@pytest.mark.parametrize(
    ("every", "want"),
    [
        (None, [(0.5, 60)]),
        (Period.DAY, [(0.5, 24), (24, 48), (48, 60)]),
        (Period.MONTH, [(0.5, 24), (24, 60)]),
    ],
    ids=["whole", "days", "months"],
)
def test_periods_begin_and_end_in_utc(every: Period | None, want: list[tuple[float, float]]) -> None:
    assert list(periods_between(at(0.5), at(60), every)) == [(at(start), at(end)) for start, end in want]


def test_hours_are_periods_too() -> None:
    assert len(list(periods_between(at(0.5), at(4), Period.HOUR))) == 4


def test_what_is_kept_of_a_deleted_job_ends_and_is_nothing_if_it_never_had_machines() -> None:
    cut = Use.of(job("a", *WHOLE[:3]), "alice").ended(at(3))
    assert cut is not None
    (row,) = report([cut], since=at(0), until=at(24), now=at(24), by=(), every=None, prices={}).rows
    assert row.gpu_hours == 4
    assert Use.of(job("b", (Phase.QUEUED, 0), (Phase.CANCELLED, 1), finished=1)).ended(at(1)) is None
