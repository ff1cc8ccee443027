"""A sweep outlives the service that drives it: every trial runs, and none runs twice."""

import os
import select
import signal
from pathlib import Path

from gangline.model import Resources
from gangline.model.kinds.sweep import SweepSpec, SweepState
from gangline.model.search.parameter import Parameter
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, running_process, start_service, stop_service
from gangline.settings import Settings
from gangline.testing.builders import make_role, make_spec

TRIALS = 8
KILLS = 5


def kill_service(settings: Settings) -> None:
    process = running_process(settings)
    assert process is not None
    handle = os.pidfd_open(process)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        assert select.select([handle], [], [], 20)[0]
    finally:
        os.close(handle)


def test_every_trial_runs_once_though_the_service_is_killed_again_and_again(tmp_path: Path) -> None:
    settings = Settings.load({}, home=tmp_path / "home", runtime_directory=tmp_path / "run")
    settings.home.mkdir()
    marks = tmp_path / "marks"
    marks.mkdir()
    command = ("sh", "-c", f"echo ran >> {marks}/$(number); sleep 0.1")
    role = make_role(command=command, resources=Resources(cpu_millis=100, memory_mib=32))
    spec = SweepSpec(
        name="grid",
        template=make_spec("grid", roles=(role,)),
        parameters=(Parameter("number", tuple(str(number) for number in range(TRIALS))),),
        parallelism=2,
    )
    start_service(settings)
    try:
        client = Client(address_of(settings), settings=settings)
        client.sweeps.submit(spec)
        for ended in range(KILLS):
            statuses = client.sweeps.watch("grid", timeout=60)
            next(status for status in statuses if sum(t.finished_at is not None for t in status.trials) > ended)
            kill_service(settings)
            start_service(settings)
        done = client.sweeps.wait("grid", timeout=60)
        assert done.state is SweepState.FINISHED
        assert [trial.number for trial in done.trials] == list(range(TRIALS))
        assert {mark.name: mark.read_text() for mark in marks.iterdir()} == {
            str(number): "ran\n" for number in range(TRIALS)
        }
        client.sweeps.delete("grid", timeout=60)
        for trial in done.trials:
            client.wait_until_gone(trial.job_id, timeout=60)
    finally:
        stop_service(settings)
