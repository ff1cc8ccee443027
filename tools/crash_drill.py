"""Kills the local service again and again while it runs a stream of short jobs, and counts what went wrong.

The claim under test: no job is lost, none runs twice, and no process is left behind, whenever the service is
killed. Every replica appends one line to a file of its own, so a second run would show. The test suite runs
a short drill; ``bench/crash_drill.py`` runs the long one.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gangline.errors import UnreachableError
from gangline.model import FINAL_PHASES, JobSpec, Phase, Policy, Resources, RoleName, RoleSpec
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, running_process, start_service, stop_service
from gangline.settings import Settings

_SCRIPT = 'echo ran >> "$MARKS/$JOB_NAME.$GANGLINE_ROLE-$GANGLINE_INDEX"; sleep 0.0$((GANGLINE_INDEX * 3))'
_END_SECONDS = 120.0


@dataclass(slots=True)
class DrillReport:
    """What a drill found. ``sound`` is the verdict."""

    kills: int = 0
    submitted: int = 0
    completed: int = 0
    lost: list[str] = field(default_factory=list)
    run_twice: list[str] = field(default_factory=list)
    never_run: list[str] = field(default_factory=list)
    orphans: list[int] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing was lost, repeated or left behind."""
        return not (self.lost or self.run_twice or self.never_run or self.orphans) and self.completed == self.submitted

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.submitted} jobs submitted, {self.completed} completed, "
            f"{len(self.lost)} lost, {len(self.run_twice)} replicas run twice, "
            f"{len(self.never_run)} replicas never run, {len(self.orphans)} processes left behind"
        )


class CrashDrill:
    """One drill in one directory. ``seed`` decides when the service is killed."""

    def __init__(self, directory: Path, *, kills: int, seed: int, say: Callable[[str], None] = lambda _: None) -> None:
        self._settings = Settings.load(home=directory / "home", runtime_directory=directory / "run")
        self._marks = directory / "marks"
        self._kills = kills
        self._random = random.Random(seed)
        self._say = say
        self._report = DrillReport()
        self._names: list[str] = []
        self._over = threading.Event()

    def run(self) -> DrillReport:
        """Kill, restart, and at the end compare what ran with what should have."""
        self._settings.home.mkdir(parents=True)
        self._marks.mkdir()
        submitting = threading.Thread(target=self._submit_stream, name="submitting")
        submitting.start()
        try:
            self._kill_stream()
        finally:
            self._over.set()
            submitting.join()
        start_service(self._settings)
        try:
            self._await_end()
            self._count()
        finally:
            stop_service(self._settings)
        return self._report

    def _kill_stream(self) -> None:
        for number in range(self._kills):
            process = start_service(self._settings)
            time.sleep(self._random.expovariate(1 / 0.25))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            self._report.kills += 1
            if (number + 1) % 20 == 0:
                self._say(f"{number + 1} kills, {len(self._names)} jobs submitted")

    def _submit_stream(self) -> None:
        number = 0
        while not self._over.is_set():
            name = f"short-{number}"
            if self._submitted(name, replicas=1 + number % 3):
                self._names.append(name)
                number += 1
            self._over.wait(0.1)

    def _submitted(self, name: str, *, replicas: int) -> bool:
        """Submit under an id derived from the name: repeated after a crash, it is still one job."""
        role = RoleSpec(
            name=RoleName("worker"),
            replicas=replicas,
            command=("sh", "-c", _SCRIPT),
            resources=Resources(cpu_millis=50, memory_mib=32),
        )
        spec = JobSpec(name=name, roles=(role,), env={"MARKS": str(self._marks)}, policy=Policy(grace_seconds=1.0))
        try:
            Client(address_of(self._settings), settings=self._settings).submit(spec, job_id=f"id-{name}")
        except UnreachableError:
            return False
        return True

    def _await_end(self) -> None:
        client = Client(address_of(self._settings), settings=self._settings)
        deadline = time.monotonic() + _END_SECONDS
        while time.monotonic() < deadline:
            jobs = client.list(limit=None)
            if all(job.phase in FINAL_PHASES and not job.holding for job in jobs):
                return
            time.sleep(0.1)

    def _count(self) -> None:
        client = Client(address_of(self._settings), settings=self._settings)
        known = {job.name: job for job in client.list(limit=None)}
        report = self._report
        report.submitted = len(self._names)
        report.lost = [name for name in self._names if name not in known]
        for job in known.values():
            report.completed += job.phase is Phase.COMPLETED
            for index in range(job.spec.roles[0].replicas):
                mark = self._marks / f"{job.name}.worker-{index}"
                lines = mark.read_text().count("ran") if mark.exists() else 0
                if lines > 1:
                    report.run_twice.append(mark.name)
                if lines == 0:
                    report.never_run.append(mark.name)
        report.submitted = len(set(self._names) | known.keys())
        report.orphans = _processes_of(self._settings.home)

    def clean(self) -> None:
        """End the service if a failed drill left it running."""
        if running_process(self._settings) is not None:
            stop_service(self._settings)


def _processes_of(home: Path) -> list[int]:
    """Replicas and keepers whose command or environment names this home; the service itself does not count."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            environment = (entry / "environ").read_bytes()
            ours = any(part in command for part in (b"gangline.cli", b"gangline.compose"))
            if not ours and str(home / "jobs").encode() in command + environment:
                found.append(int(entry.name))
    return found
