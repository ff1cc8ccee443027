"""``gangline server``."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gangline.cli import terminal
from gangline.sdk import Client
from gangline.sdk.transports.background import (
    address_of,
    ensure_service,
    log_tail,
    running_process,
    stop_service,
)
from gangline.settings import Settings

if TYPE_CHECKING:
    from gangline.compose.team.listening import Listening

_NOT_RUNNING = 3
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("server")
def command() -> None:
    """Start, stop and look at the local service."""


@command.command("start")
def start() -> None:
    """Start the service in the background, unless it runs already."""
    settings = Settings.load()
    ensure_service(settings, say=terminal.say)
    terminal.say(f"the service runs (process {running_process(settings)})")


@command.command("stop")
def stop() -> None:
    """Stop the service. Running jobs go on, and the next service finds them again."""
    process = stop_service(Settings.load())
    terminal.say("no service runs" if process is None else f"stopped the service (process {process}); its jobs go on")


@command.command("status")
def status() -> int:
    """Show whether the service runs; exits with 3 when it does not."""
    settings = Settings.load()
    process = running_process(settings)
    facts = {
        "State": "not running" if process is None else "running",
        "Process": "" if process is None else str(process),
        "Version": "" if process is None else Client(address_of(settings), settings=settings).version(),
        "Address": address_of(settings),
        "Home": str(settings.home),
        "Log": str(settings.log_file),
    }
    for name, fact in facts.items():
        if fact:
            click.echo(f"{name + ':':<9} {fact}")
    return _NOT_RUNNING if process is None else 0


@command.command("run")
@click.option("--listen", metavar="HOST:PORT", help="Serve a team on this address, too, with TLS.")
@click.option("--grpc", metavar="HOST:PORT", help="Serve gRPC on this address as well.")
@click.option("--cert", type=_FILE, metavar="FILE", help="The certificate (PEM); otherwise one of its own is made.")
@click.option("--key", type=_FILE, metavar="FILE", help="The key of the certificate (PEM).")
@click.option("--plain-http", is_flag=True, help="No TLS: only behind a proxy that encrypts, or on loopback.")
@click.option("--trust-tenants", is_flag=True, help="Serve several tenants although their jobs run as one user.")
@click.option("--replica", is_flag=True, help="One of several on one home and one PostgreSQL; one of them leads.")
@click.option("--cluster", metavar="CONTEXT", help="Serve the cluster of a kubeconfig context instead of this machine.")
@click.option("--in-cluster", is_flag=True, help="Serve the cluster that this pod runs in.")
def run(
    *,
    listen: str | None,
    grpc: str | None,
    cert: Path | None,
    key: Path | None,
    plain_http: bool,
    trust_tenants: bool,
    replica: bool,
    cluster: str | None,
    in_cluster: bool,
) -> None:
    """Run the service in this process until it is interrupted.

    \b
    gangline server run --listen 0.0.0.0:8470
    """
    # The service itself: heavy, and needed by no other command.
    from gangline.compose import serve_forever
    from gangline.compose.team.listening import Listening, read_address

    if listen is None:
        if grpc or cert or key or plain_http or trust_tenants or replica or cluster is not None or in_cluster:
            raise click.UsageError("these options go with --listen")
        serve_forever(Settings.load())
        return
    host, port = read_address(listen)
    wanted = Listening(
        host=host,
        port=port,
        certificate=cert,
        key=key,
        plain=plain_http,
        trusting=trust_tenants,
        replica=replica,
        rpc=None if grpc is None else read_address(grpc, "--grpc"),
    )
    if cluster is None and not in_cluster:
        serve_forever(Settings.load(), listening=wanted)
        return
    if trust_tenants or replica or (in_cluster and cluster is not None):
        raise click.UsageError("a cluster has tenants and replicas of its own; give --cluster or --in-cluster alone")
    _serve_cluster(wanted, cluster)


def _serve_cluster(listening: "Listening", context: str | None) -> None:
    from gangline.compose.contexts import access_of, access_of_this_pod
    from gangline.compose.team.cluster_service import ClusterApi, serve_cluster_api

    access = access_of_this_pod() if context is None else access_of(context)
    serve_cluster_api(ClusterApi(settings=Settings.load(), listening=listening, access=access))


@command.command("logs")
@click.option("--tail", type=click.IntRange(1), default=100, show_default=True, help="How many lines to show.")
def logs(tail: int) -> None:
    """Show the end of the service's own log."""
    click.echo(log_tail(Settings.load().log_file, tail))
