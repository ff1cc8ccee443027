"""The verbs of sweeps: ``client.sweeps.submit``, ``list``, ``get``, ``watch``, ``wait``, ``stop``, ``delete``."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from gangline.dialects.native import sweep_to_plain
from gangline.errors import NotFoundError
from gangline.model import JobSpec, Tenant
from gangline.model.sweep import SweepSpec
from gangline.sdk.exchange import Exchange, body_of, deadline_of, query_of
from gangline.wire import SweepStatus


class Sweeps:
    """Asks one service about the sweeps of one tenant; made by ``Client``."""

    def __init__(self, exchange: Exchange, tenant: Tenant, prepare: Callable[[JobSpec], JobSpec]) -> None:
        self._exchange = exchange
        self._tenant = tenant
        self._prepare = prepare

    def submit(self, spec: SweepSpec, *, sweep_id: str | None = None) -> SweepStatus:
        """Submit a sweep and return it; the template's code is packed and sent once for all trials.

        A sweep that names no tenant belongs to the client's; the template is made ready as a job is.
        """
        spec = replace(spec, template=self._prepare(spec.template))
        body = body_of(sweep_to_plain(spec))
        query = query_of(id=sweep_id or new_sweep_id())
        return self._exchange.ask(SweepStatus, "POST", ("tenants", spec.tenant, "sweeps"), query, body)

    def list(self) -> tuple[SweepStatus, ...]:
        """Return every sweep, newest first."""
        return self._exchange.ask(tuple[SweepStatus, ...], "GET", self._path())

    def get(self, sweep: str) -> SweepStatus:
        """Return the sweep of that name."""
        return self._exchange.ask(SweepStatus, "GET", self._path(sweep))

    def watch(self, sweep: str, *, timeout: float | None = None) -> Iterator[SweepStatus]:
        """Return a sweep as it is and whenever something of it has changed, until it is gone."""
        return self._exchange.follow(SweepStatus, self._path(sweep), query_of(watch=True), deadline_of(timeout))

    def wait(self, sweep: str, *, timeout: float | None = None) -> SweepStatus:
        """Return when nothing of the sweep runs and nothing is left to try.

        Raises WaitTimeoutError when the time runs out, NotFoundError when the sweep disappeared.
        """
        for status in self.watch(sweep, timeout=timeout):
            if status.over:
                return status
        raise NotFoundError("sweep", sweep, hint="it was deleted meanwhile")

    def stop(self, sweep: str) -> SweepStatus:
        """Start no further trial and cancel those that run."""
        return self._exchange.ask(SweepStatus, "POST", self._path(sweep, "stop"))

    def delete(self, sweep: str, *, wait: bool = True, timeout: float | None = None) -> SweepStatus:
        """Make a sweep and its trials' jobs disappear; with ``wait``, return when the sweep has."""
        deleted = self._exchange.ask(SweepStatus, "DELETE", self._path(sweep))
        if wait:
            # Not found: it was gone before the watch began.
            with suppress(NotFoundError):
                deque(self.watch(sweep, timeout=timeout), maxlen=0)
        return deleted

    def _path(self, *below: str) -> tuple[str, ...]:
        return ("tenants", self._tenant, "sweeps", *below)


def new_sweep_id() -> str:
    """Choose the id of a new sweep."""
    return f"s{os.urandom(7).hex()}"
