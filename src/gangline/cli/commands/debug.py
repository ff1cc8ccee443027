"""``gangline debug``."""

import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.commands.attach import process_of
from gangline.cli.connection.client import chosen_settings, connect
from gangline.cli.input.options import complete_files, job_argument, tenant_option
from gangline.cli.output.documents import json_text, yaml_text
from gangline.errors import GanglineError
from gangline.model import Job
from gangline.sdk import Client

_LAST_LINES = 1000
_STACK_SECONDS = 20.0
_SECRET = re.compile(r"(key|token|secret|passw|credential|auth)", re.IGNORECASE)
HIDDEN = "(left out)"
_STACKS = "results/stacks"
"""Where engines keep the stacks of jobs that stall."""


@click.command("debug")
@job_argument
@click.option(
    "-f",
    "--file",
    metavar="FILE",
    help="Where to write it; JOB-debug.tar.gz if not given.",
    shell_complete=complete_files,
)
@tenant_option
@click.pass_context
def command(ctx: click.Context, /, *, job: str, file: str | None, tenant: str | None) -> None:
    """Write one archive with all that helps to find out what is wrong with a job.

    The job with its environment, the last lines, numbers, events, why it waits, what machines use, and on this machine
    the stacks of its Python processes (where py-spy is installed and may attach). Values of variables that look secret
    are left out; what the job printed itself is not looked through.
    """
    client = connect(ctx, tenant=tenant)
    found = client.get(job)
    target = Path(file or f"{found.name}-debug.tar.gz")
    with tarfile.open(target, "w:gz") as archive:
        for name, write in _parts(client, found, here=not chosen_settings(ctx).context).items():
            try:
                text = write()
            except (GanglineError, OSError, subprocess.SubprocessError) as error:
                text = f"not known: {error}"
            data = text.encode(errors="replace")
            member = tarfile.TarInfo(f"{found.name}-debug/{name}")
            member.size, member.mtime = len(data), int(terminal.now())
            archive.addfile(member, io.BytesIO(data))
    click.echo(target)
    terminal.say("it holds what the job printed; look through logs.txt before you give it to anybody")


def _parts(client: Client, job: Job, *, here: bool) -> dict[str, Callable[[], str]]:
    """What is in the archive, each with how it is found out; a part that is not to be had is said to be so."""
    parts: dict[str, Callable[[], str]] = {
        "job.yaml": lambda: hidden(yaml_text(job)),
        "logs.txt": lambda: "".join(
            f"{line.at:.3f} [{line.replica}] {line.text}\n" for line in client.logs(job.id, tail=_LAST_LINES)
        ),
        "events.json": lambda: json_text(client.events(job.id)),
        "metrics.json": lambda: json_text(client.latest_metrics(job.id)),
        "machines.json": lambda: json_text({"nodes": client.nodes(), "usage": client.usage()}),
        "versions.txt": lambda: f"service {client.version()}\nclient Python {sys.version}\n",
    }
    for kept in _kept_stacks(client, job):
        parts[f"kept-{kept.removeprefix('results/')}"] = lambda kept=kept: _fetched(client, job, kept)  # type: ignore[misc]
    if job.placeable:
        parts["explain.txt"] = lambda: "\n".join(client.explain(job.id).sentences)
    if here:
        for status in job.replicas:
            parts[f"stacks/{status.id}.txt"] = lambda status=status: _stack(int(process_of(job, status.id).name))  # type: ignore[misc]
    return parts


def _kept_stacks(client: Client, job: Job) -> list[str]:
    """Name the stacks that were kept when the job stalled, of every attempt."""
    try:
        return [f"{_STACKS}/{each.path.removeprefix(f'{_STACKS}/')}" for each in client.files.list(job.id, _STACKS)]
    except GanglineError:
        return []  # it never stalled, or its files cannot be reached


def _fetched(client: Client, job: Job, path: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "stacks.txt"
        client.files.fetch(job.id, path, target)
        return target.read_text(encoding="utf-8", errors="replace")


def _stack(process: int) -> str:
    program = shutil.which("py-spy")
    if program is None:
        return Path(f"/proc/{process}/status").read_text(encoding="utf-8") + "\npy-spy is not installed: no stack\n"
    words = [program, "dump", "--pid", str(process)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_STACK_SECONDS, check=False)
    return done.stdout + done.stderr


def hidden(text: str) -> str:
    """Leave out the values of variables whose names say that they are secret."""
    lines = []
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        secret = colon and value.strip() and re.fullmatch(r"\s*-?\s*[A-Z][A-Z0-9_]*", name) and _SECRET.search(name)
        lines.append(f"{name}: {HIDDEN}" if secret else line)
    return "\n".join(lines) + "\n"
