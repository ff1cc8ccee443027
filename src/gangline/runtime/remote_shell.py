"""Runs commands on the other replicas of an MPI job, as ``mpirun`` wants it, without sshd in the image.

This very file travels with the job into images that know nothing of Gangline, so it needs the standard library of an
old Python and nothing else. Beside it lies ``token``, which only the job's own replicas have: both sides prove that
they know it before a command is taken. What is said afterwards is not encrypted; the job's network policy keeps
others out.

    remote_shell.py serve [COMMAND WORD...]      in every worker: answer, and run the worker's own command
    remote_shell.py [-OPTION...] HOST WORD...    in the launcher: what ``mpirun`` calls in place of ssh
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT = 7422
FAILURE = 255
"""What ssh answers too when it cannot reach a host."""
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
_GREETING_SECONDS = 10.0
_NONCE_BYTES = 32
_HEAD = struct.Struct(">BI")
_LONGEST = 1 << 20
_WITH_VALUE = (
    "-b",
    "-c",
    "-D",
    "-E",
    "-e",
    "-F",
    "-I",
    "-i",
    "-J",
    "-L",
    "-l",
    "-m",
    "-O",
    "-o",
    "-p",
    "-Q",
    "-R",
    "-S",
)
"""Options of ssh that take a value; all are ignored here, for there is nothing to choose."""
_COMMAND, _INPUT, _OUTPUT, _ERROR, _EXIT = range(5)


class ShellError(Exception):
    """The other side cannot be reached, or is not who it should be."""


def main() -> None:
    """Serve, or run a command elsewhere."""
    if sys.argv[1:2] == ["serve"]:
        sys.exit(serve(sys.argv[2:], _token()))
    host, words = _host_and_words(sys.argv[1:])
    try:
        sys.exit(run(host, " ".join(words), _token()))
    except (OSError, ShellError) as error:
        sys.stderr.write(f"{host}: {error}\n")
        sys.exit(FAILURE)


def _token() -> bytes:
    return Path(__file__).with_name("token").read_bytes().strip()


def _port() -> int:
    return int(os.environ.get("GANGLINE_SHELL_PORT", PORT))


def _host_and_words(arguments: list[str]) -> tuple[str, list[str]]:
    """Pass over ssh's options; the first word that is none is the host."""
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        position += 2 if arguments[position] in _WITH_VALUE else 1
    if position >= len(arguments):
        sys.exit("remote_shell.py: no host is named")
    return arguments[position].rpartition("@")[2], arguments[position + 1 :]


# Both sides ------------------------------------------------------------------------------------------------


def _proof(token: bytes, side: bytes, nonces: bytes) -> bytes:
    return hmac.new(token, side + nonces, hashlib.sha256).digest()


def _greet(connection: socket.socket, token: bytes, *, mine: bytes, theirs: bytes) -> None:
    """Prove to each other that both know the token. Each side draws a number, so that no proof serves twice."""
    connection.settimeout(_GREETING_SECONDS)
    own = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(own)
    other = _exactly(connection, _NONCE_BYTES)
    connection.sendall(_proof(token, mine, own + other))
    if not hmac.compare_digest(_exactly(connection, hashlib.sha256().digest_size), _proof(token, theirs, other + own)):
        raise ShellError("the other side does not know this job's token")
    connection.settimeout(None)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ShellError("the connection ended too early")
        data += piece
    return data


def _send(connection: socket.socket, kind: int, data: bytes) -> None:
    connection.sendall(_HEAD.pack(kind, len(data)) + data)


def _receive(connection: socket.socket) -> tuple[int, bytes]:
    kind, length = _HEAD.unpack(_exactly(connection, _HEAD.size))
    if length > _LONGEST:
        raise ShellError("a message is longer than any should be")
    return kind, _exactly(connection, length)


# The worker's side -----------------------------------------------------------------------------------------


