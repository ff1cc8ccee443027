"""``gangline config``."""

from pathlib import Path

import click

from gangline.cli import table, terminal
from gangline.cli.documents import json_text, plain, yaml_text
from gangline.cli.options import Output, output_option
from gangline.errors import InvalidInputError
from gangline.settings import NAMES, Settings, parse_setting


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
        rows = [(name, str(value), settings.sources.get(name, "default")) for name, value in values.items()]
        for line in table.lines(("SETTING", "VALUE", "FROM"), rows, width=terminal.width()):
            click.echo(line)


@command.command("get")
@click.argument("name")
def get(name: str) -> None:
    """Print the value of one setting."""
    if name not in NAMES:
        parse_setting(name, "")  # refuses the name with the nearest one
    click.echo(_shown(getattr(Settings.load(), name)))


@command.command("set")
@click.argument("name")
@click.argument("value")
def set_(name: str, value: str) -> None:
    """Write a setting to the configuration file. A running service reads it at its next start."""
    import yaml

    raw = yaml.safe_load(value) if name in ("sizes", "scheduling") else value
    parse_setting(name, raw)
    _write(Settings.load().config_file, name, int(value) if value.isdigit() else raw)


@command.command("unset")
@click.argument("name")
def unset(name: str) -> None:
    """Remove a setting from the configuration file."""
    if name not in NAMES:
        parse_setting(name, "")
    _write(Settings.load().config_file, name, None)


@command.command("path")
def path() -> None:
    """Print where the configuration file is."""
    click.echo(str(Settings.load().config_file))


@command.command("kubeconfig")
@click.option("--output", metavar="FILE", help="Add it to this file instead of printing it.")
@click.pass_context
def kubeconfig_(ctx: click.Context, output: str | None) -> None:
    """Write a kubeconfig for the local service, for the Kubeflow Training SDK."""
    # YAML, and a service that may have to be started: needed by no other subcommand.
    from gangline.cli.connection import connect
    from gangline.cli.kubeconfig import kubeconfig, write_kubeconfig

    client = connect(ctx)
    config = kubeconfig(Settings.load().kubernetes_file, namespace=client.tenant)
    if output is None:
        click.echo(yaml_text(config))
    else:
        write_kubeconfig(config, Path(output).expanduser())
        terminal.say(f"wrote {output}; its current context is 'gangline'")


def _shown(value: object) -> object:
    return str(value) if isinstance(value, Path) else plain(value)


def _write(file: Path, name: str, value: object) -> None:
    """Change one setting and keep the others; the file is replaced whole, never half written."""
    import yaml

    found = yaml.safe_load(file.read_text(encoding="utf-8")) if file.exists() else {}
    if not isinstance(found or {}, dict):
        raise InvalidInputError("wrong shape", file=str(file), expected="a mapping of settings to values")
    settings = dict(found or {})
    if value is None:
        settings.pop(name, None)
    else:
        settings[name] = value
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.new")
    partial.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    partial.replace(file)
