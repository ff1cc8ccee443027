"""The local engine: the controller's side. It holds no truth of its own; everything it knows can be read again."""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from gangline.data.credentials import NoStores, StoreDirectory
from gangline.engines.interface import (
    Answering,
    Engine,
    EngineEvent,
    FaultInjector,
    JobFolders,
    LogQuery,
    NodesChanged,
    Releasing,
)
from gangline.engines.local.keeper.system import processes
from gangline.engines.local.keeper.system.trees import remove_tree
from gangline.engines.local.layout import Layout
from gangline.engines.local.link import GangLink
from gangline.engines.local.nodes.addresses import Addresses
from gangline.engines.local.nodes.allocation import NoFreeGpuError
from gangline.engines.local.nodes.devices import DeviceWatch
from gangline.engines.local.nodes.machine import LocalNode, Machine
from gangline.engines.local.nodes.usage import UsageMeter
from gangline.engines.local.orders.data_moves import DataResolver, JobDirectory, ModelRegistry, NoDataError
from gangline.engines.local.orders.ordering import LogLimits, NoCommandError, OrderWriter, address_of
from gangline.engines.local.system_users import SystemUsers
from gangline.engines.local.watch.checking import check_replica
from gangline.engines.local.watch.logs import follow_logs, read_logs
from gangline.engines.local.watch.registering import Registrar
from gangline.engines.local.watch.terminal import converse
from gangline.engines.local.watch.watching import keep_stacks, pulses
from gangline.engines.local.wire import ReplicaOrder
from gangline.errors import EngineError, NotFoundError
from gangline.lifecycle.events import GangFailed, GangStopped
from gangline.lifecycle.watching import Pulse
from gangline.model import (
    Clean,
    Clock,
    CodeLimits,
    Gang,
    GangId,
    Job,
    JobId,
    LogLine,
    Node,
    NodeName,
    ReplicaId,
    ReplicaState,
    ReplicaStatus,
    Usage,
)
from gangline.model.console import Console
from gangline.model.kinds.service import Check
from gangline.scheduling import terminating_gang
from gangline.scheduling.gangs.holdings import HOLDING_STATES

_METRIC_SECONDS = 0.25
_DISK_SECONDS = 1.0
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})

_log = logging.getLogger(__name__)


