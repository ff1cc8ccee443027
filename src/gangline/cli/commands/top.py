"""``gangline top``."""

import sys
import time

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, output_option, tenant_option
from gangline.cli.output import formatting, table
from gangline.cli.output.documents import json_text, yaml_text
from gangline.sdk import JobTop, NodeTop

_NODE_HEADINGS = ("NODE", "CPU", "MEMORY", "REPLICAS", "GPU")
_JOB_HEADINGS = ("JOB", "REPLICA", "NODE", "CPU", "MEMORY", "GPU")
_output = output_option(Output.TABLE, Output.JSON, Output.YAML)


@click.group("top", invoke_without_command=True)
@click.option(
    "--every", "seconds", type=click.FloatRange(0.2), default=2.0, show_default=True, help="How often, in seconds."
)
@click.option("--once", is_flag=True, help="Show it once and end.")
@click.pass_context
def command(ctx: click.Context, /, *, seconds: float, once: bool) -> None:
    """Show what nodes and jobs use now; without a word, live until it is interrupted."""
    if ctx.invoked_subcommand is not None:
        return
    client = connect(ctx)
    while True:
        nodes, jobs = client.top_nodes(), client.top_jobs()
        live = sys.stdout.isatty() and not once
        if live:
            click.clear()
        _print(_NODE_HEADINGS, [_node_row(top) for top in nodes])
        click.echo()
        _print(_JOB_HEADINGS, [row for top in jobs for row in _job_rows(top)])
        if not live:
            return
        time.sleep(seconds)  # noqa: TID251  # a person looks at it; there is nothing to await


@command.command("node")
@_output
@click.option("-d", "--details", is_flag=True, help="Show the replicas on each node too.")
@click.pass_context
def node(ctx: click.Context, /, *, output: str, details: bool) -> None:
    """Show every node, what is used of it and of its GPUs."""
    client = connect(ctx)
    found = client.top_nodes()
    if _document(found, output):
        return
    _print(_NODE_HEADINGS, [_node_row(top) for top in found])
    if details:
        jobs = client.top_jobs()
        for top in found:
            click.echo(f"\n{top.node.name}:")
            rows = [row for job in jobs for row in _replica_rows(job, top.node.name)]
            _print(("JOB", "REPLICA", "CPU", "MEMORY", "GPU"), rows)


@command.command("job")
@_output
@tenant_option
@click.pass_context
def job(ctx: click.Context, output: str, tenant: str | None) -> None:
    """Show every running job and what its replicas use."""
    found = connect(ctx, tenant=tenant).top_jobs()
    if not _document(found, output):
        _print(_JOB_HEADINGS, [row for top in found for row in _job_rows(top)])


def _node_row(top: NodeTop) -> tuple[str, ...]:
    capacity, used = top.node.capacity, top.usage.used
    devices = [
        f"{device} {percent}% {formatting.memory(top.usage.gpu_memory_mib.get(device, 0))}"
        for device, percent in top.usage.gpu_percent.items()
        if device not in top.node.closed_gpus
    ]
    devices += [f"{device} closed: {fault}" for device, fault in top.node.closed_gpus.items()]
    return (
        top.node.name,
        f"{formatting.cpu(used.cpu_millis)} of {formatting.cpu(capacity.cpu_millis)}",
        f"{formatting.memory(used.memory_mib)} of {formatting.memory(capacity.memory_mib)}",
        str(top.replicas),
        "; ".join(devices) or (f"{capacity.gpus:g}" if capacity.gpu_millis else "-"),
    )


def _job_rows(top: JobTop) -> list[tuple[str, ...]]:
    together = (
        top.job.name,
        f"({len(top.replicas)})",
        "",
        formatting.cpu(top.cpu_millis),
        formatting.memory(top.memory_mib),
        "",
    )
    each = [
        (
            "",
            str(replica.replica),
            replica.node,
            formatting.cpu(replica.cpu_millis),
            formatting.memory(replica.memory_mib),
            ",".join(replica.gpus) or "-",
        )
        for replica in top.replicas
    ]
    return [together, *each]


def _replica_rows(top: JobTop, node: str) -> list[tuple[str, ...]]:
    return [
        (
            top.job.name,
            str(replica.replica),
            formatting.cpu(replica.cpu_millis),
            formatting.memory(replica.memory_mib),
            ",".join(replica.gpus) or "-",
        )
        for replica in top.replicas
        if replica.node == node
    ]


def _document(found: object, output: str) -> bool:
    """Print as a document if that is wanted."""
    if output == Output.JSON:
        click.echo(json_text(found))
    elif output == Output.YAML:
        click.echo(yaml_text(found))
    return output != Output.TABLE


def _print(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    for line in table.lines(headings, rows, width=terminal.width()):
        click.echo(line)
