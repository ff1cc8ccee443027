"""The id of a request: the one that its client gave it, or one of ours; in the answer, the audit record and the log."""

import contextvars
import logging
import re
import secrets

from aiohttp import web

from gangline.api.operation import Handler

REQUEST_ID: web.RequestKey[str] = web.RequestKey("request_id", str)
REQUEST_ID_HEADER = "X-Request-Id"
_FIT = re.compile(r"[A-Za-z0-9._~+/=:-]{1,128}")
_CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")


@web.middleware
async def numbering(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give every request its id. A client's own says nothing of who it is, and is as good as any to find it again."""
    given = request.headers.get(REQUEST_ID_HEADER, "")
    request[REQUEST_ID] = given if _FIT.fullmatch(given) else secrets.token_hex(8)
    token = _CURRENT.set(request[REQUEST_ID])
    try:
        return await handler(request)
    finally:
        _CURRENT.reset(token)


async def tell_request_id(request: web.Request, response: web.StreamResponse) -> None:
    """Put the id into the answer."""
    if REQUEST_ID in request:
        response.headers[REQUEST_ID_HEADER] = request[REQUEST_ID]


class RequestIdFilter(logging.Filter):
    """Gives each line of a log the id of the request that it is written for, as ``request``."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every line pass."""
        found = _CURRENT.get()
        record.request = f" [{found}]" if found else ""
        return True
