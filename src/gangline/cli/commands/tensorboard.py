"""``gangline tensorboard``."""

from typing import Any

import click

from gangline.cli.commands.workspace import ensure, show_link, spec_of, start_options
from gangline.cli.connection.client import connect
from gangline.errors import InvalidInputError
from gangline.model import DEFAULT_TENANT
from gangline.model.kinds.workspace import Tool, tensorboard_of


@click.command("tensorboard")
@click.argument("jobs", metavar="[JOB...]", nargs=-1)
@click.option("--logdir", "logs", metavar="PATH", multiple=True, help="A directory of event files, beside the jobs'.")
@click.option("--name", metavar="NAME", help="What the workspace is called. Default: made from the jobs.")
@start_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    jobs: tuple[str, ...],
    logs: tuple[str, ...],
    name: str | None,
    no_open: bool,
    port: int | None,
    **given: Any,
) -> None:
    """Look at jobs in TensorBoard: the numbers they report, and the event files they write.

    \b
    gangline tensorboard mnist
    gangline tensorboard mnist-1 mnist-2 --logdir /data/runs
    """
    jobs = jobs[1:] if jobs[:1] == ("start",) else jobs
    if not jobs and not logs:
        raise InvalidInputError("there is nothing to look at", expected="one job or more, or --logdir")
    client = connect(ctx, tenant=given["tenant"])
    for job in jobs:
        client.get(job)  # somebody who mistyped a name learns it now
    usual = tensorboard_of(DEFAULT_TENANT, jobs, logs)
    needs = {} if given["resources"] else {"resources": usual.resources}
    spec = spec_of(ctx, name or usual.name, Tool.TENSORBOARD, given, jobs=jobs, logs=logs, **needs)
    show_link(ensure(ctx, spec), spec.name, port=port, no_open=no_open)
