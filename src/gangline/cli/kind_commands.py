"""The commands of a kind, made from its registration: ``gangline KIND create|list|get|describe|edit|wait|delete``."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from gangline.cli import terminal
from gangline.cli.connection.client import chosen_settings, connect, spoken
from gangline.cli.input.job_sources import on_this_machine
from gangline.cli.input.options import Output, complete_files, output_option, tenant_option
from gangline.cli.output import formatting, table
from gangline.cli.output.documents import csv_text, json_text, print_expression, yaml_text
from gangline.errors import InvalidInputError, StaleVersionError
from gangline.kinds import AnyKind
from gangline.kinds.kind import Column, Option, Verb
from gangline.model import DEFAULT_TENANT, JobSpec, NamedAmounts, Resources, Tenant
from gangline.sdk import Client
from gangline.sdk.loading import load_records, parse_records

_EDITS = 8
"""How often fields are changed again when somebody else was faster."""

_name = click.argument("name", metavar="NAME")
_file = click.option(
    "-f", "--file", metavar="FILE", help="Read it from this file; '-' is standard input.", shell_complete=complete_files
)


def kind_group(kind: AnyKind) -> click.Group:
    """Make the group of a kind that has no command of its own."""
    group = click.Group(kind.name, help=kind.summary)
    add_commands(group, kind)
    return group


def add_commands(group: click.Group, kind: AnyKind) -> None:
    """Add what follows from the registration to a group, except for what the group has already."""
    made = [_create(kind), _list(kind), _get(kind), _describe(kind), _delete(kind), *_verbs(kind)]
    if kind.editable:
        made.append(_edit(kind))
    if kind.owns_jobs:
        made.append(_wait(kind))
    for command in made:
        if command.name not in group.commands:
            group.add_command(command)


def read_specs(ctx: click.Context, kind: AnyKind, file: str, tenant: str | None) -> list[Any]:
    """Read records from a file and let options overrule whose they are."""
    settings, chosen = chosen_settings(ctx), ctx.find_root().obj or {}
    parse = partial(parse_records, kind, sizes=settings.sizes)
    if file == "-":
        specs = parse(sys.stdin.read(), file="standard input", directory=Path.cwd())
    else:
        specs = load_records(kind, file, sizes=settings.sizes)
    here = not (settings.context or chosen.get("server"))
    owner = tenant or chosen.get("tenant")

    def owned(job: JobSpec) -> JobSpec:
        if owner or job.tenant == DEFAULT_TENANT:
            job = replace(job, tenant=Tenant(owner or settings.tenant))
        return on_this_machine([job])[0] if here else job

    templates = kind.each_template or (lambda spec, change: spec)
    return [kind.owned_by(templates(spec, owned), Tenant(owner or settings.tenant)) for spec in specs]


def print_documents(value: object, output: str) -> None:
    """Print what the service answered."""
    click.echo(json_text(value) if output == Output.JSON else yaml_text(value))


def _client(ctx: click.Context, kind: AnyKind, tenant: str | None) -> tuple[Client, Any]:
    client = connect(ctx, tenant=tenant)
    return client, client.records(kind)


def _create(kind: AnyKind) -> click.Command:
    @click.pass_context
    def create(
        ctx: click.Context, /, *, file: str | None, dry_run: bool, name: str | None = None, **given: Any
    ) -> None:
        for spec in _given_specs(ctx, kind, name, file, given):
            if dry_run:
                click.echo(yaml_text(kind.format.write(spec)))
                continue
            made = _client(ctx, kind, spec.tenant)[1].create(spec)
            click.echo(made.name)
            if kind.owns_jobs:
                hint = spoken(ctx, kind.command or kind.name, "get -w", made.name, tenant=spec.tenant)
                terminal.say(f"follow it with: {hint}")

    arguments = [click.Argument(["name"], metavar="[NAME]", required=False)] if kind.format.options else []
    dry_run = click.option("--dry-run", is_flag=True, help="Print it as it is understood, and send nothing.")
    command = _decorated(create, _file, dry_run, *_kind_options(kind), *_whose(kind))
    made = click.command(
        "create", help=f"Create {kind.one} from {'options or ' if kind.format.options else ''}a file."
    )(command)
    made.params[:0] = arguments
    return made


def _given_specs(
    ctx: click.Context, kind: AnyKind, name: str | None, file: str | None, given: dict[str, Any]
) -> list[Any]:
    values, tenant = _values(kind, given), given.get("tenant")
    if file is not None:
        if name is not None or values:
            raise click.UsageError("-f says everything; leave out the name and the other options", ctx)
        return read_specs(ctx, kind, file, tenant)
    if name is None:
        raise click.UsageError("a file (-f)" + (" or a name" if kind.format.options else "") + " is needed", ctx)
    missing = [each.name for each in kind.format.options if each.required and each.attribute not in values]
    if missing:
        raise click.UsageError(f"{', '.join(missing)} must be given", ctx)
    if kind.namespaced:
        values["tenant"] = Tenant(tenant or (ctx.find_root().obj or {}).get("tenant") or chosen_settings(ctx).tenant)
    return [kind.spec(name=name, **values)]


def _values(kind: AnyKind, given: dict[str, Any]) -> dict[str, Any]:
    """Read the options that were given; ``none`` stands for what a field is by default."""
    found = {}
    for option in kind.format.options:
        text = given.get(option.attribute)
        if text is not None:
            found[option.attribute] = option.default if text == "none" else option.read(text)
    return found


def _kind_options(kind: AnyKind) -> list[Callable[[Any], Any]]:
    return [_as_option(option) for option in kind.format.options]


def _as_option(option: Option) -> Callable[[Any], Any]:
    return click.option(option.name, option.attribute, metavar=option.placeholder, help=option.text)


def _whose(kind: AnyKind) -> list[Callable[[Any], Any]]:
    return [tenant_option] if kind.namespaced else []


def _decorated(function: Any, *options: Callable[[Any], Any]) -> Any:
    for option in reversed(options):
        function = option(function)
    return function


def _list(kind: AnyKind) -> click.Command:
    @click.pass_context
    def list_(ctx: click.Context, output: str, tenant: str | None = None) -> None:
        records = _client(ctx, kind, tenant)[1]
        found = records.list()
        for name in records.unreadable:
            why = spoken(ctx, kind.command or kind.name, "get", name, tenant=tenant or chosen_settings(ctx).tenant)
            terminal.say(f"{kind.name} '{name}' cannot be read and is left out; '{why}' says why")
        if output == Output.NAME:
            for each in found:
                click.echo(each.name)
        elif output in (Output.JSON, Output.YAML):
            print_documents(found, output)
        elif output == Output.CSV:
            click.echo(csv_text(*_rows(kind, found, wide=True)), nl=False)
        elif print_expression(found, output):
            return
        elif not found:
            terminal.say(f"no {kind.plural}")
        else:
            print_table(kind, found, wide=output == Output.WIDE)

    return click.command("list", help=f"List {kind.plural}.")(_decorated(list_, output_option(), *_whose(kind)))


def print_table(kind: AnyKind, found: Any, *, wide: bool = False) -> None:
    """Print records as rows."""
    for line in table.lines(*_rows(kind, found, wide=wide), width=terminal.width()):
        click.echo(line)


def _rows(kind: AnyKind, found: Any, *, wide: bool) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    columns = [column for column in kind.columns if wide or not column.wide]
    now = terminal.now()
    before, behind = ([column for column in columns if column.last is last] for last in (False, True))

    def row(each: Any) -> tuple[str, ...]:
        age = formatting.ago(each.created_at or None, now)
        return each.name, *(_cell(column, each) for column in before), age, *(_cell(column, each) for column in behind)

    headings = ("NAME", *(column.heading for column in before), "AGE", *(column.heading for column in behind))
    return headings, [row(each) for each in found]


def _cell(column: Column[Any], found: Any) -> str:
    value = column.cell(found)
    if value is None:
        return "-"
    if isinstance(value, Resources):
        return formatting.amount(value)
    if isinstance(value, NamedAmounts):
        return formatting.named_amounts(value)
    return formatting.number(value) if isinstance(value, float) else str(value)


def _get(kind: AnyKind) -> click.Command:
    @click.pass_context
    def get(ctx: click.Context, /, *, name: str, output: str, watch: bool, tenant: str | None = None) -> None:
        records = _client(ctx, kind, tenant)[1]
        for found in records.watch(name) if watch else (records.get(name),):
            if output == Output.NAME:
                click.echo(found.name)
            elif output in (Output.JSON, Output.YAML):
                print_documents(found, output)
            elif output == Output.CSV:
                click.echo(csv_text(*_rows(kind, [found], wide=True)), nl=False)
            elif not print_expression([found], output, single=True):
                print_table(kind, [found], wide=output == Output.WIDE)
            if watch and found.settled:
                break

    watch = click.option("-w", "--watch", is_flag=True, help="Go on and show every change until its end.")
    return click.command("get", help=f"Show {kind.one}.")(_decorated(get, _name, watch, output_option(), *_whose(kind)))


def _describe(kind: AnyKind) -> click.Command:
    @click.pass_context
    def describe(ctx: click.Context, /, *, name: str, tenant: str | None = None) -> None:
        client, records = _client(ctx, kind, tenant)
        found = records.get(name)
        print_documents(found, Output.YAML)
        if kind.owns_jobs:
            jobs = client.list(labels={kind.label: name}, limit=None)
            click.echo("jobs:" if jobs else "jobs: []")
            for job in reversed(jobs):
                click.echo(f"- {job.name}: {job.phase}" + (f" ({job.reason})" if job.reason else ""))

    return click.command("describe", help=f"Show everything that is known of {kind.one}.")(
        _decorated(describe, _name, *_whose(kind))
    )


def _edit(kind: AnyKind) -> click.Command:
    @click.pass_context
    def edit(ctx: click.Context, /, *, name: str, file: str | None, **given: Any) -> None:
        records, values = _client(ctx, kind, given.get("tenant"))[1], _values(kind, given)
        if file is not None:
            records.edit(_only(kind, name, _given_specs(ctx, kind, None, file, given)))
        elif values:
            edit_fields(records, name, values)
        elif not _edit_text(kind, records, name):
            terminal.say(f"{name} stays as it is")
            return
        terminal.say(f"{name} is changed")

    command = _decorated(edit, _name, _file, *_kind_options(kind), *_whose(kind))
    return click.command("edit", help=f"Change {kind.one}: by options, by a file, or in your editor.")(command)


def _only(kind: AnyKind, name: str, specs: Sequence[Any]) -> Any:
    """Return the one spec that was given for a name."""
    if len(specs) > 1:
        raise InvalidInputError(f"there are {len(specs)} documents", expected=f"{kind.name} '{name}' alone")
    if specs[0].name != name:
        raise InvalidInputError(f"that is {kind.name} '{specs[0].name}'", field="metadata.name", expected=name)
    return specs[0]


def edit_fields(records: Any, name: str, values: dict[str, Any]) -> None:
    """Change some fields and no others, also if somebody else changes those at the same time."""
    for last in (*(False,) * (_EDITS - 1), True):
        found = records.get(name)
        try:
            records.edit(replace(found.spec, **values), version=found.version)
        except StaleVersionError:
            if last:
                raise
        else:
            return


def _edit_text(kind: AnyKind, records: Any, name: str) -> bool:
    """Let the user change the file of a record in their editor; False if they left it as it is."""
    found = records.get(name)
    before = yaml_text(kind.format.write(found.spec))
    after = click.edit(before, extension=".yaml")
    if after is None or after.strip() == before.strip():
        return False
    spec = _only(kind, name, parse_records(kind, after, file="what you wrote", directory=Path.cwd()))
    while True:
        try:
            records.edit(spec, version=found.version)
        except StaleVersionError:
            again = records.get(name)
            if again.spec != found.spec:
                raise
            found = again  # only its status has changed, which is nobody's text
        else:
            return True


def _wait(kind: AnyKind) -> click.Command:
    @click.pass_context
    def wait(ctx: click.Context, /, *, name: str, timeout: str | None, tenant: str | None = None) -> None:
        seconds = None if timeout is None else formatting.read_duration(timeout, "--timeout")
        done = _client(ctx, kind, tenant)[1].wait(name, timeout=seconds)
        terminal.say(f"{name} is {done.state}")

    return click.command("wait", help=f"Wait until nothing more will be done for {kind.one}.")(
        _decorated(wait, _name, _timeout, *_whose(kind))
    )


_timeout = click.option("--timeout", metavar="DURATION", help="Wait no longer than this, with exit code 124.")


def _delete(kind: AnyKind) -> click.Command:
    @click.pass_context
    def delete(
        ctx: click.Context,
        /,
        *,
        names: tuple[str, ...],
        no_wait: bool = False,
        timeout: str | None = None,
        tenant: str | None = None,
    ) -> None:
        seconds = None if timeout is None else formatting.read_duration(timeout, "--timeout")
        client, records = _client(ctx, kind, tenant)
        for name in names:
            jobs = client.list(labels={kind.label: name}, limit=None) if kind.owns_jobs else ()
            records.delete(name, wait=not no_wait, timeout=seconds)
            for job in () if no_wait else jobs:
                client.wait_until_gone(job.id, timeout=seconds)
            terminal.say(f"{name} is being deleted" if no_wait else f"{name} is deleted")

    names = click.argument("names", metavar="NAME...", nargs=-1, required=True)
    no_wait = click.option("--no-wait", is_flag=True, help="Return at once; it disappears in the background.")
    also = " and their jobs, stopping those first that run" if kind.owns_jobs else ""
    options = [no_wait, _timeout] if kind.owns_jobs else []
    return click.command("delete", help=f"Delete {kind.plural}{also}.")(
        _decorated(delete, names, *options, *_whose(kind))
    )


def _verbs(kind: AnyKind) -> list[click.Command]:
    return [_verb(kind, verb) for verb in kind.verbs]


def _verb(kind: AnyKind, verb: Verb[Any, Any]) -> click.Command:
    @click.pass_context
    def act(ctx: click.Context, /, *, name: str, values: tuple[str, ...] = (), tenant: str | None = None) -> None:
        pairs = [value.partition("=") for value in values]
        wrong = next((name for name, equals, _ in pairs if not name or not equals), None)
        if wrong is not None:
            raise click.UsageError(f"'{wrong}' is not of the form {verb.takes}", ctx)
        given = {name: value for name, _, value in pairs} if verb.takes else None
        done = _client(ctx, kind, tenant)[1].do(name, verb.name, given)
        terminal.say(f"{name} is {verb.makes_it or done.state}")

    options = [click.argument("values", metavar=f"{verb.takes}...", nargs=-1, required=True)] if verb.takes else []
    return click.command(verb.name, help=verb.summary)(_decorated(act, _name, *options, *_whose(kind)))
