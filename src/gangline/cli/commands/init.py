"""``gangline init``."""

from pathlib import Path

import click

from gangline.cli import terminal
from gangline.cli.input.options import complete_files
from gangline.errors import ConflictError

_TEMPLATES = {
    "torch": "PyTorch with DistributedDataParallel and checkpoints",
    "ps": "workers that come and go around a parameter server; NumPy alone",
    "jax": "JAX on several processes",
    "tensorflow": "TensorFlow with MultiWorkerMirroredStrategy",
    "sweep": "one job tried with many values; NumPy alone",
    "pipeline": "prepare, train, evaluate; NumPy alone",
}
_PLACE = Path(__file__).parents[1] / "templates"


@click.command("init", epilog="\b\n" + "\n".join(f"{name:<12}{text}" for name, text in _TEMPLATES.items()))
@click.argument("template", type=click.Choice(list(_TEMPLATES)), required=False)
@click.argument("directory", metavar="[DIRECTORY]", default=".", shell_complete=complete_files)
def command(template: str | None, directory: str) -> None:
    """Write an example that runs as it is, to begin with: a job file and its program."""
    if template is None:
        for name, text in _TEMPLATES.items():
            click.echo(f"{name:<12}{text}")
        terminal.say("'gangline init TEMPLATE [DIRECTORY]' writes one")
        return
    place, files = Path(directory), sorted((_PLACE / template).glob("*.*"))
    taken = [file.name for file in files if (place / file.name).exists()]
    if taken:
        raise ConflictError(f"{place} has {', '.join(taken)} already; name an empty directory")
    place.mkdir(parents=True, exist_ok=True)
    for file in files:
        (place / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        click.echo(place / file.name)
    first = next(file for file in files if file.suffix == ".yaml").read_text(encoding="utf-8").partition("\n")[0]
    where = "" if directory == "." else f"cd {directory} && "
    terminal.say(f"run it with: {where}{first.removeprefix('# ')}")
