"""The cheapest answer an API server can give, and how its refusals read.

Writing an object out as JSON costs the server a tenth of what creating it does. Whoever does not need the answer asks
for Kubernetes' own binary form instead and leaves it unread. Only a refusal is looked into, and only for what the JSON
form of a ``Status`` would have said.
"""

from collections.abc import Iterator
from typing import Any

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
ACCEPT = f"{MEDIA_TYPE}, application/json"
"""A server or a proxy that does not know the binary form answers as always."""

_MAGIC = b"k8s\x00"
_CONTENT = 2  # of the envelope around every object
_MESSAGE, _REASON, _DETAILS, _CODE = 3, 4, 5, 6  # of a Status
_CAUSES, _RETRY_AFTER = 4, 5  # of its details
_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED_64: 8, _FIXED_32: 4}


def status_from(body: bytes) -> dict[str, Any] | None:
    """Read a ``Status`` in binary form as the plain object its JSON form is; None if the body is something else."""
    if not body.startswith(_MAGIC):
        return None
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        status = dict(_fields(_bytes(envelope.get(_CONTENT))))
        return {
            "message": _text(status.get(_MESSAGE)),
            "reason": _text(status.get(_REASON)),
            "code": status.get(_CODE, 0),
            "details": _details(_bytes(status.get(_DETAILS))),
        }
    except (IndexError, KeyError):
        return None


def _details(message: bytes) -> dict[str, Any]:
    fields = list(_fields(message))
    causes = [dict(_fields(_bytes(value))) for number, value in fields if number == _CAUSES]
    return {
        "causes": [
            {"reason": _text(cause.get(1)), "message": _text(cause.get(2)), "field": _text(cause.get(3))}
            for cause in causes
        ],
        "retryAfterSeconds": dict(fields).get(_RETRY_AFTER),
    }


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Take a protobuf message apart: the number of each field and what it holds."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, form = key >> 3, key & 7
        if form == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        length, at = _varint(message, at) if form == _LENGTH_DELIMITED else (_FIXED_BYTES[form], at)
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _bytes(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""


def _text(value: int | bytes | None) -> str:
    return _bytes(value).decode(errors="replace")
