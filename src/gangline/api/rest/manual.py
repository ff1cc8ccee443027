"""The OpenAPI document as a page for people: what can be asked, with which right, and what is answered. No script."""

from collections.abc import Iterator
from html import escape
from typing import Any

Plain = dict[str, Any]
HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
    "code{font-size:90%}td,th{text-align:left;vertical-align:top;padding:.2em 1em .2em 0}h2{font-size:1.2em}"
)


def manual(document: Plain) -> str:
    """Write an OpenAPI document as HTML."""
    title = escape(f"{document['info']['title']} {document['info']['version']}: REST")
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return "\n".join((head, f"<h1>{title}</h1>", *_operations(document), *_types(document), "</html>"))


def _operations(document: Plain) -> Iterator[str]:
    yield '<p>The same for programs: <a href="openapi.json">openapi.json</a>.</p><h2>Operations</h2><table>'
    yield "<tr><th>asked</th><th>right</th><th>also</th><th>answered</th><th></th></tr>"
    for path, methods in document["paths"].items():
        for method, found in methods.items():
            places = [each["name"] for each in found["parameters"] if each["in"] != "path"]
            cells = (
                f"<code>{method.upper()} {escape(path)}</code>",
                escape(found["x-right"]),
                " ".join(f"<code>{escape(name)}</code>" for name in places),
                _answered(found),
                escape(found["summary"]),
            )
            yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table>"


def _answered(found: Plain) -> str:
    answers = (each for status, each in found["responses"].items() if status != "default")
    kinds = [kind["schema"] for each in answers for kind in each.get("content", {}).values()]
    return ", ".join(dict.fromkeys(_type(kind) for kind in kinds))


def _types(document: Plain) -> Iterator[str]:
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f'<h2 id="{escape(name)}">{escape(name)}</h2><p>{escape(schema.get("description", ""))}</p><table>'
        for field, found in schema.get("properties", {}).items():
            need = "" if field in schema.get("required", ()) else "optional"
            yield f"<tr><td><code>{escape(field)}</code></td><td>{_type(found)}</td><td>{need}</td></tr>"
        yield "</table>"


def _type(schema: Any) -> str:
    """Return a schema in a few words, with links to the types that it names."""
    if not isinstance(schema, dict):
        return "anything"
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(str(schema.get("format") or schema.get("type") or "anything"))
