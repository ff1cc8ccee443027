"""The command line's client: the client of the SDK, whose streams and submissions outlive a restart of the service."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from gangline.cli import terminal
from gangline.cli.reconnecting import Bridge, unbroken
from gangline.errors import NotFoundError, UnreachableError
from gangline.model import Job, JobId, JobSpec, Phase, ReplicaId, Timestamp
from gangline.model.sweep import SweepSpec
from gangline.sdk import Change, Client, LogLine, SweepStatus
from gangline.sdk.client import new_job_id
from gangline.sdk.exchange import deadline_of
from gangline.sdk.sweeps import Sweeps, new_sweep_id
from gangline.settings import Settings

T = TypeVar("T")

_DISORDER_SECONDS = 60.0
"""Lines of different replicas reach us out of the order of their times by less than this."""
_ALWAYS = Timestamp(0.0)
"""Before the first line of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    """Which output is followed: what ``Client.logs`` is asked for."""

    job: str
    role: str | None
    index: int | None
    attempt: int | None
    since: Timestamp


class LogMarks:
    """How far each replica's output has been read: the time of its last line, and how many lines bear that time."""

    def __init__(self) -> None:
        self._marks: dict[tuple[int, ReplicaId], tuple[Timestamp, int]] = {}

    @property
    def last_attempt(self) -> int:
        """The newest attempt of which a line was read; 0 before the first."""
        return max((attempt for attempt, _ in self._marks), default=0)

    @property
    def oldest(self) -> Timestamp | None:
        """A time before which nothing unread can lie; None if nothing was read."""
        last = self.last_attempt
        times = [at for (attempt, _), (at, _) in self._marks.items() if attempt == last]
        return Timestamp(min(times) - _DISORDER_SECONDS) if times else None

    def unread(self, lines: Iterator[LogLine], *, floor: Timestamp = _ALWAYS) -> Iterator[LogLine]:
        """Leave out what was read before, and of replicas that were silent what is older than ``floor``."""
        known = dict(self._marks)
        for line in lines:
            key = (line.attempt, line.replica)
            at, count = known.get(key, (floor, 0))
            if line.at < at:
                continue
            if line.at == at and count:
                known[key] = (at, count - 1)
                continue
            last, same = self._marks.get(key, (line.at, 0))
            self._marks[key] = (line.at, same + 1 if last == line.at else 1)
            yield line


