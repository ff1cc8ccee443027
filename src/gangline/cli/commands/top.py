"""``gangline top``."""

import click

from gangline.cli import table, terminal, words
from gangline.cli.connection import connect
from gangline.cli.documents import json_text, yaml_text
from gangline.cli.options import Output, output_option, tenant_option
from gangline.sdk import JobTop, NodeTop

_output = output_option(Output.TABLE, Output.JSON, Output.YAML)


@click.group("top")
def command() -> None:
    """Show what nodes and jobs use now."""


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
    _print(("NODE", "CPU", "MEMORY", "REPLICAS", "GPU"), [_node_row(top) for top in found])
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
        _print(("JOB", "REPLICA", "NODE", "CPU", "MEMORY", "GPU"), [row for top in found for row in _job_rows(top)])


def _node_row(top: NodeTop) -> tuple[str, ...]:
    capacity, used = top.node.capacity, top.usage.used
    devices = [
        f"{device} {percent}% {words.memory(top.usage.gpu_memory_mib.get(device, 0))}"
        for device, percent in top.usage.gpu_percent.items()
    ]
    return (
        top.node.name,
        f"{words.cpu(used.cpu_millis)} of {words.cpu(capacity.cpu_millis)}",
        f"{words.memory(used.memory_mib)} of {words.memory(capacity.memory_mib)}",
        str(top.replicas),
        "; ".join(devices) or (f"{capacity.gpus:g}" if capacity.gpu_millis else "-"),
    )


def _job_rows(top: JobTop) -> list[tuple[str, ...]]:
    together = (top.job.name, f"({len(top.replicas)})", "", words.cpu(top.cpu_millis), words.memory(top.memory_mib), "")
    each = [
        (
            "",
            str(replica.replica),
            replica.node,
            words.cpu(replica.cpu_millis),
            words.memory(replica.memory_mib),
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
            words.cpu(replica.cpu_millis),
            words.memory(replica.memory_mib),
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
