"""A service: replicas that answer requests, in revisions that never change. What a file says, and how far it has come.

``gangline.serving`` decides what should exist; a router (``gangline.model.routing``) sends requests to it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_QUEUE, DEFAULT_TENANT, QueueName, Tenant, check_name
from gangline.model.jobs.spec import JobSpec
from gangline.model.kinds.registered_model import model_reference
from gangline.model.record import Record
from gangline.model.resources import Resources

SERVICE_LABEL = "gangline.dev/service"
"""The label of jobs that are replicas of a service: an engine gives them a port that nobody else has."""
REVISION_LABEL = "gangline.dev/revision"
PORT, HOST = "PORT", "HOST"
"""The variables that tell a replica where to listen."""


def _in_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidInputError(f"{value:g} does not fit", field=name, expected=f"{least:g} to {most:g}")


class ScaleMetric(StrEnum):
    """What the number of replicas follows."""

    REQUESTS = "requests"
    """Requests under way and held at once, per replica."""
    RATE = "rate"
    """Requests in a second, per replica."""
    CPU = "cpu"
    """The part of the CPU that replicas asked for, in per cent."""
    REPORTED = "reported"
    """A number that replicas report, averaged over them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One way to see whether a replica is well; with nothing said, that it accepts connections."""

    http: Annotated[str, "A path that must answer with a status below 400."] = ""
    exec: Annotated[tuple[str, ...], "A program that must exit with 0; it sees the replica's variables."] = ()
    every_seconds: Annotated[float, "How often."] = 1.0
    timeout_seconds: Annotated[float, "How long an answer may take."] = 2.0
    failures: Annotated[int, "How many in a row count."] = 3

    def __post_init__(self) -> None:
        if self.http and self.exec:
            raise InvalidInputError("a check is one thing", field="spec.checks", expected="either http or exec")
        if self.http and not self.http.startswith("/"):
            raise InvalidInputError(f"'{self.http}' is not a path", field="spec.checks", expected="for example /ready")
        for name, value in (("every", self.every_seconds), ("timeout", self.timeout_seconds)):
            _in_range(f"spec.checks.{name}", value, 0.05, 3600)
        _in_range("spec.checks.failures", self.failures, 1, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """When a replica gets requests, and when it is started again."""

    ready: Annotated[Check, "Replicas get requests while this holds."] = Check()
    start: Annotated[Check | None, "Holds once a replica has started; the others wait for it. Default: none."] = None
    live: Annotated[Check | None, "A replica of which this does not hold is started again. Default: none."] = None
    within_seconds: Annotated[float, "How long a replica may take to become ready."] = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRange:
    """How many replicas there are."""

    min: Annotated[int, "The fewest; with 0, none while nobody asks for anything."] = 1
    max: Annotated[int | None, "The most. Default: as min, at least 1."] = None
    metric: Annotated[ScaleMetric, "What the number follows."] = ScaleMetric.REQUESTS
    target: Annotated[float | None, "How much of it one replica should have. Default: 8 requests, 80 per cent."] = None
    reported: Annotated[str, "The name of the reported number."] = ""
    window_seconds: Annotated[float, "Fewer replicas only after they would have been enough for this long."] = 60.0
    idle_seconds: Annotated[float, "No replicas after this long without a request."] = 60.0

    def __post_init__(self) -> None:
        _in_range("spec.replicas.min", self.min, 0, 10_000)
        if self.max is not None:
            _in_range("spec.replicas.max", self.max, max(1, self.min), 10_000)
        if self.target is not None and self.target <= 0:
            raise InvalidInputError(f"{self.target:g} is too small", field="spec.replicas.target", expected="above 0")
        if (self.metric is ScaleMetric.REPORTED) != bool(self.reported):
            raise InvalidInputError(
                "metric and reported do not fit", field="spec.replicas.reported", expected="with metric: reported"
            )

    @property
    def most(self) -> int:
        """The most replicas, rollouts aside."""
        return max(1, self.min) if self.max is None else self.max

    @property
    def per_replica(self) -> float:
        """How much of the metric one replica should have."""
        if self.target is not None:
            return self.target
        return 80.0 if self.metric is ScaleMetric.CPU else 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRules:
    """How a new revision takes over, and when it does not."""

    steps: Annotated[tuple[int, ...], "Its share of the requests, in per cent, before it gets all."] = (20,)
    pause_seconds: Annotated[float, "How long each step lasts."] = 10.0
    errors: Annotated[float, "The part of its answers that may be 5xx."] = 0.05
    latency_seconds: Annotated[
        float | None, "95 of 100 answers must be faster. Default: three times what the present revision takes."
    ] = None
    header: Annotated[str, "Requests with this header (NAME or NAME=VALUE) get it during a rollout."] = ""
    tag: Annotated[str, "The tag by which it is reached during a rollout."] = "candidate"
    surge: Annotated[int, "How many replicas more than wanted there may be when it takes over."] = 1

    def __post_init__(self) -> None:
        for step in self.steps:
            _in_range("spec.rollout.steps", step, 0, 100)
        _in_range("spec.rollout.errors", self.errors, 0, 1)
        _in_range("spec.rollout.surge", self.surge, 1, 10_000)
        check_name(self.tag, "spec.rollout.tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How requests reach the service, and what becomes of them."""

    hosts: Annotated[tuple[str, ...], "Host names it answers to."] = ()
    port: Annotated[int, "A port of its own. Default: none."] = 0
    timeout_seconds: Annotated[float, "How long an answer may take to begin."] = 60.0
    hold_seconds: Annotated[float, "How long a request waits for a replica."] = 60.0
    repeatable: Annotated[bool | None, "Any request may be sent twice. Default: only to a model."] = None
    concurrency: Annotated[int, "How many requests a replica gets at once; others wait. Default: no limit."] = 0
    drain_seconds: Annotated[float, "How long a replica that goes may work on its last requests."] = 60.0
    tokens: Annotated[Mapping[str, str], "Who may use it: names, and the SHA-256 of what each sends."] = field(
        default_factory=dict
    )
    certificate: Annotated[str, "A file in PEM form, for TLS at its own port."] = ""
    key: Annotated[str, "The key of the certificate."] = ""

    def __post_init__(self) -> None:
        _in_range("spec.access.port", self.port, 0, 65535)
        for host in self.hosts:
            if len(host) > _LONGEST_HOST or not _HOST_NAME.fullmatch(host):
                raise InvalidInputError(
                    f"'{host}' is not a host name", field="spec.access.hosts", expected="for example digits.example.org"
                )
        for name, digest in self.tokens.items():
            if not _SHA256.fullmatch(digest):  # not shown: it may be the token itself
                raise InvalidInputError(
                    f"that of '{name}' is not a SHA-256",
                    field="spec.access.tokens",
                    expected="64 hexadecimal digits, as of: printf TOKEN | sha256sum",
                )
        if bool(self.certificate) != bool(self.key):
            raise InvalidInputError(
                "certificate and key do not fit", field="spec.access", expected="both of them, or neither"
            )


