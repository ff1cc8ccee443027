"""Tenants of a service that is root's: their jobs run as system users of their own, and gain nothing from each other.

A job of one tenant, which knows everything that could help it, attacks a job of another and the service. The same
attacks succeed where the tenants share a user, so they are real.
"""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import gangline

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as other users")

SECRET = "the-secret-of-vision"
VICTIM = f"""
import os, socket, sys, time, json
from pathlib import Path
for folder in ("RESULT_DIR", "CHECKPOINT_DIR", "HOME", "TMPDIR"):
    Path(os.environ[folder], "secret").write_text("{SECRET}")
metric = {{"at": 1.0, "name": "{SECRET}", "value": 1.0, "step": 1}}
Path(os.environ["GANGLINE_METRICS"]).write_text(json.dumps(metric) + "\\n")
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["TMPDIR"] + "/listener")
listener.listen()
kept = ("HOME", "TMPDIR", "RESULT_DIR", "CHECKPOINT_DIR", "GANGLINE_METRICS", "GANGLINE_TOKEN")
known = {{"pid": os.getpid(), "user": os.getuid(), **{{name: os.environ[name] for name in kept}}}}
known["gpu"] = "/dev/nvidia" + os.environ["CUDA_VISIBLE_DEVICES"].removeprefix("GPU-")
open(known["gpu"], "rb").close()
print(json.dumps(known), flush=True)
time.sleep(3600)
"""
_ATTACK = Path(__file__).with_name("attack.py")
NEEDED = {Path(sys.executable).resolve(), Path(sys.executable).absolute(), Path(gangline.__file__).resolve()}
PLACE = next(place for place in ("/srv", "/mnt", "/media") if not any(path.is_relative_to(place) for path in NEEDED))
"""Where the test's own directory is mounted: over nothing that the service needs."""


GPUS = """case "$1" in
-L) printf 'GPU 0: H200 (UUID: GPU-0)\\nGPU 1: H200 (UUID: GPU-1)\\n' ;;
*) printf '0, NVIDIA H200, 143771, 0, 0\\n1, NVIDIA H200, 143771, 0, 0\\n' ;;
esac"""
"""What stands for nvidia-smi."""
DEVICES = """
mkdir olddev newdev && mount --rbind /dev olddev && mount -t tmpfs none newdev
for each in null zero full random urandom tty; do touch newdev/$each && mount --bind olddev/$each newdev/$each; done
mkdir newdev/shm && mount --bind olddev/shm newdev/shm
ln -s /proc/self/fd newdev/fd
mknod -m 666 newdev/nvidia0 c 1 3 && mknod -m 666 newdev/nvidia1 c 1 3
mount --rbind newdev /dev
"""
"""Two GPUs among the usual devices."""


