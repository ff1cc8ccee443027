"""A file format that follows from a dataclass: how its fields are read, written, described and given as options.

``name``, ``tenant`` and ``labels`` stand under ``metadata``, all others under ``spec``. A field is described by
the text of its ``Annotated``; one whose name ends in ``_seconds`` is a time (``ttl_seconds`` is written ``ttl: 7d``),
and one whose name ends in ``_json`` is whatever stands there, kept as JSON.
What no type can say, the dataclass itself refuses when it is made.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from gangline.dialects import quantities
from gangline.dialects.document import compact_json
from gangline.dialects.native import API_VERSION
from gangline.dialects.native.job import job_from_parts, job_to_plain
from gangline.dialects.quantities import AMOUNT_PATTERN, DURATION_PATTERN
from gangline.dialects.value import Source, Value
from gangline.errors import InvalidInputError
from gangline.kinds.amounts import amounts_to_plain, named_to_plain, read_amounts, read_named
from gangline.kinds.kind import FileFormat, Option, Plain
from gangline.model import DEFAULT_TENANT, JobSpec, NamedAmounts, Resources
from gangline.model.record import RecordSpec

Spec = TypeVar("Spec", bound=RecordSpec)

DOCUMENT = ("apiVersion", "kind", "metadata", "spec", "status")
METADATA = ("name", "tenant", "labels")
_SECONDS = "_seconds"
_JSON = "_json"
_ANYTHING: Plain = {"x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class Form:
    """One type in a file: read, written, its schema, and what an option of the command line is called for."""

    read: Callable[[Value], Any]
    write: Callable[[Any], Any]
    schema: Plain
    option: str | None = None
    """The placeholder of its option; None where no option can say it."""
    typed: Callable[[str], object] = str
    """What a text that was typed as an option would be in a file."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a spec as its file has it."""

    name: str
    attribute: str
    form: Form
    default: Any
    text: str

    @property
    def required(self) -> bool:
        """Whether a file must have it."""
        return self.default is MISSING


def derived_format(spec: type[Spec], kind: str, what: str) -> FileFormat[Spec]:
    """Derive the format of a spec; ``what`` describes its ``spec`` as a whole."""
    fields = fields_of(spec)
    inside = tuple(each for each in fields if each.attribute not in METADATA)

    def read(value: Value, sizes: Mapping[str, Resources]) -> Spec:
        top = value.fields(DOCUMENT)
        if "apiVersion" in top:
            top["apiVersion"].one_of((API_VERSION,))
        if "kind" in top:
            top["kind"].one_of((kind,))
        if "metadata" not in top:
            raise value.missing("metadata", "a mapping")
        beside = tuple(each for each in fields if each.attribute in METADATA)
        given = _read_fields(top["metadata"], beside, ("namespace", *(each.name for each in beside)))
        if "spec" in top:
            given |= _read_fields(top["spec"], inside)
        elif missing := next((each for each in inside if each.required), None):
            raise value.missing(f"spec.{missing.name}", missing.text)
        with value.located():
            return spec(**given)

    def write(made: Spec) -> Plain:
        metadata = {each.name: _written(each, made) for each in fields if each.attribute in METADATA}
        if metadata.get("tenant") == DEFAULT_TENANT:
            del metadata["tenant"]
        body = {each.name: _written(each, made) for each in inside}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": _given(metadata), "spec": _given(body)}

    sayable = all(each.form.option is not None for each in inside if each.required)
    options = tuple(_option(each) for each in inside if sayable and each.form.option is not None)
    return FileFormat(read=read, write=write, schema={**_schema(inside), "description": what}, options=options)


def _option(each: Field) -> Option:
    name = f"--{each.name.replace('_', '-')}"

    def read(text: str) -> Any:
        data = each.form.typed(text)
        if data == text and each.form.typed is _pairs:
            raise InvalidInputError(f"found '{text}'", field=name, expected=f"{each.form.option} with each name once")
        return each.form.read(Value(data=data, path=name, source=Source(file="the command line")))

    return Option(
        name=name,
        attribute=each.attribute,
        placeholder=each.form.option or "",
        text=each.text,
        default=None if each.required else each.default,
        required=each.required,
        read=read,
    )


@cache
def fields_of(spec: type[Any]) -> tuple[Field, ...]:
    """Return the fields of a dataclass as its file has them."""
    hints = get_type_hints(spec, include_extras=True)
    return tuple(_field(item, hints[item.name]) for item in dataclasses.fields(spec) if item.init)


def _field(item: "dataclasses.Field[Any]", hint: Any) -> Field:
    text = next((each for each in get_args(hint)[1:] if isinstance(each, str)), "") if _annotated(hint) else ""
    default = item.default_factory() if item.default_factory is not MISSING else item.default
    for suffix, form in ((_SECONDS, _TIME), (_JSON, _ANY_JSON)):
        if item.name.endswith(suffix):
            return Field(item.name.removesuffix(suffix), item.name, form, default, text)
    form = form_of(get_args(hint)[0] if _annotated(hint) else hint)
    return Field(item.name, item.name, form, default, text)


