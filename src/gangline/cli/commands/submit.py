"""``gangline submit``."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect, spoken
from gangline.cli.following.job import finish, follow
from gangline.cli.following.notice import told
from gangline.cli.input.experiment_files import ExperimentFile, experiments_in
from gangline.cli.input.job_sources import jobs_from_files, jobs_from_options, on_this_machine
from gangline.cli.input.options import Output, complete_files, job_files_option, output_option
from gangline.cli.output.documents import json_text, yaml_text
from gangline.cli.output.job_table import print_jobs
from gangline.dialects import Translation
from gangline.dialects.native import job_to_plain
from gangline.errors import GanglineError, PermissionDeniedError
from gangline.model import Job, JobSpec, Tenant
from gangline.sdk import Client
from gangline.sdk.values import CODE_PREFIX
from gangline.settings import Settings

F = TypeVar("F", bound=Callable[..., object])

_SHORT_FORM: tuple[Callable[[F], F], ...] = (
    click.option("--name", metavar="NAME", help="The job's name; derived from the command if not given."),
    click.option("--queue", metavar="NAME", help="The queue to wait in."),
    click.option("--priority", metavar="LEVEL", help="low, normal, high, critical or a number."),
    click.option("-l", "--label", "labels", metavar="KEY=VALUE", multiple=True, help="A label; repeatable."),
    click.option("--workers", type=click.IntRange(1), help="The number of workers.  [default: 1]"),
    click.option("--min-workers", type=click.IntRange(0), help="The minimum number of workers."),
    click.option("--max-workers", type=click.IntRange(1), help="The maximum number of workers."),
    click.option("--ps", type=click.IntRange(0), help="The number of parameter servers."),
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
        help="The directory to ship with the job; the current one if the command names a file in it.",
        shell_complete=complete_files,
    ),
    click.option("--no-code", is_flag=True, default=None, help="Ship nothing."),
    click.option(
        "-e",
        "--env",
        metavar="NAME[=VALUE]",
        multiple=True,
        help="An environment variable, NAME alone with the value it has here; repeatable.",
    ),
    click.option(
        "--env-file",
        "env_files",
        metavar="FILE",
        multiple=True,
        help="Read variables from lines NAME=VALUE; repeatable.",
        shell_complete=complete_files,
    ),
    click.option(
        "--secret",
        "secrets",
        metavar="NAME=SECRET/KEY",
        multiple=True,
        help="A variable whose value 'gangline secret' keeps; repeatable.",
    ),
    click.option("--max-attempts", type=click.IntRange(1), help="The maximum number of attempts."),
    click.option("--deadline", metavar="DURATION", help="End the job after this time: 2h."),
    click.option("--ttl", metavar="DURATION", help="Delete the job this long after it ends: 7d."),
)


def _short_form(function: F) -> F:
    for option in reversed(_SHORT_FORM):
        function = option(function)
    return function


_SENDING: tuple[Callable[[F], F], ...] = (
    click.option("--tenant", metavar="NAME", help="Submit for this tenant."),
    click.option("--follow", "following", is_flag=True, help="Show the job until its end; exit with its exit code."),
    click.option("--wait", "waiting", is_flag=True, help="Wait for the end; exit with the job's exit code."),
    click.option("--halted", is_flag=True, help="Submit it halted; 'gangline resume' queues it."),
    click.option("--replace", "replacing", is_flag=True, help="Delete a job of the same name first."),
    click.option("--notify", is_flag=True, help="With --follow or --wait: a bell and a desktop notice at the end."),
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
    replacing: bool = False
    notify: bool = False
    applying: bool = False
    """Leave a job alone that is there already as the file says."""


class SubmitCommand(click.Command):
    """The command ``submit``; with a verb of Arena's it is another command, with Arena's options."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read the arguments by the options of the command that is meant."""
        if args and (not args[0].startswith("-") or any(word.startswith("--mode") for word in args)):
            # Arena's table costs time that nobody else's commands need spend; and it needs this module.
            from gangline.cli.commands.arena_submit import arena_command
            from gangline.cli.input.arena_routing import arena_verb

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
    replacing: bool,
    notify: bool,
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
    if any(found := [experiments_in(file) for file in files]):
        return _submit_experiments(ctx, found, given, waiting=waiting or following, dry_run=dry_run)
    jobs = jobs_from_files(files, words, given, settings) if files else jobs_from_options(words, given, settings)
    how = Sending(
        following=following,
        waiting=waiting,
        halted=halted,
        dry_run=dry_run,
        output=output,
        replacing=replacing,
        notify=notify,
    )
    return send(ctx, jobs, how)