class OpenMachine:
    """A mount namespace in which every user can reach the interpreter, and ``PLACE`` is a directory of the test.

    It has two GPUs, as far as files tell. Nothing of it is seen outside, and it is gone with its last process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.chmod(0o755)

    def set_up(self) -> str:
        """The shell commands that make it so."""
        lines = ["set -e", f"mount --bind {shlex.quote(str(self._folder))} {PLACE}"]
        for number, closed in enumerate(sorted({each for path in NEEDED if (each := _closed_above(path)) is not None})):
            opened = self._folder / f"opened-{number}"
            opened.mkdir()
            for name in {path.relative_to(closed).parts[0] for path in NEEDED if closed in path.parents}:
                (opened / name).mkdir()
                lines.append(f"mount --rbind {shlex.quote(str(closed / name))} {shlex.quote(str(opened / name))}")
            lines.append(f"mount --rbind {shlex.quote(str(opened))} {shlex.quote(str(closed))}")
        (self._folder / "bin").mkdir()
        (self._folder / "bin" / "nvidia-smi").write_text(f"#!/bin/sh\n{GPUS}\n")
        (self._folder / "bin" / "nvidia-smi").chmod(0o755)
        lines.append(f"cd {PLACE}\n{DEVICES}cd /")
        return "\n".join(lines)


def _closed_above(path: Path) -> Path | None:
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)


class Team:
    """The service of one team, and commands typed by its people."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        script = f'{OpenMachine(folder).set_up()}\nexec "$@"'
        words = (sys.executable, "-m", "gangline", "server", "run", "--listen", "127.0.0.1:0", *options)
        command = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *words)
        self._server = subprocess.Popen(
            command, env=self._environment("operator"), stderr=subprocess.PIPE, text=True, cwd="/"
        )
        assert self._server.stderr is not None
        self.log = ""
        for line in self._server.stderr:
            self.log += line
            if found := re.search(r"serving a team on (\S+)", line):
                self.address = found[1]
                break
        fingerprint = re.search(r"fingerprint is (\w+)", self.log)
        if fingerprint is None:
            self._server.kill()
            self._server.communicate()
            raise AssertionError(self.log)
        self.fingerprint = fingerprint[1]

    @property
    def pid(self) -> int:
        return self._server.pid

    def _environment(self, who: str) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_", "CUDA_"))
        }
        kept["PATH"] = f"{PLACE}/bin:{kept['PATH']}"
        places = (
            {"GANGLINE_HOME": f"{PLACE}/data", "GANGLINE_RUNTIME_DIRECTORY": f"{PLACE}/run"}
            if who == "operator"
            else {}
        )
        return {**kept, **places, "HOME": f"{PLACE}/{who}", "PYTHONPATH": str(Path(gangline.__file__).parents[1])}

    def _command(self, *words: str) -> tuple[str, ...]:
        return ("nsenter", "--mount", f"--target={self.pid}", sys.executable, "-m", "gangline", *words)

    def type(self, who: str, *words: str, want: int | None = 0) -> str:
        """Type a command where the service runs; ``want`` None takes any end."""
        done = subprocess.run(
            self._command(*words),
            env=self._environment(who),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd="/",
        )
        assert want in (None, done.returncode), done.stderr + self.log
        return done.stdout + (done.stderr if want != 0 else "")

    def log_in(self, who: str, tenant: str) -> None:
        file = self._folder / f"{who}.token"
        file.write_text(self.type("operator", "token", "create", who, "--tenant", tenant))
        words = ("--token-file", f"{PLACE}/{who}.token", "--name", "gpu", "--fingerprint", self.fingerprint)
        self.type(who, "login", self.address, *words)

    def run_program(self, who: str, job: str, program: str, *options: str, known: object = None) -> None:
        """Submit a program with its code, and what it is to know as an argument."""
        code = self._folder / who / job
        code.mkdir(parents=True)
        (code / "program.py").write_text(program)
        words = ("--code", f"{PLACE}/{who}/{job}", *options, "--", "python", "program.py", json.dumps(known))
        self.type(who, "submit", "--name", job, "--cpu", "100m", "--memory", "128Mi", "--gpus", "1", *words)

    def said_by(self, who: str, job: str) -> dict[str, object]:
        """The object that a job prints, once it has."""
        command = self._command("logs", "-f", job)
        with subprocess.Popen(
            command, env=self._environment(who), stdout=subprocess.PIPE, text=True, cwd="/"
        ) as following:
            assert following.stdout is not None
            said = next(line for line in following.stdout if "{" in line)
            following.terminate()
        return dict(json.loads(said[said.index("{") :]))

    def inside(self, path: str) -> Path:
        """Where something below ``PLACE`` is found from here."""
        return Path(f"/proc/{self.pid}/root{PLACE}", path)

    def stop(self) -> None:
        self.type("alice", "cancel", "victim", want=None)
        self.type("alice", "wait", "victim", want=None)
        self._server.terminate()
        self._server.communicate(timeout=60)


@contextlib.contextmanager
def fought(*options: str) -> Iterator["Fight"]:
    """Start a service and have the attack done there."""
    with tempfile.TemporaryDirectory(prefix="gu") as folder:
        team = Team(Path(folder), *options)
        try:
            yield Fight(team)
        finally:
            team.stop()


@pytest.fixture(scope="module")
def fight() -> Iterator["Fight"]:
    with fought() as fight:
        yield fight


