"""Who is at the other end of a connection."""

import getpass
import os
import socket
import struct

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.operation import IDENTITY, Handler
from gangline.errors import PermissionDeniedError
from gangline.model.team.access import Identity
from gangline.operations import Caller

_CREDENTIALS = struct.Struct("3i")
_ROOT = 0


def local_caller(request: web.Request) -> Caller:
    """Return the user behind a Unix socket, as the kernel tells it; only the service's own user and root may ask.

    The directory of the socket keeps others out already; this holds even if somebody opened it to them.
    """
    connection = None if request.transport is None else request.transport.get_extra_info("socket")
    if connection is None or connection.family != socket.AF_UNIX:
        raise PermissionDeniedError("this service answers on its own socket only")
    if not hasattr(socket, "SO_PEERCRED"):
        # Elsewhere than on Linux this is the socket by which a process speaks to itself, in a directory of its own.
        return Caller(name=own_name())
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user_id, _ = _CREDENTIALS.unpack(raw)
    if user_id not in (os.getuid(), _ROOT):
        raise PermissionDeniedError(f"this service belongs to {user_name(os.getuid())}, not to {user_name(user_id)}")
    return Caller(name=user_name(user_id))


async def local_identity(request: web.Request) -> Identity:
    """Return the same as somebody who may do everything: whoever may enter the socket runs the platform."""
    return Identity(name=local_caller(request).name, operator=True)


def known_as(name: str) -> Middleware:
    """Take every request for one of somebody who runs the platform: what stands around has seen their token."""

    @web.middleware
    async def know(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[IDENTITY] = Identity(name=name, operator=True)
        return await handler(request)

    return know


def user_name(user_id: int) -> str:
    """Return the name of a user, or the number of one that has none (as in many containers)."""
    import pwd  # only Unix has it

    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"user {user_id}"


def own_name() -> str:
    """Return the name of whoever runs this process."""
    if hasattr(os, "getuid"):
        return user_name(os.getuid())
    try:
        return getpass.getuser()
    except (ImportError, OSError):  # no variable says it
        return "somebody"
