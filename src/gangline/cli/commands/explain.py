"""``gangline explain``."""

from dataclasses import replace

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, job_argument, output_option, tenant_option
from gangline.cli.output.documents import json_text, yaml_text
from gangline.cli.simulation_state import moment_text, state_of
from gangline.errors import ConflictError, PermissionDeniedError
from gangline.model import Job, Phase, ReplicaState, Sizing
from gangline.model.wording import reason_text
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
    sizes = _sizes(client, job) if job.spec.policy.replicas is Sizing.AUTO else ()
    delayed = (status for status in job.replicas if status.state is ReplicaState.PENDING and status.message)
    waiting = (f"{status.id} waits: {status.message}." for status in delayed)
    running = (status for status in job.replicas if status.state is ReplicaState.RUNNING and status.message)
    noticed = (f"{status.id} {status.message}." for status in running)
    return job, Explanation(sentences=(not_waiting, *sizes, *waiting, *noticed))


def _sizes(client: Client, job: Job) -> tuple[str, ...]:
    """Why a job has its size, and which of its tenant's other jobs would pay for more."""
    from gangline.allocation.outlook import size_sentences  # brings NumPy, which most commands do not need

    return tuple(size_sentences(job, client.list(phases=(Phase.PROCESSING,))))


def _with_forecast(client: Client, job: Job, why: Explanation) -> Explanation:
    """Work out when the job should start; what the scheduler said itself stands where that is beyond sight."""
    # The scheduler brings NumPy with it, which most commands do not need.
    from gangline.compose.plugins import chosen_policies
    from gangline.forecast.course import forecast

    try:
        state = state_of(client)
    except PermissionDeniedError:
        return why  # whoever may not see the nodes of a cluster cannot look ahead, but may know why the job waits
    policies = chosen_policies(Settings.load().scheduling)
    launch = forecast(state, wanted=(job.id,), policies=policies).launches.get(job.id)
    return why if launch is None else replace(why, predicted_start_at=launch.at)
