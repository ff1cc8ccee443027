"""``python -m tools.cluster``: build, up, status, kwok and down for people."""

import sys
import time

import click

from tools.cluster.build import binaries_folder, ensure_built
from tools.cluster.cluster import Cluster
from tools.cluster.errors import ClusterError
from tools.cluster.layout import NODES, saved_layouts
from tools.cluster.python_image import python_image

_name = click.option("--name", default="default", show_default=True, help="Which cluster, if there are several.")


def _report(line: str) -> None:
    click.echo(line, err=True)


def _opened(name: str) -> Cluster:
    cluster = Cluster.open(name)
    if cluster is None:
        raise ClusterError(f"no cluster named {name} runs; start it with: python -m tools.cluster up")
    return cluster


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run a real three-node Kubernetes cluster on this machine."""


@main.command()
def build() -> None:
    """Build the components, unless they are in the cache."""
    click.echo(ensure_built(_report))


@main.command()
@_name
@click.option("--python-image/--no-python-image", default=True, help="Load the image that training jobs run in.")
@click.option(
    "--nodes", type=click.IntRange(min=0), default=NODES, show_default=True, help="0: a control plane alone, no root."
)
def up(name: str, *, python_image: bool, nodes: int) -> None:
    """Start the cluster; does nothing if it runs."""
    began = time.monotonic()
    cluster = Cluster.up(name, _report, nodes=nodes)
    if python_image and nodes:
        _load_python(cluster)
    _report(f"cluster {name} is up ({time.monotonic() - began:.1f} s); kubectl is {binaries_folder() / 'kubectl'}")
    click.echo(f"export KUBECONFIG={cluster.kubeconfig}")


def _load_python(cluster: Cluster) -> None:
    cluster.load(python_image())


@main.command()
@_name
def down(name: str) -> None:
    """Take the cluster down; does nothing if there is none."""
    began = time.monotonic()
    cluster = Cluster.open(name)
    if cluster is None:
        _report(f"no cluster named {name} runs")
        return
    cluster.down()
    _report(f"cluster {name} is down ({time.monotonic() - began:.1f} s)")


@main.command()
def status() -> None:
    """Show every cluster on this machine and the processes of each."""
    for layout in saved_layouts():
        cluster = Cluster(layout)
        click.echo(f"{layout.name}: {'healthy' if cluster.healthy() else 'broken'}, {layout.server}")
        for record in cluster.processes.all():
            click.echo(f"  {record.name:28} {record.pid if record.alive else 'ended'}")


@main.command()
@click.argument("count", type=click.IntRange(min=0))
@_name
def kwok(count: int, name: str) -> None:
    """Have COUNT pretended nodes besides the real ones; 0 removes them."""
    cluster = _opened(name)
    if count:
        cluster.add_kwok_nodes(count)
    else:
        cluster.remove_kwok_nodes()


if __name__ == "__main__":
    try:
        main(standalone_mode=True, prog_name="python -m tools.cluster")
    except ClusterError as error:
        sys.exit(f"error: {error}")
