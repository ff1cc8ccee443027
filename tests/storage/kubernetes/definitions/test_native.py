"""The schema the API server applies must know every field of the job file: what it does not know it drops silently."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.dialects.native import fields
from gangline.dialects.quantities import AMOUNT_PATTERN, DURATION_PATTERN, quantity, seconds
from gangline.storage.kubernetes.definitions.kubeflow import kubeflow_definitions
from gangline.storage.kubernetes.definitions.native import DEFINITIONS


def _schema() -> Mapping[str, Any]:
    job = next(item for item in DEFINITIONS if item["spec"]["names"]["kind"] == "Job")
    schema: Mapping[str, Any] = job["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def _place(name: str) -> Mapping[str, Any]:
    spec = _schema()["properties"]
    places: dict[str, Mapping[str, Any]] = {
        "spec": spec,
        "role": spec["roles"]["additionalProperties"]["properties"],
        "policy": spec["policy"]["properties"],
        "placement": spec["placement"]["properties"],
        "data": spec["data"]["properties"],
        "role placement": spec["roles"]["additionalProperties"]["properties"]["placement"]["properties"],
        "toleration": spec["placement"]["properties"]["tolerations"]["items"]["properties"],
    }
    return places[name]


@pytest.mark.parametrize(
    ("place", "names"),
    [
        ("spec", fields.SPEC),
        ("role", fields.ROLE),
        ("policy", fields.POLICY),
        ("placement", fields.PLACEMENT),
        ("role placement", fields.NODES),
        ("data", fields.DATA),
        ("toleration", fields.TOLERATION),
    ],
)
def test_every_field_of_the_job_file_is_in_the_schema(place: str, names: tuple[str, ...]) -> None:
    assert set(names) <= set(_place(place))


def _unexplained(schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Every field of a schema, to any depth, of which nothing is said."""
    for name, below in schema.get("properties", {}).items():
        if not below.get("description"):
            yield f"{path}.{name}"
        yield from _unexplained(below, f"{path}.{name}")
    for below in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(below, Mapping):
            yield from _unexplained(below, f"{path}.*")


@pytest.mark.parametrize(
    "definition", [*DEFINITIONS, *kubeflow_definitions()], ids=lambda item: item["spec"]["names"]["kind"]
)
def test_every_field_is_explained(definition: Mapping[str, Any]) -> None:
    for version in definition["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        assert schema["description"]
        assert list(_unexplained(schema, "")) == []


MANUAL = (Path(__file__).parents[4] / "docs" / "job-file.md").read_text()


def _said_in_the_manual(title: str) -> dict[str, str]:
    """The fields of a section's table, with their meaning and default as plain text."""
    found = {}
    for line in re.split(r"\n##+ ", MANUAL.split(f"\n## {title}\n", 1)[1], maxsplit=1)[0].splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) > 1 and re.fullmatch(r"`[a-z_]+`", cells[0]):
            meaning = re.sub(r":? see \[[^]]*\]\([^)]*\)", "", cells[-1])
            meaning = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning).replace("`", "")
            default = cells[1].replace("`", "") if len(cells) > 2 else ""
            whole = f"{meaning[0].upper()}{meaning[1:]}."
            found[cells[0].strip("`")] = whole + (f" Default: {default}." if default not in ("", "none") else "")
    return found


@pytest.mark.parametrize(
    ("title", "place"),
    [("spec", "spec"), ("Roles", "role"), ("Policy", "policy"), ("Placement", "placement"), ("Data", "data")],
)
def test_kubectl_says_of_a_field_what_the_manual_says(title: str, place: str) -> None:
    said = {name: schema["description"] for name, schema in _place(place).items()}
    manual = _said_in_the_manual(title)
    assert len(manual) > 3
    assert {name: said[name] for name in manual if name in said} == {
        name: text for name, text in manual.items() if name in said
    }


@given(
    st.one_of(
        st.from_regex(AMOUNT_PATTERN, fullmatch=True),
        st.text("0123456789.eE+-KMGi nmb", max_size=8),
        st.sampled_from(["lots", "", "500m", "1Gi", "0.5", "1e3", "2GB", "-1", "1.2.3", "."]),
    )
)
def test_the_schema_takes_the_amounts_that_the_job_file_takes(text: str) -> None:
    try:
        taken = quantity(text) >= 0 and "-" not in text.partition("e")[0].partition("E")[0]
    except ValueError:
        taken = False
    assert bool(re.search(AMOUNT_PATTERN, text)) == taken


@given(
    st.one_of(
        st.from_regex(DURATION_PATTERN, fullmatch=True),
        st.text("0123456789.eE+-dhms ", max_size=8),
        st.sampled_from(["soon", "", "90", "90s", "1h30m", "7d", "1.5h", "-3", "nan", "inf", "1_0"]),
    )
)
def test_the_schema_takes_the_times_that_the_job_file_takes(text: str) -> None:
    try:
        taken = seconds(text) >= 0 and not text.strip().startswith("-") and "_" not in text
    except ValueError:
        taken = False
    assert bool(re.search(DURATION_PATTERN, text)) == taken
