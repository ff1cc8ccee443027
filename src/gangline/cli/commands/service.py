"""``gangline service``."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import tenant_option
from gangline.cli.kind_commands import add_commands
from gangline.cli.output import formatting, table
from gangline.cli.output.output_lines import LinePrinter
from gangline.errors import InvalidInputError, NotFoundError
from gangline.kinds.service import SERVICE
from gangline.model import Job, ReplicaId, ReplicaState
from gangline.model.kinds.service import SERVICE_LABEL, Service, ServiceEvent

_name = click.argument("name", metavar="NAME")


@click.group("service")
def command() -> None:
    """Roll out, scale and query services.

    \b
    gangline serve model://mnist --name digits
    gangline service predict digits -d @x.json
    """


@command.command("scale")
@_name
@click.argument("count", metavar="COUNT|MIN..MAX")
@tenant_option
@click.pass_context
def scale(ctx: click.Context, /, *, name: str, count: str, tenant: str | None) -> None:
    """Have this many replicas, or a number between two that follows the load; 0..4 lets it sleep."""
    least, dots, most = count.partition("..")
    if not least.isdecimal() or (dots and not most.isdecimal()):
        raise InvalidInputError(f"'{count}' is not a number of replicas", expected="for example 3, or 0..4")
    connect(ctx, tenant=tenant).services.scale(name, int(least), int(most) if dots else None)
    terminal.say(f"{name} has {count} replicas")


@command.command("rollout")
@_name
@click.option("--pause", is_flag=True, help="Stay at the present step.")
@click.option("--resume", is_flag=True, help="Go on.")
@click.option("-w", "--watch", is_flag=True, help="Follow it until it has ended.")
@tenant_option
@click.pass_context
def rollout(ctx: click.Context, /, *, name: str, pause: bool, resume: bool, watch: bool, tenant: str | None) -> None:
    """Show the revisions of a service and how its rollout goes."""
    services = connect(ctx, tenant=tenant).services
    if pause or resume:
        services.do(name, "pause" if pause else "resume")
    service = services.get(name)
    _print_revisions(service)
    _tell(service.status.events)
    if watch and service.status.rollout is not None:
        told = service.status.events
        for found in services.watch(name):
            _tell(each for each in found.status.events if each not in told)
            told = found.status.events
            if found.status.rollout is None:
                break


def _tell(events: Iterable[ServiceEvent]) -> None:
    for event in events:
        terminal.say(f"{formatting.ago(event.at, terminal.now())} {event.reason}: {event.message}")


def _print_revisions(service: Service) -> None:
    status = service.status
    rows = []
    for each in reversed(status.revisions):
        role = "current" if each.number == status.current else "failed" if each.failed else "-"
        if status.rollout is not None and each.number == status.rollout.revision:
            role = f"step {status.rollout.step + 1} of {len(service.spec.rollout.steps) + 1}"
        replicas = sum(replica.revision == each.number for replica in status.replicas)
        traffic = status.traffic_words(each.number)
        rows.append([str(each.number), role, str(replicas), *traffic, each.model or "-", each.failed or "-"])
    headings = ["REVISION", "STATE", "REPLICAS", "REQUESTS/S", "ERRORS", "P50", "P95", "MODEL", "REASON"]
    for line in table.lines(headings, rows):
        click.echo(line)


@command.command("rollback")
@_name
@click.option("--to", "revision", type=click.IntRange(1), help="This revision instead of the one before.")
@tenant_option
@click.pass_context
def rollback(ctx: click.Context, /, *, name: str, revision: int | None, tenant: str | None) -> None:
    """Give up a rollout or, if none is under way, go back to an earlier revision."""
    found = connect(ctx, tenant=tenant).services.rollback(name, revision)
    going = found.status.rollout
    to = going.revision if going is not None and not going.stopped else found.status.current
    terminal.say(f"{name} goes back to revision {to}")


@command.command("logs")
@_name
@click.option("-f", "--follow", is_flag=True, help="Go on as long as the replica runs.")
@click.option("--replica", type=click.IntRange(1), help="This replica instead of all.")
@click.option("--tail", type=click.IntRange(0), help="At most this many of the last lines of each replica.")
@tenant_option
@click.pass_context
def logs(
    ctx: click.Context, /, *, name: str, follow: bool, replica: int | None, tail: int | None, tenant: str | None
) -> None:
    """Show the output of a service's replicas, each of which is a job."""
    client = connect(ctx, tenant=tenant)
    replicas = client.services.get(name).status.replicas
    jobs = [f"{name}-{each.revision}-{each.number}" for each in replicas if replica in (None, each.number)]
    if replica is not None and not jobs:
        have = ", ".join(str(each.number) for each in replicas) or "none"
        raise NotFoundError("replica", str(replica), hint=f"{name} has {have}")
    if follow and len(jobs) > 1:
        raise InvalidInputError(f"{name} has {len(jobs)} replicas", expected="--replica with --follow")
    for job in jobs:
        if len(jobs) > 1:
            terminal.say(f"{job}:")
        for line in client.logs(job, follow=follow, tail=tail):
            LinePrinter(prefixed=False, timestamps=False, flush=follow).print(line)


@command.command("predict")
@_name
@click.option("-d", "--data", metavar="TEXT|@FILE", default="", help="The request; @- is standard input.")
@click.option("--path", metavar="PATH", default="", help="Ask for this path instead of that of the model.")
@tenant_option
@click.pass_context
def predict(ctx: click.Context, /, *, name: str, data: str, path: str, tenant: str | None) -> None:
    """Send a request to a service and print its answer."""
    if data == "@-":
        body = sys.stdin.buffer.read()
    else:
        body = Path(data[1:]).read_bytes() if data.startswith("@") else data.encode()
    if not (body or path):
        raise InvalidInputError("there is nothing to send", expected="-d with a request, or --path")
    answer = connect(ctx, tenant=tenant).services.predict(name, body, path=path)
    click.echo(answer.decode(errors="replace"))


@command.command("explain")
@_name
@tenant_option
@click.pass_context
def explain(ctx: click.Context, /, *, name: str, tenant: str | None) -> None:
    """Say what a service waits for: what happened last, and why replicas have no machines or do not answer."""
    client = connect(ctx, tenant=tenant)
    service = client.services.get(name)
    terminal.say(service.status.problem or f"{name} is {service.state}, {service.status.ready} ready")
    if service.status.notice:
        terminal.say(service.status.notice)
    for event in service.status.events[-5:]:
        click.echo(f"{event.reason}: {event.message}")
    for job in client.list(labels={SERVICE_LABEL: name}):
        if job.placeable:
            for sentence in client.explain(job.name).sentences or (f"{job.name} waits",):
                click.echo(f"{job.name}: {sentence}")
        elif trouble := _trouble(job, answered=bool(service.status.ready)):
            click.echo(f"{job.name}: {trouble}")


def _trouble(job: Job, *, answered: bool) -> str:
    """Say how a replica last exited that was started again or, if no other answers either, that it does not answer."""
    lead = job.replica(ReplicaId(job.spec.lead_role, 0))
    if lead is None or not lead.restarts:
        running = lead is not None and lead.state is ReplicaState.RUNNING
        return "runs and does not pass its check yet" if running and not answered else ""
    how = lead.message or (f"exit code {lead.exit_code}" if lead.exit_code is not None else "it ended")
    return f"started again {formatting.counted(lead.restarts, 'time')}, last after: {how}"


add_commands(command, SERVICE)
