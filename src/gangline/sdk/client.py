"""The client: one method per thing a user may ask, the same verbs as the command line.

Synchronous on purpose: it is used in scripts, notebooks and the command line. Streams are iterators. Every method
raises the errors of ``gangline.errors``, the same ones whichever transport carries it.
"""

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gangline.dialects.native import job_to_plain
from gangline.errors import ConflictError, NotFoundError, WaitTimeoutError
from gangline.model import (
    DEFAULT_TENANT,
    FINAL_PHASES,
    Job,
    JobSpec,
    Phase,
    ReplicaId,
    Tenant,
    Timestamp,
)
from gangline.model.jobs.source import Source
from gangline.sdk.code.active_environment import in_active_environment
from gangline.sdk.code.code_source import commit_of, installed_packages, packages_text
from gangline.sdk.exchange import Exchange, body_of, query_of
from gangline.sdk.login.logins import Login, find_login
from gangline.sdk.transports.addresses import transport_to
from gangline.sdk.transports.http import HttpTransport
from gangline.sdk.transports.interface import Transport
from gangline.sdk.transports.reconnecting import Reconnection
from gangline.sdk.values import CODE_PREFIX
from gangline.sdk.verbs.kinds import KindVerbs
from gangline.sdk.verbs.reading import JobReader
from gangline.settings import Settings
from gangline.wire import Change, iso

if TYPE_CHECKING:
    from gangline.sdk.applying import Applied
    from gangline.sdk.differences import Difference, JobFacts
    from gangline.sdk.files import JobFiles


