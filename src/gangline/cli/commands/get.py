"""``gangline get``."""

import click

from gangline.cli import terminal
from gangline.cli.commands.attach import environment_of, processes_of
from gangline.cli.commands.describe import event_rows
from gangline.cli.connection.client import chosen_settings, connect, spoken
from gangline.cli.following.changes import print_changes
from gangline.cli.input.options import jobs_argument, output_option, tenant_option
from gangline.cli.output.arena_tables import print_gpus, print_instances, print_table
from gangline.cli.output.job_table import print_jobs
from gangline.cli.output.last_lines import tell_last_lines
from gangline.cli.output.metric_table import print_metrics
from gangline.model import Job, ReplicaId, ReplicaState, RoleName
from gangline.sdk import Client

_TENSORBOARD = RoleName("tensorboard")


@click.command("get")
@jobs_argument
@output_option()
@click.option("-e", "--events", is_flag=True, help="Show the replicas and the events, as Arena does.")
@click.option("-g", "--gpus", is_flag=True, help="Show the replicas and their GPUs, as Arena does.")
@click.option("-w", "--watch", is_flag=True, help="Go on and print every change (one job).")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    jobs: tuple[str, ...],
    output: str,
    events: bool,
    gpus: bool,
    watch: bool,
    tenant: str | None,
) -> None:
    """Show jobs and their latest metrics."""
    client = connect(ctx, tenant=tenant)
    if watch:
        if len(jobs) > 1:
            raise click.UsageError("--watch takes one job; 'gangline list --watch' shows all", ctx)
        print_changes(client.watch(jobs[0]), output)
        return
    found = [client.get(job) for job in jobs]
    if events or gpus:
        for job in found:
            _print_as_arena(client, job, events=events, gpus=gpus)
        return
    print_jobs(found, output, single=len(jobs) == 1)
    if output in ("table", "wide"):
        for job in found:
            tell_last_lines(client, job)
            if board := _tensorboard(ctx, job):
                click.echo(f"tensorboard: {board}")
            if metrics := client.latest_metrics(job.id):
                click.echo()
                print_metrics(metrics)


def _tensorboard(ctx: click.Context, job: Job) -> str:
    """Where the TensorBoard beside a job answers, or how to reach it in a cluster; empty if it does not run."""
    replica = ReplicaId(_TENSORBOARD, 0)
    running = job.replica(replica)
    if job.finished or running is None or running.state is not ReplicaState.RUNNING:
        return ""
    if chosen_settings(ctx).context:
        port = job.spec.role(_TENSORBOARD).port
        return spoken(ctx, "port-forward", job.name, "-i", str(replica), str(port), tenant=job.spec.tenant)
    process = next(processes_of(job, replica), None)
    address = "" if process is None else environment_of(process).get("GANGLINE_ADDRESS", "")
    return f"http://{address}" if address else ""


def _print_as_arena(client: Client, job: Job, *, events: bool, gpus: bool) -> None:
    print_instances(job)
    if events:
        click.echo("\nEvents:")
        rows = event_rows(client.events(job.id), terminal.now())
        print_table(("AGE", "REASON", "INSTANCE", "MESSAGE"), rows)
    if gpus:
        print_gpus(job)
