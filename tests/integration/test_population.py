"""Population-based training with real processes: the worst goes on from a copy of the best one's checkpoint."""

import sys
from pathlib import Path

import pytest

from gangline.model import Phase, Resources
from gangline.model.kinds.sweep import Budget, Objective, SweepSpec, SweepState, TrialStatus
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Rule, Stopping
from gangline.sdk import Client
from gangline.testing.builders import make_role, make_spec

INTERVAL, LAST, POPULATION = 2, 6, 3
TRAIN = f"""
import json, os, time
from gangline import runtime

checkpoints = runtime.Checkpoints(os.environ["CHECKPOINT_DIR"])
found = checkpoints.latest()
step, skill = json.loads((found.path / "state.json").read_text()) if found else (0, 0.0)
print("begins", step, skill, flush=True)
while step < {LAST} and not runtime.stopping():
    step, skill = step + 1, skill + float(os.environ["TRIAL_RATE"])
    checkpoints.save(step, lambda path: (path / "state.json").write_text(json.dumps([step, skill])))
    runtime.report(step=step, skill=skill)
    for _ in range(100 if step % {INTERVAL} == 0 else 0):
        if not runtime.stopping():
            time.sleep(0.02)  # steps of a real training take their time; whoever is among the best may not be halted
"""


def begins(client: Client, trial: TrialStatus, attempt: int = 1) -> tuple[int, float]:
    """Return the step and the skill with which an attempt of a trial began."""
    (line,) = [line.text for line in client.logs(trial.job_id, attempt=attempt)]
    _, step, skill = line.split()
    return int(step), float(skill)


def test_the_worst_go_on_from_copies_of_the_best(tmp_path: Path) -> None:
    role = make_role(command=(sys.executable, "-c", TRAIN), resources=Resources(cpu_millis=100, memory_mib=64))
    spec = SweepSpec(
        name="population",
        template=make_spec("population", roles=(role,)),
        parameters=(Parameter("rate", range=Range(low=0.001, high=1.0)),),
        sampler="random",
        seed=1,
        parallelism=2,  # fewer than the population: who rests holds nothing
        objective=Objective("skill"),
        budget=Budget(trials=POPULATION),
        stopping=Stopping(rule=Rule.PBT, first=INTERVAL, last=LAST),
    )
    with Client.embedded(home=tmp_path / "home") as client:
        client.sweeps.submit(spec)
        done = client.sweeps.wait("population", timeout=180)
        trials = {trial.number: trial for trial in done.trials}
        copies = [trial for trial in done.trials if trial.parent is not None]
        assert done.state is SweepState.FINISHED
        assert len(copies) == 2, "one at each of the rungs"
        for copy in copies:
            parent = trials[copy.parent or 0]
            step, skill = begins(client, copy)
            assert step >= INTERVAL * (1 + copies.index(copy))
            rate = float(parent.values["rate"])
            start = begins(client, parent)
            assert skill == pytest.approx(start[1] + rate * (step - start[0])), "what the parent had learnt by then"
            assert copy.values != parent.values
            assert client.get(parent.job_id).attempt > 1, "it rested while it was copied"
        given_way = [trial for trial in done.trials if trial.stopped]
        assert [trial.phase for trial in given_way] == [Phase.CANCELLED] * 2
        assert sum(trial.phase is Phase.COMPLETED for trial in done.trials) == POPULATION
        client.sweeps.delete("population", timeout=60)
