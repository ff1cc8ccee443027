"""Objects that are made of records: chosen by selectors, and watched by looking again."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from aiohttp import web

from gangline.api.kubernetes.plain import Plain, text, texts
from gangline.api.kubernetes.selectors import matches, parse_fields, parse_labels

_FIELDS = ("metadata.name", "metadata.namespace")
_LOOK_SECONDS = 1.0


def chosen_objects(request: web.Request, objects: Iterable[Plain]) -> list[Plain]:
    """Return those that a request selects."""
    labels = parse_labels(request.query.get("labelSelector"))
    fields = parse_fields(request.query.get("fieldSelector"), _FIELDS)
    return [
        found
        for found in objects
        if matches(labels, texts(found, "metadata", "labels"))
        and matches(fields, {each: text(found, *each.split(".")) or "" for each in _FIELDS})
    ]


async def object_changes(
    request: web.Request, read: Callable[[], Awaitable[list[Plain]]]
) -> AsyncGenerator[bytes, None]:
    """Every object as it is, then every change: read again and again, for nobody announces numbers."""
    shown = dict[str, Plain]()
    while True:
        found = {str(text(each, "metadata", "uid")): each for each in chosen_objects(request, await read())}
        for uid, each in found.items():
            if uid not in shown or shown[uid] != each:
                yield _event("MODIFIED" if uid in shown else "ADDED", each)
        for uid in [each for each in shown if each not in found]:
            yield _event("DELETED", shown[uid])
        shown = found
        await asyncio.sleep(_LOOK_SECONDS)


def _event(word: str, found: Plain) -> bytes:
    return json.dumps({"type": word, "object": found}).encode() + b"\n"
