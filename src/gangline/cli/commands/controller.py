"""``gangline controller``."""

import os
import socket

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_context
from gangline.errors import InvalidInputError
from gangline.settings import Settings


@click.group("controller")
def command() -> None:
    """Run the controller of a Kubernetes cluster."""


@command.command("run")
@click.option("--in-cluster", is_flag=True, help="Use the service account of this pod.")
@click.option("--context", metavar="NAME", help="The kubeconfig context; the current one if not given.")
@click.option(
    "--listen", metavar="[HOST]:PORT", default="127.0.0.1:0", help="The address that health and metrics are served on."
)
@click.option(
    "--namespace", metavar="NAME", envvar="POD_NAMESPACE", default="gangline-system", show_default=True,
    help="The namespace in which the controllers elect their leader.",
)  # fmt: skip
@click.option("--job-image", metavar="IMAGE", help="The image for jobs that do not name one.")
@click.option("--cache-claim", metavar="NAME", help="The claim on which movers keep what they fetched.")
@click.option(
    "--cache-size", metavar="GIB", type=click.IntRange(min=1), default=50, show_default=True,
    help="How much each tenant's cache may hold, in GiB.",
)  # fmt: skip
@click.pass_context
def run(
    ctx: click.Context,
    /,
    *,
    in_cluster: bool,
    context: str | None,
    listen: str,
    namespace: str,
    job_image: str | None,
    cache_claim: str | None,
    cache_size: int,
) -> None:
    """Run the controller in this process; of several, one leads."""
    import logging

    # The controller itself: heavy, and needed by no other command.
    from gangline.compose.cluster import ClusterService, cache_of, serve_cluster
    from gangline.compose.contexts import access_of, access_of_this_pod

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    host, port = _address(listen)
    name = "" if in_cluster else chosen_context(ctx, context)
    settings = Settings.load()
    service = ClusterService(
        access=access_of_this_pod() if in_cluster else access_of(name),
        context=name,
        identity=os.environ.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
        namespace=namespace,
        host=host,
        port=port,
        image=job_image,
        cache=cache_of(cache_claim, cache_size),
        scheduling=settings.scheduling,
        notification_networks=settings.notification_networks,
        smtp=settings.smtp,
    )
    serve_cluster(service, ready=lambda port: terminal.say(f"health and metrics on port {port}"))


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise InvalidInputError(f"'{text}' is not an address", field="--listen", expected="HOST:PORT or :PORT")
    return host.strip("[]"), int(port)