_LONGEST_HOST = 253
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.IGNORECASE | re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.IGNORECASE | re.ASCII)


class Logged(StrEnum):
    """What of a request is logged."""

    ALL = "all"
    REQUEST = "request"
    RESPONSE = "response"


@dataclass(frozen=True, slots=True, kw_only=True)
class Logging:
    """What is kept of the requests to a model and of its answers."""

    to: Annotated[str, "A directory (file://), an object store, or a URL that takes CloudEvents."]
    sample: Annotated[float, "The part of the requests, by chance."] = 1.0
    mode: Annotated[Logged, "Which of both."] = Logged.ALL

    def __post_init__(self) -> None:
        if "://" not in self.to:
            expected = "file:///DIRECTORY, s3://BUCKET/PREFIX or http://HOST/PATH"
            raise InvalidInputError(f"'{self.to}' is not an address", field="spec.logging.to", expected=expected)
        if not 0 < self.sample <= 1:
            expected = "above 0, at most 1"
            raise InvalidInputError(f"{self.sample:g} does not fit", field="spec.logging.sample", expected=expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """What a file of kind Service says."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    queue: Annotated[QueueName, "Where its replicas get their machines from."] = DEFAULT_QUEUE
    priority: Annotated[int, "Above that of training, which makes room. Default: 75, high."] = 75
    model: Annotated[str, "The model to serve: model://NAME, model://NAME:VERSION or model://NAME@ALIAS."] = ""
    arguments: Annotated[tuple[str, ...], "Further options of the model server."] = ()
    resources: Annotated[Resources, "What each replica of the model server needs."] = field(
        default_factory=lambda: Resources(cpu_millis=1000, memory_mib=512)
    )
    image: Annotated[str, "The image of the model server, on a cluster."] = ""
    job: Annotated[JobSpec | None, "Any program: what each replica runs, as the spec of a Job."] = None
    apart: Annotated[bool, "No two replicas on one node."] = False
    replicas: Annotated[ReplicaRange, "How many replicas there are, and what the number follows."] = ReplicaRange()
    checks: Annotated[Checks | None, "When replicas get requests and are started again."] = None
    rollout: Annotated[RolloutRules, "How a new revision takes over, and when it does not."] = RolloutRules()
    access: Annotated[Access, "How requests reach it, and what becomes of them."] = Access()
    logging: Annotated[Logging | None, "Keep requests to a model and its answers. Default: nothing."] = None

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if len(self.name) > _LONGEST_NAME:
            raise InvalidInputError(f"'{self.name}' is too long", field="metadata.name", expected="50 letters at most")
        if self.model and model_reference(self.model) is None:
            raise InvalidInputError(
                f"'{self.model}' is not a model", field="spec.model", expected="model://NAME, with :VERSION or @ALIAS"
            )
        if not self.model and self.job is None:
            raise InvalidInputError("nothing is served", field="spec", expected="a model or a job")
        if self.logging is not None and self.job is not None:
            expected = "a model alone; a program logs what it is asked by itself"
            raise InvalidInputError("only the model server logs", field="spec.logging", expected=expected)

    @property
    def health(self) -> Checks:
        """The checks, those of the model server unless others are given."""
        if self.checks is not None:
            return self.checks
        return Checks(ready=Check(http="/v2/health/ready")) if self.job is None else Checks()


_LONGEST_NAME = 50
"""Names of replicas have the numbers of revision and replica besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One thing that was or is served. Only ``failed`` is ever written again: why it was given up."""

    number: int
    job: JobSpec
    """The job of each of its replicas; a model in it is a version."""
    model: str = ""
    created_at: Timestamp
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReplica:
    """One replica that should exist; its job has its number. One that drains goes when its requests have ended."""

    number: int
    revision: int
    draining_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a revision has answered: sums since an arbitrary moment. ``slow`` has the counts of a latency histogram."""

    requests: int = 0
    errors: int = 0
    latency: tuple[int, ...] = ()

    def since(self, before: "Counters") -> "Counters":
        """What was added after another look; a sum that fell began anew."""
        if self.requests < before.requests:
            return self
        known = (*before.latency, *(0 for _ in self.latency))
        return Counters(
            requests=self.requests - before.requests,
            errors=max(0, self.errors - before.errors),
            latency=tuple(max(0, now - then) for now, then in zip(self.latency, known, strict=False)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A revision on its way to all requests. Past its last step it takes over, replica by replica."""

    revision: int
    begun_at: Timestamp | None = None
    """When its step began; None for one that a user asked for and nobody has looked at yet."""
    step: int = 0
    since: Timestamp | None = None
    """When its share became what the step says: when it had the replicas for it."""
    paused: bool = False
    stopped: bool = False
    """A user wants it to be given up."""
    counting: bool = False
    before: Counters = Counters()
    """What had been counted when the first step had its replicas, of the revision and of the present one."""
    present_before: Counters = Counters()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceEvent:
    """Something that a person may want to know later."""

    at: Timestamp
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionTraffic:
    """What a revision was asked lately. Times are bounds: so many of its answers took no longer."""

    revision: int
    per_second: float
    errors: float
    """The part of its answers that were 5xx."""
    median_seconds: float
    p95_seconds: float

    @property
    def words(self) -> tuple[str, ...]:
        """Requests in a second, errors, median and 95th percentile, for a table."""
        times = (
            f"{each:g} s" if each >= 1 else f"{1000 * each:g} ms" for each in (self.median_seconds, self.p95_seconds)
        )
        return f"{self.per_second:g}", f"{self.errors:.1%}", *times


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """How far a service has come. ``current`` is the revision that requests go to, 0 before there is one."""

    revisions: tuple[Revision, ...] = ()
    last_number: int = 0
    current: int = 0
    previous: int = 0
    wanted: int = 0
    """The revision that the file, with the model it names, asks for."""
    rollout: Rollout | None = None
    replicas: tuple[ServiceReplica, ...] = ()
    last_replica: int = 0
    scale: int = 1
    """How many replicas the load calls for."""
    ready: int = 0
    address: str = ""
    problem: str = ""
    """Why it cannot go on: a model that is not there, a first revision that does not become ready."""
    notice: str = ""
    """What is wrong although it may answer: no machines for some replicas, a port in use."""
    traffic: tuple[RevisionTraffic, ...] = ()
    """What was asked in the last quarter of a minute or so; revisions that were asked nothing are left out."""
    events: tuple[ServiceEvent, ...] = ()

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        if self.problem:
            return "blocked"
        if self.rollout is not None:
            return "paused" if self.rollout.paused else "rolling-out"
        if self.current and not self.ready:
            return "asleep" if not self.scale else "waiting"
        return "ready" if self.current else "starting"

    @property
    def settled(self) -> bool:
        """It never ends."""
        return False

    def revision(self, number: int) -> Revision | None:
        """Return a revision by its number."""
        return next((each for each in self.revisions if each.number == number), None)

    def traffic_words(self, revision: int) -> tuple[str, ...]:
        """What a revision is asked now, for a table; dashes for nothing."""
        return next((each.words for each in self.traffic if each.revision == revision), ("-",) * 4)

    def told(self, at: Timestamp, reason: str, message: str) -> "ServiceStatus":
        """Keep what happened; the oldest is forgotten."""
        return replace(self, events=(*self.events, ServiceEvent(at=at, reason=reason, message=message))[-_EVENTS:])


_EVENTS = 30

Service = Record[ServiceSpec, ServiceStatus]
