"""What a client reads of jobs and machines; nothing here changes anything."""

from collections.abc import Collection, Iterator, Mapping

from gangline.errors import NotFoundError
from gangline.model import (
    Explanation,
    Job,
    JobId,
    JobPage,
    JournalRecord,
    LogLine,
    Metric,
    MetricPage,
    Node,
    NodeUsage,
    Phase,
    Tenant,
    Timestamp,
    Usage,
)
from gangline.model.lineage import Lineage
from gangline.sdk.exchange import Exchange, deadline_of, query_of
from gangline.sdk.following import FollowedOutput, Output
from gangline.sdk.values import JobTop, Metrics, NodeTop
from gangline.wire import Change, iso

_PAGE = 500
_RECORDS = 1000


class JobReader:
    """The half of a client that looks."""

    exchange: Exchange
    tenant: Tenant

    def get(self, job: str) -> Job:
        """Return the job of that name or id."""
        return self.exchange.ask(Job, "GET", self._job(job))

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
            page = self.exchange.ask(JobPage, "GET", path, query)
            found, after = found + page.jobs, page.next
            if after is None:
                break
        return found

    def unfinished(self) -> tuple[Job, ...]:
        """Return everything that waits or runs, of all tenants that the caller may act for."""
        return self.exchange.ask(tuple[Job, ...], "GET", ("unfinished",))

    def watch(self, job: str, *, timeout: float | None = None) -> Iterator[Change]:
        """Return a job as it is and after every change, and as it is once more after each gap, until it is gone."""
        return self.exchange.watch(Change, self._job(job), deadline=deadline_of(timeout))

    def watch_all(
        self,
        *,
        queue: str | None = None,
        phases: Collection[Phase] = (),
        labels: Mapping[str, str] | None = None,
        text: str | None = None,
        limit: int = 100,
        all_tenants: bool = False,
    ) -> Iterator[Change]:
        """Return the newest jobs, oldest first, and then every change of them and every new one."""
        query = _listing(queue, phases, labels, text, None) + query_of(limit=limit)
        return _news(self.exchange.watch(Change, ("jobs",) if all_tenants else self._jobs(), query))

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
        path = self._job(job, "logs")
        output = Output(path=path, role=role, index=index, attempt=attempt, since=since, tail=tail)
        if follow:
            return FollowedOutput(self.exchange, output, lambda: self.get(job)).lines()
        return output.read(self.exchange, follow=False)

    def events(self, job: str, *, after: int = 0, limit: int | None = None) -> tuple[JournalRecord, ...]:
        """Return what happened to a job, oldest first; ``limit`` None means all of it."""
        found: tuple[JournalRecord, ...] = ()
        while limit is None or len(found) < limit:
            wanted = _RECORDS if limit is None else min(_RECORDS, limit - len(found))
            query = query_of(after=found[-1].number if found else after, limit=wanted)
            page = self.exchange.ask(tuple[JournalRecord, ...], "GET", self._job(job, "events"), query)
            found += page
            if len(page) < wanted:
                break
        return found

    def metrics(
        self, job: str, *, name: str | None = None, since: Timestamp | None = None, points: int | None = None
    ) -> Metrics:
        """Return every number the job's code reported, oldest first.

        With ``points``, the service thins them out to at most this many of each metric of each replica, which draw the
        same curve; ``total`` of the answer then says how many there are. ``complete`` is False where older ones are
        gone: a cluster keeps the newest 10,000 of a job.
        """
        found: list[Metric] = []
        after: str | None = None
        while True:
            query = query_of(name=name, since=None if since is None else iso(since), points=points, after=after)
            page = self.exchange.ask(MetricPage, "GET", self._job(job, "metrics"), query)
            found += page.metrics
            after = page.next
            if after is None:
                return Metrics(found, total=page.total, complete=page.complete)

    def latest_metrics(self, job: str) -> tuple[Metric, ...]:
        """Return the newest value of every metric of every replica."""
        return self.exchange.ask(MetricPage, "GET", self._job(job, "metrics"), query_of(latest=True)).metrics

    def lineage(self, target: str) -> Lineage:
        """Return where an address, a model (``model://...``) or a job came from."""
        return self.exchange.ask(Lineage, "GET", ("tenants", self.tenant, "lineage"), query_of(of=target))

    def packages(self, job: str) -> tuple[str, ...]:
        """Return what was installed where a job was submitted, as ``name==version``."""
        return self.exchange.ask(tuple[str, ...], "GET", self._job(job, "packages"))

    def explain(self, job: str) -> Explanation:
        """Say why a job waits for machines."""
        return self.exchange.ask(Explanation, "GET", self._job(job, "explanation"))

    def nodes(self) -> tuple[Node, ...]:
        """Return every node."""
        return self.exchange.ask(tuple[Node, ...], "GET", ("nodes",))

    def usage(self) -> Usage:
        """Measure what is used now."""
        return self.exchange.ask(Usage, "GET", ("usage",))

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
        return self.exchange.ask(dict[str, str], "GET", ("version",))["version"]

    def _jobs(self) -> tuple[str, ...]:
        return ("tenants", self.tenant, "jobs")

    def _job(self, job: str, *below: str) -> tuple[str, ...]:
        if not job:
            raise NotFoundError("job", job)
        return (*self._jobs(), job, *below)

    def _known(self, job_ids: Collection[JobId]) -> Iterator[Job]:
        for job_id in sorted(job_ids):
            try:
                yield self.get(job_id)
            except NotFoundError:
                continue  # another tenant's, or gone since it was measured


def _news(changes: Iterator[Change]) -> Iterator[Change]:
    """Leave out what was told before: after a gap, all jobs come again."""
    told: dict[JobId, Job] = {}
    for change in changes:
        if change.job is None:
            told.pop(change.job_id, None)
        elif told.get(change.job_id) == change.job:
            continue
        else:
            told[change.job_id] = change.job
        yield change


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
