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

from gangline.dialects import document
from gangline.dialects.native import job_from_plain, job_to_plain
from gangline.errors import InvalidInputError
from gangline.kinds import kind_of_spec
from gangline.model import JobSpec, ReplicaId, Timestamp
from gangline.model.record import Page

Convert = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The file format of a spec: plain data there and back."""

    write: Convert
    read: Convert


def _file_of(spec: Any) -> FileFormat | None:
    """Return the file format of a spec, if it has one."""
    if spec is JobSpec:
        return FileFormat(job_to_plain, job_from_plain)
    kind = kind_of_spec(spec)
    if kind is None:
        return None
    file = kind.format
    return FileFormat(file.write, lambda data: file.read(document.plain(data), {}))


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


def json_number(value: float) -> float | str:
    """Write a number; one that is not finite is a text, because JSON has no such numbers."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _same(value: Any) -> Any:
    return value


_PLAIN = (str, int, bool, NoneType, object)
_LEAVES: Mapping[object, Form] = {
    Timestamp: Form(datetime, iso, lambda moment: Timestamp(moment.timestamp())),
    ReplicaId: Form(str, str, _replica_id),
    JobSpec: Form(dict[str, object], job_to_plain, job_from_plain),
    float: Form(float | Literal["NaN", "Infinity", "-Infinity"], json_number, float),
    **{leaf: Form(leaf, _same, _same) for leaf in _PLAIN},
}


@cache
def form_of(kind: Any) -> Form:
    """Derive the form of a type; raises TypeError for one that the wire cannot carry."""
    if kind in _LEAVES:
        return _LEAVES[kind]
    if isinstance(kind, NewType):
        return form_of(kind.__supertype__)
    if dataclasses.is_dataclass(get_origin(kind) or kind) and isinstance(get_origin(kind) or kind, type):
        return _page(kind) if get_origin(kind) is Page else _object(kind)
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
    hints = _hints_of(kind)
    file = _file_of(hints["spec"]) if "spec" in hints else None
    if file is not None:
        return _document(kind, hints, file)
    return _fields_form(kind)


def _page(kind: Any) -> Form:
    """One item that its reader refuses, because of other rules than its writer's, hides no other."""
    form, item = _fields_form(kind), form_of(get_args(kind)[0])

    def read(found: Any) -> Any:
        items, refused = [], []
        for each in found.items or ():
            try:
                items.append(item.read(each))
            except InvalidInputError:
                refused.append(str(each.metadata.get("name")))
        rest = form.read(msgspec.structs.replace(found, items=msgspec.UNSET))
        return dataclasses.replace(rest, items=tuple(items), unreadable=(*rest.unreadable, *refused))

    return Form(form.schema, form.write, read)


