"""The gRPC port of a team's service, beside its port for HTTP."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from gangline.compose.sockets import listen
from gangline.compose.team.listening import Listening
from gangline.errors import GanglineError, InvalidInputError

if TYPE_CHECKING:
    from gangline.api.grpc.server import RpcServer

_log = logging.getLogger(__name__)


async def open_rpc_port(runner: web.AppRunner, listening: Listening, home: Path, socket: Path) -> "RpcServer | None":
    """Serve gRPC where that was asked for; calls reach the team's application over a socket of its own."""
    if listening.rpc is None:
        return None
    # Its own log has a line for every client that hangs up in the middle of a handshake.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        import grpc

        from gangline.api.ffdl.application import operations_here as ffdl_operations
        from gangline.api.grpc.server import RestLink, RpcServer
        from gangline.api.grpc.trainer import SERVICE as TRAINER
        from gangline.api.grpc.trainer import trainer_handler
        from gangline.api.rest.application import all_operations
    except ImportError as error:
        raise InvalidInputError(
            "gRPC needs the extra 'grpc'", field="--grpc", expected="pip install 'gangline[grpc]'"
        ) from error

    await listen(runner, socket)
    host, port = listening.rpc
    credentials = None
    if not listening.plain:
        certificate, key = listening.certificate_files(home)
        credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    link = RestLink(socket)
    server = RpcServer(link, all_operations(), **{TRAINER: trainer_handler(link, ffdl_operations())})
    try:
        bound = await server.start(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", credentials)
    except RuntimeError as error:
        await server.stop()
        raise GanglineError(f"cannot listen on {host} port {port} for gRPC; is the port in use?") from error
    _log.info("serving a team on %s://%s:%d", "grpc" if listening.plain else "grpcs", host, bound)
    return server
