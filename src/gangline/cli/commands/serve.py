"""``gangline serve``."""

import shutil
from pathlib import Path
from typing import Any

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect, spoken
from gangline.cli.input.options import tenant_option
from gangline.errors import InvalidInputError
from gangline.kinds.service import SERVICE
from gangline.model import DEFAULT_QUEUE, JobSpec, QueueName, Resources, RoleName, Tenant
from gangline.model.jobs.spec import RoleSpec
from gangline.model.kinds.registered_model import model_reference
from gangline.model.kinds.service import ReplicaRange, ServiceSpec

_RESOURCES = next(each for each in SERVICE.format.options if each.attribute == "resources")


class ServeCommand(click.Command):
    """The command ``serve``; with a verb of Arena's it is another command, with Arena's options."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the arguments by the options of the command that is meant."""
        if args and not args[0].startswith("-"):
            from gangline.cli.input.arena_routing import arena_serve_verb  # a table that nobody else need wait for

            if (verb := arena_serve_verb(args)) is not None:
                from gangline.cli.commands.arena_serve import arena_serve_command

                return arena_serve_command(verb).make_context(f"{info_name} {verb}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command("serve", cls=ServeCommand, context_settings={"ignore_unknown_options": True})
@click.argument("what", metavar="[MODEL] [-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", metavar="NAME", help="What the service is called. Default: as the model.")
@click.option("--replicas", metavar="COUNT|MIN..MAX", default="1", help="How many, or between which numbers.")
@click.option("--queue", metavar="QUEUE", help="Where its replicas get their machines from.")
@click.option("--resources", metavar="RESOURCE=AMOUNT,...", help="What each replica needs: cpu=1,memory=1Gi,gpu=1.")
@click.option("--code", metavar="DIRECTORY", help="The working directory of a command, sent with it.")
@click.option("--no-wait", is_flag=True, help="Do not wait until it answers.")
@tenant_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    what: tuple[str, ...],
    name: str | None,
    replicas: str,
    queue: str | None,
    resources: str | None,
    code: str | None,
    no_wait: bool,
    tenant: str | None,
) -> None:
    """Serve a model, or any program that listens at $(PORT), and print the address where it answers.

    \b
    gangline serve model://mnist@production --name digits --replicas 1..4
    gangline serve --name files -- python -m http.server '$(PORT)'

    'gangline serve tensorflow|kserve|custom' takes the flags of Arena.
    """
    model = what[0] if what and model_reference(what[0]) is not None else ""
    words = what[1:] if model else what
    if not what or (model and words):
        raise InvalidInputError("it is not clear what to serve", expected="either model://NAME or -- COMMAND")
    if len(words) == 1 and "/" not in words[0] and (not name or _is_model(ctx, words[0], tenant)):
        problem = f"'{words[0]}' is the name of a model, not its address" if name else f"'{words[0]}' is not an address"
        raise InvalidInputError(problem, expected=f"model://{words[0]}, or --name NAME -- COMMAND for a program")
    if not (model or name):
        raise click.UsageError("--name is needed for a command", ctx)
    reference = model_reference(model)
    given = {} if resources is None else {"resources": _RESOURCES.read(resources)}
    spec = ServiceSpec(
        name=name or (reference.name if reference is not None else ""),
        tenant=Tenant(tenant or (ctx.find_root().obj or {}).get("tenant") or chosen_settings(ctx).tenant),
        model=model,
        replicas=_range(replicas),
        job=None if model else _job(words, code, **given),
        queue=QueueName(queue) if queue else DEFAULT_QUEUE,
        **(given if model else {}),
    )
    services = connect(ctx, tenant=spec.tenant).services
    services.create(spec)
    look, why = (spoken(ctx, "service", verb, spec.name, tenant=spec.tenant) for verb in ("get", "explain"))
    if no_wait:
        terminal.say(f"look at it with: {look}")
        return
    terminal.say(f"waiting until {spec.name} is ready; interrupting does not end it. What it waits for: {why}")
    click.echo(services.wait_ready(spec.name).status.address)


def _is_model(ctx: click.Context, word: str, tenant: str | None) -> bool:
    """Whether somebody has most likely left out what makes a name an address."""
    if shutil.which(word) is not None:
        return False
    return any(each.name == word for each in connect(ctx, tenant=tenant).models.list())


def _job(words: tuple[str, ...], code: str | None, resources: Resources | None = None) -> JobSpec:
    role = RoleSpec(name=RoleName("server"), command=words, resources=resources or Resources(cpu_millis=1000))
    return JobSpec(name="job", roles=(role,), code=None if code is None else str(Path(code).absolute()))


def _range(text: str) -> ReplicaRange:
    least, dots, most = text.partition("..")
    if not least.isdecimal() or (dots and not most.isdecimal()):
        raise InvalidInputError(f"'{text}' is not a number of replicas", field="--replicas", expected="3, or 0..4")
    return ReplicaRange(min=int(least), max=int(most) if dots else None)
