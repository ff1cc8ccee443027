"""``gangline completion``."""

import click
from click.shell_completion import get_completion_class

_SHELLS = {
    "bash": 'eval "$(gangline completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(gangline completion zsh)" in ~/.zshrc',
    "fish": "gangline completion fish > ~/.config/fish/completions/gangline.fish",
}


@click.command("completion", epilog="\b\n" + "\n".join(f"{shell}: {how}" for shell, how in _SHELLS.items()))
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    script = get_completion_class(shell)
    if script is None:
        raise click.UsageError(f"there is no completion for {shell}", ctx)
    click.echo(script(ctx.find_root().command, {}, "gangline", "_GANGLINE_COMPLETE").source())
