"""Sweeps beside others, with real processes: as many trials as there is room for, and machines given back in time."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gangline.data.addresses import parse
from gangline.data.stores import Folder
from gangline.kinds.queue import QUEUE
from gangline.model import DataMove, JobSpec, NamedAmounts, Phase, Queue, QueueName, Resources
from gangline.model.kinds.data_store import DataStore
from gangline.model.kinds.sweep import SweepSpec, SweepState, SweepStatus
from gangline.model.search.parameter import Parameter
from gangline.sdk import Client, load_sweep
from gangline.testing.builders import make_role, make_spec
from tests.data.servers import s3_server

TRIAL = Resources(cpu_millis=100, memory_mib=32)
WAIT = """
import pathlib, sys, time
from gangline import runtime
while not pathlib.Path(sys.argv[1]).exists() and not runtime.stopping():
    time.sleep(0.02)
"""


def four() -> NamedAmounts:
    """Room for four trials."""
    return NamedAmounts({"cpu_millis": 400, "memory_mib": 128})


def sweep_in(queue: str, gate: Path, *, trials: int = 6, share: float | None = None) -> SweepSpec:
    role = make_role(command=(sys.executable, "-c", WAIT, str(gate)), resources=TRIAL)
    return SweepSpec(
        name="grid",
        template=make_spec("grid", queue=QueueName(queue), roles=(role,)),
        parameters=(Parameter("number", tuple(map(str, range(trials)))),),
        share=share,
    )


def other_in(queue: str, name: str = "other") -> JobSpec:
    role = make_role(command=("true",), resources=Resources(cpu_millis=200, memory_mib=64))
    return make_spec(name, queue=QueueName(queue), roles=(role,))


def until(client: Client, condition: Callable[[SweepStatus], bool]) -> SweepStatus:
    return next(status for status in client.sweeps.watch("grid", timeout=90) if condition(status))


def running(status: SweepStatus) -> int:
    return sum(trial.phase is Phase.PROCESSING for trial in status.trials)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def test_as_many_trials_run_as_there_is_room_for(tmp_path: Path, gate: Path) -> None:
    with Client.embedded(home=tmp_path / "home") as client:
        client.records(QUEUE).create(Queue(name=QueueName("lab"), limit=four()))
        client.sweeps.submit(sweep_in("lab", gate))
        full = until(client, lambda status: running(status) == 4)
        assert sorted(trial.phase for trial in full.trials if trial.phase is not Phase.PROCESSING) == [Phase.QUEUED] * 2
        client.records(QUEUE).edit(
            Queue(name=QueueName("lab"), limit=NamedAmounts({"cpu_millis": 600, "memory_mib": 192}))
        )
        until(client, lambda status: running(status) == 6)
        gate.touch()
        done = client.sweeps.wait("grid", timeout=90)
        assert {trial.phase for trial in done.trials} == {Phase.COMPLETED}


def test_a_sweep_with_a_share_gives_way_to_who_waits_and_goes_on_later(tmp_path: Path, gate: Path) -> None:
    with Client.embedded(home=tmp_path / "home") as client:
        client.records(QUEUE).create(Queue(name=QueueName("lab"), limit=four()))
        client.sweeps.submit(sweep_in("lab", gate, share=0.5))
        until(client, lambda status: running(status) == 4)
        other = client.submit(other_in("lab"))
        assert client.wait(other.id, timeout=90).phase is Phase.COMPLETED
        assert not gate.exists(), "no trial had ended by then"
        until(client, lambda status: running(status) == 4)
        gate.touch()
        done = client.sweeps.wait("grid", timeout=90)
        assert done.state is SweepState.FINISHED
        assert {trial.phase for trial in done.trials} == {Phase.COMPLETED}
        rested = [trial.number for trial in done.trials if client.get(trial.job_id).attempt > 1]
        assert rested == [2, 3], "the newest that ran"


def test_a_queue_gets_back_what_a_sweep_borrowed(tmp_path: Path, gate: Path) -> None:
    with Client.embedded(home=tmp_path / "home") as client:
        client.records(QUEUE).create(Queue(name=QueueName("all"), limit=four()))
        client.records(QUEUE).create(Queue(name=QueueName("lab"), parent=QueueName("all")))
        half = Resources(cpu_millis=200, memory_mib=64)
        client.records(QUEUE).create(Queue(name=QueueName("owner"), parent=QueueName("all"), guarantee=half))
        client.sweeps.submit(sweep_in("lab", gate, trials=4))
        until(client, lambda status: running(status) == 4)
        other = client.submit(other_in("owner"))
        assert client.wait(other.id, timeout=90).phase is Phase.COMPLETED
        gate.touch()
        done = client.sweeps.wait("grid", timeout=90)
        assert {trial.phase for trial in done.trials} == {Phase.COMPLETED}, "those that made room went on"


def test_trials_share_one_upload_of_the_code(tmp_path: Path, gate: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('trained')")
    gate.touch()
    (tmp_path / "sweep.yaml").write_text(
        f"""
kind: Sweep
metadata: {{name: grid}}
spec:
  parameters: {{number: [1, 2, 3]}}
  template:
    spec: {{code: {code}, command: [{sys.executable}, train.py], resources: {{cpu: 100m, memory: 32Mi}}}}
"""
    )
    home = tmp_path / "home"
    with Client.embedded(home=home) as client:
        client.sweeps.submit(load_sweep(tmp_path / "sweep.yaml"))
        done = client.sweeps.wait("grid", timeout=90)
        assert [line.text for trial in done.trials for line in client.logs(trial.job_id)] == ["trained"] * 3
        assert len(list((home / "code").glob("*.tar.gz"))) == 1


def test_trials_fetch_their_data_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with s3_server(tmp_path / "s3") as server, Client.embedded(home=home) as client:
        Folder.open(parse("s3://bucket/data"), server.credentials, patience_seconds=5).write("a.txt", b"hello")
        store = DataStore(name="lake", address="s3://bucket", endpoint=server.credentials.endpoint)
        client.stores.add(store, server.credentials)
        role = make_role(command=("sh", "-c", 'cat "$DATA_DIR/a.txt"'), resources=TRIAL)
        template = make_spec("grid", roles=(role,), inputs=(DataMove("s3://bucket/data", "$DATA_DIR", store="lake"),))
        spec = SweepSpec(name="grid", template=template, parameters=(Parameter("n", ("1", "2", "3")),), parallelism=1)
        client.sweeps.submit(spec)
        until(client, lambda status: status.trials != () and status.trials[0].phase is Phase.COMPLETED)
        (content,) = (home / "cache" / "default" / "content").iterdir()
        fetched = content.stat().st_ino
        done = client.sweeps.wait("grid", timeout=90)
        assert [line.text for trial in done.trials for line in client.logs(trial.job_id)] == ["hello"] * 3
        assert [path.stat().st_ino for path in content.parent.iterdir()] == [fetched], "by the first, and by no other"
        assert content.stat().st_mtime > done.trials[-1].created_at, "which took it from there"
