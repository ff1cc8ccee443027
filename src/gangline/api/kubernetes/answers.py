"""How handlers answer: objects, lists, Status objects for refusals, and streams."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from http import HTTPStatus

from aiohttp import web

from gangline.api.errors import status_of
from gangline.api.kubernetes.plain import Plain, given
from gangline.api.rest.answers import STREAMS
from gangline.errors import GanglineError, InvalidInputError, NotFoundError

_LOOK_SECONDS = 5.0
"""How often a silent stream looks whether its client is still there."""

_REASONS = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "UnsupportedMediaType",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
    HTTPStatus.GATEWAY_TIMEOUT: "Timeout",
}


def object_answer(body: Plain, status: HTTPStatus = HTTPStatus.OK, *, warnings: Sequence[str] = ()) -> web.Response:
    """Answer with one object; ``warnings`` are for clients that print them."""
    response = web.Response(text=json.dumps(body), status=status, content_type="application/json")
    for warning in warnings:
        quoted = json.dumps(warning)  # ASCII, and the same escapes that a quoted string of HTTP has
        response.headers.add("Warning", f"299 - {quoted}")
    return response


def list_object(kind: str, version: str, found: Sequence[Plain]) -> Plain:
    """Wrap objects in a list."""
    newest = max((_version(item) for item in found), default=1)
    return {
        "apiVersion": version,
        "kind": f"{kind}List",
        "metadata": {"resourceVersion": str(newest)},
        "items": list(found),
    }


def _version(item: Plain) -> int:
    metadata = item.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return int(version) if isinstance(version, str) and version.isdigit() else 1


def success_object(name: str, kind: str, uid: str) -> Plain:
    """Write the Status that answers a deletion."""
    details = {"name": name, "kind": kind, "uid": uid}
    return {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success", "details": details}


def refusal_object(status: HTTPStatus, message: str, *, reason: str | None = None, name: str | None = None) -> Plain:
    """Write the Status that answers what is not done."""
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason or _REASONS.get(status, "InternalError"),
        "details": given({"name": name}),
        "code": status.value,
    }


def kubernetes_status(error: GanglineError) -> HTTPStatus:
    """Return the status that a cluster would answer with."""
    return HTTPStatus.UNPROCESSABLE_ENTITY if isinstance(error, InvalidInputError) else status_of(error)


def error_answer(error: GanglineError, *, creating: bool = False) -> web.Response:
    """Answer with an error; ``creating`` tells a name that is taken from other conflicts."""
    status = kubernetes_status(error)
    reason = "AlreadyExists" if creating and status is HTTPStatus.CONFLICT else None
    name = error.name if isinstance(error, NotFoundError) else None
    return object_answer(refusal_object(status, str(error), reason=reason, name=name), status)


async def stream_answer(
    request: web.Request, chunks: AsyncGenerator[bytes, None], *, content_type: str, seconds: float | None = None
) -> web.StreamResponse:
    """Answer with chunks as they come, until they end, time is up, the client goes away or the service stops."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    pump = asyncio.create_task(_pump(response, chunks))
    request.app[STREAMS].add(pump)
    try:
        # A silent stream learns of its client's end here; nothing may be written into it just to find out.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not pump.done() and request.transport is not None:
                    await asyncio.wait((pump,), timeout=_LOOK_SECONDS)
    finally:
        pump.cancel()
        await asyncio.wait((pump,))
    if not pump.cancelled() and (error := pump.exception()) is not None:
        raise error
    return response


async def _pump(response: web.StreamResponse, chunks: AsyncGenerator[bytes, None]) -> None:
    # A client that goes away has seen enough; nothing is owed to it.
    with suppress(ConnectionResetError):
        async with aclosing(chunks):
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
