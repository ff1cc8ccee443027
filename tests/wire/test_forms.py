"""The wire carries every field of what it carries: each type is filled field by field and read back."""

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from types import NoneType
from typing import Any, NewType, get_args, get_origin, get_type_hints

import msgspec
import pytest

from gangline.model import (
    JobId,
    JobSpec,
    LogLine,
    Metric,
    Node,
    ReplicaId,
    ReplicaStatus,
    RoleName,
    Timestamp,
)
from gangline.model.kinds.pipeline import PipelineRun
from gangline.model.kinds.sweep import SweepSpec
from gangline.model.record import Page
from gangline.testing.builders import make_job, make_run, make_spec, make_sweep
from gangline.wire import ANSWERS, codec, plain
from gangline.wire.forms import form_of


def filled(kind: Any) -> Any:
    """Return a value of the type in which no field has its default, so that a field that is dropped is noticed."""
    specials = {
        Timestamp: Timestamp(1_700_000_000.25),
        ReplicaId: ReplicaId(RoleName("worker"), 3),
        JobSpec: make_spec(),
        SweepSpec: make_sweep().spec,
        bool: True,
        int: 7,
        float: 0.5,
        str: "some-text",
        object: "some-value",
    }
    if kind in specials:
        return specials[kind]
    if isinstance(kind, NewType):
        return filled(kind.__supertype__)
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{item.name: not_default(item, filled(hints[item.name])) for item in dataclasses.fields(kind)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(filled(argument) for argument in arguments)
    if origin is tuple:
        return (filled(arguments[0]),)
    if origin is Mapping:
        return {"some-key": filled(arguments[1])}
    return filled(next(argument for argument in arguments if argument is not NoneType))


def not_default(item: "dataclasses.Field[Any]", value: Any) -> Any:
    return False if isinstance(value, bool) and item.default is True else value


@pytest.mark.parametrize("kind", ANSWERS, ids=lambda kind: kind.__name__)
def test_every_field_arrives(kind: Any) -> None:
    value = filled(kind)
    found = codec(kind).decode(codec(kind).encode(value))
    for item in dataclasses.fields(kind):
        assert getattr(found, item.name) == getattr(value, item.name), item.name


def test_a_job_is_the_file_that_would_submit_it_again_with_a_status_beside_it() -> None:
    document = plain(make_job())
    assert {key: document[key] for key in ("apiVersion", "kind")} == {"apiVersion": "gangline.dev/v1", "kind": "Job"}
    assert document["status"]["phase"] == "QUEUED"
    assert document["status"]["reason"] == "Submitted"


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e308, -0.0, 5e-324], ids=repr)
def test_a_number_arrives_as_it_was_even_if_json_has_no_such_number(value: float) -> None:
    metric = Metric(
        job_id=JobId("j"), replica=ReplicaId(RoleName("w"), 0), name="m", value=value, step=0, at=Timestamp(0)
    )
    assert codec(Metric).decode(codec(Metric).encode(metric)) == metric


def test_what_is_not_a_number_stays_none() -> None:
    metric = dataclasses.replace(filled(Metric), value=math.nan)
    assert math.isnan(codec(Metric).decode(codec(Metric).encode(metric)).value)


def test_a_field_that_a_newer_service_sends_is_ignored() -> None:
    newer = {**plain(filled(LogLine)), "colour": "red"}
    assert codec(LogLine).decode(msgspec.json.encode(newer)) == filled(LogLine)


def test_a_field_that_an_older_service_does_not_send_has_its_default() -> None:
    older = plain(filled(ReplicaStatus))
    del older["incarnation"]
    assert codec(ReplicaStatus).decode(msgspec.json.encode(older)).incarnation == 0


def test_an_empty_field_is_left_out_unless_its_default_is_not_empty() -> None:
    assert "message" not in plain(dataclasses.replace(filled(ReplicaStatus), message=""))
    assert plain(dataclasses.replace(filled(Node), pods=0))["pods"] == 0


def test_what_has_no_form_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="has no form on the wire"):
        form_of(complex)


def test_an_item_that_its_reader_refuses_hides_no_other_of_the_page() -> None:
    refused = make_run("refused")
    odd = dataclasses.replace(refused.spec, documents_json='[{"pipelineInfo": {}, "schemaVersion": "9"}]')
    page = Page(
        items=(make_run("a"), dataclasses.replace(refused, spec=odd), make_run("b")), next="n", unreadable=("x",)
    )
    pages = codec(Page[PipelineRun])
    found = pages.decode(pages.encode(page))
    assert ([run.name for run in found.items], found.unreadable, found.next) == (["a", "b"], ("x", "refused"), "n")
    assert plain(page)["unreadable"] == ["x"]
    assert pages.decode(pages.encode(Page())) == Page()
