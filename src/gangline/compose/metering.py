"""The parts of a service, measured: they decide and do nothing differently."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Protocol

from gangline.controller import Controller
from gangline.engines.interface import Engine, EngineEvent
from gangline.engines.local.engine import LocalEngine
from gangline.lifecycle import Event
from gangline.model import Clean, Clock, Gang, GangId, JobId, Node, Usage
from gangline.scheduling import Policies
from gangline.storage.interface import Store
from gangline.telemetry import Numbers


class StepMeter(Protocol):
    """Counts what a controller does."""

    def note_step(self, took: float) -> None:
        """Count a step."""
        ...

    def note_event(self, kind: str) -> None:
        """Count a piece of news."""
        ...


class MeteredController(Controller):
    """A controller whose steps and news are counted."""

    def __init__(self, meter: StepMeter, *, store: Store, engine: Engine, clock: Clock, policies: Policies) -> None:
        super().__init__(store=store, engine=engine, clock=clock, policies=policies)
        self._counts = meter

    async def settle(self) -> None:
        """Handle everything that is known now; see Controller."""
        began = perf_counter()
        try:
            await super().settle()
        finally:
            self._counts.note_step(perf_counter() - began)

    def hear(self, event: EngineEvent | Event) -> None:
        """Take news in; see Controller."""
        self._counts.note_event(type(event).__name__)
        super().hear(event)


class MeteredEngine(LocalEngine):
    """A local engine whose answers are timed, once it is told where to count."""

    numbers: Numbers | None = None

    @contextmanager
    def _timed(self, operation: str) -> Iterator[None]:
        began = perf_counter()
        try:
            yield
        finally:
            if self.numbers is not None:
                self.numbers.note_engine(operation, perf_counter() - began)

    async def nodes(self) -> Sequence[Node]:
        """Describe the nodes; see Engine."""
        with self._timed("nodes"):
            return await super().nodes()

    async def run(self, gang: Gang) -> None:
        """Start a gang; see Engine."""
        with self._timed("run"):
            await super().run(gang)

    async def finish(self, gang: Gang) -> None:
        """Store the outputs; see Engine."""
        with self._timed("finish"):
            await super().finish(gang)

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        """Stop a gang; see Engine."""
        with self._timed("stop"):
            await super().stop(gang_id, grace_seconds, clean=clean)

    async def usage(self) -> Usage:
        """Measure; see Engine."""
        with self._timed("usage"):
            return await super().usage()

    async def forget(self, job_id: JobId) -> None:
        """Forget a job; see Engine."""
        with self._timed("forget"):
            await super().forget(job_id)
