"""docs/cli.md mentions every command, every option and every setting."""

from pathlib import Path

import click
import pytest

from gangline.cli.failures import EXIT_CODES
from gangline.cli.lazy import COMMANDS, LazyGroup
from gangline.settings import NAMES as SETTINGS

MANUAL = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
GROUP = LazyGroup("gangline")
NAMES = [name for section in COMMANDS.values() for name in section]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_is_in_the_manual(name: str) -> None:
    assert f"gangline {name}" in MANUAL
    command = GROUP.get_command(click.Context(GROUP), name)
    assert command is not None
    for below in command.commands.values() if isinstance(command, click.Group) else [command]:
        if below is not command:
            assert f"`{below.name}`" in MANUAL or f"gangline {name} {below.name}" in MANUAL
        for parameter in below.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[-1] in MANUAL, f"{name} {parameter.opts[-1]}"


@pytest.mark.parametrize("code", sorted(set(EXIT_CODES.values())))
def test_every_exit_code_is_in_the_manual(code: int) -> None:
    assert f"\n| {code} |" in MANUAL


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_in_the_manual(name: str) -> None:
    section = MANUAL.partition("\n## Settings\n")[2]
    assert f"`{name}`" in section