class Fight:
    """Alice of vision has a job that runs; Eve of speech has had one attack it."""

    def __init__(self, team: Team) -> None:
        self.team = team
        team.log_in("alice", "vision")
        team.log_in("eve", "speech")
        team.run_program("alice", "victim", VICTIM, "-e", f"KEY={SECRET}")
        self.victim = team.said_by("alice", "victim")
        attempt = Path(str(self.victim["GANGLINE_METRICS"])).parents[1]
        token = str(self.victim["GANGLINE_TOKEN"]).partition(":")[0]
        files = {
            "result": f"{self.victim['RESULT_DIR']}/secret",
            "checkpoint": f"{self.victim['CHECKPOINT_DIR']}/secret",
            "home": f"{self.victim['HOME']}/secret",
            "temporary": f"{self.victim['TMPDIR']}/secret",
            "metrics": self.victim["GANGLINE_METRICS"],
            "order": f"{attempt}/order.json",
            "record": f"{attempt}/state.json",
            "log": f"{attempt}/logs/worker-0.log",
            "database": f"{PLACE}/data/gangline.db",
            "users": f"{PLACE}/data/system-users.json",
            "kubernetes": f"{PLACE}/data/kubernetes.json",
        }
        self.files = {name: str(path) for name, path in files.items()}
        kubernetes = json.loads(team.inside("data/kubernetes.json").read_text())
        known = {
            "home": f"{PLACE}/data",
            "pid": self.victim["pid"],
            "user": self.victim["user"],
            "service": team.pid,
            "files": self.files,
            "folders": {
                "home": f"{PLACE}/data",
                "jobs": f"{PLACE}/data/jobs",
                "job": str(attempt.parents[1]),
                "results": self.victim["RESULT_DIR"],
                "objects": f"{PLACE}/data/objects",
                "models": f"{PLACE}/data/models/vision",
                "runtime": f"{PLACE}/run",
            },
            "socket": f"{PLACE}/run/service.sock",
            "replica_socket": f"{self.victim['TMPDIR']}/listener",
            "kubernetes_port": kubernetes["port"],
            "token": token,
            "gpu": self.victim["gpu"],
        }
        team.run_program("eve", "attacker", _ATTACK.read_text(), known=known)
        self.outcome = {name: str(said) for name, said in team.said_by("eve", "attacker").items()}
        team.type("eve", "wait", "attacker")

    @property
    def gained(self) -> set[str]:
        """The attacks that were not refused."""
        return {name for name, said in self.outcome.items() if said.startswith("done")}


def test_what_one_tenant_attacks_of_another_is_refused(fight: Fight) -> None:
    assert not fight.gained, {name: fight.outcome[name] for name in fight.gained}
    assert {
        "read result",
        "proc environ",
        "stop its keeper",
        "enter the private socket",
        "open its GPU",
    } <= fight.outcome.keys()
    user = fight.outcome["identity"].split()
    assert user[0] == user[1] == user[2] != "0"
    assert int(user[0]) != fight.victim["user"]
    assert user[3] == "[]"


def test_the_same_attacks_succeed_where_tenants_share_a_user() -> None:
    with fought("--trust-tenants") as fight:
        wanted = {"read result", "read order", "read database", "proc environ", "enter the private socket"}
        wanted |= {"open its GPU"}
        assert wanted <= fight.gained
        assert str(fight.victim["pid"]) in fight.outcome["processes"].split()


def test_processes_of_other_tenants_are_not_listed(fight: Fight) -> None:
    if "/proc" in fight.team.log:
        pytest.skip("the service says that it cannot hide them here")
    assert str(fight.victim["pid"]) not in fight.outcome["processes"].split()


def test_links_do_not_make_the_service_read_for_another_tenant(fight: Fight) -> None:
    got = fight.team.type("eve", "cp", "attacker:results", f"{PLACE}/eve/got", want=None)
    texts = [file.read_text(errors="replace") for file in fight.team.inside("eve").rglob("*") if file.is_file()]
    shown = [fight.team.type("eve", "get", "attacker", "-o", "json"), fight.team.type("eve", "metrics", "attacker")]
    assert SECRET not in got + "".join((*texts, *shown))


def test_inputs_are_read_with_the_rights_of_their_tenant(fight: Fight) -> None:
    job = {
        "apiVersion": "gangline.dev/v1",
        "kind": "Job",
        "metadata": {"name": "thief"},
        "spec": {
            "command": ["sh", "-c", "cat $DATA_DIR/*"],
            "resources": {"cpu": "100m", "memory": "64Mi"},
            "data": {"inputs": [{"from": f"file://{fight.files['result']}", "to": "$DATA_DIR/it"}]},
        },
    }
    fight.team.inside("thief.yaml").write_text(json.dumps(job))
    fight.team.type("eve", "submit", "-f", f"{PLACE}/thief.yaml")
    fight.team.type("eve", "wait", "thief", want=None)
    assert "ermission denied" in fight.team.type("eve", "describe", "thief")
    assert SECRET not in fight.team.type("eve", "logs", "thief", want=None)


def test_the_job_that_was_attacked_goes_on_and_its_tenant_has_its_files(fight: Fight) -> None:
    assert "PROCESSING" in fight.team.type("alice", "get", "victim")
    fight.team.type("alice", "cp", "victim:results", f"{PLACE}/alice/got")
    assert SECRET in "".join(file.read_text() for file in fight.team.inside("alice/got").rglob("*") if file.is_file())
