"""The table in force: services, revisions and backends with what each is doing now. A new table changes it in place."""

import asyncio
import hashlib
import hmac
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gangline.model.routing import (
    LATENCY_BOUNDS,
    TAG_HEADER,
    Backend,
    BackendState,
    BackendStatistics,
    LatencyHistogram,
    RevisionRoute,
    RevisionStatistics,
    RoutingTable,
    ServiceRoute,
)
from gangline.router.balancing import Health, RetryBudget, Share, next_share
from gangline.router.messages import Fields
from gangline.router.wires import Goodbye, Wire

_IDLE_SECONDS = 1.5
"""A connection unused for longer is not used again: the backend may be closing it at this moment."""
_JUST_NOW_SECONDS = 0.1
_TAG = TAG_HEADER.encode()


@dataclass(slots=True, eq=False)
class BackendNow:
    """A backend and its connections."""

    address: str
    grpc_address: str
    draining: bool
    health: Health = field(default_factory=Health)
    under_way: int = 0
    idle: list[Wire] = field(default_factory=list)
    calls: Goodbye | None = None
    """The connection of all calls of gRPC."""
    connecting: asyncio.Task[None] | None = None

    def connection(self, now: float) -> Wire | None:
        """Take a connection that is open and unused, the one used last first."""
        while self.idle:
            wire = self.idle.pop()
            if not wire.lost and not wire.buffer and now - wire.idle_since < _IDLE_SECONDS:
                return wire
            wire.close()
        return None

    def give_back(self, wire: Wire, now: float) -> None:
        """Keep a connection for the next request."""
        if self.draining:
            wire.close()
            return
        wire.idle_since = now
        self.idle.append(wire)

    def follow(self, backend: Backend) -> None:
        """Do as a new table says."""
        self.grpc_address = backend.grpc_address or backend.address
        self.draining = backend.state is BackendState.DRAINING
        if self.draining:
            self.close_idle()

    def close_idle(self) -> None:
        """Let go of the connections that nobody uses."""
        while self.idle:
            self.idle.pop().close()
        if self.calls is not None:
            self.calls.say_goodbye()
            self.calls = None


class Tally:
    """What a revision has done since the router started."""

    __slots__ = ("answers", "counts", "errors", "requests", "retries", "seconds")

    def __init__(self) -> None:
        self.requests = self.retries = 0
        self.answers: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.counts = [0] * (len(LATENCY_BOUNDS) + 1)
        self.seconds = 0.0

    def error(self, kind: str) -> None:
        """Count something that went wrong."""
        self.errors[kind] = self.errors.get(kind, 0) + 1

    def ended(self, status: int, seconds: float) -> None:
        """Count a request; status 0 is for none."""
        self.requests += 1
        self.seconds += seconds
        if status:
            key = f"{status // 100}xx"
            self.answers[key] = self.answers.get(key, 0) + 1
        index = 0
        for bound in LATENCY_BOUNDS:  # most are fast: this ends soon
            if seconds <= bound:
                break
            index += 1
        self.counts[index] += 1


class ChooseAgainError(Exception):
    """A request waits for a revision that no longer takes any."""


class UnavailableError(Exception):
    """There is no backend for a request, and it may not wait (longer) for one."""