class PatientClient(Client):
    """A client that waits for its service where streams break, and goes on without losing or repeating anything.

    ``revive`` is called before each question whether the service is back, and may start it; so is ``start``, where a
    submission waits: whoever submits wants a service, also in place of one that was stopped just now.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        context: str | None = None,
        tenant: str | None = None,
        settings: Settings | None = None,
        revive: Callable[[], None] = lambda: None,
        start: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(address, context=context, tenant=tenant, settings=settings)
        self._bridge = Bridge(revive)
        self._starts = start is not None
        self._submissions = Bridge(start or revive)
        self.sweeps = _PatientSweeps(self, self._bridge)

    def submit(self, spec: JobSpec, *, job_id: str | None = None, halted: bool = False) -> Job:
        """Submit a job once, however often that takes: the id is chosen here."""
        job_id = job_id or new_job_id()
        return self.patiently(lambda: Client.submit(self, spec, job_id=job_id, halted=halted))

    def put_object(self, document: str) -> None:
        """Keep a ConfigMap or a Secret; see Client."""
        self.patiently(lambda: Client.put_object(self, document))

    def patiently(self, act: Callable[[], T]) -> T:
        """Do what may be done twice, and do it again when the service dies meanwhile."""
        try:
            return act()
        except UnreachableError as error:
            if not self._starts and isinstance(error.__cause__, FileNotFoundError | ConnectionRefusedError):
                raise  # nobody was there in the first place: an address may be wrong
            self._submissions.cross(error, self.version)
        return self._submissions.retry(act, self.version)

    def watch(self, job: str, *, timeout: float | None = None) -> Iterator[Change]:
        """Return a job as it is and after every change, and as it is once more after each gap, until it is gone."""
        deadline = deadline_of(timeout)
        return unbroken(
            super().watch(job, timeout=timeout),
            again=lambda: Client.watch(self, job, timeout=_left(deadline)),
            over=lambda: self._is_gone(job),
            bridge=self._bridge,
            deadline=deadline,
        )

    def watch_all(
        self,
        *,
        queue: str | None = None,
        phases: Collection[Phase] = (),
        labels: Mapping[str, str] | None = None,
        text: str | None = None,
        limit: int = 100,
    ) -> Iterator[Change]:
        """Return the newest jobs and then every change; after a gap, what has changed meanwhile."""
        begin = partial(super().watch_all, queue=queue, phases=phases, labels=labels, text=text, limit=limit)
        told: dict[JobId, Job] = {}
        for change in unbroken(begin(), again=begin, over=self._never_over, bridge=self._bridge):
            if change.job is None:
                told.pop(change.job_id, None)
            elif told.get(change.job_id) == change.job:
                continue
            else:
                told[change.job_id] = change.job
            yield change

    def logs(
        self,
        job: str,
        *,
        role: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
        since: Timestamp | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        """Return a job's output; following goes on where it was when the service is back."""
        began = terminal.now()
        first_attempt = self.get(job).attempt if follow else 0
        lines = super().logs(job, role=role, index=index, attempt=attempt, since=since, tail=tail, follow=follow)
        if not follow:
            return lines
        marks = LogMarks()
        # With a tail, what a silent replica wrote before this command was left out on purpose.
        floor = began if tail is not None else since or _ALWAYS
        output = _Output(job=job, role=role, index=index, attempt=attempt, since=floor)
        return _until_gone(
            unbroken(
                marks.unread(lines),
                again=lambda: self._follow_again(output, marks, first_attempt, floor),
                over=lambda: self._rests(job) or attempt is not None,
                bridge=self._bridge,
            )
        )

    def _follow_again(
        self, output: _Output, marks: LogMarks, first_attempt: int, floor: Timestamp
    ) -> Iterator[LogLine]:
        """Follow from where the marks are; attempts that ended during the gap come before the present one."""
        output = replace(output, since=marks.oldest or output.since)
        stream = self._read(output, follow=True)
        behind = max(marks.last_attempt, first_attempt, 1)
        if output.attempt is None:
            present = self.get(output.job).attempt
            yield from self._earlier(output, marks, behind, present, floor)
            behind = max(behind, present)
        for line in marks.unread(stream, floor=floor):
            if output.attempt is None:
                # Empty, unless the next attempt began while we asked for the present one.
                yield from self._earlier(output, marks, behind, line.attempt, floor)
                behind = max(behind, line.attempt)
            yield line

    def _earlier(self, output: _Output, marks: LogMarks, first: int, end: int, floor: Timestamp) -> Iterator[LogLine]:
        for attempt in range(first, end):
            yield from marks.unread(self._read(replace(output, attempt=attempt), follow=False), floor=floor)

    def _read(self, output: _Output, *, follow: bool) -> Iterator[LogLine]:
        return super().logs(
            output.job,
            role=output.role,
            index=output.index,
            attempt=output.attempt,
            since=output.since,
            follow=follow,
        )

    def _rests(self, job: str) -> bool:
        """Whether there will be no more output."""
        found = self.get(job)
        return found.finished or found.phase is Phase.HALTED

    def _is_gone(self, job: str) -> bool:
        try:
            self.get(job)
        except NotFoundError:
            return True
        return False

    def _never_over(self) -> bool:
        """Whether there will be no more jobs; to be asked, the service must be there."""
        self.list(limit=1)
        return False


class _PatientSweeps(Sweeps):
    """The sweeps of a patient client."""

    def __init__(self, client: PatientClient, bridge: Bridge) -> None:
        super().__init__(client._exchange, client.tenant, client._prepared)  # noqa: SLF001  # a part of it
        self._client = client
        self._bridge = bridge

    def submit(self, spec: SweepSpec, *, sweep_id: str | None = None) -> SweepStatus:
        """Submit a sweep once, however often that takes: the id is chosen here."""
        sweep_id = sweep_id or new_sweep_id()
        return self._client.patiently(lambda: Sweeps.submit(self, spec, sweep_id=sweep_id))

    def watch(self, sweep: str, *, timeout: float | None = None) -> Iterator[SweepStatus]:
        """Return a sweep as it is and after every change, and as it is once more after each gap, until it is gone."""
        deadline = deadline_of(timeout)
        return unbroken(
            super().watch(sweep, timeout=timeout),
            again=lambda: Sweeps.watch(self, sweep, timeout=_left(deadline)),
            over=lambda: self._is_gone(sweep),
            bridge=self._bridge,
            deadline=deadline,
        )

    def _is_gone(self, sweep: str) -> bool:
        try:
            self.get(sweep)
        except NotFoundError:
            return True
        return False


def _until_gone(lines: Iterator[LogLine]) -> Iterator[LogLine]:
    """Return lines until their job is deleted: its output ends with it."""
    with suppress(NotFoundError):
        yield from lines


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else deadline - time.monotonic()
