"""The keeper's loop: what is wanted (the order) against what is (the record), one event at a time, in one thread.

The loop never waits for a replica, for the disk of a replica's log, or for the engine.
"""
# ruff: noqa: PTH108, PTH110  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import socket
import time

from . import launch
from .connections import EngineConnections
from .orders import CREDENTIALS_FILE, read_order
from .output import LogWriter
from .records import AttemptRecord, ReplicaRecord, Stage, Status, wall_clock
from .replica import LiveReplica
from .stages import PERMANENT_FAILURE, StageProcess
from .system import cgroups, processes, users
from .system.trees import remove_tree
from .takeover import LEFTOVER_SECONDS, take_over

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gangline.engines.local.wire import ReplicaOrder

_TICK_SECONDS = 0.02
_DISK_RETRY_SECONDS = 1.0
_MOST_KILLED_STAGES = 20
"""How many movers of an attempt may be killed by others: each goes on where the one before it was."""
_STAGE_FAILURES = {"prepare": "InputsFailed", "outputs": "OutputsFailed"}


class Keeper:
    """Keeps one attempt from its first start until nothing of it is left."""

    def __init__(self, directory: str, listener: socket.socket, *, start_now: bool) -> None:
        self._directory = directory
        self._order = read_order(f"{directory}/order.json")
        self._record = AttemptRecord.load(f"{directory}/state.json")
        self._selector = selectors.DefaultSelector()
        self._start_now = start_now
        self._engines = EngineConnections(listener, self._selector, self._obey)
        self._held_addresses: dict[str, socket.socket] = {}
        self._live: dict[str, LiveReplica] = {}
        self._stage: StageProcess | None = None
        self._killed_stages = 0
        self._inputs_note = ""
        self._gang_group: cgroups.GangGroup | None = None
        self._own_mounts = False
        self._closed_files: set[str] = set()
        self._stop_at: float | None = None
        self._finishing = False
        self._changed = True
        self._done = False

    def run(self) -> None:
        """Take over what an earlier keeper left, then serve until the attempt is stopped."""
        if self._record.stopped_at is not None:
            return
        if self._order.user is not None:
            with contextlib.suppress(OSError):  # the service has said at its start that it cannot be
                users.leave_mounts()
                self._own_mounts = True
                users.hide_processes()
        launch.allow_many_descriptors()
        self._watch_children()
        take_over(self._record, self._order.token)
        self._record.set_room_aside()
        if self._order.use_cgroups:
            self._gang_group = cgroups.make_gang_group(self._order.token)
        if self._start_now:
            self._reconcile()
        while True:
            self._publish()
            if self._done and not self._changed:
                return
            for key, _ in self._selector.select(self._patience()):
                key.data(key.fileobj)
            self._collect()
            self._advance()

    # Orders --------------------------------------------------------------------------------------------------

    def _obey(self, order: dict[str, object]) -> None:
        if order["do"] == "run":
            self._order = read_order(f"{self._directory}/order.json")
            self._reconcile()
        elif order["do"] == "finish":
            self._finishing = True
            for live in self._live.values():
                live.ask_to_end(self._order.grace_seconds)
        elif order["do"] == "stop":
            grace = float(str(order["grace_seconds"]))
            self._stop_at = min(self._stop_at or float("inf"), time.monotonic() + grace)
            if self._stage is not None:
                self._stage.kill()
            for live in self._live.values():
                live.ask_to_end(grace)

    # What is wanted --------------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        """Start what is missing and stop what is not listed."""
        self._hold_addresses()
        self._close_files()
        if self._record.failure is not None or self._stop_at is not None or self._finishing:
            return
        wanted = {replica.name: replica for replica in self._order.replicas}
        for name, live in self._live.items():
            if name not in wanted or wanted[name].incarnation > live.record.incarnation:
                live.unwanted |= name not in wanted
                live.ask_to_end(self._order.grace_seconds)
        for name in [name for name in self._record.replicas if name not in wanted and name not in self._live]:
            del self._record.replicas[name]
            self._changed = True
        missing = [replica for replica in wanted.values() if self._is_missing(replica)]
        for replica in [replica for replica in missing if replica.started]:
            entry = ReplicaRecord(replica.name, replica.incarnation, Status.LOST)
            entry.lose("there is no trace of it on this machine")
            self._record.replicas[replica.name] = entry
            self._changed = True
        self._prepare_or_start([replica for replica in missing if not replica.started])

    def _is_missing(self, replica: ReplicaOrder) -> bool:
        entry = self._record.replicas.get(replica.name)
        return replica.name not in self._live and (entry is None or entry.incarnation < replica.incarnation)

    def _prepare_or_start(self, replicas: list[ReplicaOrder]) -> None:
        if not replicas or self._stage is not None:
            return
        needs_inputs = bool(self._order.inputs) and self._record.inputs is not Stage.DONE
        unprepared = [replica.name for replica in replicas if not os.path.exists(self._scratch(replica.name))]
        if needs_inputs or (self._order.code_archive and unprepared):
            if needs_inputs:
                self._record.inputs, self._record.inputs_at = Stage.RUNNING, wall_clock()
            self._begin_stage("prepare", unprepared)
            return
        self._start(replicas)

    def _start(self, replicas: list[ReplicaOrder]) -> None:
        """Record all, then start all: however the keeper ends, nothing recorded is started again."""
        for replica in replicas:
            entry = ReplicaRecord(replica.name, replica.incarnation, Status.STARTING)
            entry.cgroup = f"{self._gang_group.path}/{replica.name}" if self._gang_group is not None else None
            self._record.replicas[replica.name] = entry
        self._changed = True
        if not self._save():
            for replica in replicas:
                del self._record.replicas[replica.name]
            message = "the start could not be recorded: no space on the disk of the data directory"
            self._record.fail("DiskFull", message, blameless=True)
            return
        launches = [
            launch.Launch(
                replica,
                self._scratch(replica.name),
                self._record.replicas[replica.name].cgroup,
                processes=self._gang_group.processes_of(replica.name) if self._gang_group is not None else None,
                most_processes=self._order.most_processes,
                user=self._order.user,
            )
            for replica in replicas
        ]
        starters = launch.begin(launches, self._gang_group)
        # The kernel keeps starters waiting for some milliseconds before the first enters a group: time to make files.
        writers = [self._log_writer(replica.name) for replica in replicas]
        if self._inputs_note:
            writers[0].feed("stderr", f"[gangline] {self._inputs_note}\n".encode())
            self._inputs_note = ""
        launch.complete(launches, starters)
        self._changed = True
        for launched, writer in zip(launches, writers, strict=True):
            self._follow(launched, self._record.replicas[launched.order.name], writer)
        # Programs that run would take the processor from those who still write the starts down and tell of them.
        self._publish()
        launch.release(launches)

    def _log_writer(self, name: str) -> LogWriter:
        writer = LogWriter(
            f"{self._directory}/logs", name, file_bytes=self._order.log_file_bytes, file_count=self._order.log_files
        )
        writer.open()
        return writer

    def _follow(self, launched: launch.Launch, entry: ReplicaRecord, writer: LogWriter) -> None:
        entry.cgroup = launched.group
        if launched.pid is None:
            launched.pipes.close_reading()
            writer.close()
            if launched.exit_code is None:
                entry.lose(launched.message)
            else:
                entry.exit(launched.exit_code, launched.message)
            return
        entry.run(launched.pid)
        live = self._live[entry.name] = LiveReplica(launched, entry, writer)
        for descriptor in live.streams:
            self._selector.register(descriptor, selectors.EVENT_READ, lambda fd: self._read_output(live, fd))

    def _scratch(self, name: str) -> str:
        return f"{self._directory}/scratch/{name}"

    def _hold_addresses(self) -> None:
        """Hold a name per address for as long as the keeper lives; the engines of this machine look for it."""
        wanted = {replica.address for replica in self._order.replicas if replica.address}
        wanted |= {live.order.address for live in self._live.values()}
        for address in wanted - self._held_addresses.keys():
            holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                holder.bind(f"\0gangline/address/{address}")
            except OSError as error:
                holder.close()
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            self._held_addresses[address] = holder
        for address in self._held_addresses.keys() - wanted:
            self._held_addresses.pop(address).close()

    def _close_files(self) -> None:
        """Let programs open the GPUs of this gang and no others; it may come by more, or give some back."""
        held = {gpu for order in self._order.replicas for gpu in order.gpu_millis}
        held |= {gpu for live in self._live.values() for gpu in live.order.gpu_millis}
        files = self._order.gpu_files if self._own_mounts else {}
        wanted = set(files.values()) - {files.get(gpu) for gpu in held}
        for path in wanted ^ self._closed_files:
            with contextlib.suppress(OSError):  # a device that is gone cannot be opened anyway
                (users.close_file if path in wanted else users.open_file)(path)
        self._closed_files = wanted

    # What happens ----------------------------------------------------------------------------------------------

    def _watch_children(self) -> None:
        processes.adopt_orphans()
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        # Orders come through the socket alone: a stray signal to the process group must not end the attempt.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._selector.register(reading, selectors.EVENT_READ, lambda fd: os.read(fd, 65536))

    def _read_output(self, live: LiveReplica, descriptor: int) -> None:
        if not live.read_output(descriptor):
            self._selector.unregister(descriptor)

    def _collect(self) -> None:
        """Learn of every process that has ended."""
        by_pid = {live.pid: live for live in self._live.values()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in by_pid:
                by_pid[pid].wait_status = status
            elif self._stage is not None and pid == self._stage.pid:
                self._stage.wait_status = status

    def _advance(self) -> None:
        over = [name for name, live in self._live.items() if live.is_over()]
        for name in over:
            self._conclude(name)
        if over:
            self._reconcile()
        if self._stage is not None and self._stage.wait_status is not None:
            self._end_stage(self._stage)
        if self._live or self._stage is not None:
            return
        if self._stop_at is not None:
            self._clean_up()
        elif self._finishing and self._record.outputs is Stage.NONE and self._record.failure is None:
            self._store_outputs()

    def _conclude(self, name: str) -> None:
        live = self._live.pop(name)
        for descriptor in live.streams:
            if descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        live.conclude()
        self._changed = True
        if live.unwanted:
            del self._record.replicas[name]

    def _begin_stage(self, kind: str, replicas: list[str]) -> None:
        self._stage = StageProcess(kind, self._directory, replicas, self._order)
        self._selector.register(self._stage.stderr, selectors.EVENT_READ, lambda _: self._hear_stage())
        self._changed = True

    def _hear_stage(self) -> None:
        if self._stage is not None and not self._stage.read():
            self._selector.unregister(self._stage.stderr)

    def _end_stage(self, stage: StageProcess) -> None:
        self._stage = None
        if stage.stderr in self._selector.get_map():
            self._selector.unregister(stage.stderr)
        code, message = stage.conclude()
        self._changed = True
        if self._stop_at is not None:
            return
        if code < 0 and self._killed_stages < _MOST_KILLED_STAGES:
            # Nothing is wrong with the job, and nobody but this attempt has its results.
            self._killed_stages += 1
            unprepared = [name for name in stage.replicas if not os.path.exists(self._scratch(name))]
            self._begin_stage(stage.kind, unprepared)
        elif code:
            self._record.fail(_STAGE_FAILURES[stage.kind], message, permanent=code == PERMANENT_FAILURE)
        elif stage.kind == "outputs":
            self._record.outputs, self._record.outputs_at = Stage.DONE, wall_clock()
            self._record.outputs_note = message
        else:
            self._inputs_note = message
            if self._order.inputs:
                self._record.inputs = Stage.DONE
            self._reconcile()

    def _store_outputs(self) -> None:
        if self._order.outputs:
            self._record.outputs = Stage.RUNNING
            self._begin_stage("outputs", [])
        else:
            self._record.outputs, self._record.outputs_at = Stage.DONE, wall_clock()
            self._changed = True

    def _clean_up(self) -> None:
        """Leave nothing but what the user may still read: logs, metrics, results, checkpoints and this record."""
        while leftovers := processes.descendants(os.getpid()):
            processes.kill_and_wait(leftovers, LEFTOVER_SECONDS)
            self._collect()
        if self._gang_group is not None:
            self._gang_group.remove()
        # What cannot be removed now is tried again when the job is forgotten.
        with contextlib.suppress(OSError):
            os.unlink(f"{self._directory}/{CREDENTIALS_FILE}")
        with contextlib.suppress(OSError):
            remove_tree(f"{self._directory}/scratch")
        self._record.use_room()
        self._record.stopped_at = wall_clock()
        self._changed = True
        self._done = True

    # News ------------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        """Put the record on disk, then tell the engine to look; while the disk is full both wait for room."""
        if not self._changed or not self._save():
            return
        if self._done:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._order.active_marker)
        self._engines.poke()

    def _save(self) -> bool:
        try:
            self._record.save()
        except OSError as error:
            # The log lies on the same disk, as a rule: to fail to complain is not a reason to leave the replicas alone.
            with contextlib.suppress(OSError):
                os.write(2, f"the record could not be written: {error}\n".encode())
            return False
        self._changed = False
        return True

    def _patience(self) -> float | None:
        """How long nothing may happen before the loop must look by itself."""
        waits = []
        if self._changed:
            waits.append(_DISK_RETRY_SECONDS)
        now = time.monotonic()
        for live in self._live.values():
            if live.wait_status is not None:
                waits.append(_TICK_SECONDS)
            elif live.kill_at is not None:
                waits.append(max(live.kill_at - now, _TICK_SECONDS))
        return min(waits, default=None)
