"""What the engine wants, as the keeper reads it from ``order.json``; ``wire.Order`` says what is in it."""
# ruff: noqa: PTH123  -- pathlib would cost the keeper a fifth of its start

from __future__ import annotations

import json
from types import SimpleNamespace

TYPE_CHECKING = False  # as in typing, which a keeper need not wait for
if TYPE_CHECKING:
    from gangline.engines.local.wire import Order

CREDENTIALS_FILE = "stores.json"
"""Beside the order: the keys of the stores that its moves name."""


MOVES_FOLDER = "moves"
"""Beside the order: what its movers tell the engine."""
REGISTRATIONS_FILE = "registrations.json"
"""There: the models that its outputs have become, for the engine to register."""

_LATER: dict[str, object] = {
    "user": None,
    "gpu_files": {},
    "environment": None,
    "most_processes": 0,
    "code_limits": None,
    "writer": "",
    "cache": None,
    "models": None,
}
"""What an order of an earlier version has not."""
_MOVE = {
    "source": "",
    "target": "",
    "store": None,
    "include": (),
    "exclude": (),
    "unpack": False,
    "model": None,
    "address": "",
}


def read_order(path: str) -> Order:
    """Return the whole order of one attempt; an earlier version's knows less."""
    with open(path, "rb") as file:
        fields = {**_LATER, **json.loads(file.read())}
    fields["replicas"] = [SimpleNamespace(**{"directory": None, **entry}) for entry in fields["replicas"]]
    for moves in ("inputs", "outputs"):
        fields[moves] = [
            SimpleNamespace(**{**_MOVE, **dict(zip(_MOVE, entry, strict=False))}) for entry in fields[moves]
        ]
    return SimpleNamespace(**fields)  # type: ignore[return-value]  # checked by the engine, which wrote it
