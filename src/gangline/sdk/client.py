"""The client: one method per thing a user may ask, the same verbs as the command line.

Synchronous on purpose: it is used in scripts, notebooks and the command line. Streams are iterators. Every method
raises the errors of ``gangline.errors``, the same ones whichever transport carries it.
"""

import os
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from gangline.dialects.native import job_to_plain
from gangline.errors import ConflictError, NotFoundError, WaitTimeoutError
from gangline.model import (
    DEFAULT_TENANT,
    FINAL_PHASES,
    Job,
    JobId,
    JobPage,
    JobSpec,
    JournalRecord,
    LogLine,
    Metric,
    MetricPage,
    Node,
    NodeUsage,
    Phase,
    Queue,
    ReplicaId,
    Tenant,
    Timestamp,
    Usage,
)
from gangline.sdk.active_environment import in_active_environment
from gangline.sdk.exchange import Exchange, body_of, deadline_of, query_of
from gangline.sdk.http import HttpTransport
from gangline.sdk.sweeps import Sweeps
from gangline.sdk.transport import Transport
from gangline.sdk.values import CODE_PREFIX, JobTop, Metrics, NodeTop
from gangline.settings import Settings
from gangline.wire import Change, Explanation, iso

_PAGE = 500
_RECORDS = 1000


