"""``gangline lineage``."""

from collections.abc import Iterator, Mapping

import click

from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, output_option, tenant_option
from gangline.cli.kind_commands import print_documents
from gangline.cli.output import table
from gangline.model.lineage import Lineage, LineageNode


@click.command("lineage")
@click.argument("target", metavar="ADDRESS|JOB|model://NAME")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def command(ctx: click.Context, target: str, output: str, tenant: str | None) -> None:
    """Draw where data, a model or a job came from: jobs, their code and inputs, and what those were made of.

    \b
    gangline lineage model://mnist@production
    gangline lineage s3://results/mnist
    """
    found = connect(ctx, tenant=tenant).lineage(target)
    if output in (Output.JSON, Output.YAML):
        print_documents(found, output)
        return
    for line in tree_lines(found):
        click.echo(line)


def tree_lines(lineage: Lineage) -> Iterator[str]:
    """Write a lineage as a tree: what is below something is what that was made of."""
    nodes = {node.id: node for node in lineage.nodes}
    root = lineage.nodes[0]
    yield _text(root)
    yield from _below(root, nodes, "", {root.id})


def _below(node: LineageNode, nodes: Mapping[str, LineageNode], indent: str, drawn: set[str]) -> Iterator[str]:
    for place, origin in enumerate(node.origins, 1):
        last = place == len(node.origins)
        again = origin in drawn
        # What was drawn before has its origins there.
        yield f"{indent}{'└─ ' if last else '├─ '}{_text(nodes[origin])}{' (as above)' if again else ''}"
        if not again:
            drawn.add(origin)
            yield from _below(nodes[origin], nodes, indent + ("   " if last else "│  "), drawn)


def _text(node: LineageNode) -> str:
    facts = ", ".join(f"{name} {fact}" for name, fact in node.facts.items())
    name = node.name if node.kind == "data" else f"{node.kind} {node.name}"
    return table.one_line(f"{name}  {facts}" if facts else name)
