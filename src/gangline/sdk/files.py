"""Files to and from a service, as one stream each way."""

from pathlib import Path
from typing import TypeVar

from gangline.data.tars import Chunks, packed, receive_into, tar_stream
from gangline.data.unpacking import PermanentError
from gangline.errors import InvalidInputError
from gangline.model.jobs.job_file import JobFile, SavedCheckpoint, checkpoints_of
from gangline.sdk.exchange import Exchange, query_of
from gangline.sdk.transports.interface import Query

T = TypeVar("T")


def send_files(exchange: Exchange, kind: type[T], path: tuple[str, ...], query: Query, source: Path) -> T:
    """Send a file or a directory and return the answer."""
    try:
        with tar_stream(packed(source)) as stream:
            return exchange.ask(kind, "PUT", path, query, stream)
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no '{error.filename}'", expected="a file or a directory") from error
    except PermanentError as error:
        raise InvalidInputError(str(error)) from error


def fetch_files(exchange: Exchange, path: tuple[str, ...], query: Query, target: Path, *, into: bool) -> Path:
    """Bring what is at a path to a place of this machine, whole or not at all; return where it is now."""
    try:
        with exchange.chunks(path, query) as chunks:
            return receive_into(Chunks(chunks), target, into=into)
    except PermanentError as error:
        raise InvalidInputError(str(error)) from error


class JobFiles:
    """Files of the jobs of one tenant, while they run and after; made by ``Client``.

    Paths begin with ``results/``, ``checkpoints/`` or ``data/``; none means the results.
    """

    def __init__(self, exchange: Exchange, tenant: str) -> None:
        self._exchange = exchange
        self._tenant = tenant

    def list(self, job: str, path: str = "results") -> tuple[JobFile, ...]:
        """Return every file at or below a path."""
        return self._exchange.ask(tuple[JobFile, ...], "GET", self._path(job, "files"), query_of(path=path))

    def checkpoints(self, job: str) -> tuple[SavedCheckpoint, ...]:
        """Return the whole checkpoints that the job's programs have saved, newest first."""
        return checkpoints_of(self.list(job, "checkpoints"))

    def fetch(self, job: str, path: str, target: Path, *, into: bool = False) -> Path:
        """Bring a file or a directory here; with ``into``, a file keeps its name in that directory."""
        return fetch_files(self._exchange, self._path(job, "content"), query_of(path=path), target, into=into)

    def send(self, job: str, source: Path, path: str = "results/") -> JobFile:
        """Put a file, or what is in a directory, among the files of a job."""
        return send_files(self._exchange, JobFile, self._path(job, "content"), query_of(path=path), source)

    def _path(self, job: str, what: str) -> tuple[str, ...]:
        return ("tenants", self._tenant, "jobs", job, what)
