"""The local engine under test: made over a temporary directory, and cleaned up whatever a test does."""

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gangline.engines.local.engine import LocalEngine
from gangline.engines.local.keeper.system import cgroups, processes
from gangline.model import Gang, Policy, Resources, Timestamp
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import EngineSubject, NewsReader, place


class WallClock:
    """The real time: replicas are real processes."""

    def now(self) -> Timestamp:
        return Timestamp(time.time_ns() / 1e9)


class LocalSubject(EngineSubject):
    """A local engine over one directory."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self._options = options
        self.engine = LocalEngine(root, clock=WallClock(), **options)
        self.news = NewsReader(self.engine)

    @classmethod
    @contextlib.asynccontextmanager
    async def over(cls, directory: Path, **options: Any) -> AsyncIterator["LocalSubject"]:
        root = directory / "engine"
        subject = cls(root, **options)
        try:
            yield subject
        finally:
            await subject.close()
            kill_everything(root)
            shutil.rmtree(root, ignore_errors=True)

    async def restart(self) -> None:
        await self.close()
        self.engine = LocalEngine(self.root, clock=WallClock(), **self._options)
        self.news = NewsReader(self.engine)

    async def close(self) -> None:
        await self.news.close()
        await self.engine.close()

    def attempt(self, job_id: str = "job-1", attempt: int = 1) -> Path:
        return self.root / "jobs" / job_id / "attempts" / str(attempt)


def record_of(attempt: Path) -> dict[str, Any]:
    """Return what the keeper of an attempt has written down; nothing before it has."""
    try:
        return json.loads((attempt / "state.json").read_text())
    except FileNotFoundError:
        return {}


def kill_everything(root: Path) -> None:
    """Kill the keepers of every attempt below a root, and whatever carries their marks. For the end of a test."""
    for order_file in root.glob("jobs/*/attempts/*/order.json"):
        keeper = record_of(order_file.parent).get("keeper_pid")
        if keeper and is_keeper_of(keeper, order_file.parent):
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)
        processes.kill_and_wait(marked_processes(json.loads(order_file.read_text())["token"]), 10)
        for group in groups_of(order_file.parent):
            cgroups.remove(group)


def groups_of(attempt: Path) -> list[str]:
    """Return the control groups of an attempt that exist."""
    token = json.loads((attempt / "order.json").read_text())["token"]
    known = [hierarchy for controller in ("memory", "pids") for hierarchy in cgroups.hierarchies(controller)]
    places = dict.fromkeys(hierarchy.own.rstrip("/") for hierarchy in known)
    return [f"{place}/gangline-{token}" for place in places if Path(f"{place}/gangline-{token}").exists()]


def marked_processes(token: str) -> list[int]:
    """Return every living process of a gang, wherever it has gone."""
    prefix = f"GANGLINE_TOKEN={token}:".encode()
    return [pid for pid in processes.everyone() if processes.begins_with(pid, prefix) and processes.alive(pid)]


def is_keeper_of(pid: int, attempt: Path) -> bool:
    """Whether a process is the keeper of an attempt, and not another that has got its number since."""
    try:
        return str(attempt).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


async def shell_gang(subject: LocalSubject, script: str, replicas: int = 1, **fields: object) -> Gang:
    """Return a placed gang whose replicas run a script."""
    resources = fields.pop("resources", Resources(cpu_millis=100))
    role = make_role(command=("sh", "-c", script), replicas=replicas, resources=resources)
    return place(make_spec(roles=(role,), policy=Policy(grace_seconds=1.0), **fields), await subject.node())
