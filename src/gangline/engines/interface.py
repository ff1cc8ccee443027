"""The contract between the controller and whatever runs gangs.

An engine keeps no opinion about what should run: it is told, and it reports. Every order is idempotent and
keyed by the gang's id (job and attempt), because a controller that restarts gives its standing orders again.
``gangline.testing.engine_suite`` is the proof that an engine keeps this contract.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from gangline.data.job_folders import FileFact
from gangline.data.model_files import KeptModel
from gangline.lifecycle.events import GangEvent, GangFound
from gangline.lifecycle.watching import Pulse
from gangline.model import (
    Clean,
    Gang,
    GangId,
    Job,
    JobId,
    LogLine,
    Metric,
    Node,
    ReplicaId,
    RoleName,
    Timestamp,
    Usage,
)
from gangline.model.console import Console
from gangline.model.kinds.service import Check


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which lines to read. ``attempt`` None means the last one; ``tail`` counts lines per replica."""

    job_id: JobId
    attempt: int | None = None
    role: RoleName | None = None
    index: int | None = None
    since: Timestamp | None = None
    tail: int | None = None
    follow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesChanged:
    """Nodes came, went or changed; whoever cares asks for them again."""


EngineEvent = GangEvent | Metric | NodesChanged


class Engine(Protocol):
    """Runs gangs. All methods are called from one event loop; calls for different gangs may overlap."""

    async def nodes(self) -> Sequence[Node]:
        """Describe every node there is now, in a stable order."""
        ...

    async def run(self, gang: Gang) -> None:
        """Make the gang's replicas exist exactly as listed; return when that is under way, not when it is done.

        Starts replicas in parallel, on the nodes given. A replica marked ``started`` is never started a second
        time: if it is gone without a known exit, it is reported as ReplicaLost. A replica with a higher incarnation
        than the one known is started again in place. Replicas not listed are stopped gracefully. A gang that cannot
        be started is reported as GangFailed; this method raises only for defects.

        What a replica has is free for others once its end is reported, and as soon as it is no longer listed; where
        that comes before it is gone, the engine is ``Releasing``. Who comes too early waits, and does not fail.
        """
        ...

    async def finish(self, gang: Gang) -> None:
        """Stop the replicas that still run, store the outputs, and report OutputsStored (or GangFailed)."""
        ...

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        """Ask every replica to end, kill what is left after the grace period, free everything, report GangStopped.

        A gang that is unknown or already gone is reported as stopped at once. A later call with a shorter grace
        period shortens it. ``clean`` other than ALL lets an engine whose replicas can be looked at after their end
        leave those that have ended (and with LEAVE even those that run) until ``forget``.
        """
        ...

    def events(self) -> AsyncIterator[EngineEvent]:
        """Report what happens. The controller reads this once per life.

        News is repeated until it cannot be lost: after a restart, whatever happened to a gang that was not yet
        stopped is reported again (starts, exits, the end of a stage). The lifecycle ignores what it knows already.
        """
        ...

    def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Read kept output, oldest first; with ``follow``, go on until the attempt is over and all is read."""
        ...

    async def usage(self) -> Usage:
        """Measure what is used now."""
        ...

    async def forget(self, job_id: JobId) -> None:
        """Remove everything the job left: logs, directories, objects. Called only when nothing of it runs."""
        ...


@runtime_checkable
class Confining(Protocol):
    """An engine on which what a job brings along says more of its place than its spec: volumes, pod templates."""

    async def confine(self, jobs: Collection[Job]) -> Collection[Job]:
        """Return the same jobs in the same order, with what each is kept to, and its neighbours, in its spec.

        Called before a scheduling cycle, which is all that the answer is for: it is never saved.
        """
        ...


@runtime_checkable
class PlacementRecorder(Protocol):
    """An engine some of whose gangs tell themselves where they were placed, so that no record need be written first."""

    def records_placement(self, gang: Gang) -> bool:
        """Whether ``gangs_found`` would find the gang, whole or not at all, from when ``run`` begins to start it."""
        ...

    async def gangs_found(self, attempts: Mapping[JobId, int]) -> Sequence[GangFound]:
        """Return the gangs that exist beyond the last known attempts of their jobs; asked before anything is placed."""
        ...


@runtime_checkable
class Releasing(Protocol):
    """An engine whose machines are free only some time after the record of a replica says that it has ended."""

    def terminating(self, jobs: Collection[Job]) -> Collection[Job]:
        """Return what still occupies nodes though none of these jobs counts on it, as ``terminating_gang`` shows it.

        Called before a scheduling cycle with all jobs that hold machines. NodesChanged says when one of them is gone.
        """
        ...


@runtime_checkable
class RemoteFiles(Protocol):
    """An engine whose jobs and models keep their files elsewhere: they travel as tar streams (``data.tars``)."""

    async def list_files(self, job: Job, path: str) -> Sequence[FileFact]:
        """Return every file of a job at or below a path; raises NotFoundError, InvalidInputError or EngineError."""
        ...

    def read_files(self, job: Job, path: str) -> AsyncGenerator[bytes]:
        """Return a file or a directory of a job."""
        ...

    async def write_files(self, job: Job, path: str, stream: AsyncIterator[bytes]) -> FileFact:
        """Put files beside those of a job; return where."""
        ...

    def model_files(self, tenant: str, at: str, digest: str) -> AsyncGenerator[bytes]:
        """Return the files of a version of a model, which lie at an address."""
        ...

    async def keep_model(self, tenant: str, stream: AsyncIterator[bytes]) -> tuple[str, KeptModel]:
        """Keep files that become a version; return where they lie, and what they are found by."""
        ...

    async def forget_models(self, tenant: str, at: str, used: Iterable[str]) -> None:
        """Remove what no version needs any more from an address."""
        ...


@runtime_checkable
class JobFolders(Protocol):
    """An engine whose jobs keep their files in directories of this machine."""

    def folder_of(self, job: Job) -> Path:
        """Return the directory with ``results``, ``checkpoints`` and ``data`` of a job, whether or not it exists."""
        ...


@runtime_checkable
class FaultInjector(Protocol):
    """An engine that can also do damage on request: what fault drills need and nothing else uses."""

    async def kill(self, gang_id: GangId, replica: ReplicaId) -> bool:
        """Kill a replica at once and without warning; False if it does not run.

        What follows is reported like any other exit by a signal.
        """
        ...


@runtime_checkable
class Watchful(Protocol):
    """An engine that can see whether replicas still get on with their work."""

    async def pulses(self, gang_id: GangId) -> Mapping[ReplicaId, Pulse]:
        """Look at the running replicas of a gang; what does not run is left out."""
        ...

    async def keep_stacks(self, gang_id: GangId) -> Mapping[ReplicaId, str]:
        """Keep the stacks of a gang's processes where its user finds them.

        Returns, of each replica, the line of code where it is; the empty text where that cannot be told.
        """
        ...


@runtime_checkable
class Answering(Protocol):
    """An engine whose replicas can be sent requests, and be asked whether they are ready for them."""

    probed: bool
    """Whether something beside each replica checks it already, as a kubelet does: ``check`` says what that found."""

    def address_of(self, gang_id: GangId, replica: ReplicaId) -> str:
        """Return ``HOST:PORT`` of a replica of a service; empty while it has none."""
        ...

    async def check(self, gang_id: GangId, replica: ReplicaId, check: Check) -> str:
        """Return why a check does not hold of a replica; empty if it does."""
        ...


@runtime_checkable
class Terminals(Protocol):
    """An engine that lets somebody look around where a replica runs."""

    async def interact(self, job: Job, replica: ReplicaId, console: Console) -> int:
        """Run a shell there on a terminal, with the replica's variables and in its directory; return its exit code.

        Raises NotFoundError if the replica does not run.
        """
        ...
