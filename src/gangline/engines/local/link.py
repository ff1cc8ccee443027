"""The engine's end of one attempt: starts its keeper, passes orders on, and turns the keeper's record into events."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from gangline.data.reports import REPORT_FILE
from gangline.engines.collecting.following import MetricCollector
from gangline.engines.interface import EngineEvent, NodesChanged
from gangline.engines.local.keeper.launch import MARKER, make_scratch
from gangline.engines.local.keeper.records import AttemptRecord, Status
from gangline.engines.local.keeper.system import cgroups, processes
from gangline.engines.local.layout import Layout
from gangline.engines.local.system_users import file_rights, open_file
from gangline.engines.local.watch.metrics import MetricTail
from gangline.engines.local.watch.news import news_of
from gangline.engines.local.wire import Order, ReplicaOrder, read_order
from gangline.engines.transfer_report import read_report
from gangline.errors import EngineError
from gangline.lifecycle.events import (
    GangEvent,
    GangFailed,
    GangStopped,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
    TransferReported,
)
from gangline.model import Backoff, Clock, Gang, GangId, ReplicaId

_KEEPER = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from keeper.__main__ import main; main()"
_RUN: dict[str, object] = {"do": "run"}
_BACKOFF = Backoff(first_seconds=0.2, longest_seconds=4.0)
_RETRIES_BEFORE_REPORT = 3
_MOST_REPORT_BYTES = 64 << 20
_OVER = frozenset({Status.EXITED, Status.LOST})
_REPLICA_NEWS = (ReplicaStarted, ReplicaExited, ReplicaLost)


class GangLink:
    """One attempt that is not known to be stopped."""

    def __init__(
        self,
        gang_id: GangId,
        layout: Layout,
        clock: Clock,
        publish: Callable[[EngineEvent], None],
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        """``looked`` is called whenever the record was read again: something may be free that was not."""
        self._looked = looked
        self.gang_id = gang_id
        self._layout = layout
        self._directory = layout.attempt(gang_id)
        self._clock = clock
        self._publish = publish
        self.order = read_order(self._directory)
        self.record = AttemptRecord.load(f"{self._directory}/state.json")
        self.addresses = {replica.address for replica in self.order.replicas} if self.order else set()
        """Every address this attempt was given."""
        self._orders: list[dict[str, object]] = []
        """What the controller has asked for in this life; said again to every new keeper."""
        self._stop_wanted = False
        self._writer: asyncio.StreamWriter | None = None
        self._wake = asyncio.Event()
        self._told: set[GangEvent] = set()
        self._tails: dict[str, MetricTail] = {}
        self._report = b""
        self._collector: MetricCollector | None = None

    @property
    def stopped(self) -> bool:
        """Whether nothing of the attempt is left."""
        return self.record.stopped_at is not None

    @property
    def departing(self) -> bool:
        """Whether something of the attempt is on its way out, so that more will be free soon."""
        return bool(self._leaving()) or (self._stop_wanted and not self.stopped)

    def holdings(self, wanted: Gang | None = None) -> list[ReplicaOrder]:
        """Return the orders whose CPUs and GPUs are taken, those of replicas on their way out included.

        A replica has what it was given until its end is on record, when nothing of it is alive any more. From the same
        record the scheduler learns that it may place others there, whatever else the gang is doing. What is ``wanted``
        next leaves out replicas that are to start again.
        """
        if self.stopped:
            return []
        over = {(each.name, each.incarnation) for each in self.record.replicas.values() if each.status in _OVER}
        again = {str(each.id): each.incarnation for each in wanted.replicas} if wanted else {}
        listed = [
            each
            for each in (self.order.replicas if self.order else ())
            if (each.name, each.incarnation) not in over and again.get(each.name, each.incarnation) == each.incarnation
        ]
        return [*listed, *self._leaving()]

    def without(self, wanted: Iterable[str]) -> list[ReplicaOrder]:
        """Return the orders of all that is there and not wanted, by name."""
        names = frozenset(wanted)
        return [each for each in self.holdings() if each.name not in names]

    def run(self, order: Order) -> None:
        """Make what exists agree with an order that is on disk already."""
        before = {each.name for each in self.holdings()}
        self.order = order
        if not before <= {each.name for each in self.holdings()}:
            self._publish(NodesChanged())  # it had not begun, so no record will tell of its end
        self.addresses |= {replica.address for replica in order.replicas}
        self._say(_RUN)

    def finish(self) -> None:
        """Stop what still runs and store the outputs."""
        self._say({"do": "finish"})

    def stop(self, grace_seconds: float) -> None:
        """Stop everything."""
        self._stop_wanted = True
        self._say({"do": "stop", "grace_seconds": grace_seconds})

    async def serve(self) -> None:
        """Follow the attempt until it is stopped, through as many keepers as it takes."""
        failures = 0
        while not self.look():
            if not self._orders and not self.record.boot:
                # Nothing was ever started and nobody has asked for anything yet.
                await self._wake.wait()
            try:
                reader = await self._connect()
            except EngineError as error:
                failures += 1
                if failures == _RETRIES_BEFORE_REPORT:
                    self._tell(self._cannot_keep(str(error)))
                if self._stop_wanted and not self.record.boot:
                    self._abandon()
                    return
                await asyncio.sleep(_BACKOFF.pause(failures))
                continue
            failures = 0
            await self._listen(reader)

    def look(self) -> bool:
        """Tell what has happened since the last look; True once the attempt is stopped."""
        leaving = self._leaving()
        self.record = AttemptRecord.load(f"{self._directory}/state.json")
        self.read_reports()
        if len(self._leaving()) < len(leaving):
            self._publish(NodesChanged())
        listed = {replica.name for replica in self.order.replicas} if self.order else set()
        for event in news_of(self.gang_id, self.record):
            # News of a replica that was taken out of the gang would speak of nobody the controller knows.
            if not isinstance(event, _REPLICA_NEWS) or str(event.replica) in listed:
                self._tell(event)
        self._looked()
        return self.stopped

    def read_reports(self) -> None:
        """Tell what training code and movers have reported since."""
        # What a job's programs may write to is read with their rights: any of it may be a link to something else.
        with file_rights(self.order.user if self.order else None):
            found = [*self._reported()]
        for event in found:
            self._publish(event)

    def _reported(self) -> Iterator[EngineEvent]:
        if (report := self._new_report()) is not None:
            yield report
        if self._collector is None and self.order and self.order.metrics:
            target = self._layout.metrics(self.gang_id, self._lead())
            state = target.with_name(f".{target.name}.collected")
            self._collector = MetricCollector(self.order.metrics, target, self._clock, state)
        if self._collector is not None:
            lead = self.record.replicas.get(self._lead())
            with contextlib.suppress(OSError):  # a full disk; the next look reads on
                self._collector.read(last=lead is not None and lead.status in _OVER)
        for replica in self.order.replicas if self.order else ():
            tail = self._tails.get(replica.name)
            if tail is None:
                path = self._layout.metrics(self.gang_id, replica.name)
                tail = self._tails[replica.name] = MetricTail(path, self.gang_id.job_id, ReplicaId.parse(replica.name))
            yield from tail.read()

    def _lead(self) -> str:
        assert self.order is not None
        return self.order.lead or self.order.replicas[0].name

    def _new_report(self) -> TransferReported | None:
        """What movers tell now, unless it was told before; jobs without data have none."""
        if self.order is None or not (self.order.inputs or self.order.outputs):
            return None
        try:
            with open_file(self._layout.moves(self.gang_id) / REPORT_FILE) as file:
                text = file.read(_MOST_REPORT_BYTES)
        except OSError:
            return None
        if text == self._report:
            return None
        self._report = text
        return read_report(text, self.gang_id, self._clock.now())

    def running(self) -> list[tuple[ReplicaOrder, int, str | None]]:
        """Return the replicas that run, with their first process and their control group."""
        orders = {order.name: order for order in self.holdings()}
        return [
            (orders[record.name], record.pid, record.cgroup)
            for record in self.record.replicas.values()
            if record.status is Status.RUNNING and record.pid is not None and record.name in orders
        ]

    def kill(self, name: str) -> bool:
        """Kill a replica without warning; False if it does not run."""
        for order, pid, _ in self.running():
            if order.name == name:
                return _kill_marked(pid, f"{MARKER}={order.environment[MARKER]}".encode())
        return False

    def _leaving(self) -> list[ReplicaOrder]:
        """The replicas that are no longer wanted and not gone yet: their keeper removes from the record who is."""
        leaving = self.order.leaving if self.order else ()
        return [replica for replica in leaving if replica.name in self.record.replicas]

    def _tell(self, event: GangEvent) -> None:
        if event not in self._told:
            self._told.add(event)
            self._publish(event)

    def _say(self, order: dict[str, object]) -> None:
        if order not in self._orders:
            self._orders.append(order)
        if self._writer is not None:
            self._writer.write(msgspec.json.encode(order) + b"\n")
        self._wake.set()

    async def _connect(self) -> asyncio.StreamReader:
        if self.order is None:
            raise EngineError(f"attempt {self.gang_id} has no order")
        address = f"\0{self.order.socket_name}"
        try:
            reader, self._writer = await asyncio.open_unix_connection(address)
        except OSError:
            await self._start_keeper(self.order)
            try:
                reader, self._writer = await asyncio.open_unix_connection(address)
            except OSError as error:
                # The keeper that held the lock has just ended; the next look tells how.
                raise EngineError(f"the keeper of attempt {self.gang_id} does not answer: {error}") from error
        for order in self._orders:
            if order == _RUN and self._stop_wanted:
                continue
            self._writer.write(msgspec.json.encode(order) + b"\n")
        return reader

    async def _start_keeper(self, order: Order) -> None:
        requests = ["start"] if _RUN in self._orders and not self._stop_wanted else []
        if requests and order.use_cgroups:
            requests.append("groups")
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _KEEPER, str(self._directory), order.socket_name, *requests),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise EngineError(f"no keeper could be started: {error}") from error
        starting = asyncio.create_task(process.communicate())
        try:
            if requests and not self.record.boot:
                # The keeper's interpreter needs a while to start: what its replicas need is there when it has.
                await asyncio.to_thread(self._run_ahead, order)
            await asyncio.wait([starting])
        finally:
            # An engine that is closed meanwhile waits too: asyncio would kill the keeper in the middle of its start.
            _, problem = await starting
        if process.returncode:
            raise EngineError(f"the keeper could not start: {problem.decode(errors='replace').strip()}")

    def _run_ahead(self, order: Order) -> None:
        """Do some of the keeper's work. What cannot be made here it will try itself, and tell why it could not.

        It removes the groups at its end, whoever made them. They come first: when the keeper moves processes into
        groups, the kernel has it wait a while, and makes no more groups meanwhile.
        """
        group = cgroups.make_gang_group(order.token) if order.use_cgroups else None
        with contextlib.suppress(OSError):
            if group is not None:
                for replica in order.replicas:
                    cgroups.make(f"{group.path}/{replica.name}")
        with contextlib.suppress(OSError), file_rights(order.user):
            # Where a mover makes them, it would find these in its way if it came first.
            if not order.code_archive and not order.inputs:
                for replica in order.replicas:
                    make_scratch(f"{self._directory}/scratch/{replica.name}")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while await reader.read(4096):
                if self.look():
                    break
        except ConnectionError:
            return
        finally:
            if self._writer is not None:
                self._writer.close()
                with contextlib.suppress(OSError):
                    await self._writer.wait_closed()
                self._writer = None

    def _abandon(self) -> None:
        """Take down an attempt that never began: there is no keeper, no record, and so no process."""
        if self.order and self.order.use_cgroups and (group := cgroups.make_gang_group(self.order.token)):
            group.remove()
        shutil.rmtree(self._directory / "scratch", ignore_errors=True)
        self._layout.marker(self.gang_id).unlink(missing_ok=True)
        job_id, attempt = self.gang_id
        self._tell(GangStopped(job_id=job_id, at=self._clock.now(), attempt=attempt))

    def _cannot_keep(self, message: str) -> GangFailed:
        job_id, attempt = self.gang_id
        now = self._clock.now()
        return GangFailed(job_id=job_id, at=now, attempt=attempt, reason="KeeperFailed", message=message)


def _kill_marked(pid: int, marker: bytes) -> bool:
    """Kill a process, unless its number has passed to one without the mark; the handle keeps that from happening."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not processes.carries(pid, marker):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return False
    else:
        return True
    finally:
        os.close(handle)
