"""How a search comes to its end: budgets, targets, failures, a sampler that fails, and trials added by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from gangline.errors import InvalidInputError
from gangline.lifecycle import new_job
from gangline.model import Job, Metric, Phase, PhaseEntry, ReplicaId, Resources, RoleName, Timestamp
from gangline.model.kinds.sweep import AddedTrial, Assignment, Budget, EndReason, Goal, Objective, Sweep, SweepSpec
from gangline.model.search.parameter import Parameter, Range
from gangline.sweeps import SAMPLERS, Plan, Search, check_end, plan, trial_to_job, trials_of
from gangline.testing.builders import START, make_role, make_spec, make_sweep

SPACE = (Parameter("x", range=Range(low=0.0, high=1.0)), Parameter("kind", ("a", "b")))
LOSS = Objective("loss", Goal.MINIMIZE)
CHIEF = ReplicaId(RoleName("chief"), 0)


def make_search(**fields: object) -> Sweep:
    progress = {name: fields.pop(name) for name in ("begun", "added", "added_begun", "end") if name in fields}
    made: dict[str, object] = {"sampler": "random", "objective": LOSS, "budget": Budget(trials=5), **fields}
    spec = replace(make_sweep(parameters=SPACE[1:]).spec, parameters=SPACE, **made)
    return replace(make_sweep(**progress), spec=spec)


def run(sweep: Sweep, count: int, phase: Phase = Phase.COMPLETED, *, seconds: float = 60) -> list[Job]:
    """The first trials of a sweep, each of which had its machines for so long and then ended, unless PROCESSING."""
    jobs: list[Job] = []
    while len(jobs) < count:
        begun = replace(sweep, status=replace(sweep.status, begun=len(jobs), end=None))
        (assignment, *_) = plan(replace(begun, spec=replace(sweep.spec, budget=Budget(trials=99))), (), START).start
        job = new_job(sweep.job_id(assignment.number), trial_to_job(sweep.spec, assignment), START)
        history = (*job.history, PhaseEntry(phase=Phase.PROCESSING, at=START, reason="Test"))
        if phase is not Phase.PROCESSING:
            end = Timestamp(START + seconds)
            history = (*history, PhaseEntry(phase=phase, at=end, reason="Test"))
            job = replace(job, finished_at=end)
        jobs.append(replace(job, history=history))
    return jobs


def reported(sweep: Sweep, values: Sequence[float], name: str = "loss") -> list[Metric]:
    return [
        Metric(job_id=sweep.job_id(n), replica=CHIEF, name=name, value=value, step=1, at=Timestamp(START))
        for n, value in enumerate(values)
    ]


def planned(sweep: Sweep, jobs: Sequence[Job], metrics: Sequence[Metric] = (), *, after: float = 0.0) -> Plan:
    return plan(sweep, trials_of(sweep, jobs, metrics), Timestamp(START + after))


def reason(wanted: Plan) -> EndReason | None:
    return None if wanted.end is None else wanted.end.reason


def test_no_more_trials_begin_than_the_budget_has() -> None:
    sweep = make_search(budget=Budget(trials=3))
    wanted = planned(sweep, [])
    assert (len(wanted.start), wanted.over, wanted.end) == (3, False, None)
    done = planned(sweep, run(sweep, 3), reported(sweep, [1, 2, 3]))
    assert (done.start, done.over, reason(done)) == ((), True, EndReason.TRIALS_USED)
    running = planned(sweep, [*run(sweep, 2), run(sweep, 3, Phase.PROCESSING)[2]])
    assert (running.start, running.over, running.end) == ((), False, None)


def test_the_end_of_the_time_cancels_what_runs() -> None:
    sweep = make_search(budget=Budget(time_seconds=100), parallelism=1)
    jobs = run(sweep, 1, Phase.PROCESSING)
    before = planned(sweep, jobs, after=99)
    assert (before.cancel, before.again_at) == ((), START + 100)
    after = planned(sweep, jobs, after=100)
    assert (after.cancel, after.over, reason(after)) == ((jobs[0].id,), False, EndReason.TIME_USED)


def test_gpu_hours_count_only_the_time_with_machines() -> None:
    template = make_spec(roles=(make_role(resources=Resources(gpu_millis=2000), replicas=2),))
    sweep = make_search(template=template, budget=Budget(gpu_hours=4), parallelism=1)
    halved = run(sweep, 1, seconds=3600 * 0.5)
    assert planned(sweep, halved, reported(sweep, [1]), after=9999).end is None
    jobs = [*halved, run(sweep, 2, Phase.PROCESSING)[1]]
    assert planned(sweep, jobs, after=1799).again_at == pytest.approx(START + 1800)
    assert reason(planned(sweep, jobs, after=1800)) is EndReason.GPU_HOURS_USED


def test_gpu_hours_that_no_trial_uses_end_nothing() -> None:
    endless = make_search(budget=Budget(gpu_hours=4)).spec
    with pytest.raises(InvalidInputError, match=r"spec.budget.gpu_hours: the search never ends: its trials use no GPU"):
        check_end(endless)
    check_end(replace(endless, budget=Budget(gpu_hours=4, trials=3)))
    check_end(replace(endless, template=make_spec(roles=(make_role(resources=Resources(gpu_millis=500)),))))


@pytest.mark.parametrize(
    ("goal", "values", "want"),
    [
        pytest.param(Goal.MINIMIZE, [0.5, 0.1], EndReason.TARGET_REACHED, id="as small as that"),
        pytest.param(Goal.MINIMIZE, [0.5, 0.11], None, id="not quite"),
        pytest.param(Goal.MAXIMIZE, [0.05, 0.1], EndReason.TARGET_REACHED, id="as large as that"),
        pytest.param(Goal.MAXIMIZE, [0.05, float("nan")], None, id="not a number"),
    ],
)
def test_a_target_ends_the_search(goal: Goal, values: list[float], want: EndReason | None) -> None:
    sweep = make_search(objective=Objective("loss", goal, 0.1))
    wanted = planned(sweep, run(sweep, 2, Phase.PROCESSING), reported(sweep, values))
    assert reason(wanted) is want
    assert len(wanted.cancel) == (2 if want else 0)
    assert wanted.again_at == (None if want else START + 2), "numbers of running trials announce themselves not"


@pytest.mark.parametrize(
    ("phase", "values", "limit", "want"),
    [
        pytest.param(Phase.FAILED, [], 3, "3 failed (budget.failures is 3)", id="all fail"),
        pytest.param(Phase.FAILED, [], 4, None, id="one less than the limit"),
        pytest.param(Phase.COMPLETED, [float("nan")] * 3, 3, "3 ended without a finite number for 'loss'", id="NaN"),
        pytest.param(Phase.COMPLETED, [], 3, "3 ended without a finite number for 'loss'", id="never reported"),
        pytest.param(Phase.COMPLETED, [1, 2], 1, "1 ended without", id="one did not report"),
        pytest.param(Phase.COMPLETED, [1, 2, 3], 1, None, id="all reported"),
        pytest.param(Phase.CANCELLED, [], 1, None, id="cancelled by their user"),
    ],
)
def test_too_many_failures_end_the_search(phase: Phase, values: list[float], limit: int, want: str | None) -> None:
    sweep = make_search(budget=Budget(trials=9, failures=limit))
    wanted = planned(sweep, run(sweep, 3, phase), reported(sweep, values))
    if want is None:
        assert wanted.end is None
    else:
        assert reason(wanted) is EndReason.TOO_MANY_FAILURES
        assert wanted.end is not None
        assert want in wanted.end.message


def test_a_search_that_always_fails_ends_without_being_told_to() -> None:
    sweep = make_search(budget=Budget(trials=99))
    assert planned(sweep, run(sweep, 9, Phase.FAILED)).end is None
    failed = planned(sweep, run(sweep, 10, Phase.FAILED))
    assert (failed.over, reason(failed)) == (True, EndReason.TOO_MANY_FAILURES)


def test_a_search_that_was_given_up_has_failed() -> None:
    sweep = make_search()
    end = planned(sweep, run(sweep, 10, Phase.FAILED)).end
    status = replace(sweep.status, end=end, finished_at=START)
    assert (status.state, status.settled) == ("failed", True)


class Broken:
    def check(self, spec: SweepSpec) -> None: ...

    def propose(self, search: Search, most: int) -> Sequence[Mapping[str, str]]:
        raise ZeroDivisionError("nothing to divide")


def test_a_sampler_that_fails_ends_the_search_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SAMPLERS, "broken", Broken())
    wanted = planned(make_search(sampler="broken"), [])
    assert (wanted.over, reason(wanted)) == (True, EndReason.SAMPLER_FAILED)
    assert wanted.end is not None
    assert wanted.end.message == "the sampler broken failed: ZeroDivisionError: nothing to divide"


def test_what_is_added_by_hand_begins_first_and_costs_nothing_of_the_budget() -> None:
    sweep = make_search(budget=Budget(trials=2), added=(AddedTrial(values={"x": "0.5", "kind": "a"}),))
    wanted = planned(sweep, [])
    assert wanted.start[0] == Assignment(number=0, values={"x": "0.5", "kind": "a"}, added=0)
    assert ([each.added for each in wanted.start], wanted.added_begun) == ([0, None, None], 1)
    without = planned(make_search(budget=Budget(trials=2)), [])
    assert [each.values for each in wanted.start[1:]] == [each.values for each in without.start]


def test_a_crash_does_not_begin_an_added_trial_twice() -> None:
    """Its job exists, and the record does not say so yet."""
    sweep = make_search(budget=Budget(trials=1), added=(AddedTrial(values={"x": "0.5", "kind": "a"}),), parallelism=1)
    (first,) = planned(sweep, []).start
    job = new_job(sweep.job_id(0), trial_to_job(sweep.spec, first), START)
    wanted = planned(sweep, [job])
    assert (wanted.start, wanted.begun, wanted.added_begun) == ((), 1, 1)
