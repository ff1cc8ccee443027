"""From a gang to the keeper's order: addresses, CPUs, GPUs and environment of every replica."""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import gangline
from gangline.dialects.frameworks import hostfile, shares_secret
from gangline.dialects.kubeflow import expand_references
from gangline.engines.local.keeper.launch import MARKER
from gangline.engines.local.keeper.orders import MOVES_FOLDER
from gangline.engines.local.layout import Layout
from gangline.engines.local.nodes.addresses import Addresses
from gangline.engines.local.nodes.allocation import Allocation
from gangline.engines.local.nodes.devices import GangDevices
from gangline.engines.local.nodes.machine import LocalNode
from gangline.engines.local.orders.containers import surround
from gangline.engines.local.orders.data_moves import GangData
from gangline.engines.local.orders.environment import GangEnvironment, expand, inherited_part, job_directories
from gangline.engines.local.system_users import SystemUsers, give, let_read
from gangline.engines.local.wire import Order, ReplicaOrder, write_credentials, write_order
from gangline.errors import EngineError
from gangline.model import CodeLimits, Framework, Gang, GangReplica, NodeName, ReplicaId, RoleName
from gangline.model.kinds.experiment import COLLECTOR_VARIABLE
from gangline.model.kinds.service import HOST, PORT
from gangline.model.kinds.workspace import listens

_LISTEN_EVERYWHERE = frozenset({Framework.TENSORFLOW, Framework.PYTORCH, Framework.JAX, Framework.PADDLE})
"""Their servers listen on every address of the machine, so two replicas, or two jobs, cannot share a port."""
SERVICE_HOST = "127.0.0.1"
"""Where replicas of services listen, each at a port of its own: many programs listen there or on every address."""
_COLLECTOR = (sys.executable, "-I", str(Path(gangline.__file__).with_name("runtime") / "collecting.py"), "--")
"""The program that runs another one and reads numbers out of what it writes."""
_REMOTE_SHELL = """#!/bin/sh
# Every host of the hostfile is this machine: run the command here, with a temporary directory per host, since the
# daemons of one job would otherwise meet in one.
TMPDIR="${TMPDIR:-/tmp}/${1#127.}"
export TMPDIR
mkdir -p "$TMPDIR"
shift
exec /bin/sh -c "$*"
"""


