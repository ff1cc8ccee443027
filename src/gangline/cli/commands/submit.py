"""``gangline submit``."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import click

from gangline.cli import terminal
from gangline.cli.connection import chosen_settings, connect, spoken
from gangline.cli.documents import json_text, yaml_text
from gangline.cli.following import finish, follow
from gangline.cli.job_sources import jobs_from_files, jobs_from_options, on_this_machine
from gangline.cli.jobs import print_jobs
from gangline.cli.options import Output, complete_files, job_files_option, output_option
from gangline.dialects import Translation
from gangline.dialects.native import job_to_plain
from gangline.errors import GanglineError
from gangline.model import Job, JobSpec
from gangline.sdk.values import CODE_PREFIX
from gangline.settings import Settings

F = TypeVar("F", bound=Callable[..., object])

_SHORT_FORM: tuple[Callable[[F], F], ...] = (
    click.option("--name", metavar="NAME", help="The job's name; derived from the command if not given."),
    click.option("--queue", metavar="NAME", help="The queue to wait in."),
    click.option("--priority", metavar="LEVEL", help="low, normal, high, critical or a number."),
    click.option("-l", "--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label; repeatable."),
    click.option("--workers", type=click.IntRange(1), help="How many workers.  [default: 1]"),
    click.option("--min-workers", type=click.IntRange(0), help="How few workers it can go on with."),
    click.option("--max-workers", type=click.IntRange(1), help="How many workers it can make use of."),
    click.option("--ps", type=click.IntRange(0), help="How many parameter servers."),
    click.option("--chief", is_flag=True, default=None, help="Add a chief to the workers."),
    click.option("--cpu", metavar="CPUS", help="CPUs of each replica: 2, 500m."),
    click.option("--memory", metavar="SIZE", help="Memory of each replica: 4Gi, 512Mi."),
    click.option("--gpus", metavar="GPUS", help="GPUs of each worker."),
    click.option("--gpu-type", "gpu_types", metavar="TYPE", multiple=True, help="Acceptable GPUs, best first."),
    click.option("--size", metavar="SIZE", help="A T-shirt size, such as 1-v100."),
    click.option("--framework", metavar="NAME", help="tensorflow, pytorch, mpi, jax, parameter-server, ..."),
    click.option("--image", metavar="IMAGE", help="The container image, for engines that use one."),
    click.option(
        "--code",
        metavar="DIRECTORY",
        help="The directory to ship with the job; the present one if the command names a file in it.",
        shell_complete=complete_files,
    ),
    click.option("--no-code", is_flag=True, default=None, help="Ship nothing."),
    click.option("-e", "--env", metavar="NAME=VALUE", multiple=True, help="An environment variable; repeatable."),
    click.option("--max-attempts", type=click.IntRange(1), help="How often to try the whole gang."),
    click.option("--deadline", metavar="DURATION", help="End the job after this time: 2h."),
    click.option("--ttl", metavar="DURATION", help="Delete the job so long after its end: 7d."),
)


def _short_form(function: F) -> F:
    for option in reversed(_SHORT_FORM):
        function = option(function)
    return function


_SENDING: tuple[Callable[[F], F], ...] = (
    click.option("--tenant", metavar="NAME", help="Submit for this tenant."),
    click.option("--follow", "following", is_flag=True, help="Show the job until its end; exit with its exit code."),
    click.option("--wait", "waiting", is_flag=True, help="Wait for the end; exit with the job's exit code."),
    click.option("--halted", is_flag=True, help="Do not queue it before 'gangline resume'."),
    click.option("--dry-run", is_flag=True, help="Print exactly what would be sent, and send nothing."),
    output_option(Output.NAME, Output.JSON, Output.YAML),
)


def sending_options(function: F) -> F:
    """Add the options that every way of submitting has: the fields of ``Sending``, and the tenant."""
    for option in reversed(_SENDING):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How jobs are submitted, whatever they are and wherever they come from."""

    following: bool
    waiting: bool
    halted: bool
    dry_run: bool
    output: str


