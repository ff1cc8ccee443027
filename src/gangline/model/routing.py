"""What a router is told and what it tells: the routing table and its statistics. Pure.

The control plane writes a table; the router follows it (``gangline.router``). Both are plain JSON, so that a table can
be read and written by hand. A table is whole: what it does not name does not exist.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import add

import msgspec

from gangline.errors import InvalidInputError

TAG_HEADER = "gangline-tag"
"""A request with this header goes to the revision that has its value as its tag."""
LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of a latency histogram, in seconds; one more bucket is for what exceeds all of them."""


class BackendState(StrEnum):
    """Whether a backend gets requests."""

    READY = "ready"
    DRAINING = "draining"
    """It gets no new request; those that it has may end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One replica, by the address where it answers."""

    address: str
    """``HOST:PORT`` or ``unix:PATH``."""
    grpc_address: str = ""
    """Where it speaks HTTP/2 without TLS, if not at ``address``."""
    state: BackendState = BackendState.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderRule:
    """A request matches if it has this header with this value; an empty value is any value."""

    name: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRoute:
    """One revision of a service and its share of the traffic."""

    name: str
    weight: float = 0.0
    """Its part of the sum of all weights. With 0 it is reached by its tag and its rules alone."""
    tag: str = ""
    """Reached as ``TAG.HOST``, ``/services/NAME:TAG/`` and by the header Gangline-Tag, whatever its weight."""
    headers: tuple[HeaderRule, ...] = ()
    """A request that matches all of them goes here, whatever the weights; the first revision that matches wins."""
    backends: tuple[Backend, ...] = ()
    concurrency: int = 0
    """At most this many requests at once for each backend; further ones are held. 0: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutRules:
    """When the router gives up. Every limit answers 504, or ends an answer that has begun."""

    connect_seconds: float = 2.0
    request_seconds: float = 60.0
    """From the end of the request to the first byte of the answer."""
    idle_seconds: float = 300.0
    """Between two pieces of a body or of an upgraded connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """What is tried again with another backend: only requests of whose answer no byte has come."""

    attempts: int = 3
    """In all, the first one included."""
    repeatable: bool = False
    """Any request may be sent twice, a POST too, as predictions may. Otherwise a backend that may have begun with a
    request gets it only once unless its method is idempotent; a refused connection is always tried again."""
    budget: float = 0.2
    """Retries may be this part of the requests of the last seconds, and always ten in a second."""
    body_bytes: int = 1 << 20
    """Larger bodies are not kept, and so not sent again once they have begun to flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EjectionRules:
    """When a backend that fails is left alone for a while. Never more than half of a revision's backends are."""

    failures: int = 5
    """Failures in a row: no connection, reset, time-out, 502, 503 or 504. 0: never."""
    seconds: float = 5.0
    """The first time; twice as long each further time, up to ten times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRules:
    """What becomes of requests while a revision has no backend that could take them."""

    seconds: float = 30.0
    """Then 503. 0: at once."""
    requests: int = 1000
    """How many may wait at once; further ones get 503."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Files in PEM form, read again when they change."""

    certificate: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Whoever sends ``Authorization: Bearer SECRET`` with this digest may use the service."""

    name: str
    sha256: str
    """Of the secret, in lower-case hexadecimal digits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRoute:
    """How requests for one service travel.

    They are recognized by the host names ``NAME.localhost`` and ``hosts``, by the path ``/services/NAME/`` (which the
    backend does not see), and by arriving at ``port``.
    """

    name: str
    hosts: tuple[str, ...] = ()
    port: int = 0
    """A port of its own, at the address that the router listens on. 0: none."""
    tls: Certificate | None = None
    """For its own port, and for its hosts at the router's TLS address."""
    tokens: tuple[Token, ...] = ()
    """Without any, whoever reaches the router may use the service."""
    revisions: tuple[RevisionRoute, ...] = ()
    timeouts: TimeoutRules = TimeoutRules()
    retries: RetryRules = RetryRules()
    ejection: EjectionRules = EjectionRules()
    hold: HoldRules = HoldRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingTable:
    """Everything a router knows."""

    version: int = 0
    """Chosen by who writes it; the statistics say which one is in force."""
    services: tuple[ServiceRoute, ...] = ()
    tls: Certificate | None = None
    """For hosts at the router's TLS address whose service has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyHistogram:
    """Seconds from a request's arrival to the end of its answer, time held included. Counts of LATENCY_BOUNDS."""

    counts: tuple[int, ...] = (0,) * (len(LATENCY_BOUNDS) + 1)
    seconds: float = 0.0
    """The sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendStatistics:
    """What one backend does; a draining one is listed until it is gone from the table and its last request ended."""

    address: str
    under_way: int = 0
    ejected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionStatistics:
    """What one revision does, and did since the router started. Sums never fall while it is in the table."""

    service: str
    revision: str
    under_way: int = 0
    """With a backend now. Those held are not among them."""
    held: int = 0
    requests: int = 0
    """Ended, however they ended."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """By status: ``2xx`` and so on, whoever gave it, backend or router."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """What the router saw go wrong, by class: ``connect``, ``reset`` (before the answer was whole), ``timeout``,
    ``status`` (a backend answered 5xx), ``unavailable`` (given up while held), ``client`` (the client left)."""
    retries: int = 0
    latency: LatencyHistogram = LatencyHistogram()
    backends: tuple[BackendStatistics, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterStatistics:
    """What a router answers on its control socket."""

    version: int = 0
    """Of the table in force: since then no request began that it does not allow."""
    problem: str = ""
    """Why the newest table is not in force, or what of it could not be done."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """What could not be done for a service, by its name: a port in use, a certificate that cannot be read."""
    revisions: tuple[RevisionStatistics, ...] = ()
    life: str = ""
    """Another one each time a router starts: its counts begin anew then."""


def merged_statistics(each: Iterable[RouterStatistics]) -> RouterStatistics:
    """Add up what several routers of one table say; the version is the one that all have in force."""
    found = tuple(each)
    revisions: dict[tuple[str, str], RevisionStatistics] = {}
    for one in (revision for router in found for revision in router.revisions):
        key = one.service, one.revision
        revisions[key] = _sum(revisions[key], one) if key in revisions else one
    return RouterStatistics(
        version=min((router.version for router in found), default=0),
        problem=next((router.problem for router in found if router.problem), ""),
        problems={name: text for router in found for name, text in router.problems.items()},
        revisions=tuple(revisions.values()),
    )


def _sum(one: RevisionStatistics, other: RevisionStatistics) -> RevisionStatistics:
    backends: dict[str, BackendStatistics] = {}
    for each in (*one.backends, *other.backends):
        known = backends.get(each.address, BackendStatistics(address=each.address))
        under_way, ejected = known.under_way + each.under_way, known.ejected or each.ejected
        backends[each.address] = BackendStatistics(address=each.address, under_way=under_way, ejected=ejected)
    return RevisionStatistics(
        service=one.service,
        revision=one.revision,
        under_way=one.under_way + other.under_way,
        held=one.held + other.held,
        requests=one.requests + other.requests,
        answers=Counter(one.answers) + Counter(other.answers),
        errors=Counter(one.errors) + Counter(other.errors),
        retries=one.retries + other.retries,
        latency=LatencyHistogram(
            counts=tuple(map(add, one.latency.counts, other.latency.counts)),
            seconds=one.latency.seconds + other.latency.seconds,
        ),
        backends=tuple(backends.values()),
    )


def encode_table(table: RoutingTable) -> bytes:
    """Write a table for the router."""
    return msgspec.json.format(msgspec.json.encode(table), indent=1)


def decode_table(text: bytes) -> RoutingTable:
    """Read a table. Raises InvalidInputError."""
    try:
        return msgspec.json.decode(text, type=RoutingTable)
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"not a routing table: {error}", expected="JSON of a RoutingTable") from error


def encode_statistics(statistics: RouterStatistics) -> bytes:
    """Write what a router answers."""
    return msgspec.json.encode(statistics)


def decode_statistics(text: bytes) -> RouterStatistics:
    """Read what a router answered."""
    return msgspec.json.decode(text, type=RouterStatistics)
