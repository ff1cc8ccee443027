"""Population-based training as a plan: who gives way, whom it copies, and that a crash makes no second copy."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds.kind import Owned
from gangline.kinds.sweep import add_trial, plan_sweep
from gangline.lifecycle import new_job
from gangline.model import Metric, Phase, PhaseEntry, ReplicaId, RoleName, Timestamp
from gangline.model.kinds.sweep import GRID, Assignment, Budget, Copy, Objective, Sweep
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Mark, Rule, Stopping, Unit
from gangline.sweeps import Plan, curves_of, ended_trial, gather, plan, trial_to_job, trials_of
from gangline.sweeps.population import altered
from gangline.sweeps.trials import Trial
from gangline.testing.builders import START, make_sweep

PBT = Stopping(rule=Rule.PBT, first=2, factor=3, last=6)
REST = Phase.HALTED


def population(marks: Mapping[int, float], *, step: int = 2, parallelism: int | None = None, **status: object) -> Sweep:
    spec = replace(
        make_sweep().spec,
        parameters=(Parameter("rate", range=Range(low=0.001, high=1.0)), Parameter("kind", ("a", "b", "c"))),
        sampler="random",
        objective=Objective("accuracy"),
        budget=Budget(trials=3),
        stopping=PBT,
        parallelism=parallelism,
    )
    reached = tuple(Mark(trial=trial, step=step, value=value) for trial, value in marks.items())
    made = make_sweep(marks=reached, begun=3, **status)
    return replace(made, spec=spec)


def trials_in(sweep: Sweep, *phases: Phase, copy: Copy | None = None) -> tuple[Trial, ...]:
    """Trials in these phases, the last of which is a copy if one is given."""
    jobs = []
    for number, phase in enumerate(phases):
        mine = copy if number == len(phases) - 1 else None
        values = {"rate": str((number + 1) / 10), "kind": "b"}
        assignment = Assignment(number=number, values=values, copy=mine)
        job = new_job(sweep.job_id(number), trial_to_job(sweep.spec, assignment), START)
        jobs.append(replace(job, history=(*job.history, PhaseEntry(phase=phase, at=START, reason="Test"))))
    return trials_of(sweep, jobs)


def planned(sweep: Sweep, *phases: Phase, copy: Copy | None = None) -> Plan:
    return plan(sweep, trials_in(sweep, *phases, copy=copy), START)


def test_the_worst_gives_way_to_a_copy_of_the_best_which_rests_until_it_was_copied() -> None:
    sweep = population({0: 3.0, 1: 2.0, 2: 1.0})
    wanted = planned(sweep, REST, REST, REST)
    assert wanted.cancel == (sweep.job_id(2),)
    assert wanted.pruned == (2,)
    (copy,) = wanted.start
    assert copy.copy == Copy(parent=0, step=2, replaces=2)
    assert copy.number == 3
    assert wanted.resume == (sweep.job_id(1),), "who is neither copied nor gone goes on"
    job = trial_to_job(sweep.spec, copy)
    assert [(move.source, move.target) for move in job.inputs] == [
        (f"job://{sweep.spec.name}-0/checkpoints", "$CHECKPOINT_DIR")
    ]


def test_a_copy_finds_a_parent_whose_own_name_was_taken() -> None:
    sweep = population({0: 3.0, 1: 2.0, 2: 1.0})
    first, *others = (trial.job for trial in trials_in(sweep, REST, REST, REST))
    renamed = replace(first, spec=replace(first.spec, name=str(first.id)))
    (made,) = plan_sweep(sweep, Owned(jobs=(renamed, *others)), START).create
    assert [move.source for move in made.spec.inputs] == [f"job://{first.id}/checkpoints"]


@pytest.mark.parametrize("gathered", [False, True])
def test_a_copy_finds_a_parent_that_has_ended(gathered: bool) -> None:
    sweep = population({0: 3.0, 1: 2.0, 2: 1.0})
    first, *others = (trial.job for trial in trials_in(sweep, Phase.COMPLETED, REST, REST))
    ended = (ended_trial(sweep, first, ()),)
    kept: dict[str, Any] = {"past": gather(sweep, None, ended)} if gathered else {"ended": ended}
    owned = Owned(jobs=tuple(others), **kept)
    (made,) = plan_sweep(sweep, owned, START).create
    assert [move.source for move in made.spec.inputs] == [f"job://{sweep.spec.name}-0/checkpoints"]


@pytest.mark.parametrize(
    ("phase", "want"), [(Phase.QUEUED, []), (Phase.DOWNLOADING, []), (Phase.PROCESSING, [0]), (Phase.FAILED, [0])]
)
def test_the_best_goes_on_when_its_copy_has_its_checkpoint(phase: Phase, want: list[int]) -> None:
    marks = {0: 3.0, 1: 2.0, 2: 1.0}
    sweep = population(marks, pruned=(2,))
    copy = Copy(parent=0, step=2, replaces=2)
    wanted = planned(sweep, REST, Phase.PROCESSING, Phase.CANCELLED, phase, copy=copy)
    assert wanted.start == (), "one copy and no second"
    assert [int(each.rpartition("-")[2]) for each in wanted.resume] == want


def test_nobody_is_judged_before_all_have_arrived_or_ended() -> None:
    for phases in ((REST, REST), (REST, REST, Phase.PROCESSING)):
        wanted = planned(population({0: 3.0, 1: 2.0}), *phases)
        assert (wanted.cancel, wanted.resume) == ((), ())
    wanted = planned(population({0: 3.0, 1: 2.0}), REST, REST, Phase.FAILED)
    assert wanted.cancel == ("sweep-1-1",), "of the two that are left"


def test_a_plan_that_a_crash_interrupted_makes_the_same_copy_and_no_second() -> None:
    sweep = population({0: 3.0, 1: 2.0, 2: 1.0})
    (first,) = planned(sweep, REST, REST, REST).start
    assert planned(sweep, REST, REST, REST).start == (first,)
    after = planned(sweep, REST, REST, REST, Phase.QUEUED, copy=first.copy)
    assert after.start == ()
    assert after.pruned == (2,)


def test_copies_have_room_before_those_that_rest() -> None:
    wanted = planned(population({0: 3.0, 1: 2.0, 2: 1.0}, parallelism=1), REST, REST, REST)
    assert (len(wanted.start), wanted.resume) == (1, ())


def test_the_values_of_a_copy_lie_near_or_are_drawn_anew_and_within_the_space() -> None:
    spec = population({}).spec
    before = {"rate": "0.9", "kind": "c"}
    seen = [altered(spec, before, random.Random(seed)) for seed in range(200)]
    assert {values["kind"] for values in seen} == {"a", "b", "c"}
    rates = {values["rate"] for values in seen}
    assert {"1.0", str(0.9 * 0.8)} <= rates, "multiplied, and kept within the range"
    assert all(spec.parameters[0].holds(rate) for rate in rates)
    assert len(rates) > 10, "some are drawn anew"


def test_what_makes_no_population_is_refused() -> None:
    spec = population({}).spec
    for change, field in (({"sampler": GRID}, "spec.sampler"), ({"budget": Budget(trials=1)}, "spec.budget.trials")):
        with pytest.raises(InvalidInputError) as refused:
            replace(spec, parameters=(Parameter("kind", ("a", "b")),), **change)
        assert refused.value.field == field
    with pytest.raises(ConflictError):
        add_trial(population({}), {"rate": "0.5", "kind": "a"})


@pytest.mark.parametrize(
    ("unit", "want"),
    [
        pytest.param(Unit.STEPS, [100, 200, 200, 300], id="as reported"),
        pytest.param(Unit.EPOCHS, [1, 2, 2, 3], id="the same step is the same epoch"),
        pytest.param(Unit.TIME, [1, 2, 3, 4], id="the time it ran, and not that of its rest"),
    ],
)
def test_rungs_are_counted_in_steps_epochs_or_time(unit: Unit, want: list[int]) -> None:
    sweep = population({})
    sweep = replace(sweep, spec=replace(sweep.spec, stopping=replace(PBT, unit=unit)))
    (trial,) = trials_in(sweep, Phase.PROCESSING)
    entries = ((Phase.PROCESSING, 0.0), (Phase.HALTED, 2.5), (Phase.RESUMED, 50.0), (Phase.PROCESSING, 60.0))
    history = tuple(PhaseEntry(phase=phase, at=Timestamp(START + at), reason="Test") for phase, at in entries)
    trial = replace(trial, job=replace(trial.job, history=history))
    reports = [
        Metric(
            job_id=trial.job.id,
            replica=ReplicaId(RoleName("worker"), 0),
            name="accuracy",
            value=0.5,
            step=step,
            at=Timestamp(START + at),
        )
        for step, at in ((100, 1.0), (200, 2.0), (200, 60.6), (300, 61.6))
    ]
    assert [at for at, _ in curves_of(sweep, (trial,), reports)[0]] == want
