"""From a gang to the keeper's order: addresses, CPUs, GPUs and environment of every replica."""

import contextlib
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gangline.dialects.frameworks import hostfile, shares_secret
from gangline.engines.local.addresses import Addresses
from gangline.engines.local.allocation import Allocation
from gangline.engines.local.containers import surround
from gangline.engines.local.environment import GangEnvironment, expand, job_directories
from gangline.engines.local.keeper.launch import MARKER
from gangline.engines.local.layout import Layout
from gangline.engines.local.machine import LocalNode
from gangline.engines.local.wire import Order, ReplicaOrder, write_order
from gangline.errors import EngineError
from gangline.model import CodeLimits, DataMove, Framework, Gang, GangReplica, NodeName, ReplicaId, RoleName

_LISTEN_EVERYWHERE = frozenset({Framework.TENSORFLOW, Framework.PYTORCH, Framework.JAX, Framework.PADDLE})
"""Their servers listen on every address of the machine, so two replicas, or two jobs, cannot share a port."""
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

    def write(
        self, gang: Gang, *, known: Order | None, nodes: Mapping[NodeName, LocalNode], taken: Iterable[ReplicaOrder]
    ) -> Order:
        """Make the attempt's directories and its order. Raises EngineError if what it needs is not there.

        ``taken`` are the orders whose CPUs and GPUs somebody has, the attempt's own among them.
        """
        token = known.token if known else secrets.token_hex(8)
        kept = {order.name: order for order in known.replicas} if known else {}
        allocation = Allocation(taken, offset=int(token, 16))
        given = {replica.id: self._give(gang, replica, kept, allocation, nodes) for replica in gang.replicas}
        addresses = self._addresses(gang, kept)
        environments = GangEnvironment.of(self.layout, gang, token=token, inherited=os.environ, addresses=addresses)
        try:
            replicas = [self._replica(environments, replica, given[replica.id]) for replica in gang.replicas]
        except (EngineError, OSError):
            for replica in gang.replicas:
                if str(replica.id) not in kept:
                    self.addresses.release(addresses[replica.id][0])
            raise
        order = self._order(gang, token, replicas)
        self._make_directories(gang, addresses)
        write_order(self.layout.attempt(gang.id), order)
        return order

    def _addresses(self, gang: Gang, kept: Mapping[str, ReplicaOrder]) -> dict[ReplicaId, tuple[str, int]]:
        ports = {role.name: role.port for role in gang.spec.roles}
        own_ports = gang.spec.framework in _LISTEN_EVERYWHERE
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
        self, environments: GangEnvironment, replica: GangReplica, given: tuple[list[int], dict[str, int]]
    ) -> ReplicaOrder:
        gang, address, (cpus, gpu_millis) = environments.gang, environments.team.addresses[replica.id][0], given
        role = gang.spec.role(replica.id.role)
        if not role.command:
            raise NoCommandError(role.name)
        environment = environments.of_replica(replica, gpus=tuple(gpu_millis))
        around = surround(self.layout, gang, replica, environment, address=address)
        return ReplicaOrder(
            name=str(replica.id),
            incarnation=replica.incarnation,
            started=replica.started,
            command=list(around.command),
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

    def _order(self, gang: Gang, token: str, replicas: list[ReplicaOrder]) -> Order:
        variables = job_directories(self.layout, gang)
        digest = (gang.spec.code or "").removeprefix("sha256:")
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
            inputs=_moves(gang.spec.inputs, variables),
            outputs=_moves(gang.spec.outputs, variables),
            receipts=str(self.layout.job(gang.id.job_id) / "receipts"),
            replicas=replicas,
        )

    def _make_directories(self, gang: Gang, addresses: Mapping[ReplicaId, tuple[str, int]]) -> None:
        attempt = self.layout.attempt(gang.id)
        scratch, short = self.layout.scratch(gang.id), self.layout.short_scratch(gang.id)
        for folder in (attempt / "logs", attempt / "metrics", scratch, self.layout.active, short.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileExistsError):
            short.symlink_to(scratch)
        for name in ("data", "results", "checkpoints"):
            (self.layout.job(gang.id.job_id) / name).mkdir(exist_ok=True, mode=0o700)
        if gang.spec.framework is Framework.MPI:
            (attempt / "hostfile").write_text(hostfile(gang.spec, addresses))
            shell = attempt / "remote-shell"
            shell.write_text(_REMOTE_SHELL)
            shell.chmod(0o700)
        if shares_secret(gang.spec):
            _draw_secret(attempt / "secret")
        self.layout.marker(gang.id).touch(mode=0o600)


def _draw_secret(path: Path) -> None:
    """Write what only replicas of this attempt know, unless it is there: those that join later must know the same."""
    if path.exists():
        return
    draft = path.with_suffix(".draft")
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_hex(32))
    draft.replace(path)


def _moves(moves: Iterable[DataMove], variables: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(expand(move.source, variables), expand(move.target, variables)) for move in moves]


def _port_of(known: ReplicaOrder) -> int:
    return int(known.environment["GANGLINE_ADDRESS"].rpartition(":")[2])
