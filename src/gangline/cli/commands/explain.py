"""``gangline explain``."""

from dataclasses import replace

import click

from gangline.cli import terminal
from gangline.cli.connection import connect
from gangline.cli.documents import json_text, yaml_text
from gangline.cli.jobs import reason_text
from gangline.cli.options import Output, job_argument, output_option, tenant_option
from gangline.cli.outlook import moment_text, state_of
from gangline.errors import ConflictError, PermissionDeniedError
from gangline.model import Job, ReplicaState
from gangline.sdk import Client, Explanation
from gangline.settings import Settings


@click.command("explain")
@job_argument
@click.option("--no-forecast", is_flag=True, help="Do not work out when it should start.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def command(ctx: click.Context, /, *, job: str, no_forecast: bool, output: str, tenant: str | None) -> None:
    """Say why a job waits, what would help, and when it should start."""
    client = connect(ctx, tenant=tenant)
    found, why = _explained(client, job)
    if found.placeable and not no_forecast:
        why = _with_forecast(client, found, why)
    if output == Output.JSON:
        click.echo(json_text(why))
    elif output == Output.YAML:
        click.echo(yaml_text(why))
    else:
        if found.placeable:
            click.echo(f"{found.name} is {found.phase}.")
        for sentence in why.sentences:
            click.echo(sentence)
        if why.predicted_start_at is not None:
            click.echo(f"Predicted start: {moment_text(why.predicted_start_at, terminal.now())}.")


def _explained(client: Client, reference: str) -> tuple[Job, Explanation]:
    """Return a job and why it waits; of one that does not, or no longer since we asked for it, just that."""
    job = client.get(reference)
    if job.placeable:
        try:
            return job, client.explain(job.id)
        except ConflictError:
            job = client.get(job.id)
    not_waiting = f"{job.name} does not wait for machines: it is {job.phase} ({reason_text(job)})."
    delayed = (status for status in job.replicas if status.state is ReplicaState.PENDING and status.message)
    return job, Explanation(sentences=(not_waiting, *(f"{status.id} waits: {status.message}." for status in delayed)))


def _with_forecast(client: Client, job: Job, why: Explanation) -> Explanation:
    """Work out when the job should start; what the scheduler said itself stands where that is beyond sight."""
    # The simulator brings the whole service with it, which most commands do not need.
    from gangline.scheduling import policies_from
    from gangline.simulator import forecast

    try:
        state = state_of(client)
    except PermissionDeniedError:
        return why  # whoever may not see the nodes of a cluster cannot look ahead, but may know why the job waits
    policies = policies_from(Settings.load().scheduling)
    launch = forecast(state, wanted=(job.id,), policies=policies).launches.get(job.id)
    return why if launch is None else replace(why, predicted_start_at=launch.at)