class Client(JobReader, KindVerbs):
    """Speaks to one service for one tenant.

    ``Client()`` uses the user's own background service and starts it when it does not run, or the cluster that the
    setting ``context`` names; ``Client("https://...")`` or ``Client("unix:/path")`` uses the one at that address;
    ``Client(context="NAME")`` uses the team's service that ``gangline login`` gave that name, or the Kubernetes cluster
    of that kubeconfig context with the user's own credentials, and its namespace is the tenant; ``Client.embedded()``
    runs a whole service inside this process until ``close``.

    A service that is restarted or killed is waited for: submissions are repeated without making a second job, and what
    is watched or followed goes on where it was. ``say`` is told when that happens; otherwise it is logged.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        context: str | None = None,
        tenant: str | None = None,
        settings: Settings | None = None,
        transport: Transport | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        settings = settings or Settings.load()
        context = settings.context if context is None and address is None else context
        login = find_login(settings, context) if context and transport is None else None
        if login is not None:
            transport = team_transport(settings, context or "", login)
            tenant = tenant or login.tenant
        self._on_this_machine = address is None and not context and transport is None
        if context and transport is None:
            # A cluster is spoken to by this process itself, which costs imports that no other client needs.
            from gangline.sdk.transports.context import ContextTransport

            transport = cluster = ContextTransport(context, tenant=tenant, settings=settings)
            tenant = cluster.tenant
        self.tenant = Tenant(tenant or settings.tenant)
        self.code_limits = settings.code_limits
        self._say = say
        if transport is not None:
            self._transport, reconnection = transport, Reconnection(say=say) if context else None
        else:
            self._transport, reconnection = _transport(address, settings, say)
        self.exchange = Exchange(self._transport, reconnection)
        self._ephemeral = False
        self._sent_packages = ""
        self._process = os.getpid()

    @classmethod
    def embedded(cls, *, home: Path | None = None, tenant: str | None = None, nodes: int | None = None) -> Self:
        """Start a service inside this process; ``home`` keeps its jobs (a temporary directory otherwise)."""
        # The whole service is heavy, and most clients speak to one that runs elsewhere.
        from gangline.sdk.transports.embedded import EmbeddedTransport

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

    def __repr__(self) -> str:
        return f"<gangline.Client of {self.address} for tenant '{self.tenant}'>"

    @property
    def address(self) -> str:
        """Where the service is."""
        return self._transport.address

    @property
    def files(self) -> "JobFiles":
        """The files of jobs: results, checkpoints and data."""
        from gangline.sdk.files import JobFiles

        return JobFiles(self.exchange, self.tenant)

    # Submitting --------------------------------------------------------------------------------------------

    def submit(self, spec: JobSpec, *, job_id: str | None = None, halted: bool = False) -> Job:
        """Submit a job once and return it; doing so again with the same ``job_id`` returns the same job.

        A job that names no tenant belongs to the client's. A ``code`` directory is packed and sent first, unless the
        service has the very same content already. On the user's own service, or an embedded one, the job sees the
        Python environment that is active here, as with the command line.
        """
        query = query_of(id=job_id or f"j{os.urandom(7).hex()}", halted=halted)

        def send() -> Job:
            prepared = self.prepared(spec)
            path, body = ("tenants", prepared.tenant, "jobs"), body_of(job_to_plain(prepared))
            return self.exchange.ask(Job, "POST", path, query, body)

        return self.exchange.insist(send)

    def apply(self, spec: JobSpec, *, halted: bool = False, replace: bool = False) -> "Applied":
        """Make sure that the job of a file is there: submit it unless it is, and give it the labels of the file.

        One of its name that differs otherwise is a conflict; with ``replace`` it is deleted first.
        """
        from gangline.sdk.applying import applied

        return applied(self, spec, halted=halted, replacing=replace)

    def put_object(self, document: str) -> None:
        """Keep a ConfigMap or a Secret, given as JSON, for jobs of this tenant that refer to it.

        On a cluster it becomes an object of the tenant's namespace; one that somebody else made is never changed. There
        it may also be a claim, a service, a service account, or the namespace itself.
        """
        path, body = ("tenants", self.tenant, "objects"), document.encode()
        self.exchange.insist(lambda: self.exchange.call("PUT", path, body=body))

    def send_code(self, directory: Path) -> str:
        """Make sure that the service has the directory's content; return what to call it in a job."""
        # Most submissions ship nothing, and what packs is slow to import.
        from gangline.sdk.code.packing import pack

        with pack(directory, limits=self.code_limits, say=self._say) as archive:
            path = ("code", archive.digest)
            if not self.exchange.exists(path):
                self.exchange.call("PUT", path, body=archive.file)
            return f"{CODE_PREFIX}{archive.digest}"

    # Comparing ---------------------------------------------------------------------------------------------

    def diff(self, first: str, second: str) -> "tuple[Difference, ...]":
        """Return what two jobs differ in: file, code, inputs, packages, end and last metrics."""
        from gangline.sdk.differences import differences

        return differences(self._facts(first), self._facts(second))

    def diff_spec(self, spec: JobSpec) -> "tuple[Difference, ...]":
        """Return what the job of this name differs in from a spec that was not submitted: file and code."""
        from gangline.sdk.applying import facts_of_spec
        from gangline.sdk.differences import differences_of_files

        return differences_of_files(self._facts(spec.name), facts_of_spec(self, spec))

    def _facts(self, job: str) -> "JobFacts":
        from gangline.sdk.code.packing import digests_of_files
        from gangline.sdk.differences import JobFacts

        found = self.get(job)
        code: dict[str, str] = {}
        packages: tuple[str, ...] = ()
        if found.spec.code:
            with suppress(NotFoundError), self.exchange.chunks(self._job(job, "code")) as chunks:
                code = digests_of_files(chunks)  # unless they are kept elsewhere, or not at all
        with suppress(NotFoundError):
            packages = self.packages(job)
        return JobFacts(job=found, code=code, packages=packages, metrics=self.latest_metrics(job))

    # Asking for changes --------------------------------------------------------------------------------------

    def halt(self, job: str) -> Job:
        """Stop a job so that it keeps its checkpoint and holds nothing."""
        return self._verb(job, "halt")

    def resume(self, job: str, *, step: int | None = None) -> Job:
        """Let a halted job go on from its newest checkpoint, or from that of a step."""
        query = () if step is None else (("from", str(step)),)
        return self.exchange.ask(Job, "POST", self._job(job, "resume"), query)

    def rerun(
        self, job: str, *, name: str | None = None, changes: Mapping[str, object] | None = None, halted: bool = False
    ) -> Job:
        """Submit a job once more: the same code, and the same versions of models.

        ``changes`` are new values by their path in the job file: ``{"policy.max_attempts": 3}``. Without a ``name`` it
        is called NAME-2, NAME-3 and so on.
        """
        from gangline.sdk.repeating import free_name, repeated

        found = self.get(job)
        if name is None:
            name = free_name(found.name, [each.name for each in self.list(text=found.name, limit=None)])
        spec = repeated(found, name, changes or {}, self.models.list())
        if spec.source is None:
            spec = replace(spec, source=replace(self._source_of(spec) or Source(), rerun_of=found.name))
        return self.submit(spec, halted=halted)

    def cancel(self, job: str) -> Job:
        """End a job for good; its record, logs and metrics stay."""
        return self._verb(job, "cancel")

    def scale(self, job: str, wanted: Mapping[str, int]) -> Job:
        """Ask for another number of replicas, by role: ``scale("mnist", {"worker": 8})``."""
        body = body_of(dict(wanted))
        return self.exchange.ask(Job, "POST", self._job(job, "scale"), body=body)

    def label(self, job: str, labels: Mapping[str, str | None]) -> Job:
        """Give a job labels, or take those away whose value is None; at any time, and the others stay."""
        return self.exchange.ask(Job, "POST", self._job(job, "label"), body=body_of(dict(labels)))

    def kill(self, job: str, replica: ReplicaId) -> bool:
        """Kill one running replica without warning, as a fault would; False if it had just ended by itself."""
        query = query_of(replica=str(replica))
        return self.exchange.ask(dict[str, bool], "POST", self._job(job, "kill"), query)["killed"]

    def delete(self, job: str, *, wait: bool = True, timeout: float | None = None) -> Job:
        """Make a job and all it left disappear; with ``wait``, return when it has."""
        deleted = self.exchange.ask(Job, "DELETE", self._job(job))
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
        return self.exchange.ask(dict[str, tuple[str, ...]], "POST", ("tenants", self.tenant, "prune"), query)["names"]

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

    def prepared(self, spec: JobSpec) -> JobSpec:
        """Return a job, or the template of a sweep, as it is sent: with its tenant, its environment, its code there."""
        if spec.source is None:
            spec = replace(spec, source=self._source_of(spec))
        if spec.code is not None and not str(spec.code).startswith(CODE_PREFIX):
            spec = replace(spec, code=self.send_code(Path(spec.code)))
        return self.as_sent(spec)

    def as_sent(self, spec: JobSpec) -> JobSpec:
        """Return a job with its tenant and its environment; its code stays where it is."""
        if spec.tenant == DEFAULT_TENANT:
            spec = replace(spec, tenant=self.tenant)
        return in_active_environment(spec, os.environ) if self._on_this_machine else spec

    def _source_of(self, spec: JobSpec) -> Source | None:
        """What this machine knows of where the code of a new job comes from."""
        directory = Path(spec.code) if spec.code is not None and not spec.code.startswith(CODE_PREFIX) else None
        commit, dirty = commit_of(directory) if directory is not None else ("", False)
        source = Source(commit=commit, dirty=dirty, packages=self._send_packages() if self._on_this_machine else "")
        return None if source == Source() else source

    def _send_packages(self) -> str:
        """Make sure that the service has the list of what is installed here; return what it is called."""
        packages = installed_packages(os.environ)
        if not packages:
            return ""
        digest, text = packages_text(packages)
        if digest != self._sent_packages:
            if not self.exchange.exists(("packages", digest)):
                self.exchange.call("PUT", ("packages", digest), body=text)
            self._sent_packages = digest
        return f"{CODE_PREFIX}{digest}"

    def _acting_for(self, tenant: Tenant) -> Self:
        other = copy(self)
        other.tenant = tenant
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

    def _verb(self, job: str, verb: str) -> Job:
        return self.exchange.ask(Job, "POST", self._job(job, verb))


def _transport(
    address: str | None, settings: Settings, say: Callable[[str], None] | None
) -> tuple[Transport, Reconnection]:
    if address is not None:
        token = os.environ.get("GANGLINE_API_TOKEN")
        return transport_to(address, token=(lambda: token) if token else None), Reconnection(say=say)
    # Only here because starting a process is none of a remote client's business.
    from gangline.sdk.transports.background import ensure_service, revive_service

    start = partial(ensure_service, settings, say=say)
    return HttpTransport(start()), Reconnection(partial(revive_service, settings, say=say), start=start, say=say)


def team_transport(settings: Settings, context: str, login: Login) -> Transport:
    """Return the way to a team's service."""
    if not login.refresh_token:
        return transport_to(login.address, token=lambda: login.token, fingerprint=login.fingerprint)
    # Only who logged in at a provider needs what renews their token.
    from gangline.sdk.login.renewing import RenewedToken

    return transport_to(login.address, token=RenewedToken(settings, context).text, fingerprint=login.fingerprint)
