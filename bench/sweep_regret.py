"""How good the samplers of sweeps are: regret, and whether they try what Optuna alone tries.

Ten synthetic functions and three real trainings (bench/trainings.py). Each search runs one trial at a time through the
plan of the kind Sweep, as the record driver calls it: jobs that ended go in, jobs to create come out; none is started.
Beside it the same sampler of Optuna is driven directly with the same seed. The regret is how far the best value lies
above the known minimum, of a training above the least loss that any of the searches found; the table has medians over
repetitions. Also prints what one question costs at the end of a long search: CPU time, since others share the machine.

``--asha`` runs real jobs instead: searches with stopping rule asha through a service and the local engine. The first 27
of their trials are trained to their ends in this process; compared are the regrets, and how many epochs were run. Both
report the best loss of any epoch, as that is the model somebody keeps, and asha judges by it: the loss of a single
epoch rises and falls. Asha tries more values than are trained in full, which is what it saves epochs for: among 27
values the noise at its first rung would lose the best, and there would be nothing to make up for it. With
``--rehearsed`` the plan is asked after every epoch and no job is started: what the rule itself is worth, without the
time that it takes to stop a job.

    python bench/sweep_regret.py [--trials 60] [--repetitions 20] [--long 1000] [--functions branin digits]
    python bench/sweep_regret.py --asha [--rehearsed] [--trials 60] [--repetitions 5] [--functions digits cancer mnist]
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import optuna
import trainings

from gangline.kinds import Owned
from gangline.kinds.sweep import plan_sweep
from gangline.lifecycle import new_job
from gangline.model import Job, JobId, Metric, Phase, PhaseEntry, ReplicaId, Resources, RoleName, Timestamp
from gangline.model.kinds.sweep import Budget, Goal, Objective, Sweep, SweepProgress, SweepSpec
from gangline.model.record import RecordId
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Rule, Stopping
from gangline.sdk import Client
from gangline.sweeps import ended_trial
from gangline.testing.builders import make_role, make_spec

Point = Sequence[float]


@dataclass(frozen=True)
class Function:
    """Something to minimize, where, and its least value; None if nobody knows it."""

    value: Callable[[Point], float]
    parameters: tuple[Parameter, ...]
    least: float | None = 0.0


def within(*bounds: tuple[float, float]) -> tuple[Parameter, ...]:
    return tuple(Parameter(f"x{n}", range=Range(low=low, high=high)) for n, (low, high) in enumerate(bounds))


EPOCHS = 5
LAST = 27
"""The epochs of a whole run with --asha."""
FULL = 27
"""How many trials are trained to their ends, for comparison with --asha."""
TRAINED = (
    Parameter("rate", range=Range(low=1e-4, high=3.0, log=True)),
    Parameter("decay", range=Range(low=1e-7, high=0.1, log=True)),
    Parameter("momentum", range=Range(low=0.0, high=0.99)),
    Parameter("hidden", range=Range(low=4, high=64, whole=True)),
)


def training(name: str) -> Function:
    """A real training as a function of its values."""

    @cache
    def loss(point: tuple[float, ...]) -> float:
        values = dict(zip((each.name for each in TRAINED), point, strict=True))
        return list(trainings.losses(name, values, EPOCHS))[-1]

    return Function(lambda point: loss(tuple(point)), TRAINED, None)


def rosenbrock(x: Point) -> float:
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in pairwise(x))


def rastrigin(x: Point) -> float:
    return sum(a * a - 10 * math.cos(2 * math.pi * a) + 10 for a in x)


def ackley(x: Point) -> float:
    root = math.sqrt(sum(a * a for a in x) / len(x))
    waves = sum(math.cos(2 * math.pi * a) for a in x) / len(x)
    return 20 + math.e - 20 * math.exp(-0.2 * root) - math.exp(waves)


def griewank(x: Point) -> float:
    return 1 + sum(a * a for a in x) / 4000 - math.prod(math.cos(a / math.sqrt(n)) for n, a in enumerate(x, 1))


def levy(x: Point) -> float:
    w = [1 + (a - 1) / 4 for a in x]
    middle = sum((a - 1) ** 2 * (1 + 10 * math.sin(math.pi * a + 1) ** 2) for a in w[:-1])
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return math.sin(math.pi * w[0]) ** 2 + middle + last


def branin(x: Point) -> float:
    a, b = x
    bent = b - 5.1 / (4 * math.pi**2) * a * a + 5 / math.pi * a - 6
    return bent**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10


def camel(x: Point) -> float:
    a, b = x
    return (4 - 2.1 * a * a + a**4 / 3) * a * a + a * b + (4 * b * b - 4) * b * b


def styblinski(x: Point) -> float:
    return sum(a**4 - 16 * a * a + 5 * a for a in x) / 2


def michalewicz(x: Point) -> float:
    return -sum(math.sin(a) * math.sin(n * a * a / math.pi) ** 20 for n, a in enumerate(x, 1))


FUNCTIONS = {
    "sphere": Function(lambda x: sum(a * a for a in x), within(*((-5.0, 5.0),) * 4)),
    "rosenbrock": Function(rosenbrock, within(*((-2.0, 2.0),) * 3)),
    "rastrigin": Function(rastrigin, within(*((-5.12, 5.12),) * 3)),
    "ackley": Function(ackley, within(*((-5.0, 5.0),) * 3)),
    "griewank": Function(griewank, within(*((-10.0, 10.0),) * 3)),
    "levy": Function(levy, within(*((-10.0, 10.0),) * 4)),
    "branin": Function(branin, within((-5.0, 10.0), (0.0, 15.0)), 0.397887),
    "camel": Function(camel, within((-3.0, 3.0), (-2.0, 2.0)), -1.031628),
    "styblinski": Function(styblinski, within(*((-5.0, 5.0),) * 4), -39.166166 * 4),
    "michalewicz": Function(michalewicz, within(*((0.0, math.pi),) * 2), -1.801304),
    **{name: training(name) for name in trainings.NAMES},
}
OPTUNA = {"tpe": "TPESampler", "cma-es": "CmaEsSampler", "nsga-ii": "NSGAIISampler"}
SAMPLERS = ("random", "sobol", *OPTUNA)
CHIEF = ReplicaId(RoleName("worker"), 0)


def sweep_of(function: Function, sampler: str, seed: int, trials: int) -> Sweep:
    spec = SweepSpec(
        name="regret",
        template=make_spec(),
        parameters=function.parameters,
        sampler=sampler,
        seed=seed,
        parallelism=1,
        objective=Objective("loss", Goal.MINIMIZE),
        budget=Budget(trials=trials),
    )
    return Sweep(id=RecordId(f"{sampler}{seed}"), spec=spec, status=SweepProgress(), created_at=Timestamp(0.0))


def ended(job: Job, at: Timestamp) -> Job:
    return replace(
        job, history=(*job.history, PhaseEntry(phase=Phase.COMPLETED, at=at, reason="Bench")), finished_at=at
    )


def through_gangline(function: Function, sampler: str, seed: int, trials: int) -> tuple[list[Point], list[float]]:
    """Return what a sweep tries, and how long each question took: CPU seconds, since others share the machine."""
    sweep, digests = sweep_of(function, sampler, seed, trials), list[object]()
    points, seconds = list[Point](), list[float]()
    for number in range(trials + 1):
        now = Timestamp(float(number))
        began = time.process_time()
        wanted = plan_sweep(sweep, Owned(ended=tuple(digests)), now)
        seconds.append(time.process_time() - began)
        sweep = replace(sweep, status=wanted.status)
        for new in wanted.create:
            point = [float(new.spec.env[each.variable]) for each in function.parameters]
            points.append(point)
            job = ended(new_job(new.id, new.spec, now), Timestamp(number + 0.5))
            loss = Metric(job_id=new.id, replica=CHIEF, name="loss", value=function.value(point), step=None, at=now)
            digests.append(ended_trial(sweep, job, [loss]))
    assert sweep.settled, "a search that has used its budget is over"
    return points, seconds


def suggested(trial: optuna.Trial, parameter: Parameter) -> float:
    found = parameter.range
    assert found is not None
    if found.whole:
        return float(trial.suggest_int(parameter.name, int(found.low), int(found.high)))
    return trial.suggest_float(parameter.name, found.low, found.high, log=found.log)


def through_optuna(function: Function, sampler: str, seed: int, trials: int) -> list[Point]:
    """Return what Optuna alone tries."""
    study = optuna.create_study(sampler=getattr(optuna.samplers, OPTUNA[sampler])(seed=seed))
    points = list[Point]()
    for _ in range(trials):
        trial = study.ask()
        points.append([suggested(trial, each) for each in function.parameters])
        study.tell(trial, function.value(points[-1]))
    return points


def row(name: str, trials: int, repetitions: int) -> tuple[dict[str, float], int, int]:
    """Return the median regret of each sampler, and how many searches were the same as Optuna's, of how many."""
    function, best, same, compared = FUNCTIONS[name], dict[str, list[float]](), 0, 0
    for sampler in SAMPLERS:
        searches = [through_gangline(function, sampler, seed, trials)[0] for seed in range(repetitions)]
        best[sampler] = [min(map(function.value, points)) for points in searches]
        if sampler in OPTUNA:
            compared += repetitions
            same += sum(
                points == through_optuna(function, sampler, seed, trials) for seed, points in enumerate(searches)
            )
    least = min(map(min, best.values())) if function.least is None else function.least
    return {sampler: statistics.median(found) - least for sampler, found in best.items()}, same, compared


