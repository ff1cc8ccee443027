"""The verbs of every kind besides Job: ``create``, ``list``, ``get``, ``watch``, ``wait``, ``edit``, ``delete``."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gangline.errors import NotFoundError
from gangline.kinds import Kind
from gangline.model.kinds.sweep import SweepSpec, SweepStatus
from gangline.model.record import Page, RecordSpec
from gangline.sdk.exchange import body_of, deadline_of, query_of
from gangline.sweeps import known_trials

if TYPE_CHECKING:
    from gangline.sdk.client import Client

Spec = TypeVar("Spec", bound=RecordSpec)
View = TypeVar("View")
Answer = TypeVar("Answer")

_PAGE = 500


class Records(Generic[Spec, View]):
    """Asks one service about the records of one kind; made by ``Client``."""

    def __init__(self, kind: Kind[Spec, Any, View], client: "Client") -> None:
        self.kind = kind
        self._client = client
        self._exchange = client.exchange
        self.unreadable: tuple[str, ...] = ()
        """The names that the last ``list`` left out: those records cannot be read."""

    def create(self, spec: Spec, *, record_id: str | None = None) -> View:
        """Make a record and return it; doing so again with the same ``record_id`` returns the same one.

        One that names no tenant belongs to the client's. Jobs that it describes are made ready as a submitted one is;
        their code is packed and sent once for all of them.
        """
        query = query_of(id=record_id or f"s{os.urandom(7).hex()}")

        def send() -> View:
            owned = self._owned(spec)
            return self._exchange.ask(self.kind.answer, "POST", self._path(of=owned), query, self._body(owned))

        return self._exchange.insist(send)

    def list(self, *, limit: int | None = None) -> tuple[View, ...]:
        """Return records, newest first; ``limit`` None means all of them."""
        answer: Any = Page[self.kind.answer]  # type: ignore[name-defined]  # known only now
        found: tuple[View, ...] = ()
        after: str | None = None
        self.unreadable = ()
        while limit is None or len(found) < limit:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self._ask(answer, "GET", self._path(), query_of(limit=wanted, after=after))
            found, after = found + page.items, page.next
            self.unreadable += page.unreadable
            if after is None:
                break
        return found

    def get(self, name: str) -> View:
        """Return the record of that name."""
        return self._ask(self.kind.answer, "GET", self._path(name))

    def watch(self, name: str, *, timeout: float | None = None) -> Iterator[View]:
        """Return a record as it is and whenever something of it has changed, until it is gone."""
        return self._exchange.watch(self.kind.answer, self._path(name), deadline=deadline_of(timeout))

    def wait(self, name: str, *, timeout: float | None = None) -> View:
        """Return when nothing more will be done for the record.

        Raises WaitTimeoutError when the time runs out, NotFoundError when the record disappeared.
        """
        for found in self.watch(name, timeout=timeout):
            if getattr(found, "settled", True):
                return found
        raise NotFoundError(self.kind.name, name, hint="it was deleted meanwhile")

    def edit(self, spec: Spec, *, version: int | None = None) -> View:
        """Replace what a record's file says.

        Given the version that was read before, raises StaleVersionError if somebody else has changed it since.
        """
        spec, query = self._owned(spec), query_of(version=version)
        return self._ask(self.kind.answer, "PUT", self._path(spec.name, of=spec), query, self._body(spec))

    def do(self, name: str, verb: str, values: Mapping[str, object] | None = None) -> View:
        """Do something that this kind alone has a word for; without values, twice is as good as once."""
        path = self._path(name, verb)
        if values is None:
            return self._ask(self.kind.answer, "POST", path)
        body = body_of({key: str(value) for key, value in values.items()})
        return self._exchange.ask(self.kind.answer, "POST", path, (), body)

    def delete(self, name: str, *, wait: bool = True, timeout: float | None = None) -> View:
        """Make a record and its jobs disappear; with ``wait``, return when the record has."""
        deleted = self._exchange.ask(self.kind.answer, "DELETE", self._path(name))
        if wait and self.kind.owns_jobs:
            # Not found: it was gone before the watch began.
            with suppress(NotFoundError):
                deque(self.watch(name, timeout=timeout), maxlen=0)
        return deleted

    def _ask(self, answer: type[Answer], method: str, path: tuple[str, ...], *rest: Any) -> Answer:
        """Ask what may be asked twice, and do it again when the service dies meanwhile."""
        return self._exchange.insist(lambda: self._exchange.ask(answer, method, path, *rest))

    def _owned(self, spec: Spec) -> Spec:
        if self.kind.each_template is not None:
            spec = self.kind.each_template(spec, self._client.prepared)
        return self.kind.owned_by(spec, self._client.tenant)

    def _body(self, spec: Spec) -> bytes:
        return body_of(self.kind.format.write(spec))

    def _path(self, *below: str, of: Spec | None = None) -> tuple[str, ...]:
        tenant = of.tenant if of is not None else self._client.tenant
        whose = ("tenants", tenant or self._client.tenant) if self.kind.namespaced else ()
        return (*whose, self.kind.plural, *below)


class Sweeps(Records[SweepSpec, SweepStatus]):
    """The verbs of sweeps."""

    def submit(self, spec: SweepSpec, *, sweep_id: str | None = None, warm_start: Iterable[str] = ()) -> SweepStatus:
        """Submit a sweep and return it; the template's code is packed and sent once for all trials.

        What completed in the sweeps of ``warm_start`` and is within its space is known to its sampler from the start.
        """
        for earlier in warm_start:
            spec = replace(spec, known=(*spec.known, *known_trials(spec, self.get(earlier))))
        return self.create(spec, record_id=sweep_id)

    def stop(self, sweep: str) -> SweepStatus:
        """Start no further trial and cancel those that run."""
        return self.do(sweep, "stop")

    def add(self, sweep: str, values: Mapping[str, object]) -> SweepStatus:
        """Have these values tried as soon as there is room, whatever the sampler thinks of them."""
        return self.do(sweep, "add", values)
