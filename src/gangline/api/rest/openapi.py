"""The OpenAPI 3.1 document of the REST interface, out of the table of operations and the types that it names."""

import inspect
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from gangline import __version__
from gangline.api.operation import Operation
from gangline.model import Timestamp
from gangline.model.team.access import Right
from gangline.wire.forms import form_of

Plain = dict[str, Any]
_REFERENCE = "#/components/schemas/{name}"
_TAIL = re.compile(r":[^{}]*\}")
_PROBLEM: Plain = {
    "type": "object",
    "required": ["title", "status", "detail", "error"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "field": {"type": "string"},
        "expected": {"type": "string"},
        "suggestion": {"type": "string"},
        "error": {"type": "object", "required": ["type", "message", "facts"]},
    },
}


def openapi(operations: Sequence[Operation], prefix: str) -> Plain:
    """Describe operations whose paths are below a prefix."""
    components: Plain = {"Problem": _PROBLEM}
    paths: Plain = {}
    for operation in operations:
        path = _TAIL.sub("}", f"{prefix}{operation.path}")
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation, path, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gangline", "version": __version__},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: Operation, path: str, components: Plain) -> Plain:
    text = (inspect.getdoc(operation.handler) or "").split("\n\n")[0].replace("\n", " ")
    found: Plain = {
        "operationId": re.sub(r"\W+", "_", f"{operation.method.lower()}{path.partition('/v1')[2]}").strip("_"),
        "summary": text,
        "x-right": operation.right.value,
        "security": [] if operation.right is Right.ANYONE else [{"bearer": []}],
        "parameters": [*_path_parameters(path), *_query_parameters(operation), *_conventions(operation, path)],
        "responses": {
            str(operation.status.value): {"description": operation.status.phrase, **_answer(operation, components)},
            "default": {
                "description": "Refused",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    }
    if operation.body is not None:
        found["requestBody"] = {"required": True, "content": _body(operation, components)}
    return found


def _path_parameters(path: str) -> list[Plain]:
    text = {"type": "string", "minLength": 1}
    return [{"name": name, "in": "path", "required": True, "schema": text} for name in re.findall(r"\{(\w+)\}", path)]


def _query_parameters(operation: Operation) -> list[Plain]:
    return [{"name": name, "in": "query", "schema": _parameter(kind)} for name, kind in operation.query.items()]


def _conventions(operation: Operation, path: str) -> list[Plain]:
    """Return what every operation of its sort understands."""
    text = {"type": "string"}
    if operation.items is not None:
        return [{"name": "Last-Event-ID", "in": "header", "schema": text}]
    if not operation.changes:
        return []
    key = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"}
    found: list[Plain] = [{"name": "Idempotency-Key", "in": "header", "schema": key}]
    if operation.rehearsable:
        tried = {"type": "string", "enum": ["All", "true", "false"]}
        found.append({"name": "dryRun", "in": "query", "schema": tried})
    if "{job}" in path or operation.kind is not None:
        found.append({"name": "If-Match", "in": "header", "schema": text})
    return found


def _parameter(kind: Any) -> Plain:
    if kind is Timestamp:
        return {"type": "string", "format": "date-time"}
    return msgspec.json.schema(kind)


def _answer(operation: Operation, components: Plain) -> Plain:
    content: Plain = {}
    if operation.answer is bytes:
        content["application/x-tar"] = {"schema": {"type": "string", "contentMediaType": "application/x-tar"}}
    elif operation.answer is not None:
        content["application/json"] = {"schema": _schema(operation.answer, components)}
    if operation.items is not None:
        content["application/x-ndjson"] = {"schema": _schema(operation.items, components)}
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"content": content} if content else {}


def _body(operation: Operation, components: Plain) -> Plain:
    if operation.body is bytes:
        return {"application/octet-stream": {"schema": {"type": "string"}}}
    schema = operation.body_schema or _with_components(operation.body, components)
    return {"application/json": {"schema": schema}}


def _schema(kind: Any, components: Plain) -> Plain:
    """Return the schema of an answer as the wire writes it; the types that it is made of go to the components."""
    return _with_components(form_of(kind).schema, components)


def _with_components(kind: Any, components: Plain) -> Plain:
    """Return a schema; of two types with one name, the second gets a number behind it."""
    (schema,), more = msgspec.json.schema_components([kind], schema_hook=_anything, ref_template=_REFERENCE)
    names = {name: _free(name, found, components) for name, found in more.items()}
    references = {_REFERENCE.format(name=old): _REFERENCE.format(name=new) for old, new in names.items()}
    components.update({names[name]: _renamed(found, references) for name, found in more.items()})
    result: Plain = _renamed(schema, references)
    return result


def _free(name: str, found: Plain, components: Plain) -> str:
    """Return the name, with a number behind it if another type has it: kinds each have a Record of their own."""
    number, free = 1, name
    while free in components and components[free] != found:
        number += 1
        free = f"{name}{number}"
    return free


def _renamed(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, dict):
        return {
            key: names.get(value, value) if key == "$ref" else _renamed(value, names) for key, value in schema.items()
        }
    return [_renamed(each, names) for each in schema] if isinstance(schema, list) else schema


def _anything(kind: type) -> Plain:
    return {"description": "Anything."}
