"""``gangline port-forward``."""

import asyncio
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.commands.attach import processes_of
from gangline.cli.connection.client import chosen_settings, connect
from gangline.cli.input.instances import replica_named
from gangline.cli.input.options import job_argument, tenant_option
from gangline.errors import GanglineError, InvalidInputError, NotFoundError
from gangline.model import Job, ReplicaId

_LISTENING = "0A"
_CHUNK = 1 << 16


@click.command("port-forward")
@job_argument
@click.argument("ports", metavar="[LOCAL:]PORT")
@click.option(
    "-i", "--instance", metavar="REPLICA", help="The replica, such as worker-1; the lead replica if not given."
)
@tenant_option
@click.pass_context
def command(ctx: click.Context, /, *, job: str, ports: str, instance: str | None, tenant: str | None) -> None:
    """Reach a port of a running replica at 127.0.0.1 of this machine, until interrupted; LOCAL 0 is any free port."""
    local, remote = _read(ports)
    found = connect(ctx, tenant=tenant).get(job)
    replica = replica_named(found, instance) if instance else ReplicaId(found.spec.lead_role, 0)
    with suppress(KeyboardInterrupt):
        asyncio.run(_forward(chosen_settings(ctx).context, found, replica, local, remote))


def _read(ports: str) -> tuple[int, int]:
    found = re.fullmatch(r"(?:(\d{1,5}):)?(\d{1,5})", ports)
    local, remote = (int(found[1] or found[2]), int(found[2])) if found else (-1, 0)
    if not (0 <= local <= 65535 and 1 <= remote <= 65535):
        raise InvalidInputError(f"'{ports}' is not a port", field="PORT", expected="PORT or LOCAL:PORT, up to 65535")
    return local, remote


async def _forward(context: str, job: Job, replica: ReplicaId, local: int, remote: int) -> None:
    if context:
        from gangline.compose.attaching import port_forward  # only a cluster needs it

        forwarding = port_forward(context, job, replica, remote, local_port=local)
    else:
        forwarding = _relay(job, replica, remote, local_port=local)
    try:
        async with forwarding as port:
            click.echo(f"127.0.0.1:{port}")
            terminal.say(f"forwarding to port {remote} of {replica} of job '{job.name}'; Ctrl-C ends it")
            await asyncio.Event().wait()
    except OSError as error:
        reason = error.strerror or error
        raise GanglineError(f"cannot listen on port {local} of this machine: {reason}; try 0:{remote}") from error


@asynccontextmanager
async def _relay(job: Job, replica: ReplicaId, remote: int, *, local_port: int) -> AsyncIterator[int]:
    """Carry connections to where the replica listens on this machine."""
    address_of(job, replica, remote)  # who forwards to nothing learns it now

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, NotFoundError):  # it may have ended meanwhile, or listens elsewhere
            theirs = await asyncio.open_connection(address_of(job, replica, remote), remote)
            await asyncio.gather(_pour(reader, theirs[1]), _pour(theirs[0], writer))
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", local_port) as server:
        yield server.sockets[0].getsockname()[1]


async def _pour(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


def address_of(job: Job, replica: ReplicaId, port: int) -> str:
    """Return the address at which a process of a replica listens on a port."""
    held = {inode for process in processes_of(job, replica) for inode in _sockets(process)}
    if not held:
        raise NotFoundError("running replica", str(replica), hint=f"job '{job.name}' has none on this machine now")
    for address, number, inode in _listeners():
        if number == port and inode in held:
            return address
    raise NotFoundError("port", str(port), hint=f"{replica} of job '{job.name}' does not listen there")


def _sockets(process: Path) -> Iterator[str]:
    with suppress(OSError):
        for each in (process / "fd").iterdir():
            with suppress(OSError):
                found = re.fullmatch(r"socket:\[(\d+)\]", str(each.readlink()))
                if found:
                    yield found[1]


def _listeners() -> Iterator[tuple[str, int, str]]:
    """Every address and port at which somebody on this machine listens, with the socket's number."""
    for family, file in ((socket.AF_INET, "tcp"), (socket.AF_INET6, "tcp6")):
        with suppress(OSError):
            for line in Path("/proc/net", file).read_text().splitlines()[1:]:
                words = line.split()
                host, _, port = words[1].partition(":")
                if words[3] == _LISTENING:
                    yield _reachable(family, host), int(port, 16), words[9]


def _reachable(family: socket.AddressFamily, written: str) -> str:
    raw = bytes.fromhex(written)
    turned = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    address = socket.inet_ntop(family, turned)
    return {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(address, address)  # read, not listened at
