"""``gangline serve tensorflow|kserve|custom``: Arena's flags, bound to the table of the dialect."""

from typing import Any

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect, spoken
from gangline.cli.input.arena_options import bound, is_given, parameter_of, refusing
from gangline.cli.input.options import tenant_option
from gangline.cli.kind_commands import print_documents
from gangline.dialects.arena.serve_options import SERVE_REFUSED, ServeVerb, serve_options_of
from gangline.dialects.arena.serving import service_from_options
from gangline.kinds import AnyKind
from gangline.kinds.inference_service import INFERENCE_SERVICE
from gangline.kinds.service import SERVICE
from gangline.model import Tenant
from gangline.model.kinds.service import ServiceSpec


def arena_serve_command(verb: ServeVerb) -> click.Command:
    """Build the command of a verb."""
    options = serve_options_of(verb)

    def callback(words: tuple[str, ...], *, tenant: str | None, no_wait: bool, dry_run: bool, **values: object) -> None:
        ctx = click.get_current_context()
        given = {option.name: values.pop(parameter_of(option)) for option in options}
        chosen = Tenant(tenant or (ctx.find_root().obj or {}).get("tenant") or chosen_settings(ctx).tenant)
        named = {name: value for name, value in given.items() if is_given(value)}
        spec = service_from_options(verb, named, words, tenant=chosen)
        kind: AnyKind = SERVICE if isinstance(spec, ServiceSpec) else INFERENCE_SERVICE
        if dry_run:
            print_documents(kind.format.write(spec), "yaml")
            return
        client = connect(ctx, tenant=chosen)
        client.records(kind).create(spec)
        look = spoken(ctx, kind.command or kind.name, "get", spec.name, tenant=chosen)
        if no_wait or not isinstance(spec, ServiceSpec):
            terminal.say(f"look at it with: {look}")
            return
        terminal.say(f"waiting until {spec.name} is ready; interrupting does not end it")
        click.echo(client.services.wait_ready(spec.name).status.address)

    function: Any = callback
    for decorate in (
        tenant_option,
        click.option("--no-wait", is_flag=True, help="Do not wait until it answers."),
        click.option("--dry-run", is_flag=True, help="Print it as it is understood, and send nothing."),
        *map(bound, reversed(options)),
        *(refusing(flag) for flag in SERVE_REFUSED if verb in flag.verbs),
    ):
        function = decorate(function)
    words = click.argument("words", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED)
    summary = f"Serve with Arena's flags ({verb}); a command in one pair of quotes runs in a shell."
    settings = {"allow_interspersed_args": False}
    return click.command(f"serve {verb}", help=summary, context_settings=settings)(words(function))
