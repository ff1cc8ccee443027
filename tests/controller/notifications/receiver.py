"""A receiver of webhooks on a port of this machine, and a server that takes mail, as real as loopback permits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from gangline.kinds.notification.messages import signature, signing_key
from gangline.model import Timestamp

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOLERANCE_SECONDS = 300.0


def verify(headers: dict[str, str], body: bytes, now: float, key: str = KEY) -> bool:
    """Do what docs/team-service.md asks of a receiver."""
    sent_at = float(headers["webhook-timestamp"])
    if abs(now - sent_at) > TOLERANCE_SECONDS:
        return False
    made = signature(signing_key(key), headers["webhook-id"], Timestamp(sent_at), body)
    return made in headers["webhook-signature"].split(" ")


@dataclass
class Receiver:
    """Keeps what it is sent; answers with the statuses it was given, the last one for ever."""

    statuses: list[int] = field(default_factory=lambda: [200])
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    hangs: bool = False
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def answer(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.got.append((headers, await request.read()))
        if self.hangs:
            await asyncio.Event().wait()
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.Response(status=status, headers={"Location": self.url} if 300 <= status < 400 else None)


@asynccontextmanager
async def receiving(receiver: Receiver) -> AsyncIterator[Receiver]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


@asynccontextmanager
async def mail_server(got: list[str], *, refusal: str = "") -> AsyncIterator[int]:
    """Speak as much SMTP as a client needs that does not encrypt; return the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := (await reader.readline()).decode().strip():
            word = line.split()[0].upper()
            got.append(line)
            if word == "DATA":
                writer.write(b"354 go on\r\n")
                text = await reader.readuntil(b"\r\n.\r\n")
                got.append(text.decode())
                writer.write(b"250 kept\r\n")
            elif word == "RCPT" and refusal:
                writer.write(refusal.encode() + b"\r\n")
            else:
                writer.write({"QUIT": b"221 bye\r\n"}.get(word, b"250 ok\r\n"))
            if word == "QUIT":
                break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