def asha_spec(name: str, seed: int, trials: int, first: int) -> SweepSpec:
    """Return a search that halts trials at rungs."""
    return replace(
        sweep_of(FUNCTIONS[name], "random", seed, trials).spec,
        parallelism=None,
        objective=Objective("best_loss", Goal.MINIMIZE),
        stopping=Stopping(rule=Rule.ASHA, first=first, factor=3, last=LAST),
    )


def in_full(name: str, values: Mapping[str, str]) -> Iterator[float]:
    return trainings.losses(name, {key: float(value) for key, value in values.items()}, LAST)


def moved(job: Job, phase: Phase, at: Timestamp) -> Job:
    return replace(job, history=(*job.history, PhaseEntry(phase=phase, at=at, reason="Bench")))


def rehearsed(name: str, seed: int, trials: int, first: int) -> tuple[float, float, int, int]:
    """Return what ``asha`` does, of a search whose jobs are halted at once and whose epochs take no time."""
    spec = asha_spec(name, seed, trials, first)
    sweep = replace(sweep_of(FUNCTIONS[name], "random", seed, trials), spec=spec)
    jobs, left, reports = dict[JobId, Job](), dict[JobId, Iterator[float]](), dict[JobId, list[float]]()
    now, values = Timestamp(0.0), list[Mapping[str, str]]()
    while not sweep.settled:
        now = Timestamp(now + 1)
        history = tuple(
            Metric(job_id=job_id, replica=CHIEF, name="best_loss", value=min(seen[: n + 1]), step=n + 1, at=now)
            for job_id, seen in reports.items()
            for n in range(len(seen))
        )
        newest = tuple(metric for metric in history if metric.step == len(reports[metric.job_id]))
        wanted = plan_sweep(sweep, Owned(jobs=tuple(jobs.values()), metrics=newest, history=history), now)
        sweep = replace(sweep, status=wanted.status)
        for new in wanted.create:
            values.append(json.loads(new.spec.env["TRIAL_PARAMETERS"]))
            jobs[new.id], reports[new.id] = moved(new_job(new.id, new.spec, now), Phase.PROCESSING, now), []
            left[new.id] = in_full(name, values[-1])
        steps = ((wanted.halt, Phase.HALTED), (wanted.resume, Phase.PROCESSING), (wanted.cancel, Phase.CANCELLED))
        for job_id, phase in ((each, phase) for ids, phase in steps for each in ids):
            jobs[job_id] = moved(jobs[job_id], phase, now)
        for job_id in [each for each, job in jobs.items() if job.phase is Phase.PROCESSING]:
            loss = next(left[job_id], None)
            if loss is None:
                jobs[job_id] = ended(jobs[job_id], now)
            else:
                reports[job_id].append(loss)
    reached = min(min(reports[each]) for each, job in jobs.items() if job.phase is Phase.COMPLETED)
    full = min(min(in_full(name, each)) for each in values[:FULL])
    return reached, full, sum(map(len, reports.values())), LAST * FULL


