"""Sending large documents compressed."""

from aiohttp import web

from gangline.api.operation import Handler

_LEAST_COMPRESSED_BYTES = 1024


@web.middleware
async def compress(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Compress large documents for whoever accepts that; streams come as they are, line by line."""
    response = await handler(request)
    body = response.body if isinstance(response, web.Response) else None
    if isinstance(body, bytes) and len(body) >= _LEAST_COMPRESSED_BYTES:
        response.enable_compression()
    return response
