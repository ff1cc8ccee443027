"""A search outlives the service that drives it: killed at any moment, it tries what it would have tried, and once."""

import json
import random
import select
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.model import Phase, Resources
from gangline.model.kinds.sweep import Budget, Goal, Objective, SweepSpec, SweepState, SweepStatus
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Rule, Stopping
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, running_process, start_service, stop_service
from gangline.settings import Settings
from gangline.testing.builders import make_role, make_spec
from tests.integration.test_sweep_crashes import kill_service

TRIALS, KILLS = 8, 6
PROGRAM = """
import json, os, sys
from gangline import runtime
values = json.loads(os.environ["TRIAL_PARAMETERS"])
with open(sys.argv[1], "a") as ran:
    ran.write(os.environ["JOB_NAME"] + "\\n")
runtime.report(loss=(float(values["x"]) - 1) ** 2 + float(values["y"]))
"""


def search(sampler: str, ran: Path, *, parallelism: int) -> SweepSpec:
    role = make_role(
        command=(sys.executable, "-c", PROGRAM, str(ran)), resources=Resources(cpu_millis=100, memory_mib=64)
    )
    settings = {"n_startup_trials": 3} if sampler == "tpe" else {}
    return SweepSpec(
        name="search",
        template=make_spec("search", roles=(role,)),
        parameters=(
            Parameter("x", range=Range(low=-5, high=5)),
            Parameter("y", range=Range(low=0.001, high=1, log=True)),
        ),
        sampler=sampler,
        settings=settings,
        seed=7,
        parallelism=parallelism,
        objective=Objective("loss", Goal.MINIMIZE),
        budget=Budget(trials=TRIALS),
    )


EPOCHS = """
import os, sys, time
from pathlib import Path
from gangline import runtime
kept = Path(os.environ["CHECKPOINT_DIR"]) / "epoch"
kept.parent.mkdir(parents=True, exist_ok=True)
for epoch in range(int(kept.read_text()) + 1 if kept.exists() else 1, 5):
    if runtime.stopping():
        break
    kept.write_text(str(epoch))
    with open(sys.argv[1], "a") as ran:
        ran.write(f"{os.environ['JOB_NAME']}/{epoch}\\n")
    runtime.report(loss=abs(float(os.environ["TRIAL_X"])) + 1 / epoch, step=epoch)
    time.sleep(0.7)
"""


def values_of(sweep: SweepStatus) -> list[str]:
    return [json.dumps(dict(trial.values), sort_keys=True) for trial in sweep.trials]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings.load({}, home=tmp_path / "home", runtime_directory=tmp_path / "run")
    found.home.mkdir()
    return found


def killed_again_and_again(settings: Settings, spec: SweepSpec, moments: random.Random) -> SweepStatus:
    """Run a sweep while its service is killed at moments that nothing but a seed chooses."""
    start_service(settings)
    try:
        client = Client(address_of(settings), settings=settings)
        client.sweeps.submit(spec)
        for _ in range(KILLS):
            select.select([], [], [], moments.uniform(0.0, 0.8))
            kill_service(settings)
            start_service(settings)
        done = client.sweeps.wait("search", timeout=120)
        client.sweeps.delete("search", timeout=60)
        return done
    finally:
        if running_process(settings) is not None:
            stop_service(settings)


def undisturbed(spec: SweepSpec, home: Path) -> SweepStatus:
    with Client.embedded(home=home) as client:
        client.sweeps.submit(spec)
        return client.sweeps.wait("search", timeout=120)


@pytest.mark.parametrize("sampler", ["random", "sobol", "tpe", "cma-es"])
def test_one_trial_at_a_time_is_the_same_search_however_often_the_service_is_killed(
    sampler: str, settings: Settings, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    spec = search(sampler, ran, parallelism=1)
    done = killed_again_and_again(settings, spec, random.Random(sampler))
    assert done.state is SweepState.FINISHED
    assert [trial.number for trial in done.trials] == list(range(TRIALS)), "none was lost"
    assert sorted(ran.read_text().split()) == sorted(f"search-{number}" for number in range(TRIALS)), "none ran twice"
    want = undisturbed(search(sampler, tmp_path / "other", parallelism=1), tmp_path / "calm")
    assert values_of(done) == values_of(want)


def test_several_at_a_time_are_neither_lost_nor_tried_twice(settings: Settings, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    done = killed_again_and_again(settings, search("tpe", ran, parallelism=3), random.Random("several"))
    assert [trial.number for trial in done.trials] == list(range(TRIALS))
    assert sorted(ran.read_text().split()) == sorted(f"search-{number}" for number in range(TRIALS))
    assert len(set(values_of(done))) == TRIALS, "no suggestion was spent twice"


def test_trials_that_rest_are_neither_lost_nor_begun_again(settings: Settings, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    spec = search("random", ran, parallelism=2)
    role = replace(spec.template.roles[0], command=(sys.executable, "-c", EPOCHS, str(ran)))
    spec = replace(
        spec,
        template=replace(spec.template, roles=(role,)),
        budget=Budget(trials=4),
        stopping=Stopping(rule=Rule.ASHA, first=1, factor=2, last=4),
    )
    done = killed_again_and_again(settings, spec, random.Random("rests"))
    assert done.state is SweepState.FINISHED
    assert [trial.number for trial in done.trials] == list(range(4))
    epochs = ran.read_text().split()
    assert len(set(epochs)) == len(epochs), "what went on did so from its checkpoint"
    complete = [trial.number for trial in done.trials if trial.phase is Phase.COMPLETED]
    assert complete, "the best ran to its end"
    assert {f"search-{number}/4" for number in complete} <= set(epochs)
