"""A file format that follows from a dataclass: there and back, refused with the field, described, given as options."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import pytest

from gangline.dialects import document
from gangline.errors import InvalidInputError
from gangline.kinds import derived_format
from gangline.model import DEFAULT_TENANT, JobSpec, Resources, Tenant
from gangline.testing.builders import make_role, make_spec


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    size: int
    spokes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CartSpec:
    name: str
    tenant: Tenant = DEFAULT_TENANT
    load: Annotated[Resources, "What it carries."] = field(default_factory=Resources)
    limit: Resources | None = None
    colour: Colour = Colour.RED
    pause_seconds: Annotated[float, "How long it rests."] = 60.0
    speed: float = 1.0
    shiny: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    wheels: tuple[Wheel, ...] = ()
    owners: tuple[str, ...] = ()
    job: JobSpec | None = None


FORMAT = derived_format(CartSpec, "Cart", "A cart.")
FULL = CartSpec(
    name="one",
    tenant=Tenant("red"),
    load=Resources(gpu_millis=500),
    limit=Resources(cpu_millis=2000, memory_mib=1024, extended={"example.com/fpga": 2}),
    colour=Colour.BLUE,
    pause_seconds=90.0,
    speed=2.5,
    shiny=True,
    labels={"team": "vision"},
    notes={"a": "b c", "n": "1.0"},
    wheels=(Wheel(size=3), Wheel(size=4, spokes=("x", "y"))),
    owners=("ada", "bob"),
    job=make_spec("job", roles=(make_role(),)),
)


def read(data: Any) -> CartSpec:
    return FORMAT.read(document.plain(data), {})


@pytest.mark.parametrize("spec", [CartSpec(name="plain"), FULL], ids=["plain", "full"])
def test_a_spec_survives_being_written_and_read(spec: CartSpec) -> None:
    assert read(FORMAT.write(spec)) == spec


def test_what_is_as_by_default_is_not_written() -> None:
    assert FORMAT.write(CartSpec(name="a")) == {
        "apiVersion": "gangline.dev/v1",
        "kind": "Cart",
        "metadata": {"name": "a"},
        "spec": {},
    }


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"colour": "rde"}, "spec.colour: 'rde' is not known; .*did you mean 'red'", id="choice"),
        pytest.param({"collour": "red"}, "unknown field 'collour'.*did you mean 'colour'", id="field"),
        pytest.param({"load": {"gpus": 1}}, "spec.load.gpus: unknown resource", id="resource"),
        pytest.param({"pause": "soon"}, "spec.pause: 'soon' is not a duration", id="duration"),
        pytest.param({"wheels": [{"spokes": []}]}, r"spec.wheels\[0\].size: the field is missing", id="required"),
        pytest.param({"wheels": {"size": 3}}, "spec.wheels: found a mapping; expected a list", id="list"),
        pytest.param({"shiny": "yes"}, "expected true or false", id="truth"),
        pytest.param({"speed": "fast"}, "spec.speed: 'fast'", id="number"),
        pytest.param({"job": {"comand": "x"}}, "did you mean 'command'", id="job"),
        pytest.param(7, "spec: found the number 7; expected a mapping", id="no mapping"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_field(spec: object, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        read({"metadata": {"name": "a"}, "spec": spec})


@pytest.mark.parametrize(
    ("document_", "want"),
    [
        ({"spec": {}}, "metadata: the field is missing"),
        ({"metadata": {}}, "metadata.name: the field is missing"),
        ({"kind": "Crat", "metadata": {"name": "a"}}, "kind: 'Crat' is not known"),
        ({"apiVersion": "v2", "metadata": {"name": "a"}}, "apiVersion"),
        ([1], "expected a mapping"),
    ],
)
def test_a_document_of_another_shape_is_refused(document_: object, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        read(document_)


def test_the_schema_says_what_every_field_is() -> None:
    properties = FORMAT.schema["properties"]
    assert set(properties) == {
        "load", "limit", "colour", "pause", "speed", "shiny", "notes", "wheels", "owners", "job",
    }  # fmt: skip
    assert properties["load"]["description"] == "What it carries."
    assert properties["colour"]["enum"] == ["red", "blue"]
    assert properties["wheels"]["items"]["required"] == ["size"]
    assert FORMAT.schema["description"] == "A cart."


@pytest.mark.parametrize(
    ("option", "typed", "want"),
    [
        ("--load", "gpu=0.5,cpu=2", Resources(gpu_millis=500, cpu_millis=2000)),
        ("--colour", "blue", Colour.BLUE),
        ("--pause", "1m30s", 90.0),
        ("--speed", "2", 2.0),
        ("--shiny", "true", True),
        ("--notes", "a=b,c=1.50", {"a": "b", "c": "1.5"}),
        ("--owners", "ada,bob", ("ada", "bob")),
    ],
)
def test_options_say_what_a_file_says(option: str, typed: str, want: object) -> None:
    found = next(each for each in FORMAT.options if each.name == option)
    assert found.read(typed) == want


@pytest.mark.parametrize(
    ("option", "typed"), [("--load", "gpu"), ("--speed", "fast"), ("--shiny", "maybe"), ("--pause", "x")]
)
def test_a_wrong_option_is_refused_by_its_name(option: str, typed: str) -> None:
    found = next(each for each in FORMAT.options if each.name == option)
    with pytest.raises(InvalidInputError, match=option):
        found.read(typed)


def test_what_no_option_can_say_has_none() -> None:
    assert {"--wheels", "--job"}.isdisjoint(each.name for each in FORMAT.options)


def test_a_type_that_no_file_can_hold_is_a_mistake_of_the_kind() -> None:
    @dataclass(frozen=True)
    class Odd:
        name: str
        thing: complex = 0j

        @property
        def tenant(self) -> None:
            return None

    with pytest.raises(TypeError, match="no form in a file"):
        derived_format(Odd, "Odd", "Odd.")
