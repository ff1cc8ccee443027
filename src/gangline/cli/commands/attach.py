"""``gangline attach``."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click

from gangline.cli.connection.client import chosen_settings, connect
from gangline.cli.input.instances import replica_named
from gangline.cli.input.options import job_argument, tenant_option
from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import Job, ReplicaId

_PROCESSES = Path("/proc")


@click.command("attach")
@job_argument
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-i", "--instance", metavar="REPLICA", help="The replica, such as worker-1; the lead replica if not given."
)
@tenant_option
@click.pass_context
def command(ctx: click.Context, job: str, words: tuple[str, ...], instance: str | None, tenant: str | None) -> int:
    """Run a command, or a shell, where a replica runs: with its environment and in its directory."""
    found = connect(ctx, tenant=tenant).get(job)
    replica = replica_named(found, instance) if instance else ReplicaId(found.spec.lead_role, 0)
    if context := chosen_settings(ctx).context:
        return asyncio.run(_attach_to_pod(context, found, replica, words))
    return _become(process_of(found, replica), words)


async def _attach_to_pod(context: str, job: Job, replica: ReplicaId, words: tuple[str, ...]) -> int:
    # Only a cluster needs them.
    from gangline.cli.console import StandardConsole, every_key
    from gangline.compose.attaching import attach

    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with every_key(terminal=terminal):
        return await attach(context, job, replica, words, StandardConsole(), terminal=terminal)


def _become(process: Path, words: tuple[str, ...]) -> NoReturn:
    """Run a command or a shell in place of this program, with the environment and in the directory of a process."""
    environment = environment_of(process)
    program = list(words) or [os.environ.get("SHELL") or "sh"]
    os.chdir(process / "cwd")
    sys.stdout.flush()
    try:
        os.execvpe(program[0], program, {**environment, "TERM": os.environ.get("TERM", "dumb")})
    except OSError as error:
        raise InvalidInputError(f"'{program[0]}' cannot be run there: {error.strerror}", field="COMMAND") from error


def process_of(job: Job, replica: ReplicaId) -> Path:
    """Find the first process of a replica among this user's own."""
    found = next(processes_of(job, replica), None)
    if found is None:
        raise NotFoundError("running replica", str(replica), hint=f"job '{job.name}' has none on this machine now")
    return found


def processes_of(job: Job, replica: ReplicaId) -> Iterator[Path]:
    """Find every process of a replica among this user's own, by the variables every replica is given."""
    wanted = {"GANGLINE_JOB_ID": job.id, "GANGLINE_ROLE": replica.role, "GANGLINE_INDEX": str(replica.index)}
    wanted["GANGLINE_ATTEMPT"] = str(job.attempt)
    for process in sorted(_PROCESSES.glob("[0-9]*"), key=lambda path: int(path.name)):
        if wanted.items() <= environment_of(process).items():
            yield process


def environment_of(process: Path) -> dict[str, str]:
    """Return the variables of a process; nothing of one that is gone."""
    try:
        raw = (process / "environ").read_bytes()
    except OSError:
        return {}  # it ended meanwhile, or belongs to somebody else
    pairs = (entry.partition("=") for entry in raw.decode(errors="surrogateescape").split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}
