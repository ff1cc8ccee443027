"""Where a request came from that another part of this service sent on, over a socket of its own."""

import socket

from aiohttp import web

from gangline.api.operation import Handler

ORIGIN_HEADER = "Gangline-Origin"


@web.middleware
async def telling_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Take the sender's word for where a request came from, if it came over a Unix socket; nobody else is believed."""
    origin = request.headers.get(ORIGIN_HEADER)
    connection = None if request.transport is None else request.transport.get_extra_info("socket")
    if origin and connection is not None and connection.family == socket.AF_UNIX:
        request = request.clone(remote=origin)
    return await handler(request)
