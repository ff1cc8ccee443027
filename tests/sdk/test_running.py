"""Functions as jobs: what is sent, what is refused before anything is, and a notebook executed cell by cell."""

import asyncio
import base64
import json
import linecache
import pickle
import socket
import subprocess
import sys
from datetime import UTC
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import gangline
from gangline.errors import ConflictError, InvalidInputError
from gangline.model import JobId, Metric, ReplicaId, RoleName, Timestamp
from gangline.sdk import Metrics
from gangline.sdk.asynchronous import AsyncClient
from gangline.sdk.code.functions import PAYLOAD, RETURNED_MARK, ship
from gangline.testing.client import InMemoryClient

PROJECT = Path(__file__).parents[2]
NOTEBOOK = PROJECT / "examples" / "notebooks" / "gang.ipynb"


def add(first: int, second: int = 0) -> int:
    return first + second


def called(function, args=(), kwargs=None, *, directory: Path) -> object:
    """What the program of a job makes of a function, in a process of its own."""
    shipped = ship(function, args, kwargs)
    env = {**shipped.env, "RESULT_DIR": str(directory / "results"), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, *shipped.command[1:]], env=env, cwd=shipped.code or directory, check=True)
    return pickle.loads((directory / "results" / "return.pickle").read_bytes())


def in_main(text: str, name: str = "<cell 1>") -> dict[str, object]:
    """Execute a cell as a notebook does: in __main__, with its text known to whoever asks for it."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, object] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), space)  # a notebook's cell
    return space


def test_a_function_of_a_module_is_called_with_its_arguments(tmp_path: Path) -> None:
    assert called(add, [2], {"second": 3}, directory=tmp_path) == 5
    assert ship(add, [1]).code == str(PROJECT)


def test_a_function_of_a_cell_travels_with_what_it_names(tmp_path: Path) -> None:
    text = (
        "import math as m\nfrom pathlib import PurePath\nFACTOR = 3\n"
        "def twice(x):\n    return 2 * x\n"
        "def train(x):\n    return [FACTOR * twice(y) for y in (x, m.floor(2.5))], str(PurePath('a') / 'b')\n"
    )
    assert called(in_main(text)["train"], [1], directory=tmp_path) == ([6, 12], "a/b")


def test_a_function_of_a_script_travels_with_the_scripts_directory(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("FACTOR = 7\n")
    (tmp_path / "script.py").write_text(
        "import beside, json, sys\nfrom gangline.sdk.code.functions import RETURNED_MARK, ship\n"
        "def main(x):\n    return x * beside.FACTOR\n"
        "if __name__ == '__main__':\n"
        "    shipped = ship(main, [2])\n"
        "    print(json.dumps([shipped.command, shipped.env, shipped.code]))\n"
    )
    out = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    command, env, code = json.loads(out)
    assert code == str(tmp_path)
    subprocess.run([sys.executable, *command[1:]], cwd=code, env={**env, "RESULT_DIR": str(tmp_path)}, check=True)
    assert pickle.loads((tmp_path / "return.pickle").read_bytes()) == 14


def much(size: int) -> bytes | None:
    return bytes(size) if size else None


@pytest.mark.parametrize(("size", "want"), [(0, True), (100, True), (5000, False)], ids=["None", "short", "long"])
def test_what_is_short_is_also_the_result_of_the_replica(tmp_path: Path, size: int, want: bool) -> None:  # a table
    shipped, place = ship(much, [size]), tmp_path / "result"
    env = {**shipped.env, "RESULT_DIR": str(tmp_path), "GANGLINE_RESULT": str(place), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, *shipped.command[1:]], env=env, cwd=shipped.code, check=True)
    assert place.exists() is want
    if want:
        told = place.read_text()
        assert told.startswith(RETURNED_MARK)
        assert pickle.loads(base64.b64decode(told.removeprefix(RETURNED_MARK))) == much(size)


def _inside() -> object:
    listening = socket.socket()
    listening.close()

    def function() -> object:
        return listening

    return function


@pytest.mark.parametrize(
    ("make", "args", "want"),
    [
        pytest.param(lambda: lambda: 1, (), "is a lambda", id="a lambda"),
        pytest.param(_inside, (), "holds 'listening' (socket)", id="a closure over a socket"),
        pytest.param(lambda: add, (1, 2, 3), "cannot be called so", id="too many arguments"),
        pytest.param(lambda: add, (socket.SocketType,), None, id="a class of a module is fine"),
        pytest.param(lambda: add, ((each for each in ()),), "an argument that cannot be sent", id="a generator"),
        pytest.param(lambda: add, ("x" * 100_000,), "KiB", id="too much"),
        pytest.param(lambda: len, (), "is not a function", id="a builtin"),
        pytest.param(
            lambda: in_main("class Mine:\n    pass\ndef train():\n    return Mine()\n", "<cell 2>")["train"],
            (),
            "uses the class 'Mine' of the notebook",
            id="a class of a notebook",
        ),
    ],
)
def test_what_cannot_be_sent_is_told_before_submission(make, args: tuple[object, ...], want: str | None) -> None:
    if want is None:
        ship(make(), args)
        return
    with pytest.raises(InvalidInputError) as refusal:
        ship(make(), args)
    assert want in str(refusal.value)


def test_a_job_is_made_of_a_dict_a_text_a_file_a_command_or_a_function(tmp_path: Path) -> None:
    plain = {"metadata": {"name": "made"}, "spec": {"command": ["true"], "replicas": 2}}
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(plain))
    made = [gangline.Job.from_dict(plain), gangline.Job.from_text(json.dumps(plain)), gangline.Job.from_file(file)]
    assert made[0].spec == made[1].spec == made[2].spec
    assert repr(made[0]) == "<gangline.Job made: worker=2>"
    assert gangline.Job.of("true", workers=2, name="made").spec.roles[0].replicas == 2
    job = gangline.Job.from_function(add, args=[1], workers=3, gpus=1, name="added")
    assert (job.spec.roles[0].replicas, job.spec.roles[0].resources.gpus) == (3, 1)
    assert json.loads(base64.b64decode(job.spec.env[PAYLOAD]))["name"] == "add"
    with pytest.raises(InvalidInputError, match="no option 'wrokers'"):
        gangline.Job.of("true", wrokers=2)


def test_a_run_shows_itself_and_raises_when_it_failed() -> None:
    with InMemoryClient() as client:
        run = gangline.Job.of("train", name="shown").submit(client)
        client.report("shown", metrics={"loss": [0.5], "progress": [0.25]})
        assert "25%" in run._repr_html_()
        assert "<b>0.5</b>" in run._repr_html_()
        assert run.created.tzinfo is UTC
        assert run.finished is None
        client.finish("shown", exit_code=3, output=["it broke"])
        with pytest.raises(ConflictError, match="FAILED") as failed:
            run.wait()
        assert any("it broke" in note for note in failed.value.__notes__)
        assert repr(run) == "<gangline.Run shown: FAILED>"


def test_the_decorated_function_runs_here_as_before_and_is_submitted_by_its_verb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decorated = gangline.job(workers=2, name="decorated")(add)
    assert decorated(1, second=2) == 3
    with InMemoryClient() as client:
        monkeypatch.setattr("gangline.sdk.running.Client", lambda: client)
        monkeypatch.setattr(
            client, "prepared", lambda spec: client.as_sent(spec).__class__(name=spec.name, roles=spec.roles)
        )
        assert decorated.submit(1, second=2).record.spec.roles[0].replicas == 2


async def test_the_verbs_are_awaited_too() -> None:
    with InMemoryClient() as client:
        awaited = AsyncClient(client=client)
        await awaited.submit(gangline.Job.of("true", name="awaited").spec)
        client.report("awaited", output=["one", "two"])
        client.finish("awaited", exit_code=0)
        assert (await awaited.get("awaited")).name == "awaited"
        assert [line.text async for line in awaited.logs("awaited")] == ["one", "two"]
        assert (await asyncio.wait_for(awaited.wait("awaited"), 30)).finished


def test_the_awaited_client_has_every_verb_of_the_other() -> None:
    apart = {"address", "files", "embedded", "send_code", "put_object", "prepared", "as_sent", "diff_spec"}
    verbs = {name for name in vars(gangline.Client) if not name.startswith("_")} - apart
    assert verbs <= set(vars(AsyncClient))


def test_numbers_become_arrays_and_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = ReplicaId(RoleName("worker"), 0)
    found = Metrics([Metric(job_id=JobId("j"), at=Timestamp(5.0), replica=replica, name="loss", value=0.5, step=1)])
    assert found.to_numpy()["value"].tolist() == [0.5]
    assert repr(found) == "<Metrics: 1 values of loss>"
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInputError, match="need pandas"):
        found.to_frame()
    pandas = ModuleType("pandas")
    pandas.DataFrame = dict  # type: ignore[attr-defined]
    pandas.to_datetime = lambda column, **how: (column.tolist(), how)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert found.to_frame()["at"] == ([5.0], {"unit": "s", "utc": True})


def test_the_notebook_trains_here_and_as_a_gang_of_four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [each for each in json.loads(NOTEBOOK.read_text())["cells"] if each["cell_type"] == "code"]
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    with gangline.Client.embedded(home=tmp_path / "home") as client:
        monkeypatch.setattr("gangline.sdk.running.Client", lambda: client)
        for number, cell in enumerate(cells):
            text, name = "".join(cell["source"]), f"<cell of a notebook {number}>"
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
            exec(compile(text, name, "exec"), vars(main))  # as a notebook does
    space = SimpleNamespace(**vars(main))
    assert space.here == (pytest.approx(3.0), 1)
    assert space.there == (pytest.approx(3.0), 4)
    assert {str(metric.replica) for metric in space.losses} == {f"worker-{index}" for index in range(4)}
