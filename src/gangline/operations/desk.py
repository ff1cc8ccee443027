"""What every operation is given: the parts of the service it works with, and who is asking."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gangline import wire
from gangline.engines.interface import Engine
from gangline.errors import PermissionDeniedError
from gangline.model import Clock, JobId, JobSpec, Tenant
from gangline.storage.interface import Store

if TYPE_CHECKING:
    # The scheduler and its arrays are slow to import, and a command that lists jobs needs neither.
    from gangline.scheduling import Explanation


class ControllerLink(Protocol):
    """How operations reach the controller without knowing it."""

    def changed(self, job_id: JobId) -> None:
        """Say that the record of this job changed: the controller reads it and carries out what it calls for."""
        ...

    def explanation(self, job_id: JobId) -> "Explanation | None":
        """Return what the last scheduling cycle found out about a waiting job, if it looked at it."""
        ...

    def watch(self) -> AsyncIterator[JobId]:
        """Return every job that changes from now on, whoever changed it.

        Changes count from the call, not from the first step of the iterator: whoever reads a record after
        calling this misses nothing. One job may be named several times, or once for several changes.
        """
        ...


class Courier(Protocol):
    """Brings what a job needs to an engine that does not share our disk."""

    async def send_code(self, job_id: JobId, spec: JobSpec) -> None:
        """Send the code archive, and whatever else of this machine the job names, to where the job will run."""
        ...

    async def send_object(self, tenant: Tenant, document: Mapping[str, object]) -> None:
        """Send an object of a job's file; raises ConflictError rather than change one that was not sent before."""
        ...


class SweepLink(Protocol):
    """How operations reach whoever drives sweeps."""

    def changed(self) -> None:
        """Say that a sweep was submitted, stopped or is to be deleted."""
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
class Desk:
    """Where a request is handled. ``code_directory`` keeps code archives by digest.

    ``object_directory`` keeps ConfigMaps and Secrets by tenant; None where a cluster keeps its own. Where the
    controller is another machine's, ``courier`` brings it what a new job needs and ``told`` is what it wrote down
    about why jobs wait.
    """

    store: Store
    engine: Engine
    link: ControllerLink
    sweep_link: SweepLink
    clock: Clock
    code_directory: Path
    caller: Caller
    object_directory: Path | None = None
    courier: Courier | None = None
    told: Callable[[JobId], wire.Explanation | None] | None = None