class Client:
    """Speaks to one service for one tenant.

    ``Client()`` uses the user's own background service and starts it when it does not run, or the cluster that the
    setting ``context`` names; ``Client("https://...")`` or ``Client("unix:/path")`` uses the one at that address;
    ``Client(context="NAME")`` uses the Kubernetes cluster of that kubeconfig context with the user's own credentials,
    and its namespace is the tenant; ``Client.embedded()`` runs a whole service inside this process until ``close``.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        context: str | None = None,
        tenant: str | None = None,
        settings: Settings | None = None,
        transport: Transport | None = None,
    ) -> None:
        settings = settings or Settings.load()
        context = settings.context if context is None and address is None else context
        self._on_this_machine = address is None and not context and transport is None
        if context and transport is None:
            # A cluster is spoken to by this process itself, which costs imports that no other client needs.
            from gangline.sdk.context import ContextTransport

            transport = cluster = ContextTransport(context, tenant=tenant, settings=settings)
            tenant = cluster.tenant
        self.tenant = Tenant(tenant or settings.tenant)
        self._code_limits = settings.code_limits
        self._transport = transport or _transport(address, settings)
        self._exchange = Exchange(self._transport)
        self.sweeps = Sweeps(self._exchange, self.tenant, self._prepared)
        self._ephemeral = False
        self._process = os.getpid()

    @classmethod
    def embedded(cls, *, home: Path | None = None, tenant: str | None = None, nodes: int | None = None) -> Self:
        """Start a service inside this process; ``home`` keeps its jobs (a temporary directory otherwise)."""
        # The whole service is heavy, and most clients speak to one that runs elsewhere.
        from gangline.sdk.embedded import EmbeddedTransport

        transport = EmbeddedTransport(home=home, nodes=nodes)
        client = cls(context="", tenant=tenant, settings=transport.settings, transport=transport)
        client._ephemeral, client._on_this_machine = transport.temporary, True
        transport.before_exit(client.close)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the service. An embedded one stops; if its home is temporary, its jobs are deleted first.

        An embedded client that nobody closed is closed when the program ends. In a forked process this does nothing:
        the service is its parent's.
        """
        if os.getpid() != self._process:
            return
        if self._ephemeral:
            self._delete_everything()
            self._ephemeral = False
        self._transport.close()

    @property
    def address(self) -> str:
        """Where the service is."""
        return self._transport.address

    # Submitting --------------------------------------------------------------------------------------------

    def submit(self, spec: JobSpec, *, job_id: str | None = None, halted: bool = False) -> Job:
        """Submit a job and return it; doing so again with the same ``job_id`` returns the same job.

        A job that names no tenant belongs to the client's. A ``code`` directory is packed and sent first, unless the
        service has the very same content already. On the user's own service, or an embedded one, the job sees the
        Python environment that is active here, as with the command line.
        """
        spec = self._prepared(spec)
        query = query_of(id=job_id or new_job_id(), halted=halted)
        body = body_of(job_to_plain(spec))
        return self._exchange.ask(Job, "POST", ("tenants", spec.tenant, "jobs"), query, body)

    def put_object(self, document: str) -> None:
        """Keep a ConfigMap or a Secret, given as JSON, for jobs of this tenant that refer to it.

        On a cluster it becomes an object of the tenant's namespace; one that somebody else made is never changed. There
        it may also be a claim, a service, a service account, or the namespace itself.
        """
        self._exchange.call("PUT", ("tenants", self.tenant, "objects"), body=document.encode())

    def send_code(self, directory: Path) -> str:
        """Make sure that the service has the directory's content; return what to call it in a job."""
        # Most submissions ship nothing, and what packs is slow to import.
        from gangline.sdk.packing import pack

        with pack(directory, limits=self._code_limits) as archive:
            path = ("code", archive.digest)
            if not self._exchange.exists(path):
                self._exchange.call("PUT", path, body=archive.file)
            return f"{CODE_PREFIX}{archive.digest}"

    # Looking -----------------------------------------------------------------------------------------------

    def get(self, job: str) -> Job:
        """Return the job of that name or id."""
        return self._exchange.ask(Job, "GET", self._job(job))

    def list(
        self,
        *,
        queue: str | None = None,
        phases: Collection[Phase] = (),
        labels: Mapping[str, str] | None = None,
        text: str | None = None,
        created_since: Timestamp | None = None,
        limit: int | None = 100,
        all_tenants: bool = False,
    ) -> tuple[Job, ...]:
        """Return jobs, newest first; ``limit`` None means all of them. With ``all_tenants``, whoever's they are."""
        path = ("jobs",) if all_tenants else self._jobs()
        found: tuple[Job, ...] = ()
        after: str | None = None
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            query = _listing(queue, phases, labels, text, created_since) + query_of(limit=wanted, after=after)
            page = self._exchange.ask(JobPage, "GET", path, query)
            found, after = found + page.jobs, page.next
            if after is None:
                break
        return found

    def unfinished(self) -> tuple[Job, ...]:
        """Return everything that waits or runs, of all tenants that the caller may act for."""
        return self._exchange.ask(tuple[Job, ...], "GET", ("unfinished",))

    def watch(self, job: str, *, timeout: float | None = None) -> Iterator[Change]:
        """Return a job as it is and after every change, until it is gone."""
        return self._exchange.follow(Change, self._job(job), query_of(watch=True), deadline_of(timeout))

    def watch_all(
        self,
        *,
        queue: str | None = None,
        phases: Collection[Phase] = (),
        labels: Mapping[str, str] | None = None,
        text: str | None = None,
        limit: int = 100,
    ) -> Iterator[Change]:
        """Return the newest jobs, oldest first, and then every change of them and every new one."""
        query = _listing(queue, phases, labels, text, None) + query_of(limit=limit, watch=True)
        return self._exchange.follow(Change, self._jobs(), query)

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
        """Return a job's output, oldest first; following goes on until the job is finished or halted."""
        query = query_of(
            role=role,
            index=index,
            attempt=attempt,
            since=None if since is None else iso(since),
            tail=tail,
            follow=follow,
        )
        return self._exchange.follow(LogLine, self._job(job, "logs"), query)

    def events(self, job: str, *, after: int = 0, limit: int | None = None) -> tuple[JournalRecord, ...]:
        """Return what happened to a job, oldest first; ``limit`` None means all of it."""
        found: tuple[JournalRecord, ...] = ()
        while limit is None or len(found) < limit:
            wanted = _RECORDS if limit is None else min(_RECORDS, limit - len(found))
            query = query_of(after=found[-1].number if found else after, limit=wanted)
            page = self._exchange.ask(tuple[JournalRecord, ...], "GET", self._job(job, "events"), query)
            found += page
            if len(page) < wanted:
                break
        return found

    def metrics(
        self, job: str, *, name: str | None = None, since: Timestamp | None = None, points: int | None = None
    ) -> Metrics:
        """Return every number the job's code reported, oldest first.

        With ``points``, the service thins them out to at most so many of each metric of each replica, which draw the
        same curve; ``total`` of the answer then says how many there are. ``complete`` is False where older ones are
        gone: a cluster keeps the newest 10,000 of a job.
        """
        found: list[Metric] = []
        after: str | None = None
        while True:
            query = query_of(name=name, since=None if since is None else iso(since), points=points, after=after)
            page = self._exchange.ask(MetricPage, "GET", self._job(job, "metrics"), query)
            found += page.metrics
            after = page.next
            if after is None:
                return Metrics(found, total=page.total, complete=page.complete)

    def latest_metrics(self, job: str) -> tuple[Metric, ...]:
        """Return the newest value of every metric of every replica."""
        return self._exchange.ask(MetricPage, "GET", self._job(job, "metrics"), query_of(latest=True)).metrics

    def explain(self, job: str) -> Explanation:
        """Say why a job waits for machines."""
        return self._exchange.ask(Explanation, "GET", self._job(job, "explanation"))

    def nodes(self) -> tuple[Node, ...]:
        """Return every node."""
        return self._exchange.ask(tuple[Node, ...], "GET", ("nodes",))

    def queues(self) -> tuple[Queue, ...]:
        """Return every queue."""
        return self._exchange.ask(tuple[Queue, ...], "GET", ("queues",))

    def usage(self) -> Usage:
        """Measure what is used now."""
        return self._exchange.ask(Usage, "GET", ("usage",))

    def top_nodes(self) -> tuple[NodeTop, ...]:
        """Return every node with what is used of it."""
        usage = self.usage()
        used = {node.node: node for node in usage.nodes}
        return tuple(
            NodeTop(
                node=node,
                usage=used.get(node.name, NodeUsage(node=node.name)),
                replicas=sum(1 for replica in usage.replicas if replica.node == node.name),
            )
            for node in self.nodes()
        )

    def top_jobs(self) -> tuple[JobTop, ...]:
        """Return this tenant's running jobs with what their replicas use."""
        usage = self.usage()
        running = {replica.job_id for replica in usage.replicas}
        return tuple(
            JobTop(job=job, replicas=tuple(replica for replica in usage.replicas if replica.job_id == job.id))
            for job in self._known(running)
        )

    def version(self) -> str:
        """Return the version of the service."""
        return self._exchange.ask(dict[str, str], "GET", ("version",))["version"]

    # Asking for changes --------------------------------------------------------------------------------------

    def halt(self, job: str) -> Job:
        """Stop a job so that it keeps its checkpoint and holds nothing."""
        return self._verb(job, "halt")

    def resume(self, job: str) -> Job:
        """Let a halted job go on from its checkpoint."""
        return self._verb(job, "resume")

    def cancel(self, job: str) -> Job:
        """End a job for good; its record, logs and metrics stay."""
        return self._verb(job, "cancel")

    def scale(self, job: str, wanted: Mapping[str, int]) -> Job:
        """Ask for another number of replicas, by role: ``scale("mnist", {"worker": 8})``."""
        body = body_of(dict(wanted))
        return self._exchange.ask(Job, "POST", self._job(job, "scale"), body=body)

    def kill(self, job: str, replica: ReplicaId) -> bool:
        """Kill one running replica without warning, as a fault would; False if it had just ended by itself."""
        query = query_of(replica=str(replica))
        return self._exchange.ask(dict[str, bool], "POST", self._job(job, "kill"), query)["killed"]

    def delete(self, job: str, *, wait: bool = True, timeout: float | None = None) -> Job:
        """Make a job and all it left disappear; with ``wait``, return when it has."""
        deleted = self._exchange.ask(Job, "DELETE", self._job(job))
        if wait:
            self.wait_until_gone(deleted.id, timeout=timeout)
        return deleted

    def wait_until_gone(self, job: str, *, timeout: float | None = None) -> None:
        """Return when nothing is left of a job that is being deleted."""
        # Not found: it was gone before the watch began.
        with suppress(NotFoundError):
            deque(self.watch(job, timeout=timeout), maxlen=0)

    def prune(self, *, finished_before: Timestamp) -> tuple[str, ...]:
        """Delete every job that finished before that time; return their names."""
        query = query_of(finished_before=iso(finished_before))
        return self._exchange.ask(dict[str, tuple[str, ...]], "POST", ("tenants", self.tenant, "prune"), query)["names"]

    def wait(self, job: str, *, phases: Collection[Phase] = FINAL_PHASES, timeout: float | None = None) -> Job:
        """Return when the job is or has meanwhile been in one of the phases.

        Raises WaitTimeoutError when the time runs out, ConflictError when the job ended otherwise, NotFoundError when
        it disappeared.
        """
        seen: int | None = None
        for change in self.watch(job, timeout=timeout) if timeout is None or timeout > 0 else self._glance(job):
            if change.job is None:
                break
            seen = len(change.job.history) - 1 if seen is None else seen
            if any(entry.phase in phases for entry in change.job.history[seen:]):
                return change.job
            if change.job.finished:
                wanted = ", ".join(sorted(phases))
                raise ConflictError(f"job '{job}' is {change.job.phase} and will never be {wanted}")
        raise NotFoundError("job", job, hint="it was deleted meanwhile")

    def _glance(self, job: str) -> Iterator[Change]:
        """Watch a job without any time to do so: what is so already is seen."""
        found = self.get(job)
        yield Change(job_id=found.id, job=found)
        raise WaitTimeoutError(f"there was no time to wait; job '{job}' is {found.phase}")

    # Within --------------------------------------------------------------------------------------------------

    def _prepared(self, spec: JobSpec) -> JobSpec:
        """Return a job, or the template of a sweep, as it is sent: with its tenant, its environment, its code there."""
        if spec.code is not None and not str(spec.code).startswith(CODE_PREFIX):
            spec = replace(spec, code=self.send_code(Path(spec.code)))
        if spec.tenant == DEFAULT_TENANT:
            spec = replace(spec, tenant=self.tenant)
        return in_active_environment(spec, os.environ) if self._on_this_machine else spec

    def _acting_for(self, tenant: Tenant) -> Self:
        other = copy(self)
        other.tenant, other.sweeps = tenant, Sweeps(self._exchange, tenant, self._prepared)
        return other

    def _delete_everything(self) -> None:
        """Make all jobs disappear, whoever's they are."""
        for tenant in {self.tenant, *(job.spec.tenant for job in self.unfinished())}:
            self._acting_for(tenant)._delete_own()  # noqa: SLF001  # another one of ourselves

    def _delete_own(self) -> None:
        for sweep in self.sweeps.list():
            self.sweeps.delete(sweep.name)
        jobs = self.list(limit=None)
        for job in jobs:  # all of them first: each may take its time to stop
            with suppress(NotFoundError):  # a trial may disappear with its sweep meanwhile
                self.delete(job.id, wait=False)
        for job in jobs:
            self.wait_until_gone(job.id)

    def _jobs(self) -> tuple[str, ...]:
        return ("tenants", self.tenant, "jobs")

    def _job(self, job: str, *below: str) -> tuple[str, ...]:
        if not job:
            raise NotFoundError("job", job)
        return (*self._jobs(), job, *below)

    def _verb(self, job: str, verb: str) -> Job:
        return self._exchange.ask(Job, "POST", self._job(job, verb))

    def _known(self, job_ids: Collection[JobId]) -> Iterator[Job]:
        for job_id in sorted(job_ids):
            try:
                yield self.get(job_id)
            except NotFoundError:
                continue  # another tenant's, or gone since it was measured


def new_job_id() -> str:
    """Choose the id of a new job."""
    return f"j{os.urandom(7).hex()}"


def _transport(address: str | None, settings: Settings) -> Transport:
    if address is not None:
        return HttpTransport(address)
    # Only here because starting a process is none of a remote client's business.
    from gangline.sdk.background import ensure_service

    return HttpTransport(ensure_service(settings))


def _listing(
    queue: str | None,
    phases: Collection[Phase],
    labels: Mapping[str, str] | None,
    text: str | None,
    created_since: Timestamp | None,
) -> tuple[tuple[str, str], ...]:
    return (
        *query_of(queue=queue, text=text, created_since=None if created_since is None else iso(created_since)),
        *(("phase", str(phase)) for phase in sorted(phases)),  # a string will do: Phase is one
        *(("label", f"{key}={value}") for key, value in (labels or {}).items()),
    )
