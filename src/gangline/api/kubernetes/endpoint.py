"""Where clients find the interface: a loopback port and a token, kept in the owner's home so that kubeconfigs last."""

import json
import logging
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from gangline.errors import GanglineError

_HOST = "127.0.0.1"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a client needs to know. ``port`` None: none has been chosen yet."""

    token: str
    port: int | None

    @classmethod
    def read(cls, file: Path) -> "Endpoint":
        """Return the endpoint of the service before this one, or a new one; a damaged file is replaced."""
        try:
            kept = json.loads(file.read_text(encoding="utf-8"))
            return cls(token=str(kept["token"]), port=int(kept["port"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls(token=secrets.token_urlsafe(32), port=None)

    def write(self, file: Path) -> None:
        """Keep it where only the owner can read it."""
        partial = file.with_name(f".{file.name}.new")
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
            address = f"http://{_HOST}:{self.port}"
            json.dump({"address": address, "port": self.port, "token": self.token}, written)
        partial.replace(file)


async def open_endpoint(runner: web.AppRunner, endpoint: Endpoint, file: Path, *, wanted_port: int | None) -> Endpoint:
    """Listen on the port that is wanted, else on the kept one if it is free, else on any; write down which."""
    if wanted_port is not None:
        opened = await _listen(runner, wanted_port)
        if opened is None:
            raise GanglineError(f"port {wanted_port} is taken or not a port; change the setting kubernetes_port")
    else:
        opened = await _listen(runner, endpoint.port or 0) or await _listen(runner, 0)
    found = Endpoint(token=endpoint.token, port=opened)
    if found != endpoint:
        try:
            found.write(file)
        except OSError as error:  # a full disk; everything else can be used, above all to delete jobs
            _log.warning("kubeconfigs do not know of port %s: %s: %s", opened, file, error)
    return found


async def _listen(runner: web.AppRunner, port: int) -> int | None:
    """Return the port that is listened on, None if it is taken."""
    site = web.TCPSite(runner, _HOST, port)
    try:
        await site.start()
    except (OSError, OverflowError):
        await site.stop()
        return None
    return int(runner.addresses[-1][1])
