"""Trials that have ended, added up: a plan says the same as if it had looked at each of them."""

import random
from dataclasses import replace

import pytest

from gangline.lifecycle import new_job
from gangline.model import Job, Metric, Phase, PhaseEntry, ReplicaId, Resources, RoleName, Timestamp
from gangline.model.kinds.sweep import AddedTrial, Assignment, Budget, Goal, Objective, Sweep
from gangline.model.search.stopping import Mark, Rule, Stopping
from gangline.sweeps import Past, ended_trial, gather, plan, trial_to_job, trials_of
from gangline.testing.builders import START, make_role, make_sweep

CHIEF = ReplicaId(RoleName("chief"), 0)
VALUES = {"layers": "1", "rate": "0.1"}
ENDS = (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED)
SWEEPS = {
    "random": {"sampler": "random"},
    "grid": {"budget": Budget(failures=6)},
    "target": {"objective": Objective("loss", Goal.MINIMIZE, target=0.2), "sampler": "random"},
    "GPU hours": {"budget": Budget(gpu_hours=0.02), "sampler": "random"},
    "asha": {"stopping": Stopping(rule=Rule.ASHA, first=1, factor=3, last=9), "sampler": "random"},
    "pbt": {"stopping": Stopping(rule=Rule.PBT, first=2, factor=3, last=6), "sampler": "random"},
}


def sweep_with(source: random.Random, fields: dict[str, object]) -> Sweep:
    made = make_sweep()
    template = replace(made.spec.template, roles=(make_role(resources=Resources(gpu_millis=1000)),))
    fields = {"objective": Objective("loss", Goal.MINIMIZE), "budget": Budget(trials=14, failures=5), **fields}
    marks = tuple(
        Mark(trial=number, step=2, value=source.random(), passed=source.random() < 0.3)
        for number in range(12)
        if source.random() < 0.5
    )
    status = replace(
        made.status,
        begun=source.choice((0, 12)),
        marks=marks if "stopping" in fields else (),
        pruned=tuple(n for n in range(12) if source.random() < 0.2) if "stopping" in fields else (),
        added=(AddedTrial(values=VALUES),) * 3,
    )
    return replace(made, spec=replace(made.spec, template=template, **fields), status=status)  # type: ignore[arg-type]


def job_of(sweep: Sweep, number: int, phase: Phase) -> Job:
    assignment = Assignment(number=number, values=VALUES, added=number // 4 if number % 4 == 3 else None)
    job = new_job(sweep.job_id(number), trial_to_job(sweep.spec, assignment), START)
    history = [
        PhaseEntry(phase=each, at=Timestamp(START + 9 * place), reason="Test")
        for place, each in enumerate((Phase.PROCESSING, phase), 1)
    ]
    finished = history[-1].at if phase in ENDS else None
    return replace(job, history=(*job.history, *history), finished_at=finished)


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize("seed", range(40))
def test_a_plan_is_the_same_however_much_of_it_is_the_past(name: str, seed: int) -> None:
    source = random.Random(f"{name}/{seed}")
    sweep = sweep_with(source, SWEEPS[name])
    phases = (*ENDS, Phase.COMPLETED, Phase.PROCESSING, Phase.HALTED, Phase.QUEUED)
    numbers = [number for number in range(12) if source.random() < 0.9]  # the jobs of the others are gone
    jobs = [job_of(sweep, number, source.choice(phases)) for number in numbers]
    reports = [
        Metric(job_id=job.id, replica=CHIEF, name="loss", value=source.random(), at=START, step=None)
        for job in jobs
        if source.random() < 0.8
    ]
    now = Timestamp(START + 30)
    ended = [
        ended_trial(sweep, job, [each for each in reports if each.job_id == job.id]) for job in jobs if job.finished
    ]
    source.shuffle(ended)
    split = source.randrange(len(ended) + 1)
    past = gather(sweep, gather(sweep, None, ended[:split]), [*ended[split:], None])
    going_on = trials_of(sweep, [job for job in jobs if not job.finished], reports)
    assert plan(sweep, going_on, now, past=past) == plan(sweep, trials_of(sweep, jobs, reports), now)


def test_a_trial_that_has_ended_leaves_little_behind() -> None:
    sweep = sweep_with(random.Random(0), {"sampler": "random"})
    job = replace(job_of(sweep, 0, Phase.FAILED), image="sha256:" + 64 * "a")
    history = (*job.history[:-1], replace(job.history[-1], message="a long story"))
    trial = ended_trial(sweep, replace(job, history=history), ())
    assert trial is not None
    assert trial.job.spec is sweep.spec.template
    assert (len(trial.job.history), trial.job.message, trial.job.image) == (1, "", "")
    assert gather(sweep, None, [trial]) == Past(tried=[trial.tried], proposed=1, failed=1)  # type: ignore[list-item]
