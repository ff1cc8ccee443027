"""Tries whether a replica of a service is well: a connection, a request, or a program beside it."""

import asyncio
import contextlib
import os
import signal

import aiohttp

from gangline.engines.local.orders.ordering import address_of
from gangline.engines.local.wire import ReplicaOrder
from gangline.model.kinds.service import Check

_LONGEST_TEXT = 200


async def check_replica(check: Check, order: ReplicaOrder, user: int | None = None) -> str:
    """Return why a check does not hold; empty if it does. Programs run as ``user``, where not as the service's own."""
    try:
        async with asyncio.timeout(check.timeout_seconds):
            if check.exec:
                return await _run(check.exec, order, user)
            host, _, port = address_of(order).rpartition(":")
            return await (_get(f"http://{host}:{port}{check.http}") if check.http else _connect(host, int(port)))
    except TimeoutError:
        return f"no answer within {check.timeout_seconds:g} s"
    except (OSError, ValueError, aiohttp.ClientError) as error:
        return str(error) or type(error).__name__


async def _connect(host: str, port: int) -> str:
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    return ""


async def _get(address: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(address, allow_redirects=False) as answer:
        return "" if answer.status < 400 else f"{address} answered {answer.status}"


async def _run(command: tuple[str, ...], order: ReplicaOrder, user: int | None) -> str:
    name = command[0]
    if user is not None:
        # Entered by the program, for this process may enter directories that the user may not.
        command = ("/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", order.directory or "/", *command)
    words = _LastWords()
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=order.environment,
            cwd="/" if user is not None else order.directory,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=words.end,
            start_new_session=True,
        )
        try:
            code = await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):  # what it left behind would be nobody's
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    finally:
        said = words.close()
    return "" if code == 0 else f"{name} exited with {code}: {said}"


class _LastWords:
    """The end of what a program says: it may say as much as it likes, and leave others that hold its output open.

    A pipe of asyncio's own would be waited for until the last of those has ended.
    """

    def __init__(self) -> None:
        self._kept = b""
        self._read, self.end = os.pipe()
        os.set_blocking(self._read, False)
        asyncio.get_running_loop().add_reader(self._read, self._take)

    def _take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._kept = (self._kept + os.read(self._read, 65536))[-4 * _LONGEST_TEXT :]

    def close(self) -> str:
        self._take()
        asyncio.get_running_loop().remove_reader(self._read)
        os.close(self._read)
        os.close(self.end)
        return self._kept.decode(errors="replace").strip()[-_LONGEST_TEXT:]
