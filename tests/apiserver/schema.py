"""Structural schemas of custom resources: what is left out of an object, filled in, and refused. CEL is not judged."""

import re
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
Cause = tuple[str, str, str]

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_ROOT = ("apiVersion", "kind", "metadata")


def admitted(body: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """The object without unknown fields and with defaults."""
    return {**{name: body[name] for name in _ROOT if name in body}, **_fitted(without_root(body), schema)}


def complaints(body: dict[str, Any], schema: Schema) -> list[Cause]:
    """What is wrong with an object: reason, message and field of each complaint."""
    return list(_complaints(without_root(body), schema, ""))


def without_root(body: dict[str, Any]) -> dict[str, Any]:
    """What the schema speaks of."""
    return {name: value for name, value in body.items() if name not in _ROOT}


def _fitted(value: Any, schema: Schema) -> Any:
    if isinstance(value, list):
        return [_fitted(item, schema["items"]) for item in value] if "items" in schema else value
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    others = schema.get("additionalProperties")
    fitted = {}
    for name, inner in value.items():
        below = known.get(name, others)
        if isinstance(below, dict):
            if inner is not None or below.get("nullable"):
                fitted[name] = _fitted(inner, below)
        elif schema.get(_PRESERVE):
            fitted[name] = inner
    for name, inner in known.items():
        if "default" in inner and name not in fitted:
            fitted[name] = inner["default"]
    return fitted


def _complaints(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    wanted = "int-or-string" if schema.get("x-kubernetes-int-or-string") else schema.get("type")
    if wanted and not _is(value, wanted):
        yield "FieldValueTypeInvalid", f'Invalid value: "{type(value).__name__}": must be of type {wanted}', path
        return
    if "enum" in schema and value not in schema["enum"]:
        yield "FieldValueNotSupported", f"Unsupported value: {value!r}: supported values: {schema['enum']}", path
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield "FieldValueInvalid", f"Invalid value: {value!r}: should match '{schema['pattern']}'", path
    if isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield "FieldValueInvalid", f"Invalid value: {value}: should be in its bounds", path
    if "anyOf" in schema and all(list(_complaints(value, choice, path)) for choice in schema["anyOf"]):
        yield "FieldValueInvalid", "must validate at least one schema (anyOf)", path
    if isinstance(value, dict):
        yield from _object_complaints(value, schema, path)
    elif isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _complaints(item, schema["items"], f"{path}[{number}]")


def _object_complaints(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Cause]:
    for name in schema.get("required", ()):
        if name not in value:
            yield "FieldValueRequired", "Required value", f"{path}.{name}".lstrip(".")
    if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
        yield "FieldValueInvalid", f"Invalid value: {len(value)} properties", path
    for name, inner in value.items():
        below = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if isinstance(below, dict):
            yield from _complaints(inner, below, f"{path}.{name}".lstrip("."))


def _is(value: Any, wanted: str) -> bool:
    if wanted == "int-or-string":
        return isinstance(value, int | str) and not isinstance(value, bool)
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted])