def asha(name: str, seed: int, trials: int, pause: float, first: int) -> tuple[float, float, int, int]:
    """Return the best loss and the epochs of a search that halts trials at rungs, and of one that trains all."""
    role = make_role(
        command=(sys.executable, str(Path(trainings.__file__).resolve())),
        resources=Resources(cpu_millis=250, memory_mib=256),
    )
    folder = os.environ.get("GANGLINE_MNIST", str(trainings.FOLDER))
    env = {"TRAINING": name, "TRAINING_EPOCHS": str(LAST), "TRAINING_PAUSE": str(pause), "GANGLINE_MNIST": folder}
    spec = replace(
        asha_spec(name, seed, trials, first),
        template=replace(make_spec("regret", roles=(role,)), env={**env, "OPENBLAS_NUM_THREADS": "1"}),
    )
    with tempfile.TemporaryDirectory() as home, Client.embedded(home=Path(home)) as client:
        client.sweeps.submit(spec)
        done = client.sweeps.wait(spec.name, timeout=1800)
        reached = [trial.result for trial in done.trials if trial.phase is Phase.COMPLETED and trial.result is not None]
        run = sum(len({metric.step for metric in client.metrics(trial.job_id, name="loss")}) for trial in done.trials)
    full = [min(in_full(name, trial.values)) for trial in done.trials[:FULL]]
    return min(reached), min(full), run, LAST * len(full)


