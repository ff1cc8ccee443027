"""What a kind is: the one value from which its record, routes, verbs, tables, custom resource and driver follow."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from gangline.dialects.value import Value
from gangline.model import DEFAULT_TENANT, Job, JobId, JobSpec, Metric, QueueName, Resources, Tenant, Timestamp
from gangline.model.kinds.queue import QueueLoad
from gangline.model.record import NoStatus, Record, RecordId, RecordSpec, RecordStatus

Spec = TypeVar("Spec", bound=RecordSpec)
Status = TypeVar("Status", bound=RecordStatus)
View = TypeVar("View")
Plain = dict[str, Any]


class Scope(StrEnum):
    """Whose a record is."""

    TENANT = "tenant"
    CLUSTER = "cluster"
    """Everybody's: it has no tenant, and those who run the platform change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A field of a spec that the command line can give as an option."""

    name: str
    attribute: str
    placeholder: str
    text: str
    default: Any
    required: bool
    read: Callable[[str], Any]
    """Reads what was typed; raises InvalidInputError naming the option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat(Generic[Spec]):
    """How a spec is written in a file: one document there and back, and the OpenAPI schema of its ``spec``."""

    read: Callable[[Value, Mapping[str, Resources]], Spec]
    """Reads a document; the mapping holds the user's own sizes."""
    write: Callable[[Spec], Plain]
    schema: Plain
    write_object: Callable[[Spec], Plain] | None = None
    """The same for a custom resource, whose keeper sorts the names of mappings; None where that changes nothing."""
    embed: Callable[[Value, Callable[[str], Value]], Value] | None = None
    """Puts the files that a document names in their place; the function returns the one document of a file."""
    options: tuple["Option", ...] = ()
    """The fields that an option of the command line can give."""


@dataclass(frozen=True, slots=True)
class Column(Generic[View]):
    """One column of a table, between NAME and AGE; a cell that is None is shown as '-'."""

    heading: str
    cell: Callable[[View], object]
    wide: bool = False
    """Shown with ``-o wide`` alone."""
    last: bool = False
    """Shown behind AGE: a long text, cut where the terminal ends."""


@dataclass(frozen=True, slots=True)
class Verb(Generic[Spec, Status]):
    """Something that a user may ask of a record besides to be shown and deleted."""

    name: str
    summary: str
    change: Callable[..., Record[Spec, Status]]
    """Says what becomes of the record, given that and, if it ``takes`` any, values by name; what returns it as it is
    has nothing to do. What it refuses is an error of ``gangline.errors``."""
    takes: str = ""
    """What a user gives besides, as it is typed: ``PARAMETER=VALUE``. Empty: nothing."""
    makes_it: str = ""
    """What the record then is, in a word, where its state does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """What belongs to a record: its jobs, and the newest value of every metric that they reported.

    ``history`` has what unfinished jobs, and others if it asks for them, reported of the metrics that the kind
    ``follows``, oldest first: what the kind's ``sift`` leaves, or the first few thousand of each job.
    """

    jobs: tuple[Job, ...] = ()
    metrics: tuple[Metric, ...] = ()
    history: tuple[Metric, ...] = ()
    ended: tuple[Any, ...] = ()
    """In place of jobs that have ended: what ``Kind.digest`` made of them, in no particular order."""
    past: Any = None
    """In place of ``ended``, where the kind has ``gather``: what that made of them."""
    queue: QueueLoad | None = None
    """The load of the queue that the kind ``shares``, jobs of the record left out."""
    others: tuple[Record[Any, Any], ...] = ()
    """The newest other records of its kind and tenant, if the kind looks at them."""
    related: tuple[Record[Any, Any], ...] = ()
    """The tenant's records of the kinds that the plan looks at besides."""
    config_maps: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    """What the ConfigMaps hold that the kind looks at, by namespace and name; those that are not there are left out."""
    sight: Any = None
    """What the observer of the kind sees of its jobs (``controller/records.py``); None where nobody looks."""
    made: tuple[Record[Any, Any], ...] = ()
    """Of the records that it has made, those that the kind ``looks_for`` and that still exist."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that a plan calls for; the id says whose it is (``Record.job_id``)."""

    id: JobId
    spec: JobSpec


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record that a plan calls for; one that has the id already is it. Where the name is taken, the id serves."""

    id: RecordId
    spec: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[Status]):
    """What should happen now. ``status`` is kept once all is created; ``again_at`` asks for another look.

    Requests to cancel, halt or resume a job may be lost in a crash: they are repeated until its phase shows them.
    """

    status: Status
    create: tuple[NewJob, ...] = ()
    make: tuple[NewRecord, ...] = ()
    cancel: tuple[JobId, ...] = ()
    halt: tuple[JobId, ...] = ()
    resume: tuple[JobId, ...] = ()
    again_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What the clients of somebody else's kind look at on a cluster, besides the object itself.

    ``status`` has every field they know, None for what is not there now. ``children`` are whole objects that follow
    from a record and go with it.
    """

    status: Plain
    children: tuple[Plain, ...] = ()


