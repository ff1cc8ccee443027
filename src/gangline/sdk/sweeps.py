"""The verbs of sweeps: ``client.sweeps.submit``, ``list``, ``get``, ``watch``, ``wait``, ``stop``, ``delete``."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import msgspec

from gangline.dialects.native import sweep_from_plain, sweep_to_plain
from gangline.errors import NotFoundError
from gangline.model import DEFAULT_TENANT, JobId, Phase, Tenant, Timestamp
from gangline.model.sweep import SweepId, SweepSpec, SweepState
from gangline.sdk.exchange import Exchange, body_of, query_of
from gangline.sdk.values import CODE_PREFIX
from gangline.sdk.wire import deadline_of, reader


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStatus:
    """One trial: its values, the newest value of the objective, and where its job is."""

    number: int
    values: dict[str, str]
    job: str
    job_id: JobId
    phase: Phase
    reason: str
    created_at: Timestamp
    result: float | None = None
    message: str = ""
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepStatus:
    """A sweep and its trials as they stand; ``best`` is the number of the best trial so far."""

    id: SweepId
    spec: SweepSpec
    state: SweepState
    created_at: Timestamp
    trials: tuple[TrialStatus, ...]
    begun: int = 0
    best: int | None = None
    finished_at: Timestamp | None = None

    @property
    def name(self) -> str:
        """The sweep's name, unique within its tenant."""
        return self.spec.name

    @property
    def over(self) -> bool:
        """Whether nothing runs and nothing will be started."""
        return self.state in (SweepState.FINISHED, SweepState.STOPPED)


class Sweeps:
    """Asks one service about the sweeps of one tenant; made by ``Client``."""

    def __init__(self, exchange: Exchange, tenant: Tenant, send_code: Callable[[Path], str]) -> None:
        self._exchange = exchange
        self._tenant = tenant
        self._send_code = send_code

    def submit(self, spec: SweepSpec, *, sweep_id: str | None = None) -> SweepStatus:
        """Submit a sweep and return it; the template's code is packed and sent once for all trials.

        A sweep that names no tenant belongs to the client's.
        """
        code = spec.template.code
        if code is not None and not str(code).startswith(CODE_PREFIX):
            spec = replace(spec, template=replace(spec.template, code=self._send_code(Path(code))))
        if spec.tenant == DEFAULT_TENANT:
            spec = replace(spec, template=replace(spec.template, tenant=self._tenant))
        body = body_of(sweep_to_plain(spec))
        query = query_of(id=sweep_id or f"s{os.urandom(7).hex()}")
        return _read(self._exchange.call("POST", ("tenants", spec.tenant, "sweeps"), query, body))

    def list(self) -> tuple[SweepStatus, ...]:
        """Return every sweep, newest first."""
        return tuple(_status(answer) for answer in _read_list(self._exchange.call("GET", self._path())))

    def get(self, sweep: str) -> SweepStatus:
        """Return the sweep of that name."""
        return _read(self._exchange.call("GET", self._path(sweep)))

    def watch(self, sweep: str, *, timeout: float | None = None) -> Iterator[SweepStatus]:
        """Return a sweep as it is and whenever something of it has changed, until it is gone."""
        lines = self._exchange.stream(self._path(sweep), query_of(watch=True), deadline_of(timeout))
        return (_read(line) for line in lines)

    def wait(self, sweep: str, *, timeout: float | None = None) -> SweepStatus:
        """Return when nothing of the sweep runs and nothing is left to try.

        Raises WaitTimeoutError when the time runs out, NotFoundError when the sweep disappeared.
        """
        for status in self.watch(sweep, timeout=timeout):
            if status.over:
                return status
        raise NotFoundError("sweep", sweep, hint="it was deleted meanwhile")

    def stop(self, sweep: str) -> SweepStatus:
        """Start no further trial and cancel those that run."""
        return _read(self._exchange.call("POST", self._path(sweep, "stop")))

    def delete(self, sweep: str, *, wait: bool = True, timeout: float | None = None) -> SweepStatus:
        """Make a sweep and its trials' jobs disappear; with ``wait``, return when the sweep has."""
        deleted = _read(self._exchange.call("DELETE", self._path(sweep)))
        if wait:
            # Not found: it was gone before the watch began.
            with suppress(NotFoundError):
                deque(self.watch(sweep, timeout=timeout), maxlen=0)
        return deleted

    def _path(self, *below: str) -> tuple[str, ...]:
        return ("tenants", self._tenant, "sweeps", *below)


class _TrialAnswer(msgspec.Struct, kw_only=True):
    number: int
    values: dict[str, str]
    job: str
    job_id: JobId
    phase: Phase
    reason: str
    created_at: datetime
    result: float | None = None
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class _StatusAnswer(msgspec.Struct, kw_only=True):
    id: SweepId
    state: SweepState
    created_at: datetime
    begun: int
    trials: list[_TrialAnswer]
    best: int | None = None
    finished_at: datetime | None = None


class _SweepAnswer(msgspec.Struct, kw_only=True):
    metadata: dict[str, object]
    spec: dict[str, object]
    status: _StatusAnswer


_read_one, _read_list = reader(_SweepAnswer), reader(list[_SweepAnswer])


def _read(body: bytes) -> SweepStatus:
    return _status(_read_one(body))


def _status(answer: _SweepAnswer) -> SweepStatus:
    status = answer.status
    return SweepStatus(
        id=status.id,
        spec=sweep_from_plain({"metadata": answer.metadata, "spec": answer.spec}),
        state=status.state,
        created_at=Timestamp(status.created_at.timestamp()),
        trials=tuple(_trial(trial) for trial in status.trials),
        begun=status.begun,
        best=status.best,
        finished_at=_at_or_none(status.finished_at),
    )


def _trial(trial: _TrialAnswer) -> TrialStatus:
    return TrialStatus(
        number=trial.number,
        values=trial.values,
        job=trial.job,
        job_id=trial.job_id,
        phase=trial.phase,
        reason=trial.reason,
        created_at=Timestamp(trial.created_at.timestamp()),
        result=trial.result,
        message=trial.message,
        started_at=_at_or_none(trial.started_at),
        finished_at=_at_or_none(trial.finished_at),
    )


def _at_or_none(moment: datetime | None) -> Timestamp | None:
    return None if moment is None else Timestamp(moment.timestamp())