@dataclass(slots=True, eq=False)
class RevisionNow:
    """A revision, its backends and the requests that wait for one."""

    service: "ServiceNow"
    route: RevisionRoute
    share: Share
    tally: Tally = field(default_factory=Tally)
    backends: dict[str, BackendNow] = field(default_factory=dict)
    leaving: list[BackendNow] = field(default_factory=list)
    """No longer in the table, but with requests under way."""
    waiting: deque[asyncio.Future[BackendNow]] = field(default_factory=deque)
    _turn: int = 0
    _alarm: asyncio.TimerHandle | None = None

    def follow(self, route: RevisionRoute) -> None:
        """Do as a new table says."""
        self.route = route
        self.share.weight = route.weight
        before = self.backends
        self.backends = {}
        for each in route.backends:
            known = before.pop(each.address, None) or self._returning(each.address)
            known = known or BackendNow(each.address, each.grpc_address, draining=False)
            known.follow(each)
            self.backends[each.address] = known
        for gone in before.values():
            gone.draining = True
            gone.close_idle()
            self.leaving.append(gone)
        self.leaving = [each for each in self.leaving if each.under_way]
        self.dispatch()
        if not route.weight:
            self.send_away()

    def _returning(self, address: str) -> BackendNow | None:
        found = next((each for each in self.leaving if each.address == address), None)
        if found is not None:
            self.leaving.remove(found)
        return found

    def pick(self, now: float, tried: Iterable[BackendNow] = ()) -> BackendNow | None:
        """Take the backend with the fewest requests, preferably one that has not been tried; None if none is free."""
        best: BackendNow | None = None
        order = [each for each in self.backends.values() if not each.draining and each.health.refused_until <= now]
        order = [each for each in order if each.health.ejected_until <= now] or order
        self._turn += 1
        for index in range(len(order)):
            each = order[(index + self._turn) % len(order)]
            if self._full(each):
                continue
            if best is None or _rank(each, tried) < _rank(best, tried):
                best = each
        if best is not None:
            best.under_way += 1
        return best

    def close_idle(self) -> None:
        """Let go of the connections that nobody uses."""
        for backend in (*self.backends.values(), *self.leaving):
            backend.close_idle()

    def _full(self, backend: BackendNow) -> bool:
        return bool(self.route.concurrency) and backend.under_way >= self.route.concurrency

    async def hold(self, until: float) -> BackendNow:
        """Wait for a backend. Raises UnavailableError."""
        loop = asyncio.get_running_loop()
        if until <= loop.time() or len(self.waiting) >= self.service.route.hold.requests:
            raise UnavailableError
        place: asyncio.Future[BackendNow] = loop.create_future()
        self.waiting.append(place)
        self.service.held()
        self._set_alarm(loop)
        try:
            async with asyncio.timeout_at(until):
                return await place
        except BaseException as problem:
            if place.done() and not place.cancelled() and place.exception() is None:
                self.release(place.result())  # it came just too late
            if isinstance(problem, TimeoutError):
                raise UnavailableError from None
            raise
        finally:
            if place in self.waiting:
                self.waiting.remove(place)

    def dispatch(self) -> None:
        """Give free backends to those that have waited longest."""
        if not self.waiting:
            return
        loop = asyncio.get_running_loop()
        while self.waiting:
            if self.waiting[0].done():  # it gave up a moment ago
                self.waiting.popleft()
                continue
            backend = self.pick(loop.time())
            if backend is None:
                break
            self.waiting.popleft().set_result(backend)
        self._set_alarm(loop)

    def send_away(self) -> None:
        """Let those that wait choose again: this revision has no part of the traffic any more."""
        while self.waiting:
            place = self.waiting.popleft()
            if not place.done():
                place.set_exception(ChooseAgainError())

    @property
    def alive(self) -> bool:
        """Whether a backend would take a request now or when it is done with another."""
        now = asyncio.get_running_loop().time()
        return any(not each.draining and not each.health.rests(now) for each in self.backends.values())

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look again when the first backend is to be asked for a connection again, or was since somebody looked."""
        now = loop.time()
        ends = [each.health.refused_until for each in self.backends.values() if not each.draining]
        ends = [each for each in ends if each > now - _JUST_NOW_SECONDS]
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_at(max(min(ends), now) + 0.001, self.dispatch) if ends and self.waiting else None

    def release(self, backend: BackendNow) -> None:
        """A request has ended."""
        backend.under_way -= 1
        if self.waiting:
            self.dispatch()
        if self.leaving and not backend.under_way and backend in self.leaving:
            self.leaving.remove(backend)

    @property
    def under_way(self) -> int:
        """How many requests backends have."""
        return sum(each.under_way for each in (*self.backends.values(), *self.leaving))

    def statistics(self, now: float) -> RevisionStatistics:
        """Say what it does and did."""
        tally = self.tally
        return RevisionStatistics(
            service=self.service.route.name,
            revision=self.route.name,
            under_way=self.under_way,
            held=sum(not each.done() for each in self.waiting),
            requests=tally.requests,
            answers=dict(tally.answers),
            errors=dict(tally.errors),
            retries=tally.retries,
            latency=LatencyHistogram(counts=tuple(tally.counts), seconds=tally.seconds),
            backends=tuple(
                BackendStatistics(address=each.address, under_way=each.under_way, ejected=each.health.rests(now))
                for each in (*self.backends.values(), *self.leaving)
            ),
        )


def _rank(backend: BackendNow, tried: Iterable[BackendNow]) -> tuple[bool, int]:
    return backend in tried, backend.under_way


class ServiceNow:
    """A service and how its requests are shared out."""

    def __init__(self, route: ServiceRoute, held: Callable[[], None]) -> None:
        self.held = held
        self.revisions: dict[str, RevisionNow] = {}
        self.leaving: list[RevisionNow] = []
        """No longer in the table, but with requests under way or held."""
        self.follow(route)

    def follow(self, route: ServiceRoute) -> None:
        """Do as a new table says."""
        self.route = route
        self.budget = RetryBudget(route.retries.budget)
        self._tokens = [_digest(token.sha256) for token in route.tokens]
        before = self.revisions
        self.revisions = {}
        for each in route.revisions:
            known = before.pop(each.name, None) or self._returning(each.name)
            known = known or RevisionNow(self, each, Share(each.weight))
            known.follow(each)
            self.revisions[each.name] = known
        for gone in before.values():
            gone.follow(RevisionRoute(name=gone.route.name))
            self.leaving.append(gone)
        self.leaving = [each for each in self.leaving if each.under_way or each.waiting]
        self._weighted = [each for each in self.revisions.values() if each.route.weight > 0]
        self._shares = [each.share for each in self._weighted]
        self._ruled = [each for each in self.revisions.values() if each.route.headers]

    def _returning(self, name: str) -> RevisionNow | None:
        found = next((each for each in self.leaving if each.route.name == name), None)
        if found is not None:
            self.leaving.remove(found)
        return found

    def admits(self, authorization: bytes | None) -> bool:
        """Whether whoever sent this header may use the service; the time this takes tells nothing."""
        if not self._tokens:
            return True
        scheme, _, secret = (authorization or b"").partition(b" ")
        digest = hashlib.sha256(secret.strip()).digest()
        same = [hmac.compare_digest(digest, each) for each in self._tokens]
        return scheme.lower() == b"bearer" and any(same)

    def choose(self, fields: Fields, tag: str) -> RevisionNow | None:
        """Choose a revision: by tag, by headers, by weight. None if no revision has the tag, or none any weight.

        A request whose share of the traffic has led it to a revision without a backend goes to the one with the largest
        share instead, never to one with a smaller: a canary gets no more than its part, but may well get less.
        """
        pinned = self._pinned(fields, tag)
        if pinned is not None:
            return pinned[0]
        if len(self._weighted) < 2:
            return self._weighted[0] if self._weighted else None
        chosen = self._weighted[next_share(self._shares)]
        return chosen if chosen.alive else self.instead_of(chosen, fields, tag) or chosen

    def instead_of(self, chosen: RevisionNow, fields: Fields, tag: str) -> RevisionNow | None:
        """Return the revision with the largest share, for a request that a smaller one cannot serve."""
        largest = max(self._weighted, key=lambda each: each.route.weight, default=None)
        if largest is None or largest is chosen or not largest.alive or self._pinned(fields, tag) is not None:
            return None
        chosen.tally.error("unavailable")
        return largest

    def _pinned(self, fields: Fields, tag: str) -> tuple[RevisionNow | None] | None:
        """Whether weights do not matter, and which revision it is then."""
        tag = tag or tag_of(fields)
        if tag:
            return (next((each for each in self.revisions.values() if each.route.tag == tag), None),)
        return next(((each,) for each in self._ruled if _matches(each.route, fields)), None)

    def all_revisions(self) -> Iterator[RevisionNow]:
        """Those in the table, then those that still have something to do."""
        yield from self.revisions.values()
        yield from self.leaving


def _digest(text: str) -> bytes:
    """Read a digest; what is none fits no secret, and must not keep a whole table from being in force."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def tag_of(fields: Fields) -> str:
    """Return the tag that a request names in its header."""
    return next((value.decode("latin-1") for lower, _, value in fields if lower == _TAG), "")