def serve(command: list[str], token: bytes, *, port: int | None = None) -> int:
    """Answer on a port while the worker's own command runs; return its exit code. Without one, answer forever."""
    with socket.create_server(("", _port() if port is None else port), backlog=128) as listener:
        answering = threading.Thread(target=answer, args=(listener, token), daemon=True)
        answering.start()
        if not command:
            answering.join()
            return 0
        process = subprocess.Popen(command)  # the user's own command, in the user's own container
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: process.send_signal(number))
        code = process.wait()
        return 128 - code if code < 0 else code


def answer(listener: socket.socket, token: bytes) -> None:
    """Serve every connection until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_attend, args=(connection, token), daemon=True).start()


def _attend(connection: socket.socket, token: bytes) -> None:
    with connection:
        try:
            _greet(connection, token, mine=b"server", theirs=b"client")
            kind, command = _receive(connection)
            if kind == _COMMAND:
                _Session(connection, command.decode()).carry()
        except (OSError, ShellError) as error:
            sys.stderr.write(f"remote shell: {error}\n")


class _Session:
    """One command of one client. It may leave a daemon behind: that is how mpirun starts its own."""

    def __init__(self, connection: socket.socket, command: str) -> None:
        self._connection = connection
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        self._ended, writing = os.pipe()
        threading.Thread(target=self._wait, args=(writing,), daemon=True).start()

    def _wait(self, writing: int) -> None:
        self._process.wait()
        os.close(writing)

    def carry(self) -> None:
        """Carry everything to and fro until the command ends, or the client goes away and takes it along."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        outputs = {process.stdout.fileno(): _OUTPUT, process.stderr.fileno(): _ERROR}
        try:
            with selectors.DefaultSelector() as selector:
                for file in (*outputs, self._ended, self._connection.fileno()):
                    selector.register(file, selectors.EVENT_READ)
                while self._step(selector, outputs):
                    pass
        finally:
            os.close(self._ended)
            for stream in (process.stdin, process.stdout, process.stderr):
                with contextlib.suppress(OSError):
                    stream.close()

    def _step(self, selector: selectors.BaseSelector, outputs: dict[int, int]) -> bool:
        ready = {key.fd for key, _ in selector.select()}
        for file in ready & outputs.keys():
            data = os.read(file, 65536)
            if data:
                _send(self._connection, outputs[file], data)
            else:
                selector.unregister(file)
        if self._connection.fileno() in ready and not self._take_input():
            return False
        if self._ended in ready and not ready & outputs.keys():  # first all that it wrote
            code = self._process.returncode
            _send(self._connection, _EXIT, struct.pack(">i", 128 - code if code < 0 else code))
            return False
        return True

    def _take_input(self) -> bool:
        assert self._process.stdin is not None
        try:
            kind, data = _receive(self._connection)
        except (OSError, ShellError):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            return False
        with contextlib.suppress(OSError, ValueError):  # a command may close its input
            if kind == _INPUT and data:
                self._process.stdin.write(data)
                self._process.stdin.flush()
            elif kind == _INPUT:
                self._process.stdin.close()
        return True


# The launcher's side ---------------------------------------------------------------------------------------


def run(host: str, command: str, token: bytes, *, port: int | None = None) -> int:
    """Run a command on a host as if it ran here; return its exit code."""
    with _connected(host, _port() if port is None else port) as connection:
        _greet(connection, token, mine=b"client", theirs=b"server")
        _send(connection, _COMMAND, command.encode())
        threading.Thread(target=_forward_input, args=(connection,), daemon=True).start()
        while True:
            kind, data = _receive(connection)
            if kind == _EXIT:
                (code,) = struct.unpack(">i", data)
                return int(code)
            stream = sys.stdout if kind == _OUTPUT else sys.stderr
            stream.buffer.write(data)
            stream.buffer.flush()


@contextlib.contextmanager
def _connected(host: str, port: int) -> Iterator[socket.socket]:
    """Connect, with patience: the launcher may be up before its workers, and before their names are known."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=_GREETING_SECONDS)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
    with connection:
        yield connection


def _forward_input(connection: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):  # the command has ended
        while True:
            data = os.read(sys.stdin.fileno(), 65536)
            _send(connection, _INPUT, data)
            if not data:
                return


if __name__ == "__main__":
    main()
