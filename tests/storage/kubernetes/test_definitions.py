"""The schema the API server applies must know every field of the job file: what it does not know it drops silently."""

from collections.abc import Mapping
from typing import Any

import pytest

from gangline.dialects.native import fields
from gangline.storage.kubernetes.definitions import DEFINITIONS


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