def _matches(route: RevisionRoute, fields: Fields) -> bool:
    have = {(lower, value) for lower, _, value in fields}
    names = {lower for lower, _, _ in fields}
    wanted = [(rule.name.lower().encode(), rule.value.encode()) for rule in route.headers]
    return all((pair in have) if pair[1] else (pair[0] in names) for pair in wanted)


@dataclass(slots=True)
class Found:
    """The service that a request is for, and what of its address the service sees."""

    service: ServiceNow
    tag: str
    target: bytes
    prefix: bytes = b""


class Services:
    """Everything in force."""

    def __init__(self) -> None:
        self.version = 0
        self.services: dict[str, ServiceNow] = {}
        self.leaving: list[ServiceNow] = []
        self.somebody_waits = asyncio.Event()
        self._hosts: dict[bytes, tuple[ServiceNow, str]] = {}

    def follow(self, table: RoutingTable) -> None:
        """Put a table in force, all of it at once."""
        before = self.services
        self.services = {}
        for route in table.services:
            known = before.pop(route.name, None)
            if known is None:
                known = ServiceNow(route, self.somebody_waits.set)
            else:
                known.follow(route)
            self.services[route.name] = known
        for gone in before.values():
            gone.follow(ServiceRoute(name=gone.route.name))
            self.leaving.append(gone)
        self.leaving = [each for each in self.leaving if each.leaving]
        self._hosts = dict(self._host_names())
        self.version = table.version

    def _host_names(self) -> Iterator[tuple[bytes, tuple[ServiceNow, str]]]:
        """All names, the weightier last: no host that a service is given takes another's own name, or tag of it."""
        ranks: tuple[list[tuple[str, tuple[ServiceNow, str]]], ...] = ([], [], [], [])
        for service in self.services.values():
            tags = [revision.tag for revision in service.route.revisions if revision.tag]
            own = f"{service.route.name}.localhost"
            for rank, hosts in ((0, service.route.hosts), (2, (own,))):
                ranks[rank].extend((f"{tag}.{host}", (service, tag)) for tag in tags for host in hosts)
                ranks[rank + 1].extend((host, (service, "")) for host in hosts)
        return ((host.lower().encode(errors="replace"), found) for rank in ranks for host, found in rank)

    def find(self, host: bytes, target: bytes) -> Found | None:
        """Find the service by host name, or else by path."""
        name = host.lower()
        if not name.endswith(b"]"):
            name = name.partition(b":")[0] if b"[" not in name else name.rpartition(b":")[0]
        named = self._hosts.get(name)
        if named is not None:
            return Found(named[0], named[1], target)
        if not target.startswith(b"/services/"):
            return None
        label, slash, rest = target[10:].partition(b"/")
        if not slash:
            label, question, query = label.partition(b"?")
            rest = question + query
        service_name, _, tag = label.decode("latin-1").partition(":")
        service = self.services.get(service_name)
        if service is None:
            return None
        return Found(service, tag, b"/" + rest, b"/services/" + label)

    def revisions(self) -> Iterator[RevisionNow]:
        """All revisions of all services."""
        for service in (*self.services.values(), *self.leaving):
            yield from service.all_revisions()

    def statistics(self, now: float) -> tuple[RevisionStatistics, ...]:
        """Say what everybody does."""
        return tuple(revision.statistics(now) for revision in self.revisions())
