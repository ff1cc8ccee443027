"""What every client must do with sweeps, as tests; a companion of ``client_suite`` with the same fixtures."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.errors import ConflictError, InvalidInputError, NotFoundError, WaitTimeoutError
from gangline.model import FINAL_PHASES, Phase, Policy, Resources, Restart
from gangline.model.kinds.sweep import Goal, Objective, SweepSpec, SweepState
from gangline.model.search.parameter import Parameter
from gangline.sdk import Client
from gangline.sdk.chaos import disturb
from gangline.testing.builders import make_role, make_spec

PATIENCE_SECONDS = 60.0

_SMALL = Resources(cpu_millis=100, memory_mib=64)
_PROGRAM = "import sys; from gangline import runtime; runtime.report(loss=float(sys.argv[1]), step=1)"


def make_grid(name: str, *command: str, parallelism: int | None = None, code: str | None = None) -> SweepSpec:
    """Return a sweep of three small trials that differ in ``rate``."""
    role = make_role(command=command or (sys.executable, "-c", _PROGRAM, "$(rate)"), resources=_SMALL)
    return SweepSpec(
        name=name,
        template=make_spec(name, roles=(role,), code=code),
        parameters=(Parameter("rate", ("0.3", "0.1", "0.2")),),
        parallelism=parallelism,
        objective=Objective("loss", Goal.MINIMIZE),
    )


class SweepClientSuite:
    """Sweeps from submission to deletion, against a real service; needs the fixtures of ``ClientSuite``."""

    def test_a_grid_runs_to_its_end_and_keeps_its_results(self, client: Client, name: str) -> None:
        """Every trial is a job like any other."""
        grid = make_grid(name, parallelism=2)
        # With a PATH of its own, it sees no environment of the client's.
        spec = replace(grid, template=replace(grid.template, env={"PATH": os.environ["PATH"]}))
        submitted = client.sweeps.submit(spec)
        sent = replace(submitted.spec, template=replace(submitted.spec.template, source=None))
        assert (submitted.name, sent) == (name, spec)
        done = client.sweeps.wait(name, timeout=PATIENCE_SECONDS)
        assert done.state is SweepState.FINISHED
        assert [(trial.values["rate"], trial.phase, trial.result) for trial in done.trials] == [
            ("0.3", Phase.COMPLETED, 0.3),
            ("0.1", Phase.COMPLETED, 0.1),
            ("0.2", Phase.COMPLETED, 0.2),
        ]
        assert done.best == 1
        assert client.get(f"{name}-1").phase is Phase.COMPLETED
        assert name in [sweep.name for sweep in client.sweeps.list()]
        client.sweeps.delete(name, timeout=PATIENCE_SECONDS)

    def test_a_sweep_is_stopped_with_one_word(self, client: Client, name: str) -> None:
        """What runs is cancelled, what waits never begins."""
        client.sweeps.submit(make_grid(name, "sleep", "1000", parallelism=1))
        for status in client.sweeps.watch(name, timeout=PATIENCE_SECONDS):
            if status.trials and status.trials[0].phase is Phase.PROCESSING:
                break
        client.sweeps.stop(name)
        done = client.sweeps.wait(name, timeout=PATIENCE_SECONDS)
        assert (done.state, [trial.phase for trial in done.trials]) == (SweepState.STOPPED, [Phase.CANCELLED])
        client.sweeps.delete(name, timeout=PATIENCE_SECONDS)

    def test_deleting_takes_the_trials_along(self, client: Client, name: str) -> None:
        """Also while they run; the name is free afterwards."""
        client.sweeps.submit(make_grid(name, "sleep", "1000"))
        deleted = client.sweeps.delete(name, timeout=PATIENCE_SECONDS)
        for trial in deleted.trials:
            client.wait_until_gone(trial.job_id, timeout=PATIENCE_SECONDS)
        with pytest.raises(NotFoundError, match=name):
            client.sweeps.get(name)
        client.sweeps.submit(make_grid(name, "true"))
        client.sweeps.delete(name, timeout=PATIENCE_SECONDS)

    def test_code_is_packed_once_for_all_trials(self, client: Client, name: str, tmp_path: Path) -> None:
        """Each trial has it as its working directory."""
        (tmp_path / "say.sh").write_text("echo rate $1")
        client.sweeps.submit(make_grid(name, "sh", "say.sh", "$(rate)", code=str(tmp_path)))
        done = client.sweeps.wait(name, timeout=PATIENCE_SECONDS)
        said = {line.text for trial in done.trials for line in client.logs(trial.job)}
        assert said == {"rate 0.3", "rate 0.1", "rate 0.2"}
        assert len({client.get(trial.job_id).spec.code for trial in done.trials}) == 1
        client.sweeps.delete(name, timeout=PATIENCE_SECONDS)

    def test_a_repeated_submission_is_the_same_sweep(self, client: Client, name: str) -> None:
        """Another one of that name is refused."""
        spec = make_grid(name, "true")
        first = client.sweeps.submit(spec, sweep_id=f"id-{name}")
        assert client.sweeps.submit(spec, sweep_id=f"id-{name}").id == first.id
        with pytest.raises(ConflictError, match=f"gangline sweep delete {name}"):
            client.sweeps.submit(spec)
        client.sweeps.delete(name, timeout=PATIENCE_SECONDS)

    def test_wrong_sweeps_are_refused(self, client: Client, name: str) -> None:
        """With the class and the facts the service raised."""
        with pytest.raises(InvalidInputError, match=r"\$\(speed\)"):
            client.sweeps.submit(make_grid(name, "true", "$(speed)"))
        with pytest.raises(NotFoundError, match=name):
            client.sweeps.stop(name)

    def test_a_wait_for_a_sweep_ends_in_time(self, client: Client, name: str) -> None:
        """And changes nothing."""
        client.sweeps.submit(make_grid(name, "sleep", "1000"))
        with pytest.raises(WaitTimeoutError):
            client.sweeps.wait(name, timeout=0.05)
        assert client.sweeps.get(name).state is SweepState.RUNNING
        client.sweeps.delete(name, timeout=PATIENCE_SECONDS)

    # Faults on purpose

    def test_a_drill_kills_replicas_and_the_job_lives_on(self, client: Client, name: str) -> None:
        """Each strike is told, and the journal tells it too."""
        role = make_role(command=("sleep", "1000"), resources=_SMALL, restart=Restart.REPLICA, replicas=2)
        policy = Policy(backoff_seconds=0.01, backoff_limit_seconds=0.01)
        job = client.submit(make_spec(name, roles=(role,), policy=policy))
        strikes = disturb(client, name, {"worker": 0.2}, seed=1)
        killed = [next(strike for strike in strikes if strike.replica is not None) for _ in range(2)]
        strikes.close()
        assert {str(strike.replica) for strike in killed} <= {"worker-0", "worker-1"}
        failures = (
            [record.message for record in client.events(job.id) if record.reason == "ReplicaBackingOff"]
            for _ in client.watch(job.id, timeout=PATIENCE_SECONDS)
        )
        both = next(messages for messages in failures if len(messages) == 2)
        assert all("137" in message for message in both)
        assert client.get(job.id).phase not in FINAL_PHASES
        client.delete(name, timeout=PATIENCE_SECONDS)

    def test_a_drill_ends_with_its_time_or_its_job(self, client: Client, name: str) -> None:
        """And refuses a role that is not there."""
        client.submit(make_spec(name, roles=(make_role(command=("sleep", "1000"), resources=_SMALL),)))
        with pytest.raises(InvalidInputError, match="one of worker"):
            next(disturb(client, name, {"ps": 1.0}))
        assert list(disturb(client, name, {"worker": 60.0}, for_seconds=1.0)) == []
        client.cancel(name)
        assert list(disturb(client, name, {"worker": 0.01})) == []
        client.delete(name, timeout=PATIENCE_SECONDS)
