"""What every operation is given: the parts of the service it works with, and who is asking."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from gangline.engines.interface import Engine
from gangline.errors import PermissionDeniedError
from gangline.model import Clock, Explanation, JobId, JobSpec, Tenant, Timestamp
from gangline.model.team.accounting import Use
from gangline.scheduling import DEFAULT_POLICIES, Policies
from gangline.storage.answers import KeptAnswers
from gangline.storage.audit import AuditLog
from gangline.storage.interface import Store

T = TypeVar("T")


class ControllerLink(Protocol):
    """How operations reach the controller without knowing it."""

    def changed(self, job_id: JobId) -> None:
        """Say that the record of this job changed: the controller reads it and carries out what it calls for."""
        ...

    def explanation(self, job_id: JobId) -> Explanation | None:
        """Return what the last scheduling cycle found out about a waiting job, if it looked at it.

        It has sentences where a controller elsewhere has written it down; otherwise whoever asks puts it into words.
        """
        ...

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from now on, whoever changed it.

        Changes count from the call, not from the first step of the iterator: whoever reads a record after
        calling this misses nothing. One job may be named several times, or once for several changes.
        """
        ...


class Uploader(Protocol):
    """Brings what a job needs to an engine that does not share our disk."""

    async def send_code(self, job_id: JobId, spec: JobSpec) -> None:
        """Send the code archive, and whatever else of this machine the job names, to where the job will run."""
        ...

    async def send_object(self, tenant: Tenant, document: Mapping[str, object]) -> None:
        """Send an object of a job's file; raises ConflictError rather than change one that was not sent before."""
        ...

    async def remove_object(self, tenant: Tenant, kind: str, name: str) -> None:
        """Remove an object that was sent before; one that is gone, or that somebody else made, is left alone."""
        ...


class RecordLink(Protocol):
    """How operations reach whoever drives records."""

    def changed(self, kind: str) -> None:
        """Say that a record of this kind was made, changed or is to be deleted."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. ``tenants`` None means every tenant, which is what the owner of a local service has."""

    name: str
    tenants: frozenset[Tenant] | None = None

    def check(self, tenant: Tenant) -> None:
        """Refuse a caller that has nothing to do with this tenant."""
        if self.tenants is not None and tenant not in self.tenants:
            raise PermissionDeniedError(f"{self.name} may not act for tenant '{tenant}'")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationContext:
    """What a request is handled with. ``code_directory`` keeps code archives by digest.

    ``object_directory`` keeps ConfigMaps and Secrets by tenant, ``model_directory`` the files of models,
    ``claim_directory`` what volumes stand for; None where a cluster keeps its own. Where the
    controller is another machine's, ``uploader`` brings it what a new job needs. ``whole`` sees the jobs of all
    tenants,
    where store and link see those of one.
    """

    store: Store
    engine: Engine
    link: ControllerLink
    record_link: RecordLink
    clock: Clock
    code_directory: Path
    caller: Caller
    object_directory: Path | None = None
    model_directory: Path | None = None
    claim_directory: Path | None = None
    uploader: Uploader | None = None
    whole: "OperationContext | None" = None
    audit: AuditLog | None = None
    answers: KeptAnswers | None = None
    past_use: Callable[[Tenant | None, Timestamp], Awaitable[Sequence[Use]]] | None = None
    """What deleted jobs of a tenant, or of all, had used after a moment, where the store keeps that."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """What an hour of a CPU, a GiB of memory and a GPU costs."""
    policies: Policies = DEFAULT_POLICIES
    """How the scheduler decides, for looks ahead."""
    rights_of: Callable[[Tenant], AbstractContextManager[None]] = lambda _: nullcontext()
    """Has the thread that enters it use files with the rights of a tenant, where those are not the service's own."""
    rehearsal: bool = False
    """Whether nothing may be changed: ``rehearsing`` sees to records; whoever touches files or engines looks here."""

    async def among_files(self, tenant: Tenant, work: Callable[[], T]) -> T:
        """Do something with files of a tenant, in a thread and with its rights."""

        def done() -> T:
            with self.rights_of(tenant):
                return work()

        return await asyncio.to_thread(done)
