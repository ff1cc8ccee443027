"""``gangline cp``."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect
from gangline.cli.input.options import complete_files, tenant_option
from gangline.cli.output import formatting
from gangline.data.addresses import Address, AddressError, parse
from gangline.data.progress import Meter, Progress
from gangline.data.transfers import Transfer, transfer
from gangline.data.unpacking import PermanentError
from gangline.errors import GanglineError, InvalidInputError
from gangline.sdk.copying import copy_by_job, default_store
from gangline.sdk.login.logins import find_login

_OF_THE_SERVICE = ("pvc", "job", "model")
"""What only a service reaches."""


@click.command("cp")
@click.argument("source", metavar="SOURCE", shell_complete=complete_files)
@click.argument("target", metavar="TARGET", shell_complete=complete_files)
@click.option("--store", metavar="NAME", help="Open the object store with the keys of this store of the service.")
@tenant_option
@click.pass_context
def command(ctx: click.Context, source: str, target: str, store: str | None, tenant: str | None) -> None:
    """Copy files from a job or to one, while it runs and after, or between this machine and any address.

    \b
    gangline cp mnist:results/ ./out
    gangline cp ./settings.json mnist:data/
    gangline cp s3://inputs/mnist ./data
    gangline cp s3://inputs/mnist ./data --store lake
    gangline cp model://mnist@production ./model
    gangline cp ./sets pvc://shared/sets

    The path of JOB:PATH begins with results/, checkpoints/ or data/; without one it is results/. What is in a directory
    is copied into the target; a file keeps its name if the target is a directory. Object stores are opened by the
    service with the keys of the store that is named or of the tenant's default store, and without one by this command
    with the keys in your own environment.
    """
    if not source or not target:
        raise click.UsageError("a path is empty; '.' is the current directory", ctx)
    if "://" in source or "://" in target:
        _copy_address(ctx, source, target, store=store, tenant=tenant)
        return
    if store is not None:
        raise click.UsageError("--store is for addresses of object stores", ctx)
    there, here = _in_job(source), _in_job(target)
    if (there is None) == (here is None):
        raise click.UsageError("one of SOURCE and TARGET must be JOB:PATH or an address, the other a path", ctx)
    files = connect(ctx, tenant=tenant).files
    if there is not None:
        click.echo(str(files.fetch(*there, Path(target), into=target.endswith("/"))))
    elif here is not None:
        job, path = here
        placed = files.send(job, Path(source), path or "results/")
        terminal.say(f"{source} is at {job}:{placed.path}")


def _in_job(text: str) -> tuple[str, str] | None:
    """Read JOB:PATH; a path of this machine that has a colon is written with a slash before it."""
    job, colon, path = text.partition(":")
    return (job, path) if colon and job and "/" not in job else None


def _copy_address(ctx: click.Context, source: str, target: str, *, store: str | None, tenant: str | None) -> None:
    """Copy from an address or to one; what a service keeps is asked of it, the rest is moved by this process."""
    with _told():
        read, written = parse(_absolute(source)), parse(_absolute(target))
    here, there = (address.scheme == "file" for address in (read, written))
    if store is None and read.scheme == "model" and there:
        models = connect(ctx, tenant=tenant).models
        version = int(read.version) if read.version else None
        models.download(read.place, Path(written.path), version=version, alias=read.alias)
    elif store is None and written.scheme == "model" and here:
        made = connect(ctx, tenant=tenant).models.register(written.place, Path(read.path))
        terminal.say(f"{source} is version {made.number} of {written.place}")
        return
    elif store is None and read.scheme == "job" and there:
        connect(ctx, tenant=tenant).files.fetch(read.place, read.path, Path(written.path), into=written.is_folder)
    elif written.scheme == "job":
        raise InvalidInputError(f"{target} is where a job's own files are", expected="JOB:PATH to put files there")
    else:
        _copy(ctx, read, written, store=store, tenant=tenant)
    click.echo(target)


def _copy(ctx: click.Context, read: Address, written: Address, *, store: str | None, tenant: str | None) -> None:
    """Copy with the keys and volumes of the service where they are needed, in this process otherwise."""
    on_cluster = _on_cluster(ctx)
    elsewhere = (*_OF_THE_SERVICE, "nfs") if on_cluster else _OF_THE_SERVICE
    client = connect(ctx, tenant=tenant)
    by_job = store is not None or any(each.scheme in elsewhere for each in (read, written))
    if by_job or default_store(client, read, written):
        copy_by_job(client, read, written, store=store, on_cluster=on_cluster, say=terminal.say)
        return
    with _told():
        _move(read.text, written.text)


def _on_cluster(ctx: click.Context) -> bool:
    settings = chosen_settings(ctx)
    return bool(settings.context) and find_login(settings, settings.context) is None


@contextmanager
def fetched(ctx: click.Context, source: str, tenant: str | None) -> Iterator[Path]:
    """Return the path of a file or directory of this machine, or of a copy of what is at an address."""
    if not source:
        raise InvalidInputError("the path is empty", expected="'.' for the current directory")
    if "://" not in source:
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(prefix="gangline-") as directory:
        place = Path(directory) / "files"
        with _told():
            read, written = parse(source), parse(f"{place}/")
        _copy(ctx, read, written, store=None, tenant=tenant)
        yield place


def _move(source: str, target: str) -> None:
    note = transfer(Transfer(source=source, target=target), meter=Meter(_show if sys.stderr.isatty() else None))
    if note:
        terminal.say(note)


def _show(progress: Progress) -> None:
    total, rate = formatting.size(progress.total_bytes), formatting.size(progress.bytes_per_second)
    end = "\n" if progress.moved_bytes == progress.total_bytes else "\r"
    click.echo(f"{formatting.size(progress.moved_bytes)} of {total}, {rate}/s\x1b[K", err=True, nl=False)
    click.echo(end, err=True, nl=False)


def _absolute(text: str) -> str:
    if "://" in text:
        return text
    return f"{Path(text).absolute()}{'/' if text.endswith('/') else ''}"


@contextmanager
def _told() -> Iterator[None]:
    """Turn what a transfer raises into what the command line tells."""
    try:
        yield
    except AddressError as error:
        raise InvalidInputError(str(error)) from error
    except (PermanentError, OSError) as error:
        raise GanglineError(str(error)) from error
