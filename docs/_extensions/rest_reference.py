"""The directive ``rest-reference``: every path of the REST interface, from the routes and types that serve it."""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from types import GenericAlias
from typing import get_args, get_type_hints

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from gangline import wire
from gangline.api import errors
from gangline.api.rest.application import PREFIX, all_operations
from gangline.model import ReplicaId

_TEXTS = (ReplicaId,)
"""Values that are one text on the wire: ``ROLE-INDEX``."""


class RestReference(SphinxDirective):
    """Takes no arguments."""

    def run(self) -> list[nodes.Node]:
        """Write the reference as Markdown and have it read."""
        place = nodes.container()
        lines = StringList([*_routes(), *_bodies(), *_errors()], source="the routes of gangline.api.rest")
        self.state.nested_parse(lines, self.content_offset, place, match_titles=True)
        return place.children


def _routes() -> Iterator[str]:
    yield from ("## Paths", "", "| | path | query | right | |", "|---|---|---|---|---|")
    for row in sorted(all_operations(), key=lambda row: (row.path, row.method)):
        query = ", ".join(f"`{name}`" for name in row.query)
        summary = _summary(row.handler)
        yield f"| {row.method} | `{PREFIX}{row.path}` | {query} | {row.right} | {summary} |"
    yield ""


def _summary(found: object) -> str:
    text = inspect.getdoc(found) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|").replace("``", "`")


def _bodies() -> Iterator[str]:
    """Return each type that answers are made of, with its fields."""
    yield from ("## Bodies", "")
    for kind in dict.fromkeys(part for answer in wire.ANSWERS for part in _parts(answer)):
        yield from (f"### {kind.__name__}", "", _summary(kind), "", "| field | type |", "|---|---|")
        for name, annotation in get_type_hints(kind).items():
            yield f"| `{name}` | `{_type(annotation)}` |"
        yield ""


def _parts(kind: type) -> Iterator[type]:
    """Return a type and those that it is made of; a spec is a file, which has a page of its own."""
    yield kind
    for name, annotation in get_type_hints(kind).items():
        pending = [annotation] if name != "spec" else []
        while pending:
            part = pending.pop()
            pending += get_args(part)
            if dataclasses.is_dataclass(part) and part not in _TEXTS:
                yield from _parts(part)


def _type(annotation: object) -> str:
    """Return a type without the modules of its parts."""
    plain = isinstance(annotation, type) and not isinstance(annotation, GenericAlias)
    text = annotation.__name__ if plain else str(annotation)
    return re.sub(r"\b[a-z_]+\.(?=\w)", "", text).replace("|", "\\|")


def _errors() -> Iterator[str]:
    yield from ("## Errors", "", _summary(wire.ErrorBody), "")
    yield from ("| status | class | |", "|---|---|---|")
    for kind, status in errors.STATUSES.items():
        yield f"| {int(status)} {status.phrase} | `{kind.__name__}` | {_summary(kind)} |"
    yield ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive; called by Sphinx."""
    app.add_directive("rest-reference", RestReference)
    return {"parallel_read_safe": True}
