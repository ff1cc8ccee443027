"""How handlers answer: objects, and refusals as ``google.rpc.Status`` the way its gateway writes them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from aiohttp import web

from gangline.api.errors import status_of
from gangline.errors import ConflictError, GanglineError, NotFoundError
from gangline.model import Timestamp

Plain = dict[str, Any]

CANCELLED, UNKNOWN, FAILED_PRECONDITION, ABORTED = 1, 2, 9, 10
_CODES = {
    HTTPStatus.BAD_REQUEST: 3,
    HTTPStatus.UNAUTHORIZED: 16,
    HTTPStatus.FORBIDDEN: 7,
    HTTPStatus.NOT_FOUND: 5,
    HTTPStatus.METHOD_NOT_ALLOWED: 12,
    HTTPStatus.CONFLICT: 6,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: 3,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: 3,
    HTTPStatus.INTERNAL_SERVER_ERROR: 13,
    HTTPStatus.NOT_IMPLEMENTED: 12,
    HTTPStatus.BAD_GATEWAY: 14,
    HTTPStatus.SERVICE_UNAVAILABLE: 14,
    HTTPStatus.GATEWAY_TIMEOUT: 4,
}
"""The code of ``google.rpc.Code`` that goes with each status of HTTP."""


_WORDS = {
    "pipeline": "run",
    "template": "pipeline",
    "templateversion": "pipeline version",
    "runexperiment": "experiment",
    "schedule": "recurring run",
}
"""What users of that interface call our kinds."""


class PreconditionError(ConflictError):
    """What is asked for makes no sense in the state that something is in."""


def answer(body: Plain | None = None) -> web.Response:
    """Answer with an object; none is the empty one."""
    return web.Response(text=json.dumps(body or {}, ensure_ascii=False), content_type="application/json")


def refusal(status: HTTPStatus, message: str, code: int | None = None) -> web.Response:
    """Answer what is not done."""
    number = _CODES.get(status, UNKNOWN) if code is None else code
    detail = {"@type": "type.googleapis.com/google.rpc.Status", "code": number, "message": message}
    body = {"error": message, "code": number, "message": message, "details": [detail]}
    return web.Response(text=json.dumps(body, ensure_ascii=False), status=status, content_type="application/json")


def error_answer(error: GanglineError) -> web.Response:
    """Answer with an error."""
    if isinstance(error, PreconditionError):
        return refusal(HTTPStatus.BAD_REQUEST, str(error), FAILED_PRECONDITION)
    if isinstance(error, NotFoundError):
        called = NotFoundError(_WORDS.get(error.kind, error.kind), error.name, hint=error.hint)
        return refusal(HTTPStatus.NOT_FOUND, str(called))
    return refusal(status_of(error), str(error))


def given(document: Mapping[str, Any]) -> Plain:
    """Leave out what is not said."""
    return {name: value for name, value in document.items() if value not in (None, "")}


def time_text(at: Timestamp | None) -> str | None:
    """Write a time as clients read it."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
