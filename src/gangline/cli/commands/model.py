"""``gangline model``."""

import json
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.commands.cp import fetched
from gangline.cli.connection.client import connect
from gangline.cli.input.options import Output, complete_files, output_option, tenant_option
from gangline.cli.kind_commands import add_commands, print_documents
from gangline.cli.output import formatting, table
from gangline.errors import InvalidInputError
from gangline.kinds.model import MODEL
from gangline.model.kinds.registered_model import Model, ModelReference, ModelVersion, find_version, model_reference

_name = click.argument("name", metavar="NAME")
_version = click.argument("version", metavar="NAME[:VERSION|@ALIAS]")


@click.group("model")
def command() -> None:
    """Register, promote and download models, in versions that never change.

    \b
    gangline model register mnist ./model
    gangline model promote mnist:1 production
    """


def read_reference(text: str) -> ModelReference:
    """Read NAME, NAME:VERSION or NAME@ALIAS, with or without ``model://``."""
    reference = model_reference(f"model://{text.removeprefix('model://')}")
    if reference is None:
        raise InvalidInputError(f"'{text}' is not a model", expected="NAME, NAME:VERSION or NAME@ALIAS")
    return reference


@command.command("register")
@_name
@click.argument("source", metavar="PATH|ADDRESS", shell_complete=complete_files)
@click.option("--framework", metavar="NAME", default="", help="What it was made with.")
@click.option("--alias", metavar="ALIAS", help="Let this alias lead to it.")
@tenant_option
@click.pass_context
def register(
    ctx: click.Context, /, *, name: str, source: str, framework: str, alias: str | None, tenant: str | None
) -> None:
    """Register a file or a directory, here or at an address, as the next version of a model.

    The same content again is the same version. A file signature.json in it says what the model takes and gives.
    """
    models = connect(ctx, tenant=tenant).models
    with fetched(ctx, source, tenant) as files:
        made = models.register(name, files, framework=framework)
    if alias is not None:
        models.promote(name, made.number, alias)
    click.echo(f"{name}:{made.number}")


@command.command("promote")
@_version
@click.argument("alias", metavar="[ALIAS]", required=False, default="production")
@click.option("--remove", metavar="ALIAS", help="Take this alias away instead.")
@tenant_option
@click.pass_context
def promote(ctx: click.Context, /, *, version: str, alias: str, remove: str | None, tenant: str | None) -> None:
    """Let an alias lead to a version: @production, unless another is named."""
    models, reference = connect(ctx, tenant=tenant).models, read_reference(version)
    if remove is not None:
        models.demote(reference.name, remove)
        terminal.say(f"{reference.name} has no alias @{remove}")
        return
    number = _find(models.get(reference.name), reference).number
    models.promote(reference.name, number, alias)
    terminal.say(f"{reference.name}@{alias} is version {number}")


@command.command("download")
@_version
@click.argument("target", metavar="[DIRECTORY]", required=False)
@tenant_option
@click.pass_context
def download(ctx: click.Context, /, *, version: str, target: str | None, tenant: str | None) -> None:
    """Bring the files of a version into a directory: one with the model's name, unless another is named."""
    reference = read_reference(version)
    place = Path(target or reference.name)
    models = connect(ctx, tenant=tenant).models
    models.download(reference.name, place, version=reference.number, alias=reference.alias)
    click.echo(str(place))


@command.command("get")
@_version
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@tenant_option
@click.pass_context
def get(ctx: click.Context, /, *, version: str, output: str, tenant: str | None) -> None:
    """Show the versions of a model, or all that is known of one of them."""
    reference = read_reference(version)
    model = connect(ctx, tenant=tenant).models.get(reference.name)
    one = _find(model, reference) if reference.number or reference.alias else None
    if output != Output.TABLE:
        print_documents(one or model, output)
    elif one is not None:
        _print_version(model, one)
    else:
        _print_versions(model)


@command.command("delete")
@click.argument("versions", metavar="NAME[:VERSION]...", nargs=-1, required=True)
@tenant_option
@click.pass_context
def delete(ctx: click.Context, /, *, versions: tuple[str, ...], tenant: str | None) -> None:
    """Delete versions, or whole models; what an alias or an unfinished job uses is not deleted."""
    models = connect(ctx, tenant=tenant).models
    for text in versions:
        reference = read_reference(text)
        if reference.alias:
            raise InvalidInputError(f"'{text}' is an alias", expected="NAME:VERSION, or NAME for the whole model")
        if reference.number is None:
            models.delete(reference.name)
        else:
            models.delete_version(reference.name, reference.number)
        terminal.say(f"{text} is deleted")


def _find(model: Model, reference: ModelReference) -> ModelVersion:
    return find_version(model, reference.number, reference.alias)


def _print_versions(model: Model) -> None:
    now = terminal.now()
    rows = [
        (
            str(each.number),
            ", ".join(f"@{name}" for name, number in model.status.aliases.items() if number == each.number) or "-",
            str(each.files),
            formatting.size(each.size_bytes),
            each.job or "-",
            formatting.ago(each.created_at, now),
            ", ".join(f"{name}={formatting.number(value)}" for name, value in each.metrics.items()) or "-",
        )
        for each in reversed(model.status.versions)
    ]
    headings = ("VERSION", "ALIASES", "FILES", "SIZE", "JOB", "AGE", "METRICS")
    for line in table.lines(headings, rows, width=terminal.width()):
        click.echo(line)


def _print_version(model: Model, version: ModelVersion) -> None:
    aliases = [f"@{name}" for name, number in model.status.aliases.items() if number == version.number]
    facts = {
        "Model": f"{model.name}:{version.number}",
        "Aliases": ", ".join(aliases),
        "Digest": f"sha256:{version.digest}",
        "Files": f"{version.files} ({formatting.size(version.size_bytes)})",
        "Job": f"{version.job} ({version.job_id})" if version.job else "",
        "Code": version.code,
        "Commit": version.commit,
        "Framework": version.framework,
        "Inputs": ", ".join(f"{each.address} {each.digest}".strip() for each in version.inputs),
        "Metrics": ", ".join(f"{name}={formatting.number(value)}" for name, value in version.metrics.items()),
        "Signature": json.dumps(json.loads(version.signature)) if version.signature else "",
    }
    for name, value in facts.items():
        click.echo(f"{name + ':':<12}{value or '-'}")


add_commands(command, MODEL)