def _line(name: str, stopped: float, full: float, run: float, whole: float) -> str:
    return f"{name:<24}{stopped:>12.4f}{full:>12.4f}{run:>10.0f}{whole:>8.0f}{run / whole:>8.2f}"


def print_asha(names: Sequence[str], given: argparse.Namespace) -> int:
    trials, first = given.trials, given.first
    how = "rehearsed" if given.rehearsed else "through real jobs"
    print(f"asha {how}: {trials} trials of up to {LAST} epochs, the first rung after {first}; {FULL} in full")
    print("losses of single searches, then median regrets against the least loss that any of these reached; a training")
    print("passes if the median regret of asha is no higher, with a third of the epochs at most")
    print(f"{'training':<24}{'asha':>12}{'full':>12}{'epochs':>10}{'of':>8}{'share':>8}")
    failed = 0
    for name in names:
        found = list[tuple[float, float, int, int]]()
        for seed in range(given.repetitions):
            if given.rehearsed:
                found.append(rehearsed(name, seed, trials, first))
            else:
                found.append(asha(name, seed, trials, given.pause, first))
            print(_line(name, *found[-1]), flush=True)
        least = min(min(each[:2]) for each in found)
        stopped, full, run, whole = (statistics.median(each) for each in zip(*found, strict=True))
        print(_line(f"{name}, median regret", stopped - least, full - least, run, whole), flush=True)
        print(f"{name}: asha no worse in {sum(each[0] <= each[1] for each in found)} of {len(found)}", flush=True)
        failed += run > whole / 3 or stopped > full
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--long", type=int, default=1000, help="trials of a search that is timed; 0: none")
    parser.add_argument("--functions", nargs="+", choices=list(FUNCTIONS), default=list(FUNCTIONS))
    parser.add_argument("--asha", action="store_true", help="run real jobs with early stopping instead")
    parser.add_argument("--rehearsed", action="store_true", help="with --asha: ask the plan, and start no jobs")
    parser.add_argument("--first", type=int, default=1, help="the epoch of the first rung of --asha")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds that --asha adds to every epoch")
    given = parser.parse_args()
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if given.asha:
        names = [name for name in given.functions if name in trainings.NAMES]
        return print_asha(names, given)
    print(f"median regret of {given.repetitions} searches of {given.trials} trials")
    print(f"{'function':<12}" + "".join(f"{sampler:>11}" for sampler in SAMPLERS) + "   same as Optuna")
    differing = 0
    for name in given.functions:
        found, same, compared = row(name, given.trials, given.repetitions)
        differing += compared - same
        print(
            f"{name:<12}" + "".join(f"{found[each]:>11.4g}" for each in SAMPLERS) + f"   {same}/{compared}", flush=True
        )
    for sampler in SAMPLERS if given.long else ():
        _, seconds = through_gangline(FUNCTIONS["sphere"], sampler, 0, given.long)
        last = [1000 * each for each in seconds[-51:-1]]
        print(f"one question after {given.long} trials, {sampler}: median {statistics.median(last):.1f} ms of CPU")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
