"""A file of a record that is given to ``gangline submit``: the answer names the command that takes it."""

import re
from pathlib import Path

import click
import pytest

from gangline.cli.main import cli
from gangline.errors import InvalidInputError
from gangline.kinds import AnyKind, all_kinds
from gangline.sdk.loading import parse


def refusal(text: str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        parse(text, file="f.yaml", directory=Path())
    return str(caught.value)


def file_of(version: str, kind: str) -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: n}}\nspec: {{}}\n"


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.name)
def test_it_names_a_command_that_exists(kind: AnyKind) -> None:
    said = refusal(file_of(kind.api_version, kind.object_kind))
    found = re.search(r"'gangline ([a-z ]+) (-f FILE|NAME)' takes", said)
    assert found is not None, said
    words, given = found.groups()
    command: click.Command = cli
    for word in words.split():
        assert isinstance(command, click.Group)
        below = command.get_command(click.Context(command), word)
        assert below is not None, f"there is no '{word}' below {command.name}"
        command = below
    assert given.split()[0].lower() in {name for parameter in command.params for name in parameter.opts}


@pytest.mark.parametrize(
    ("version", "kind"),
    [("gangline.dev/v1", "Scedule"), ("serving.knative.dev/v1", "Service"), ("example.com/v1", "Queue")],
)
def test_it_names_none_for_what_is_not_a_kind_of_ours(version: str, kind: str) -> None:
    said = refusal(file_of(version, kind))
    assert "unknown kind" in said
    assert "create" not in said