class Reader(Protocol):
    """What may be looked at before a record is created, changed or deleted."""

    async def jobs(self, *, queue: str | None = None, labels: Mapping[str, str] | None = None) -> Sequence[Job]:
        """Return unfinished jobs of every tenant."""
        ...

    async def records(self, kind: "Kind[Spec, Status, View]") -> Sequence[Record[Spec, Status]]:
        """Return every record of a kind, those that always exist included."""
        ...


Check = Callable[[Record[Spec, Status] | None, Record[Spec, Status] | None, Reader], Awaitable[None]]
"""Refuses a change with an error of ``gangline.errors``: the record before (None: it is new) and after (None: gone)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind(Generic[Spec, Status, View]):
    """One kind. What is not given has no meaning for it."""

    name: str
    """The word for one of them, in commands, labels and messages."""
    plural: str
    summary: str
    """One line for ``gangline --help``."""
    description: str
    """What ``kubectl explain`` says of it."""
    spec: type[Spec]
    format: FileFormat[Spec]
    answer: type[View]
    """What the service answers with: the record itself, or what ``view`` makes of it."""
    status: type[Status] = NoStatus  # type: ignore[assignment]  # the default of kinds that merely are there
    scope: Scope = Scope.TENANT
    api_version: str = "gangline.dev/v1"
    """The ``apiVersion`` of its files and custom resources. One of another group belongs to whoever defined it: it is
    installed only where it is asked for."""
    kind_word: str = ""
    """The ``kind`` of its files, where that is not its name with a capital."""
    command: str = ""
    """The group of its commands as it is typed after ``gangline``, where that is not its name."""
    made_by: str = "create -f FILE"
    """What is typed after that to make one."""
    editable: bool = False
    """Whether another file may replace what the first one said."""
    reopened: Callable[[Record[Spec, Status]], Record[Spec, Status]] = field(default=lambda record: record)
    """Says what becomes of a settled record whose file was replaced."""
    config_maps: Callable[[Spec], tuple[tuple[str, str], ...]] = field(default=lambda spec: ())
    """The ConfigMaps that the plan looks at, by namespace and name."""
    published: Callable[[Record[Spec, Status], Owned], Published] | None = None
    refused: Callable[[str, Timestamp], Plain] = field(default=lambda message, at: {})
    """The fields of a status that say, in the words of the kind's own clients, why an object is not a record."""
    columns: tuple[Column[View], ...] = ()
    verbs: tuple[Verb[Spec, Status], ...] = ()
    summarize: Callable[[Record[Spec, Status]], Mapping[str, str | float | None]] = field(default=lambda record: {})
    """What lists are filtered and sorted by; stores keep it beside the record, so that lists need not read it whole."""
    plan: Callable[[Record[Spec, Status], Owned, Timestamp], Plan[Status]] | None = None
    """Decides what should be done. Asked again after its plan was carried out, it finds nothing more to do."""
    given_up: Callable[[Status, Timestamp], Status] | None = None
    """The status, no larger than before, of a record that cannot be carried on: its store can keep no more of it."""
    plans_slowly: Callable[[Spec], bool] = field(default=lambda spec: False)
    """Whether its plan may compute for seconds: it is then made in a thread, so that the service answers meanwhile."""
    view: Callable[[Record[Spec, Status], Owned], View] | None = None
    reads_metrics: Callable[[Spec], bool] = field(default=lambda spec: False)
    """Whether plan and view look at what the jobs reported."""
    follows: Callable[[Spec], tuple[str, ...]] = field(default=lambda spec: ())
    """The metrics of which the plan looks at every report of unfinished jobs."""
    sift: Callable[[Record[Spec, Status], Job, Sequence[Metric]], Sequence[Metric]] | None = None
    """Chooses those of a job's reports that the plan can still need, where there may be any number of them. The driver
    keeps these and adds only what is new; a report without a step has its place among all of them for one."""
    follows_ended: Callable[[Record[Spec, Status], Job], bool] = field(default=lambda record, job: False)
    """Whether it looks at those of this job, which has ended, too."""
    digest: Callable[[Record[Spec, Status], Job, Sequence[Metric]], Any] | None = None
    """Makes of a job that has ended, and of the newest values it reported, all that the plan needs to know of it. The
    driver keeps that and not the job, so that a record of thousands of jobs costs memory and time for few."""
    gather: Callable[[Record[Spec, Status], Any, Sequence[Any]], Any] | None = None
    """Adds what ``digest`` made of more jobs to what it returned before, which may change, or to None. With it a plan
    need not look at each of thousands again."""
    shares: Callable[[Spec], QueueName | None] = field(default=lambda spec: None)
    """The queue of which the plan wants to know what other jobs hold and wait for, if there is one."""
    reads_others: Callable[[Spec], bool] = field(default=lambda spec: False)
    """Whether the plan looks at other records of the kind."""
    shown_for: str = ""
    """The ``kind`` of objects on a cluster that publish some of these as their children: those are no records."""
    related: Callable[[Spec], tuple["Kind[Any, Any, Any]", ...]] = field(default=lambda spec: ())
    """Other kinds of whose records the plan sees the tenant's."""
    makes: "Callable[[], AnyKind] | None" = None
    """The kind of the records that its plan makes, for one whose records own no jobs."""
    looks_for: Callable[[Record[Spec, Status]], tuple[tuple[str, RecordId], ...]] = field(default=lambda record: ())
    """The names and ids of the records it has made at which its plan looks."""
    each_template: Callable[[Spec, Callable[[JobSpec], JobSpec]], Spec] | None = None
    """Puts every job that the spec describes through a function."""
    check: Check[Spec, Status] | None = None
    secrets: Callable[[Spec], tuple[str, ...]] = field(default=lambda spec: ())
    """The Secrets of the tenant that were made for a record and are removed with it."""
    claims: Callable[[Spec], tuple[Plain, ...]] = field(default=lambda spec: ())
    """The volume claims of the tenant that are made with a record and removed with it."""
    files: Callable[[Spec], tuple[str, ...]] = field(default=lambda spec: ())
    """Files of the service's own machine that are opened for a record: not for everybody to name."""
    confined: Callable[[Record[Spec, Status], frozenset[Tenant], Sequence[Spec]], Record[Spec, Status] | None] = field(
        default=lambda record, tenants, specs: record
    )
    """What of a record of the whole cluster, among these, somebody of these tenants may see; None: nothing at all."""
    queues: Callable[[Spec], tuple[QueueName, ...]] = field(default=lambda spec: ())
    """The queues that a spec names for jobs that are not described in it yet."""
    always: tuple[Spec, ...] = ()
    """What exists without having been made; it can be changed and never disappears."""

    @property
    def one(self) -> str:
        """One of them, in a sentence."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    @property
    def object_kind(self) -> str:
        """The ``kind`` of its files and custom resources."""
        return self.kind_word or self.name.capitalize()

    @property
    def group(self) -> str:
        """The API group of its files and custom resources."""
        return self.api_version.partition("/")[0]

    @property
    def foreign(self) -> bool:
        """Whether its objects are somebody else's kind, with a status apart that their clients know."""
        return not self.api_version.startswith("gangline.dev/")

    @property
    def label(self) -> str:
        """The label that its jobs bear, with the record's name."""
        return f"gangline.dev/{self.name}"

    @property
    def owns_jobs(self) -> bool:
        """Whether there are jobs that belong to its records."""
        return self.plan is not None and self.makes is None

    @property
    def namespaced(self) -> bool:
        """Whether its records belong to tenants."""
        return self.scope is Scope.TENANT

    def show(self, record: Record[Spec, Status], owned: Owned) -> View:
        """Return what a user is told of a record."""
        return self.view(record, owned) if self.view is not None else record  # type: ignore[return-value]  # it is one

    def templates(self, spec: Spec) -> tuple[JobSpec, ...]:
        """Return every job that a spec describes."""
        found: list[JobSpec] = []
        if self.each_template is not None:
            self.each_template(spec, lambda job: found.append(job) or job)  # type: ignore[func-returns-value]
        return tuple(found)

    def owned_by(self, spec: Spec, tenant: Tenant) -> Spec:
        """Return a spec that names no tenant as this tenant's; where a job in it says whose it is, that is named."""
        made: Any = spec  # a frozen dataclass, as every spec is
        if spec.tenant != DEFAULT_TENANT:
            return spec
        if "tenant" in {each.name for each in fields(made)}:
            return replace(made, tenant=tenant)  # type: ignore[no-any-return]
        return spec if self.each_template is None else self.each_template(spec, lambda job: replace(job, tenant=tenant))


AnyKind = Kind[Any, Any, Any]
