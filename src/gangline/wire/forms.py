"""How a value of the model is written as plain data and read back, derived from its type: the one codec of the wire.

A dataclass becomes an object with its own field names; one that has a ``spec`` with a file format becomes that file,
and its other fields the ``status`` beside it. Times are ISO 8601 in UTC, a replica is ``ROLE-INDEX``, pairs
with a name are an object, and a number that is not finite is ``NaN``, ``Infinity`` or ``-Infinity`` as text, because
JSON has no such numbers. A field that is empty, as it would be by default, is left out; a reader that does not know a
field ignores it. Nothing is listed by hand, so no field can be forgotten.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import msgspec

from gangline.dialects.native import job_from_plain, job_to_plain, sweep_from_plain, sweep_to_plain
from gangline.model import JobSpec, ReplicaId, Timestamp
from gangline.model.sweep import SweepSpec

Convert = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The file format of a spec: plain data there and back."""

    write: Convert
    read: Convert


FORMATS: Mapping[object, FileFormat] = {
    JobSpec: FileFormat(job_to_plain, job_from_plain),
    SweepSpec: FileFormat(sweep_to_plain, sweep_from_plain),
}

_SHOWN = ("phase", "state", "reason", "message")
"""Properties that sum up where something is: written for readers of a status, derived again when it is decoded."""


@dataclass(frozen=True, slots=True)
class Form:
    """One type on the wire: what msgspec checks an answer against, and the way there and back."""

    schema: Any
    write: Convert
    read: Convert


def iso(at: Timestamp) -> str:
    """Write a time: UTC, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


@lru_cache(maxsize=4096)
def _replica_id(text: str) -> ReplicaId:
    """Read a replica's name; a stream of output repeats few of them very often."""
    return ReplicaId.parse(text)


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _same(value: Any) -> Any:
    return value


_PLAIN = (str, int, bool, NoneType, object)
_LEAVES: Mapping[object, Form] = {
    Timestamp: Form(datetime, iso, lambda moment: Timestamp(moment.timestamp())),
    ReplicaId: Form(str, str, _replica_id),
    float: Form(float | Literal["NaN", "Infinity", "-Infinity"], _number, float),
    **{leaf: Form(leaf, _same, _same) for leaf in _PLAIN},
}


@cache
def form_of(kind: Any) -> Form:
    """Derive the form of a type; raises TypeError for one that the wire cannot carry."""
    if kind in _LEAVES:
        return _LEAVES[kind]
    if isinstance(kind, NewType):
        return form_of(kind.__supertype__)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _object(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Form(kind, lambda choice: choice.value, _same)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _union(arguments)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _pairs(arguments[0]) if get_origin(arguments[0]) is tuple else _sequence(arguments[0], tuple)
    if origin in (list, Sequence):
        return _sequence(arguments[0], list)
    if origin in (dict, Mapping):
        return _mapping(arguments[1])
    raise TypeError(f"{kind!r} has no form on the wire")


def _union(arguments: tuple[Any, ...]) -> Form:
    if all(argument in _PLAIN for argument in arguments):
        return Form(Union[arguments], _same, _same)  # noqa: UP007  # the parts are known only now
    given = [argument for argument in arguments if argument is not NoneType]
    if len(given) != 1 or len(given) == len(arguments):
        raise TypeError(f"{arguments!r} has no form on the wire")
    form = form_of(given[0])
    return Form(
        form.schema | None,
        lambda value: None if value is None else form.write(value),
        lambda value: None if value is None else form.read(value),
    )


def _sequence(item: Any, made: Convert) -> Form:
    form = form_of(item)
    return Form(
        list[form.schema],  # type: ignore[name-defined]  # known only now
        lambda values: [form.write(value) for value in values],
        lambda values: made(form.read(value) for value in values),
    )


def _mapping(item: Any) -> Form:
    form = form_of(item)
    return Form(
        dict[str, form.schema],  # type: ignore[name-defined]  # known only now
        lambda values: {str(key): form.write(value) for key, value in values.items()},
        lambda values: {key: form.read(value) for key, value in values.items()},
    )


def _pairs(pair: Any) -> Form:
    form = _mapping(get_args(pair)[1])
    return Form(form.schema, lambda pairs: form.write(dict(pairs)), lambda found: tuple(form.read(found).items()))


def _object(kind: Any) -> Form:
    hints = get_type_hints(kind)
    if hints.get("spec") in FORMATS:
        return _document(kind, hints, FORMATS[hints["spec"]])
    return _fields_form(kind, hints, tuple(dataclasses.fields(kind)))


def _document(kind: Any, hints: Mapping[str, Any], file: FileFormat) -> Form:
    """Write what was submitted as the file that would submit it again; everything else is its status."""
    status = _fields_form(kind, hints, tuple(item for item in dataclasses.fields(kind) if item.name != "spec"))
    shown = tuple(name for name in _SHOWN if isinstance(getattr(kind, name, None), property))
    schema = msgspec.defstruct(
        f"{kind.__name__}Document",
        [("metadata", dict[str, object]), ("spec", dict[str, object]), ("status", status.schema)],
    )

    def write(value: Any) -> dict[str, Any]:
        summary = {name: str(item) for name in shown if (item := getattr(value, name))}
        return {**file.write(value.spec), "status": {**summary, **status.write(value)}}

    def read(found: Any) -> Any:
        spec = file.read({"metadata": found.metadata, "spec": found.spec})
        return status.read(found.status, spec=spec)

    return Form(schema, write, read)


def _fields_form(kind: Any, hints: Mapping[str, Any], fields: Sequence["dataclasses.Field[Any]"]) -> Form:
    forms = {item.name: form_of(hints[item.name]) for item in fields}
    defaults = {item.name: _default(item) for item in fields}
    writers = tuple((name, form.write, _is_empty(defaults[name])) for name, form in forms.items())
    readers = tuple((name, form.read) for name, form in forms.items())
    slots = [_slot(name, form, defaults[name]) for name, form in forms.items()]
    schema = msgspec.defstruct(kind.__name__, slots, kw_only=True)

    def write(value: Any) -> dict[str, Any]:
        items = ((name, convert, optional, getattr(value, name)) for name, convert, optional in writers)
        return {name: convert(item) for name, convert, optional, item in items if not (optional and _is_empty(item))}

    def read(found: Any, **besides: Any) -> Any:
        items = ((name, convert, getattr(found, name)) for name, convert in readers)
        return kind(**besides, **{name: convert(item) for name, convert, item in items if item is not msgspec.UNSET})

    return Form(schema, write, read)


def _slot(name: str, form: Form, default: Any) -> tuple[Any, ...]:
    return (name, form.schema) if default is MISSING else (name, form.schema | msgspec.UnsetType, msgspec.UNSET)


def _default(item: "dataclasses.Field[Any]") -> Any:
    return item.default_factory() if item.default_factory is not MISSING else item.default


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | tuple | list | Mapping) and not value)