def _hints_of(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields; of a generic one, with what its parameters stand for."""
    origin = get_origin(kind) or kind
    hints = get_type_hints(origin)
    meant = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    return {name: _filled(hint, meant) for name, hint in hints.items()}


def _filled(hint: Any, meant: Mapping[Any, Any]) -> Any:
    if hint in meant:
        return meant[hint]
    parameters = getattr(hint, "__parameters__", ())
    return hint[tuple(meant[each] for each in parameters)] if parameters and meant else hint


def _document(kind: Any, hints: Mapping[str, Any], file: FileFormat) -> Form:
    """Write what was submitted as the file that would submit it again; everything else is its status.

    A record's own status is told beside its envelope, not a level below.
    """
    made: Any = get_origin(kind) or kind
    inner = _fields_of(hints["status"]) if "status" in hints else None
    apart = ("spec", "status") if inner is not None else ("spec",)
    status = _fields_of(kind, apart)
    shown = tuple(name for name in _SHOWN if isinstance(getattr(made, name, None), property))
    slots = {name: (name, _shown_schema(made, name) | msgspec.UnsetType, msgspec.UNSET) for name in shown}
    slots |= {slot[0]: slot for part in (inner, status) if part is not None for slot in part.slots}
    name = _document_name(kind, hints["spec"])
    schema = msgspec.defstruct(
        name,
        [
            ("apiVersion", str | msgspec.UnsetType, msgspec.UNSET),
            ("kind", str | msgspec.UnsetType, msgspec.UNSET),
            ("metadata", dict[str, object]),
            ("spec", dict[str, object]),
            ("status", msgspec.defstruct(f"{name}Status", list(slots.values()), kw_only=True)),
        ],
        kw_only=True,
    )

    def write(value: Any) -> dict[str, Any]:
        summary = {name: str(item) for name in shown if (item := getattr(value, name))}
        progress = {} if inner is None else inner.write(value.status)
        return {**file.write(value.spec), "status": {**summary, **progress, **status.write(value)}}

    def read(found: Any) -> Any:
        spec = file.read({"metadata": found.metadata, "spec": found.spec})
        progress = {} if inner is None else {"status": inner.read(found.status)}
        return status.read(found.status, spec=spec, **progress)

    return Form(schema, write, read)


def _shown_schema(made: Any, name: str) -> Any:
    """Return what a property is written as: a choice as itself, and anything else as text."""
    found = get_type_hints(getattr(made, name).fget).get("return")
    return found if isinstance(found, type) and issubclass(found, Enum) else str


def _document_name(kind: Any, spec: Any) -> str:
    """Name what is read as a file: by its kind, of which all records are of one class."""
    known = kind_of_spec(spec) if spec is not JobSpec else None  # who reads jobs need not load every kind
    return known.object_kind if known is not None else (get_origin(kind) or kind).__name__


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields of a dataclass: the slots of its schema, and the way there and back."""

    slots: list[tuple[Any, ...]]
    write: Convert
    read: Convert


def _fields_form(kind: Any) -> Form:
    fields = _fields_of(kind)
    return Form(msgspec.defstruct(_schema_name(kind), fields.slots, kw_only=True), fields.write, fields.read)


def _schema_name(kind: Any) -> str:
    """Name a schema; a generic type is named after what it is of: a Page[Job] is a JobPage."""
    parts = [form_of(argument).schema.__name__ for argument in get_args(kind)]
    return "".join((*parts, (get_origin(kind) or kind).__name__))


def _fields_of(kind: Any, apart: Sequence[str] = ()) -> _Fields:
    """Derive the fields of a dataclass, but for those that are written apart."""
    made: Any = get_origin(kind) or kind
    hints = _hints_of(kind)
    fields = tuple(item for item in dataclasses.fields(made) if item.name not in apart)
    forms = {item.name: form_of(hints[item.name]) for item in fields}
    defaults = {item.name: _default(item) for item in fields}
    writers = tuple((name, form.write, _is_empty(defaults[name])) for name, form in forms.items())
    readers = tuple((name, form.read) for name, form in forms.items())

    def write(value: Any) -> dict[str, Any]:
        items = ((name, convert, optional, getattr(value, name)) for name, convert, optional in writers)
        return {name: convert(item) for name, convert, optional, item in items if not (optional and _is_empty(item))}

    def read(found: Any, **besides: Any) -> Any:
        items = ((name, convert, getattr(found, name)) for name, convert in readers)
        return made(**besides, **{name: convert(item) for name, convert, item in items if item is not msgspec.UNSET})

    return _Fields([_slot(name, form, defaults[name]) for name, form in forms.items()], write, read)


def _slot(name: str, form: Form, default: Any) -> tuple[Any, ...]:
    if default is not MISSING:
        return (name, form.schema | msgspec.UnsetType, msgspec.UNSET)
    # What may be null may also be left out, as messages of gRPC do.
    return (name, form.schema, None) if NoneType in get_args(form.schema) else (name, form.schema)


def _default(item: "dataclasses.Field[Any]") -> Any:
    return item.default_factory() if item.default_factory is not MISSING else item.default


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | tuple | list | Mapping) and not value)