class SubmitCommand(click.Command):
    """The command ``submit``; with a verb of Arena's it is another command, with Arena's options."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read the arguments by the options of the command that is meant."""
        if args and (not args[0].startswith("-") or any(word.startswith("--mode") for word in args)):
            # Arena's table costs time that nobody else's commands need spend; and it needs this module.
            from gangline.cli.arena_routing import arena_verb
            from gangline.cli.commands.arena_submit import arena_command

            valued = [name for option in self.params if not getattr(option, "is_flag", True) for name in option.opts]
            if (found := arena_verb(args, valued)) is not None:
                verb, rest = found
                return arena_command(verb).make_context(f"{info_name} {verb}", rest, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("submit", cls=SubmitCommand, context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="[--] [COMMAND]...", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_files)
@job_files_option
@_short_form
@sending_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    words: tuple[str, ...],
    files: tuple[str, ...],
    following: bool,
    waiting: bool,
    halted: bool,
    dry_run: bool,
    output: str,
    **options: object,
) -> int:
    """Submit a job from options or from a file.

    \b
    gangline submit --workers 4 --gpus 1 --code . -- python train.py
    gangline submit -f job.yaml --follow
    gangline submit tf|pytorch|mpi|horovod ...    with Arena's flags
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if tenant := given.get("tenant") or (ctx.find_root().obj or {}).get("tenant"):
        given["tenant"] = tenant
    settings = chosen_settings(ctx)
    jobs = jobs_from_files(files, words, given, settings) if files else jobs_from_options(words, given, settings)
    how = Sending(following=following, waiting=waiting, halted=halted, dry_run=dry_run, output=output)
    return send(ctx, jobs, how)


def send(ctx: click.Context, jobs: Sequence[Translation], how: Sending) -> int:
    """Submit jobs, and stay with them as long as is wanted; returns the exit code."""
    settings = chosen_settings(ctx)
    if not (settings.context or (ctx.find_root().obj or {}).get("server")):
        specs = on_this_machine([job.on_one_machine() for job in jobs])
        jobs = tuple(replace(job, spec=spec) for job, spec in zip(jobs, specs, strict=True))
    for note in _notes(jobs, on_cluster=bool(settings.context)):
        terminal.say(f"note: {note}")
    if how.dry_run:
        _print_requests([job.spec for job in jobs], settings, how.output)
        return 0
    if how.following and len(jobs) > 1:
        raise click.UsageError(f"--follow takes one job, and there are {len(jobs)}", ctx)
    clients = [connect(ctx, tenant=job.spec.tenant) for job in jobs]
    for client, job in zip(clients, jobs, strict=True):
        for document in (*(job.cluster_objects_json if settings.context else ()), *job.objects_json):
            client.put_object(document)
    submitted: list[Job] = []
    try:
        for client, job in zip(clients, jobs, strict=True):
            submitted.append(client.submit(job.spec, halted=how.halted or job.suspended))
    except GanglineError:
        if submitted:
            terminal.say(f"submitted before it failed: {', '.join(job.name for job in submitted)}")
        raise
    if how.following:
        terminal.say(f"submitted {submitted[0].name}")
        return follow(clients[0], submitted[0])
    print_jobs(submitted, how.output)
    if how.waiting:
        codes = [finish(client, job) for client, job in zip(clients, submitted, strict=True)]
        return next((code for code in codes if code), 0)
    first = submitted[0]
    terminal.say(f"follow it with: {spoken(ctx, 'logs -f', first.name, tenant=first.spec.tenant)}")
    return 0


def _notes(jobs: Sequence[Translation], *, on_cluster: bool) -> Iterable[str]:
    """What the jobs' dialects could not express; what holds for many jobs is said once, with their number."""
    said = Counter(
        note for job in jobs for note in dict.fromkeys((*job.notes, *(() if on_cluster else job.local_notes)))
    )
    return (note if count == 1 else f"{note} ({count} jobs)" for note, count in said.items())


def _print_requests(jobs: Sequence[JobSpec], settings: Settings, output: str) -> None:
    """Print what would be sent. Code is packed, so that its digest is the real one, and thrown away."""
    from gangline.sdk.packing import pack

    requests = []
    for job in jobs:
        code = job.code
        if code is not None and not code.startswith(CODE_PREFIX):
            with pack(Path(code), limits=settings.code_limits) as archive:
                terminal.say(f"would send {code} ({archive.size_bytes} bytes packed) unless the service has it")
                code = f"{CODE_PREFIX}{archive.digest}"
        requests.append(job_to_plain(replace(job, code=code)))
    write = json_text if output == Output.JSON else yaml_text
    click.echo("\n---\n".join(write(request) for request in requests))