class LocalEngine:
    """Runs gangs as processes of this user on this machine.

    ``root`` holds everything it keeps and is this engine's alone. ``nodes`` divides the machine into logical nodes.
    ``most_processes`` is how many processes and threads a replica may have, where control groups can count them.
    ``stores`` knows the keys of the stores that jobs name, ``models`` the models, ``jobs`` the jobs by name. Movers
    keep up to ``cache_bytes`` of what they fetched from object stores, for the jobs that come. ``users`` are those that
    jobs run as, where not the engine's own.
    ``use_cgroups`` False keeps away from control groups even where the system would permit them. GPUs that appear
    later are seen within ``device_seconds``.
    """

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock,
        nodes: int = 1,
        log_limits: LogLimits | None = None,
        code_limits: CodeLimits | None = None,
        use_cgroups: bool = True,
        most_processes: int = 4096,
        device_seconds: float = 30.0,
        stores: StoreDirectory | None = None,
        models: ModelRegistry | None = None,
        jobs: JobDirectory | None = None,
        cache_bytes: int = 10 << 30,
        users: SystemUsers | None = None,
    ) -> None:
        self._layout = Layout(root.absolute())
        self._clock = clock
        self._node_count = nodes
        self._nodes: tuple[LocalNode, ...] | None = None
        self._devices = DeviceWatch()
        self._device_seconds = device_seconds
        self._addresses = Addresses()
        self._order_writer = OrderWriter(
            layout=self._layout,
            addresses=self._addresses,
            log_limits=log_limits or LogLimits(),
            code_limits=code_limits or CodeLimits(),
            use_cgroups=use_cgroups,
            most_processes=most_processes,
            cache_bytes=cache_bytes,
            users=users,
        )
        self._users = users
        self._data = DataResolver(self._layout, stores or NoStores(), models, jobs)
        self._links: dict[GangId, GangLink] = {}
        self._tasks: dict[GangId, asyncio.Task[None]] = {}
        self._postponed: dict[GangId, asyncio.Task[None]] = {}
        """Orders that wait: for room on the disk, or until those are gone whose GPUs they are to get."""
        self._freed = asyncio.Event()
        self._news: asyncio.Queue[EngineEvent | Exception] = asyncio.Queue()
        self._registrar = Registrar(self._layout, models, self._news.put_nowait)
        self._watches: tuple[asyncio.Task[None], ...] = ()
        self._meter = UsageMeter(clock)

    async def nodes(self) -> Sequence[Node]:
        """Describe the machine, or its logical parts."""
        return [part.node for part in await self._parts()]

    async def run(self, gang: Gang) -> None:
        """Write the order, and have a keeper carry it out."""
        self._recover()
        self._withdraw(gang.id)
        parts = {part.node.name: part for part in await self._parts()}
        try:
            data = await self._data.resolve(gang)
        except NoDataError as error:
            self._refuse(gang, error)
            return
        # From here to the end nothing is awaited: what others hold must not change.
        link = self._links.get(gang.id)
        if (link or self._glance(gang.id)).stopped:
            # Whatever the controller remembers: tell it again.
            self._glance(gang.id).look()
            return
        taken = [order for other in self._links.values() for order in other.holdings(gang if other is link else None)]
        try:
            order = self._order_writer.write(
                gang,
                data=data,
                known=link.order if link else None,
                nodes=parts,
                taken=taken,
                leaving=link.without(str(replica.id) for replica in gang.replicas) if link else (),
            )
        except (EngineError, OSError) as error:
            if isinstance(error, NoFreeGpuError) and any(other.departing for other in self._links.values()):
                # The scheduler counts on those who go, and they are not quite gone.
                self._postponed[gang.id] = asyncio.create_task(
                    self._run_later(gang, self._freed.wait, new=link is None)
                )
                return
            no_room = isinstance(error, OSError) and error.errno in _NO_ROOM
            if link is not None and no_room:
                # What lives goes on as it is.
                _log.warning("the order of attempt %s waits for room on the disk: %s", gang.id, error)
                self._postponed[gang.id] = asyncio.create_task(
                    self._run_later(gang, partial(asyncio.sleep, _DISK_SECONDS))
                )
                return
            self._refuse(gang, error)
            return
        (link or self._open(gang.id)).run(order)

    def _refuse(self, gang: Gang, error: EngineError | OSError) -> None:
        job_id, attempt = gang.id
        self._news.put_nowait(
            GangFailed(
                job_id=job_id,
                at=self._clock.now(),
                attempt=attempt,
                reason="CannotStart",
                message=str(error),
                permanent=isinstance(error, (NoCommandError, NoDataError)),
                blameless=isinstance(error, OSError) and error.errno in _NO_ROOM,
            )
        )

    def terminating(self, jobs: Collection[Job]) -> Collection[Job]:
        """Show what replicas hold that their jobs count on no longer; see Releasing."""
        self._recover()
        links = ((job, self._links.get(job.gang_id)) for job in jobs if job.holding)
        found = ((job, _uncounted(job, link)) for job, link in links if link is not None)
        return [terminating_gang(job, replicas) for job, replicas in found if replicas]

    async def finish(self, gang: Gang) -> None:
        """Have the keeper stop what still runs and store the outputs."""
        self._recover()
        if gang.id not in self._links:
            await self.run(gang)
        if gang.id in self._links:
            self._links[gang.id].finish()

    async def stop(self, gang_id: GangId, grace_seconds: float, *, clean: Clean = Clean.ALL) -> None:
        """Have the keeper stop everything; what is stopped already is told again."""
        self._recover()
        self._withdraw(gang_id)
        if (link := self._links.get(gang_id)) and not link.stopped:
            link.stop(grace_seconds)
        elif not self._glance(gang_id).look():
            job_id, attempt = gang_id
            self._news.put_nowait(GangStopped(job_id=job_id, at=self._clock.now(), attempt=attempt))

    async def events(self) -> AsyncIterator[EngineEvent]:
        """Tell everything that has happened to gangs that are not stopped, then what happens."""
        self._recover()
        while True:
            event = await self._news.get()
            if isinstance(event, Exception):
                raise event
            yield event

    def logs(self, query: LogQuery) -> AsyncIterator[LogLine]:
        """Read output from disk; following ends with the attempt."""
        attempts = self._layout.attempts(query.job_id)
        attempt = query.attempt if query.attempt is not None else max(attempts, default=0)
        gang_id = GangId(query.job_id, attempt)
        directory = self._layout.logs(gang_id)
        if query.follow:
            return follow_logs(directory, query, attempt, over=lambda: not self._layout.marker(gang_id).exists())
        return read_logs(directory, query, attempt)

    def folder_of(self, job: Job) -> Path:
        """Return the job's directory; see JobFolders."""
        folder = self._layout.job(job.id)
        if self._users is not None:
            self._users.open_job(folder, job.spec.tenant)
        return folder

    async def usage(self) -> Usage:
        """Measure every replica and every node, in a thread: it reads many small files."""
        self._recover()
        running = [(link.gang_id, *entry) for link in self._links.values() for entry in link.running()]
        return await asyncio.to_thread(self._meter.measure, await self._parts(), running)

    async def interact(self, job: Job, replica: ReplicaId, console: Console) -> int:
        """Run a shell beside a replica; see Terminals."""
        self._recover()
        link = self._links.get(job.gang_id)
        running = [] if link is None else [each for each in link.running() if each[0].name == str(replica)]
        if link is None or link.order is None or not running:
            raise NotFoundError("running replica", str(replica), hint=f"job '{job.name}' has none now")
        order, pid, group = running[0]
        return await converse(pid, group, link.order.user, dict(order.environment), console)

    async def pulses(self, gang_id: GangId) -> Mapping[ReplicaId, Pulse]:
        """Look at the running replicas of a gang; see Watchful."""
        self._recover()
        link = self._links.get(gang_id)
        return {} if link is None else await asyncio.to_thread(pulses, self._layout, gang_id, link.running())

    async def keep_stacks(self, gang_id: GangId) -> Mapping[ReplicaId, str]:
        """Keep where the processes of a gang are among the job's results; see Watchful."""
        link = self._links.get(gang_id)
        if link is None or link.order is None:
            return {}
        return await keep_stacks(self._layout, gang_id, link.running(), link.order.user)

    async def kill(self, gang_id: GangId, replica: ReplicaId) -> bool:
        """Kill a replica's first process; its keeper sees it die and takes the rest of it down. See FaultInjector."""
        self._recover()
        link = self._links.get(gang_id)
        return link is not None and link.kill(str(replica))

    probed = False

    def address_of(self, gang_id: GangId, replica: ReplicaId) -> str:
        """Return where a replica of a service answers; see Answering."""
        order = self._order_of(gang_id, replica)
        return address_of(order) if order is not None else ""

    async def check(self, gang_id: GangId, replica: ReplicaId, check: Check) -> str:
        """Try whether a replica is well; see Answering."""
        order, link = self._order_of(gang_id, replica), self._links.get(gang_id)
        if order is None or link is None or link.order is None:
            return "it does not run"
        return await check_replica(check, order, link.order.user)

    def _order_of(self, gang_id: GangId, replica: ReplicaId) -> ReplicaOrder | None:
        self._recover()
        link = self._links.get(gang_id)
        orders = link.order.replicas if link is not None and link.order is not None else ()
        return next((order for order in orders if order.name == str(replica)), None)

    async def forget(self, job_id: JobId) -> None:
        """Remove the job's directory. A gang that is not stopped is a defect of the caller."""
        self._recover()
        links = [link for link in self._links.values() if link.gang_id.job_id == job_id]
        if living := [link.gang_id for link in links if not link.stopped]:
            raise EngineError(f"attempt {living[0]} is not stopped yet")
        await asyncio.gather(*(self._tasks[link.gang_id] for link in links))
        attempts = [GangId(job_id, attempt) for attempt in self._layout.attempts(job_id)]
        await asyncio.to_thread(_remove, self._layout.job(job_id))
        for gang_id in attempts:
            self._layout.short_scratch(gang_id).unlink(missing_ok=True)

    async def close(self) -> None:
        """Let go of everything in this process; gangs go on without it, and the next engine finds them."""
        tasks = [*self._tasks.values(), *self._postponed.values(), *self._watches, *self._registrar.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._addresses.close()

    async def _parts(self) -> tuple[LocalNode, ...]:
        if self._nodes is None:
            await asyncio.to_thread(self._devices.look)
            await asyncio.to_thread(self._devices.examine)
            self._nodes = self._measure()
        return self._nodes

    def _measure(self) -> tuple[LocalNode, ...]:
        return Machine.measure(self._devices.devices, self._devices.faults).divide(self._node_count)

    def _recover(self) -> None:
        """Once per life: find what an earlier life left."""
        if self._watches:
            return
        # Replicas may keep every CPU of this machine busy: news of them must not wait until they pause.
        processes.run_promptly()
        self._watches = (asyncio.create_task(self._read_metrics()), asyncio.create_task(self._watch_devices()))
        self._layout.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for gang_id in self._layout.active_gangs():
            link = self._open(gang_id)
            for address in link.addresses:
                self._addresses.keep(address)

    def _glance(self, gang_id: GangId) -> GangLink:
        """Read what is known of an attempt, without following it."""
        return GangLink(gang_id, self._layout, self._clock, self._registrar.publish, self._looked)

    def _looked(self) -> None:
        """Something may be free that was not: whoever waits for it looks again."""
        self._freed.set()
        self._freed = asyncio.Event()

    def _open(self, gang_id: GangId) -> GangLink:
        link = self._links[gang_id] = self._glance(gang_id)
        self._tasks[gang_id] = asyncio.create_task(self._serve(link), name=f"gang {gang_id}")
        return link

    async def _run_later(self, gang: Gang, moment: Callable[[], Awaitable[object]], *, new: bool = False) -> None:
        await moment()
        del self._postponed[gang.id]
        if new or gang.id in self._links:
            await self.run(gang)

    def _withdraw(self, gang_id: GangId) -> None:
        if waiting := self._postponed.pop(gang_id, None):
            waiting.cancel()

    async def _serve(self, link: GangLink) -> None:
        try:
            await link.serve()
        except Exception as error:  # noqa: BLE001  # a defect; whoever reads the events must not wait forever
            self._news.put_nowait(error)
            return
        for address in link.addresses:
            self._addresses.release(address)
        del self._links[link.gang_id], self._tasks[link.gang_id]

    async def _read_metrics(self) -> None:
        while True:
            await asyncio.sleep(_METRIC_SECONDS)
            for link in self._links.values():
                link.read_reports()

    async def _watch_devices(self) -> None:
        """Tell of GPUs that appear (a driver was not ready, a device was added), have errors or are well again."""
        while True:
            await asyncio.sleep(self._device_seconds)
            others = await asyncio.to_thread(self._devices.look)
            if await asyncio.to_thread(self._devices.examine) or others:
                for gpu, fault in self._devices.faults.items():
                    _log.warning("GPU %s is closed: %s", gpu, fault)
                self._nodes = self._measure()
                self._news.put_nowait(NodesChanged())


def _uncounted(job: Job, link: GangLink) -> list[ReplicaStatus]:
    counted = (str(status.id) for status in job.replicas if status.state in HOLDING_STATES)
    return [
        ReplicaStatus(
            id=ReplicaId.parse(order.name),
            node=NodeName(order.node),
            state=ReplicaState.RUNNING,
            incarnation=order.incarnation,
            gpu_slot=order.gpu_slot,
        )
        for order in link.without(counted)
    ]


def _remove(folder: Path) -> None:
    try:
        remove_tree(str(folder))
    except OSError as error:
        raise EngineError(f"{folder} cannot be removed: {error}") from error


_conforms: type[Engine] = LocalEngine
_releases: type[Releasing] = LocalEngine
_has_folders: type[JobFolders] = LocalEngine
_can_kill: type[FaultInjector] = LocalEngine
_answers: type[Answering] = LocalEngine
