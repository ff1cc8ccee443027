"""``gangline install``."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_context

F = TypeVar("F", bound=Callable[..., object])


def place_options(function: F) -> F:
    """Add the options that say where an installation is."""
    for option in (
        click.option(
            "--namespace", metavar="NAME", default="gangline-system", show_default=True, help="Its namespace."
        ),
        click.option("--context", metavar="NAME", help="The kubeconfig context; the current one if not given."),
    ):
        function = option(function)
    return function


@click.command("install")
@place_options
@click.option("--image", metavar="IMAGE", help="The controller's image, as deploy/Dockerfile builds it.")
@click.option("--replicas", type=click.IntRange(0), default=2, show_default=True, help="The number of controllers.")
@click.option(
    "--kubeflow",
    type=click.Choice(["leave", "run", "strict"]),
    default="leave",
    show_default=True,
    help="Leave TFJob, PyTorchJob and their kin alone, or run them in place of Kubeflow's operator.",
)
@click.option("--kserve", is_flag=True, help="Serve InferenceServices, in place of KServe.")
@click.option("--api", is_flag=True, help="Add a service for people outside of the cluster (REST and gRPC).")
@click.option(
    "--cache-claim", metavar="NAME", default="gangline-cache", show_default=True,
    help="The volume claim of a tenant on which movers keep what they fetched, where there is one.",
)  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Do not wait until the controller runs.")
@click.option("--dry-run", is_flag=True, help="Print exactly what would be applied, and apply nothing.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    context: str | None,
    namespace: str,
    image: str | None,
    replicas: int,
    kubeflow: str,
    kserve: bool,
    api: bool,
    cache_claim: str,
    no_wait: bool,
    dry_run: bool,
) -> None:
    """Install Gangline into a Kubernetes cluster, or upgrade what is there."""
    from gangline.compose.installing import DEFAULT_IMAGE, ClusterInstallation, Kubeflow

    wanted = ClusterInstallation(
        context=chosen_context(ctx, context),
        image=image or DEFAULT_IMAGE,
        namespace=namespace,
        replicas=replicas,
        cache_claim=cache_claim,
        kubeflow=Kubeflow(kubeflow),
        kserve=kserve,
        api=api,
    )
    if dry_run:
        click.echo(wanted.text(), nl=False)
        return
    asyncio.run(wanted.install(terminal.say, wait=not no_wait))
    terminal.say(f"Gangline is installed; try: gangline --context {wanted.called} submit -- COMMAND")
