"""Everything that drives jobs and records on this machine, for as long as this process leads."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from gangline.compose.clock import SystemClock
from gangline.compose.katib_trials import KatibTrials
from gangline.compose.metering import MeteredController, MeteredEngine
from gangline.compose.notifications import make_sender
from gangline.compose.plugins import chosen_policies, usable_kinds
from gangline.compose.router_process import RouterProcess
from gangline.compose.workspaces import WorkspaceKeeper
from gangline.controller import Controller, RecordDriver
from gangline.controller.notifications.observer import NotificationObserver
from gangline.controller.services import ServiceObserver
from gangline.controller.workspaces import WorkspaceObserver
from gangline.engines.interface import Engine
from gangline.kinds.inference_service import INFERENCE_SERVICE
from gangline.kinds.notification import NOTIFICATION
from gangline.kinds.service import SERVICE
from gangline.kinds.workspace import WORKSPACE
from gangline.model import JobSpec
from gangline.model.kinds.pipeline import STEP_VARIABLE
from gangline.model.record import Record
from gangline.operations.objects import read_config_map, read_secret
from gangline.pipelines.jobs import bounded_by
from gangline.settings import Settings
from gangline.telemetry import Numbers

if TYPE_CHECKING:
    from gangline.storage.sql.store import SqlStore


class Leading:
    """The controller, the driver of records and what they need; the engine is whoever made it's to close."""

    def __init__(
        self,
        settings: Settings,
        store: "SqlStore",
        engine: Engine,
        keeper: WorkspaceKeeper,
        numbers: Numbers | None,
        *,
        private: bool,
    ) -> None:
        self._engine = engine
        self._keeper = keeper
        self.controller = _controller(settings, store, engine, numbers)
        self._trials = KatibTrials(store, SystemClock(), settings.home / "katib.json")
        self.records = RecordDriver(
            usable_kinds(),
            store=store,
            link=self.controller,
            clock=SystemClock(),
            config_map=partial(read_config_map, settings.object_directory),
            adapt=self._adapt,
            clean=keeper.clean,
        )
        self._router = RouterProcess(settings.home / "router", settings.runtime_directory / "router.sock")
        self._services = ServiceObserver(
            engine=engine, router=self._router, clock=SystemClock(), wake=self.records.wake
        )
        self.records.observers |= dict.fromkeys((SERVICE.name, INFERENCE_SERVICE.name), self._services)
        self._workspaces = WorkspaceObserver(
            engine=engine, gate=keeper, clock=SystemClock(), wake=self.records.wake, feed=keeper.feed
        )
        self.records.observers[WORKSPACE.name] = self._workspaces
        sender = make_sender(
            partial(read_secret, settings.object_directory),
            networks=settings.notification_networks,
            smtp=settings.smtp,
            private=private,
        )
        self._notifications = NotificationObserver(
            store=store, sender=sender, clock=SystemClock(), wake=self.records.wake
        )
        self.records.observers[NOTIFICATION.name] = self._notifications

    async def begin(self) -> list["asyncio.Task[None]"]:
        """Start to drive; return the tasks, which end only by a fault."""
        await self._trials.resume()
        return [
            asyncio.create_task(self.controller.run(), name="controller"),
            asyncio.create_task(self.records.run(), name="records"),
            asyncio.create_task(self._services.run(), name="services"),
            asyncio.create_task(self._workspaces.run(), name="workspaces"),
            asyncio.create_task(self._notifications.run(self.controller.watch()), name="notifications"),
        ]

    async def close(self) -> None:
        """Let go of what is held here, once the tasks have ended; gangs go on."""
        await self._trials.close()
        await self._router.close()

    async def _adapt(self, record: Record[Any, Any], job: JobSpec) -> JobSpec:
        placed = await self._keeper.adapt(record, await self._trials.place(job))
        if STEP_VARIABLE not in placed.env:
            return placed
        largest = max((each.capacity for each in await self._engine.nodes()), key=lambda each: each.cpu_millis)
        return bounded_by(placed, largest)


def _controller(settings: Settings, store: "SqlStore", engine: Engine, numbers: Numbers | None) -> Controller:
    policies = chosen_policies(settings.scheduling)
    if numbers is None:
        return Controller(store=store, engine=engine, clock=SystemClock(), policies=policies)
    if isinstance(engine, MeteredEngine):
        engine.numbers = numbers
    return MeteredController(numbers, store=store, engine=engine, clock=SystemClock(), policies=policies)
