"""YAML (and so JSON) text as values that know where they stand.

Every dialect reads its files through ``parse``: it returns a ``Value`` per document, and a ``Value`` refuses
wrong input with an ``InvalidInputError`` that names file, line, field, what was expected and the nearest known
name. Already decoded data becomes a ``Value`` with ``plain``: same rules, no lines. Nothing here knows any
field of any format.
"""

import json

from gangline.dialects.value import Source, Value


def parse(text: str, *, file: str | None = None) -> tuple[Value, ...]:
    """Read every document of a text; empty documents are left out, an empty text is refused."""
    # Most commands read no file, and what reads YAML is slow to import.
    from gangline.dialects.yaml_text import read_documents

    return read_documents(text, file=file)


def plain(data: object, *, file: str | None = None) -> Value:
    """Wrap already decoded JSON, so that it is read by the same rules."""
    return Value(data=data, path="", source=Source(file=file))


def compact_json(data: object) -> str:
    """Write data as the one JSON text that equal data always has."""
    return json.dumps(data, separators=(",", ":"), sort_keys=True)
