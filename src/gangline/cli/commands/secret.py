"""``gangline secret``."""

import os
import sys
from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.connection.client import connect
from gangline.cli.input.job_sources import variables_in
from gangline.cli.input.options import complete_files, tenant_option
from gangline.cli.kind_commands import add_commands
from gangline.dialects.native import pairs
from gangline.errors import InvalidInputError
from gangline.kinds.secret import SECRET


@click.group("secret")
def command() -> None:
    """Keep values that jobs get as variables, and that nothing shows.

    \b
    gangline secret set wandb key
    gangline submit --secret WANDB_API_KEY=wandb/key -- python train.py
    """


@command.command("set")
@click.argument("name", metavar="NAME")
@click.argument("keys", metavar="[KEY]...", nargs=-1)
@click.option(
    "--from-file", "files", metavar="KEY=FILE", multiple=True, help="The content of a file; '-' is standard input."
)
@click.option(
    "--from-env-file",
    "env_files",
    metavar="FILE",
    multiple=True,
    help="Every line KEY=VALUE of a file.",
    shell_complete=complete_files,
)
@tenant_option
@click.pass_context
def set_(
    ctx: click.Context,
    /,
    *,
    name: str,
    keys: tuple[str, ...],
    files: tuple[str, ...],
    env_files: tuple[str, ...],
    tenant: str | None,
) -> None:
    """Keep values under a name, in place of what it held.

    The value of a KEY is asked for, or taken from the variable of that name where nobody can be asked. Values are never
    arguments: those are seen by everybody on the machine.
    """
    values: dict[str, str] = {}
    for file in env_files:
        values |= variables_in(file)
    for key, file in pairs(files, "--from-file", form="KEY=FILE").items():
        values[key] = sys.stdin.read() if file == "-" else _content(file)
    for key in keys:
        values[key] = _asked(key)
    if not values:
        raise click.UsageError("name a key, or a file with --from-file or --from-env-file", ctx)
    made = connect(ctx, tenant=tenant).secrets.set(name, values)
    terminal.say(f"secret {made.name} has {', '.join(made.spec.keys)}")


def _asked(key: str) -> str:
    if "=" in key:
        raise InvalidInputError(
            "a value on the command line is seen by everybody", field="KEY", expected=f"'{key.partition('=')[0]}' alone"
        )
    if sys.stdin.isatty():
        return str(click.prompt(key, hide_input=True, err=True))
    if key in os.environ:
        return os.environ[key]
    raise InvalidInputError(f"'{key}' is not set here, and nobody can be asked", field="KEY", expected="a variable")


def _content(file: str) -> str:
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInputError(f"the file cannot be read: {reason}", file=file, field="--from-file") from None


add_commands(command, SECRET)
for _written in ("create", "edit"):  # they would make names without values
    command.commands.pop(_written)