class NoCommandError(EngineError):
    """A role names an image and no command; what the image would run is not known here, now or ever."""

    def __init__(self, role: RoleName) -> None:
        super().__init__(f"role '{role}' has no command, and this engine runs commands, not images")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """How much output is kept per replica."""

    file_bytes: int = 64 << 20
    files: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderWriter:
    """Turns gangs into orders. What a replica was given once it keeps for as long as it is listed."""

    layout: Layout
    addresses: Addresses
    log_limits: LogLimits
    code_limits: CodeLimits
    use_cgroups: bool
    most_processes: int
    cache_bytes: int
    users: SystemUsers | None = None
    """Where every tenant's jobs run as a user of their own."""

    def write(
        self,
        gang: Gang,
        *,
        data: GangData,
        known: Order | None,
        nodes: Mapping[NodeName, LocalNode],
        taken: Iterable[ReplicaOrder],
        leaving: Sequence[ReplicaOrder] = (),
    ) -> Order:
        """Make the attempt's directories and its order. Raises EngineError if what it needs is not there.

        ``taken`` are the orders whose CPUs and GPUs somebody has, the attempt's own among them; ``leaving`` are those
        of its replicas that are no longer wanted and still there.
        """
        token = known.token if known else secrets.token_hex(8)
        kept = {order.name: order for order in known.replicas} if known else {}
        closed = [gpu for node in nodes.values() for gpu in node.node.closed_gpus]
        allocation = Allocation(taken, offset=int(token, 16), closed=closed)
        given = {replica.id: self._give(gang, replica, kept, allocation, nodes) for replica in gang.replicas}
        addresses = self._addresses(gang, kept)
        environments = GangEnvironment.of(
            self.layout,
            gang,
            token=token,
            inherited=self._inherited(gang),
            addresses=addresses,
            besides=data.checkpoints,
        )
        try:
            user = self._make_folders(gang)
            devices = GangDevices.of(each for node in nodes.values() for each in node.devices if user is not None)
            replicas = [
                self._replica(environments, replica, given[replica.id], user, devices) for replica in gang.replicas
            ]
            order = self._order(gang, token, replicas, leaving, data=data, user=user, gpu_files=devices.files)
        except (EngineError, OSError):
            for replica in gang.replicas:
                if str(replica.id) not in kept:
                    self.addresses.release(addresses[replica.id][0])
            raise
        self._write_files(gang, addresses, user)
        write_credentials(self.layout.attempt(gang.id), data.credentials)
        write_order(self.layout.attempt(gang.id), order)
        return order

    def _addresses(self, gang: Gang, kept: Mapping[str, ReplicaOrder]) -> dict[ReplicaId, tuple[str, int]]:
        ports = {role.name: role.port for role in gang.spec.roles}
        own_ports = gang.spec.framework in _LISTEN_EVERYWHERE or listens(gang.spec.labels)
        addresses = {}
        for replica in gang.replicas:
            port = ports[replica.id.role]
            known = kept.get(str(replica.id))
            address = known.address if known else self.addresses.take(port)
            if own_ports:
                port = _port_of(known) if known else self.addresses.take_port(port, address)
            addresses[replica.id] = (address, port)
        return addresses

    def _give(
        self,
        gang: Gang,
        replica: GangReplica,
        kept: Mapping[str, ReplicaOrder],
        allocation: Allocation,
        nodes: Mapping[NodeName, LocalNode],
    ) -> tuple[list[int], dict[str, int]]:
        known = kept.get(str(replica.id))
        # Between two incarnations nobody has what a replica had; somebody else may have got it.
        stays = known is not None and known.node == replica.node
        if known is not None and stays and (known.incarnation == replica.incarnation or allocation.regain(known)):
            return known.cpus, known.gpu_millis
        node = nodes.get(replica.node)
        if node is None:
            raise EngineError(f"this machine has no node '{replica.node}'")
        return allocation.choose(node, gang.spec.role(replica.id.role).resources, replica.gpu_slot)

    def _replica(
        self,
        environments: GangEnvironment,
        replica: GangReplica,
        given: tuple[list[int], dict[str, int]],
        user: int | None,
        devices: GangDevices,
    ) -> ReplicaOrder:
        gang, address, (cpus, gpu_millis) = environments.gang, environments.team.addresses[replica.id][0], given
        role = gang.spec.role(replica.id.role)
        if not role.command:
            raise NoCommandError(role.name)
        environment = environments.of_replica(replica, gpus=devices.names_of(gpu_millis))
        if listens(gang.spec.labels):
            environment |= {HOST: SERVICE_HOST, PORT: str(environments.team.addresses[replica.id][1])}
        around = surround(self.layout, gang, replica, environment, address=address, user=user)
        if listens(gang.spec.labels):
            around = replace(around, command=expand_references(around.command, around.environment))
        collector = _COLLECTOR if around.environment.get(COLLECTOR_VARIABLE) else ()
        return ReplicaOrder(
            name=str(replica.id),
            incarnation=replica.incarnation,
            started=replica.started,
            command=[*collector, *around.command],
            # The mark again: by it the replica's processes are found, whatever its container says.
            environment={**around.environment, MARKER: environment[MARKER]},
            directory=around.directory,
            node=replica.node,
            cpus=cpus,
            cpu_millis=role.resources.cpu_millis,
            memory_mib=role.resources.memory_mib,
            gpu_millis=gpu_millis,
            gpu_slot=replica.gpu_slot,
            address=address,
        )

    def _order(
        self,
        gang: Gang,
        token: str,
        replicas: list[ReplicaOrder],
        leaving: Sequence[ReplicaOrder],
        *,
        data: GangData,
        user: int | None,
        gpu_files: dict[str, str],
    ) -> Order:
        digest = (gang.spec.code or "").removeprefix("sha256:")
        variables = job_directories(self.layout, gang)
        return Order(
            job_id=gang.id.job_id,
            attempt=gang.id.attempt,
            token=token,
            active_marker=str(self.layout.marker(gang.id)),
            grace_seconds=gang.spec.policy.grace_seconds,
            log_file_bytes=self.log_limits.file_bytes,
            log_files=self.log_limits.files,
            use_cgroups=self.use_cgroups,
            most_processes=self.most_processes,
            code_archive=str(self.layout.code_archive(digest)) if digest else None,
            code_limits=(self.code_limits.unpacked_bytes, self.code_limits.files),
            inputs=data.inputs,
            outputs=data.outputs,
            writer=f"job {gang.spec.name} ({gang.id.job_id})",
            cache=(str(self.layout.cache), gang.spec.tenant, self.cache_bytes) if self.cache_bytes else None,
            receipts=str(self.layout.job(gang.id.job_id) / "receipts"),
            models=data.models,
            lead=f"{gang.spec.lead_role}-0",
            metrics=[replace(each, path=expand(each.path, variables)) for each in gang.spec.metrics],
            user=user,
            gpu_files=gpu_files,
            # Keys that the service has in its environment are not its tenants'.
            environment=None
            if user is None
            else {**inherited_part(self._inherited(gang)), "HOME": str(self.layout.moves(gang.id))},
            replicas=replicas,
            leaving=[*leaving],
        )

    def _inherited(self, gang: Gang) -> Mapping[str, str]:
        """What jobs may see of the service's environment, which is root's where tenants have users."""
        if self.users is None:
            return os.environ
        return {**os.environ, "USER": gang.spec.tenant, "LOGNAME": gang.spec.tenant}

    def _make_folders(self, gang: Gang) -> int | None:
        """Make the directories of an attempt; return whose they are, if not the service's own."""
        attempt, job = self.layout.attempt(gang.id), self.layout.job(gang.id.job_id)
        scratch, short = self.layout.scratch(gang.id), self.layout.short_scratch(gang.id)
        user = self.users.open_job(job, gang.spec.tenant) if self.users is not None else None
        filled = (attempt / "metrics", attempt / MOVES_FOLDER, scratch)
        if user is not None:
            let_read(attempt.parent, user)
            let_read(attempt, user)
            for folder in filled:
                give(folder, user)
        for folder in (attempt / "logs", *filled, self.layout.active, short.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            short.symlink_to(scratch)
        for name in ("data", "results", "checkpoints"):
            (job / name).mkdir(exist_ok=True, mode=0o700)
        return user

    def _write_files(self, gang: Gang, addresses: Mapping[ReplicaId, tuple[str, int]], user: int | None) -> None:
        attempt = self.layout.attempt(gang.id)
        if gang.spec.framework is Framework.MPI:
            (attempt / "hostfile").write_text(hostfile(gang.spec, addresses))
            shell = attempt / "remote-shell"
            shell.write_text(_REMOTE_SHELL)
            shell.chmod(0o700)
        if shares_secret(gang.spec):
            _draw_secret(attempt / "secret")
        for name in ("hostfile", "remote-shell", "secret"):
            if user is not None and (attempt / name).exists():
                let_read(attempt / name, user)
        self.layout.marker(gang.id).touch(mode=0o600)


def _draw_secret(path: Path) -> None:
    """Write what only replicas of this attempt know, unless it is there: those that join later must know the same."""
    if path.exists():
        return
    draft = path.with_suffix(".draft")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_hex(32))
    draft.replace(path)


def address_of(order: ReplicaOrder) -> str:
    """Return where a replica of a service answers; others have no such address."""
    port = order.environment.get(PORT, "") if order.environment.get(HOST) == SERVICE_HOST else ""
    return f"{SERVICE_HOST}:{port}" if port else ""


def _port_of(known: ReplicaOrder) -> int:
    return int(known.environment["GANGLINE_ADDRESS"].rpartition(":")[2])
