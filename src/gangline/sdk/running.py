"""Jobs as Python writes them: ``Job`` describes one, ``run`` submits a function, ``Run`` is what came of it.

``gangline.Job``, ``gangline.run`` and ``gangline.job`` are these.
"""

import base64
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Generic, ParamSpec, Self, TypeVar

from gangline.dialects.native import ShortForm, job_from_short_form, job_to_plain
from gangline.dialects.native.short_form import derived_name
from gangline.errors import ConflictError, GanglineError, InvalidInputError, NotFoundError
from gangline.model import FINAL_PHASES, JobSpec, Phase
from gangline.model import Job as JobRecord
from gangline.sdk.client import Client
from gangline.sdk.code.functions import RETURNED, RETURNED_MARK, ship
from gangline.sdk.loading import load, parse
from gangline.sdk.values import Metrics

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Job:
    """A job that was not submitted yet; ``spec`` is all of it."""

    spec: JobSpec

    @classmethod
    def of(cls, *command: str, **options: Any) -> Self:
        """Describe a job by the options of ``gangline submit``: ``Job.of("python", "train.py", workers=4, gpus=1)``."""
        return cls(_from_options(command, options))

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> Self:
        """Read a job from the mapping that a job file holds, in any dialect."""
        import json

        return cls.from_text(json.dumps(plain))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read a job from the text of a job file; paths in it begin here."""
        found = parse(text, file=None, directory=Path.cwd())
        if len(found) != 1:
            raise InvalidInputError(f"the text holds {len(found)} jobs", expected="one job")
        return cls(found[0].spec)

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a job from a job file."""
        return cls(load(path))

    @classmethod
    def from_function(
        cls,
        function: Callable[..., object],
        *,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Self:
        """Describe a job whose every replica calls a function; ``options`` are those of ``gangline submit``."""
        shipped = ship(function, args, kwargs)
        name = options.pop("name", None) or derived_name((function.__name__,), os.urandom(2).hex())
        env = {**options.pop("env", {}), **shipped.env}
        code = options.pop("code", None) or shipped.code
        return cls(_from_options(shipped.command, {**options, "name": name, "env": env, "code": code}))

    def submit(self, client: Client | None = None, *, halted: bool = False) -> "Run":
        """Submit it to a service, the user's own if none is given."""
        client = client or Client()
        return Run(client, client.submit(self.spec, halted=halted))

    def to_dict(self) -> dict[str, object]:
        """Return what its job file says."""
        return job_to_plain(self.spec)

    def __repr__(self) -> str:
        roles = ", ".join(f"{role.name}={role.replicas}" for role in self.spec.roles)
        return f"<gangline.Job {self.spec.name}: {roles}>"


class Run:
    """A job that was submitted: asks for it again whenever something is read. The verbs are those of ``Client``."""

    def __init__(self, client: Client, record: JobRecord) -> None:
        self._client = client
        self.record = record
        """The job as it was when it was last asked for."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.record.name

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.id

    @property
    def phase(self) -> Phase:
        """Where it is now."""
        return self.refresh().phase

    @property
    def created(self) -> datetime:
        """When it was submitted."""
        return datetime.fromtimestamp(self.record.created_at, UTC)

    @property
    def started(self) -> datetime | None:
        """When it first ran."""
        return _moment(self.record.started_at)

    @property
    def finished(self) -> datetime | None:
        """When it ended."""
        return _moment(self.record.finished_at)

    def refresh(self) -> JobRecord:
        """Ask for the job as it is now."""
        if not self.record.finished:
            self.record = self._client.get(self.id)
        return self.record

    def wait(self, timeout: float | None = None) -> Self:
        """Return when it has completed; raises ConflictError, with its last lines, when it ended otherwise."""
        self.record = self._client.wait(self.id, phases=FINAL_PHASES, timeout=timeout)
        if self.record.phase is not Phase.COMPLETED:
            error = ConflictError(
                f"job '{self.name}' is {self.record.phase}: {self.record.message or self.record.reason}"
            )
            for line in list(self._client.logs(self.id, tail=10))[-10:]:
                error.add_note(f"[{line.replica}] {line.text}")
            raise error
        return self

    def logs(self, *, follow: bool = False, **chosen: Any) -> Iterator[str]:
        """Return its output, line by line."""
        return (line.text for line in self._client.logs(self.id, follow=follow, **chosen))

    def metrics(self, name: str | None = None) -> Metrics:
        """Return the numbers that it reported."""
        return self._client.metrics(self.id, name=name)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the end, and return what the function of a job from a function returned in its first replica."""
        self.wait(timeout)
        told = next((each.result for each in self.record.replicas if each.result.startswith(RETURNED_MARK)), None)
        if told is not None:
            return pickle.loads(base64.b64decode(told.removeprefix(RETURNED_MARK)))  # see below
        with tempfile.TemporaryDirectory() as place:
            try:
                file = self._client.files.fetch(self.id, f"results/{RETURNED}", Path(place) / RETURNED)
            except NotFoundError:
                return None
            return pickle.loads(file.read_bytes())  # what the caller's own function returned

    def halt(self) -> Self:
        """Stop it so that it keeps its checkpoint."""
        return self._changed(self._client.halt(self.id))

    def resume(self) -> Self:
        """Let it go on from its checkpoint."""
        return self._changed(self._client.resume(self.id))

    def cancel(self) -> Self:
        """End it for good."""
        return self._changed(self._client.cancel(self.id))

    def scale(self, **wanted: int) -> Self:
        """Ask for another number of replicas: ``scale(worker=8)``."""
        return self._changed(self._client.scale(self.id, wanted))

    def delete(self) -> None:
        """Delete it with all it left."""
        self._client.delete(self.id)

    def _changed(self, record: JobRecord) -> Self:
        self.record = record
        return self

    def __repr__(self) -> str:
        return f"<gangline.Run {self.name}: {self.record.phase}>"

    def _repr_html_(self) -> str:
        """Show the job as it is now, in a notebook."""
        try:
            job = self.refresh()
            metrics = self._client.latest_metrics(self.id)
        except GanglineError as error:
            return f"<p>{escape(self.name)}: {escape(str(error))}</p>"
        newest = {metric.name: metric.value for metric in metrics if metric.replica.index == 0}
        progress = newest.pop("progress", None)
        bar = f'<progress max="1" value="{progress:.3f}"></progress> {progress:.0%}' if progress is not None else ""
        numbers = "".join(f"<td>{escape(name)} <b>{value:.4g}</b></td>" for name, value in sorted(newest.items()))
        why = f"{job.reason}: {job.message}" if job.message else job.reason
        return (
            f"<table><tr><td><b>{escape(job.name)}</b></td><td>{job.phase}</td><td>{escape(why)}</td>"
            f"<td>{bar}</td>{numbers}</tr></table>"
        )


def run(
    function: Callable[..., object] | Job | str | Path | Sequence[str],
    *,
    client: Client | None = None,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    **options: Any,
) -> Run:
    """Submit a function, a job, a job file or a command, and return at once: ``run(train, workers=4, gpus=1)``.

    ``args`` and ``kwargs`` are the function's, ``options`` those of ``gangline submit``. ``run(...).result()`` waits
    and returns what the function returned in its first replica.
    """
    if isinstance(function, Job):
        return function.submit(client)
    if isinstance(function, str | Path):
        return Job.from_file(function).submit(client)
    if callable(function):
        return Job.from_function(function, args=args, kwargs=kwargs, **options).submit(client)
    return Job.of(*function, **options).submit(client)


class JobFunction(Generic[P, T]):
    """A function that runs here when it is called, and as a job when it is submitted; made by ``gangline.job``."""

    def __init__(self, function: Callable[P, T], options: Mapping[str, Any]) -> None:
        self.__wrapped__ = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._options = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it here."""
        return self.__wrapped__(*args, **kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Run:
        """Submit a job whose every replica calls the function with these arguments."""
        return run(self.__wrapped__, args=args, kwargs=kwargs, **self._options)

    def __repr__(self) -> str:
        return f"<gangline.job {self.__name__}>"


def job(**options: Any) -> Callable[[Callable[P, T]], JobFunction[P, T]]:
    """Let a function be submitted as a job; called, it runs here as before. ``options`` are those of ``run``."""
    return lambda function: JobFunction(function, options)


def _from_options(command: Sequence[str], options: Mapping[str, Any]) -> JobSpec:
    plain = {name: value for name, value in options.items() if value is not None}
    for name in ("cpu", "gpus", "memory"):
        if name in plain:
            plain[name] = str(plain[name])
    try:
        form = ShortForm(command=tuple(map(str, command)), suffix=os.urandom(2).hex(), **plain)
    except TypeError as error:
        known = ", ".join(sorted(set(ShortForm.__dataclass_fields__) - {"command", "suffix"}))
        wrong = sorted(set(plain) - set(ShortForm.__dataclass_fields__))
        raise InvalidInputError(f"there is no option '{', '.join(wrong)}'", expected=f"one of {known}") from error
    spec = job_from_short_form(form)
    return spec if spec.code is None else replace(spec, code=str(Path(spec.code).expanduser().absolute()))


def _moment(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