def _submit_experiments(
    ctx: click.Context,
    files: Sequence[ExperimentFile | None],
    given: Mapping[str, object],
    *,
    waiting: bool,
    dry_run: bool,
) -> int:
    """Create the Experiments of files, and wait for their ends if that is wanted; returns the exit code."""
    from gangline.kinds.experiment import EXPERIMENT

    if None in files or set(given) - {"tenant"}:
        said = "jobs and Experiments together" if None in files else "options beside an Experiment"
        raise click.UsageError(f"{said}: submit Experiments alone, with --tenant, --wait and --dry-run at most", ctx)
    succeeded = True
    for file in filter(None, files):
        for written in file.specs:
            spec = replace(written, tenant=Tenant(str(given["tenant"]))) if "tenant" in given else written
            if dry_run:
                click.echo(yaml_text(EXPERIMENT.format.write(spec)))
                continue
            client = connect(ctx, tenant=spec.tenant)
            for namespace, document in file.objects:
                connect(ctx, tenant=namespace or spec.tenant).put_object(document)
            records = client.records(EXPERIMENT)
            created = records.create(spec)
            click.echo(created.name)
            if created.note:
                terminal.say(f"note: {created.note}")
            if waiting:
                ended = records.wait(spec.name)
                terminal.say(f"{spec.name} is {ended.state}" + (f": {ended.end.message}" if ended.end else ""))
                succeeded &= ended.state == "Succeeded"
            else:
                hint = spoken(ctx, "experiment get -w", spec.name, tenant=spec.tenant)
                terminal.say(f"follow it with: {hint}")
    return 0 if succeeded else 1


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
        _bring_objects(client, job, on_cluster=bool(settings.context))
    submitted: list[Job] = []
    try:
        for client, job in zip(clients, jobs, strict=True):
            submitted.append(_send_one(client, job, how))
    except GanglineError:
        if submitted:
            terminal.say(f"submitted before it failed: {', '.join(job.name for job in submitted)}")
        raise
    _say_unknown_gpu_types(clients[0], [job.spec for job in jobs])
    if how.following:
        terminal.say(f"submitted {submitted[0].name}")
        return told(submitted[:1], follow(clients[0], submitted[0]), wanted=how.notify)
    print_jobs(submitted, how.output)
    if how.waiting:
        codes = [finish(client, job) for client, job in zip(clients, submitted, strict=True)]
        return told(submitted, next((code for code in codes if code), 0), wanted=how.notify)
    first = submitted[0]
    terminal.say(f"follow it with: {spoken(ctx, 'logs -f', first.name, tenant=first.spec.tenant)}")
    return 0


def _send_one(client: Client, job: Translation, how: Sending) -> Job:
    """Submit a job, or do with one of its name that is there already what is wanted."""
    halted = how.halted or job.suspended
    if not (how.applying or how.replacing):
        return client.submit(job.spec, halted=halted)
    done = client.apply(job.spec, halted=halted, replace=how.replacing)
    if how.applying:
        terminal.say(f"{done.job.name} is {done.outcome}")
    return done.job


def _say_unknown_gpu_types(client: Client, jobs: Sequence[JobSpec]) -> None:
    """Say which GPU types that jobs name no node has: they wait for what may be a slip of the pen.

    They are not refused, because nodes come and go. Whose rights do not include looking at nodes is told nothing.
    """
    names = dict.fromkeys(name for job in jobs for role in job.roles for name in job.nodes_of(role).gpu_types)
    if not names:
        return
    try:
        known = sorted({node.gpu_type for node in client.nodes() if node.gpu_type is not None})
    except PermissionDeniedError:
        return
    for name in (name for name in names if name not in known):
        nearest = difflib.get_close_matches(name, known, n=1)
        there = f"there are {' and '.join(known)}" if known else "there are no GPUs"
        terminal.say(
            f"note: no node has GPU type '{name}'; " + (f"did you mean '{nearest[0]}'?" if nearest else f"{there}.")
        )


def _bring_objects(client: Client, job: Translation, *, on_cluster: bool) -> None:
    """Send what stands beside a job in its file, and what was taken out of it."""
    for document in (*(job.cluster_objects_json if on_cluster else ()), *job.objects_json):
        client.put_object(document)
    for store in job.stores:
        client.stores.keep(replace(store, tenant=client.tenant))


def _notes(jobs: Sequence[Translation], *, on_cluster: bool) -> Iterable[str]:
    """What the jobs' dialects could not express; what holds for many jobs is said once, with their number."""
    said = Counter(
        note for job in jobs for note in dict.fromkeys((*job.notes, *(() if on_cluster else job.local_notes)))
    )
    return (note if count == 1 else f"{note} ({count} jobs)" for note, count in said.items())


def _print_requests(jobs: Sequence[JobSpec], settings: Settings, output: str) -> None:
    """Print what would be sent. Code is packed, so that its digest is the real one, and thrown away."""
    from gangline.sdk.code.packing import pack

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