def _annotated(hint: Any) -> bool:
    return get_origin(hint) is Annotated


def add_form(kind: type[Any], form: Form) -> None:
    """Let fields of this type be read and written by a form of its own."""
    _LEAVES[kind] = form


def form_of(kind: Any) -> Form:
    """Return the form of a type; raises TypeError for one that a file cannot hold."""
    if kind in _LEAVES:
        return _LEAVES[kind]
    if isinstance(kind, NewType):
        return form_of(kind.__supertype__)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        values = [each.value for each in kind]
        return Form(lambda value: value.choice(kind), str, {"type": "string", "enum": values}, "|".join(values).upper())
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        fields = fields_of(kind)
        return Form(
            lambda value: kind(**_read_fields(value, fields)),
            lambda made: _given({each.name: _written(each, made) for each in fields}),
            _schema(fields),
        )
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType) and len(arguments) == 2 and NoneType in arguments:
        return form_of(next(each for each in arguments if each is not NoneType))
    if origin is tuple and arguments[1:] == (...,):
        return _sequence(form_of(arguments[0]))
    if origin in (dict, Mapping) and form_of(arguments[1]) is _TEXT:
        return _TEXTS
    raise TypeError(f"{kind!r} has no form in a file")


def _sequence(item: Form) -> Form:
    return Form(
        lambda value: tuple(item.read(each) for each in value.items()),
        lambda made: [item.write(each) for each in made],
        {"type": "array", "items": item.schema},
        f"{item.option},..." if item is _TEXT else None,
        lambda text: text.split(","),
    )


def _read_fields(value: Value, fields: tuple[Field, ...], known: tuple[str, ...] | None = None) -> dict[str, Any]:
    found = value.fields(known or tuple(each.name for each in fields))
    for each in fields:
        if each.required and each.name not in found:
            raise value.missing(each.name, each.text or "it has no default")
    by_name = {each.name: each for each in fields}
    return {by_name[name].attribute: by_name[name].form.read(item) for name, item in found.items() if name in by_name}


def _written(each: Field, made: Any) -> Any:
    value = getattr(made, each.attribute)
    return None if value is None or value == each.default else each.form.write(value)


def _given(plain: Plain) -> Plain:
    return {name: value for name, value in plain.items() if value is not None}


def _schema(fields: tuple[Field, ...]) -> Plain:
    properties = {
        each.name: {**each.form.schema, **({"description": each.text} if each.text else {})} for each in fields
    }
    required = [each.name for each in fields if each.required]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _number(value: Value) -> float:
    return value.converted(float, "a number")


def _scalar(text: str) -> object:
    """Read a number or a boolean as a file would; anything else is text."""
    if text in ("true", "false"):
        return text == "true"
    for read in (int, float):
        with suppress(ValueError):
            return read(text)
    return text


def _pairs(text: str) -> object:
    """Read ``gpu=8,cpu=4`` as a mapping; what is not a pair, or a name given twice, leaves the text as it is."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    mapping = {name: _scalar(value) for name, _, value in pairs}
    return mapping if all(equals for _, equals, _ in pairs) and len(mapping) == len(pairs) else text


_TEXT = Form(lambda value: value.text_or_number(), str, {"type": "string"}, "TEXT")
_TEXTS = Form(
    lambda value: value.strings(), dict, {"type": "object", "additionalProperties": _ANYTHING}, "NAME=VALUE,...", _pairs
)
_TIME = Form(
    lambda value: value.converted(quantities.seconds, quantities.DURATION_FORM),
    quantities.seconds_text,
    {**_ANYTHING, "pattern": DURATION_PATTERN, "minimum": 0},
    "DURATION",
    _scalar,
)
_ANY_JSON = Form(lambda value: compact_json(value.data), json.loads, _ANYTHING)
_JOB = Form(
    lambda value: job_from_parts(value, "job", {}, value),
    lambda job: job_to_plain(job)["spec"],
    {"type": "object", **_ANYTHING},
)
"""The spec of a job; its name, labels and tenant are what the plan makes of them."""
_AMOUNTS: Plain = {"type": "object", "additionalProperties": {**_ANYTHING, "pattern": AMOUNT_PATTERN, "minimum": 0}}
_LEAVES: dict[Any, Form] = {
    JobSpec: _JOB,
    str: _TEXT,
    int: Form(lambda value: value.integer(), int, {"type": "integer"}, "NUMBER", _scalar),
    float: Form(_number, float, {"type": "number"}, "NUMBER", _scalar),
    bool: Form(lambda value: value.boolean(), bool, {"type": "boolean"}, "true|false", _scalar),
    Resources: Form(read_amounts, amounts_to_plain, _AMOUNTS, "RESOURCE=AMOUNT,...", _pairs),
    NamedAmounts: Form(read_named, named_to_plain, _AMOUNTS, "RESOURCE=AMOUNT,...", _pairs),
}
