"""A file to begin with for each kind: its required fields, from the schema of its format."""

from typing import Any

import yaml

from gangline.kinds import AnyKind

_JOB: dict[str, Any] = {
    "command": ["python3", "-c", "print('hello')"],
    "resources": {"cpu": "500m", "memory": "256Mi"},
}


def example_of(kind: AnyKind) -> str:
    """Return a file of a kind that lacks nothing but its own values."""
    schema = kind.format.schema
    spec = {name: _value(name, schema.get("properties", {}).get(name, {})) for name in schema.get("required", ())}
    document: dict[str, Any] = {
        "apiVersion": kind.api_version,
        "kind": kind.object_kind,
        "metadata": {"name": f"my-{kind.name}"},
        "spec": spec,
    }
    text: str = yaml.safe_dump(document, sort_keys=False)
    return text


def _value(name: str, schema: dict[str, Any]) -> Any:
    if name in ("job", "template"):
        return _JOB
    if "default" in schema or schema.get("enum"):
        return schema.get("default", (schema.get("enum") or [""])[0])
    return {"object": {}, "array": [], "integer": 1, "number": 1.0, "boolean": False}.get(schema.get("type", ""), "")
