"""``gangline config``."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.input.options import Output, output_option
from gangline.cli.output import table
from gangline.cli.output.documents import json_text, yaml_text
from gangline.errors import GanglineError, InvalidInputError
from gangline.settings import NAMES, Settings, config_path, parse_setting, read_config
from gangline.wire import plain

_MAPPINGS = ("sizes", "scheduling", "openid", "smtp")
_READ_BY_COMMANDS = ("sizes", "tenant", "context")
"""Settings that hold from the next command on; the service reads the others when it starts."""


@click.group("config")
def command() -> None:
    """Show and change settings."""


@command.command("view")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def view(output: str) -> None:
    """Show every setting, its value and where it comes from."""
    settings = Settings.load()
    values = {name: _shown(getattr(settings, name)) for name in NAMES}
    if output == Output.JSON:
        click.echo(json_text(values))
    elif output == Output.YAML:
        click.echo(yaml_text(values))
    else:
        rows = [(name, _cell(value), settings.sources.get(name, "default")) for name, value in values.items()]
        for line in table.lines(("SETTING", "VALUE", "FROM"), rows, width=terminal.width()):
            click.echo(line)


@command.command("get")
@click.argument("name")
def get(name: str) -> None:
    """Print the value of one setting."""
    if name not in NAMES:
        parse_setting(name, "")  # refuses the name with the nearest one
    click.echo(_cell(_shown(getattr(Settings.load(), name))))


@command.command("set")
@click.argument("name")
@click.argument("value")
def set_(name: str, value: str) -> None:
    """Write a setting to the configuration file. A running service reads it at its next start."""
    raw = _mapping(name, value) if name in _MAPPINGS else value
    parsed = parse_setting(name, raw)
    with _told_of_service(name):
        write_setting(name, raw if name in _MAPPINGS else parsed)


@command.command("unset")
@click.argument("name")
def unset(name: str) -> None:
    """Remove a setting from the configuration file."""
    # A name that only the file knows is what keeps every other command from reading it.
    if name not in NAMES and name not in read_config(config_path()):
        parse_setting(name, "")
    with _told_of_service(name):
        write_setting(name, None)


@command.command("path")
def path() -> None:
    """Print where the configuration file is."""
    click.echo(str(config_path()))


@command.command("kubeconfig")
@click.option("--output", metavar="FILE", help="Add it to this file instead of printing it.")
@click.pass_context
def kubeconfig_(ctx: click.Context, output: str | None) -> None:
    """Write a kubeconfig for the local service, for the Kubeflow Training SDK."""
    # YAML, and a service that may have to be started: needed by no other subcommand.
    from gangline.cli.connection.client import connect
    from gangline.cli.connection.kubeconfig import kubeconfig, write_kubeconfig

    client = connect(ctx)
    config = kubeconfig(Settings.load().kubernetes_file, namespace=client.tenant)
    if output is None:
        click.echo(yaml_text(config))
    else:
        current = write_kubeconfig(config, Path(output).expanduser())
        kept = "" if current == "gangline" else f"; its current context is still '{current}'"
        terminal.say(f"wrote the context 'gangline' to {output}{kept}")


@contextmanager
def _told_of_service(name: str) -> Iterator[None]:
    """Say, once a setting is written, that a service which runs has read it before."""
    # Only here because nothing else of this command knows of services.
    from gangline.sdk.transports.background import running_process

    process = None
    with suppress(GanglineError):  # a file that no command accepts is mended here, too
        process = running_process(Settings.load()) if name not in _READ_BY_COMMANDS else None
    yield
    if process is not None:
        terminal.say(f"the running service has its own '{name}' until 'gangline server stop'; its jobs go on meanwhile")


def _shown(value: object) -> object:
    return str(value) if isinstance(value, Path) else plain(value)


def _cell(value: object) -> str:
    """A value in a table: text as it is, nothing for none, anything else as JSON."""
    if value is None or value == {}:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _mapping(name: str, text: str) -> object:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInputError(
            f"not valid YAML: {error}", field=name, expected="a mapping, as JSON or YAML"
        ) from error


def write_setting(name: str, value: object) -> None:
    """Change one setting and keep the others; the file is replaced whole, never half written."""
    import yaml

    file = config_path().resolve()  # a link to a file elsewhere stays one
    settings = read_config(file)
    if value is None:
        settings.pop(name, None)
    else:
        settings[name] = value
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.new")
    partial.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    partial.replace(file)
