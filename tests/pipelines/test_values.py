"""Values as their types have them."""

from typing import Any

import pytest

from gangline.pipelines.evaluation import with_defaults
from gangline.pipelines.graph import ArtifactDefinition, Component, Container, ParameterDefinition
from gangline.pipelines.values import MisfitError, ParameterType, fit


@pytest.mark.parametrize(
    ("text", "kind", "want"),
    [
        ("5\n", ParameterType.INTEGER, 5),
        (" +05 ", ParameterType.INTEGER, 5),
        ("3.0", ParameterType.INTEGER, 3),
        ("9007199254740993", ParameterType.INTEGER, 9007199254740993),
        (".50\n", ParameterType.DOUBLE, 0.5),
        ("1.", ParameterType.DOUBLE, 1.0),
        ("-1e-7", ParameterType.DOUBLE, -1e-7),
        ("True\n", ParameterType.BOOLEAN, True),
        (" FALSE", ParameterType.BOOLEAN, False),
        ("1", ParameterType.BOOLEAN, True),
        ("0\n", ParameterType.BOOLEAN, False),
        ("[1, 2.0]\n", ParameterType.LIST, [1, 2.0]),
        (" kept as it is\n", ParameterType.STRING, " kept as it is\n"),
    ],
)
def test_what_programs_write_into_files_is_read_as_its_type(text: str, kind: ParameterType, want: Any) -> None:
    found = fit(text, kind)
    assert found == want
    assert type(found) is type(want)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", ParameterType.INTEGER),
        ("1_000", ParameterType.INTEGER),
        ("2.5", ParameterType.INTEGER),
        ("inf", ParameterType.INTEGER),
        ("1_0.5", ParameterType.DOUBLE),
        ("three", ParameterType.DOUBLE),
        ("yes", ParameterType.BOOLEAN),
        ("", ParameterType.BOOLEAN),
        ("2", ParameterType.BOOLEAN),
        ("{}", ParameterType.LIST),
    ],
)
def test_what_is_not_of_its_type_is_refused(text: str, kind: ParameterType) -> None:
    with pytest.raises(MisfitError):
        fit(text, kind)


def test_null_is_no_value_where_there_is_a_default() -> None:
    number = ParameterDefinition(type=ParameterType.INTEGER, default=4, optional=True)
    plain = ParameterDefinition(type=ParameterType.STRING, optional=True)
    component = Component(
        body=Container(command=("work",)),
        inputs={"n": number, "text": plain, "data": ArtifactDefinition(optional=True)},
    )
    assert with_defaults(component, {"n": None, "text": None}) == {"n": 4, "text": None}
