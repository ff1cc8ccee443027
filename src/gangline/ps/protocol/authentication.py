"""How both ends of a connection prove that they know the job's secret, before anything else is read.

    server to client   "GLPS" and a nonce                             36 bytes
    client to server   a nonce, and HMAC(secret, "client", nonces)    64 bytes
    server to client   HMAC(secret, "server", nonces)                 32 bytes

The secret does not travel, and since either side draws a nonce, what was overheard once proves nothing later. The
client goes first: a stranger learns nothing but that a parameter server is here. Where the connection is to be
encrypted, both prove it once more for the encrypted channel (see encryption.py).

Without a secret there is no network: servers are reached through the machine's own socket alone, by processes of the
same user, whom the kernel vouches for. `RemoteLink` and the server's `Acceptor` use this module.
"""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gangline.ps.errors import AuthenticationError, SettingsError

if TYPE_CHECKING:
    from gangline.ps.protocol.encryption import EncryptedSocket
    from gangline.runtime import Replica

MAGIC = b"GLPS"
NONCE_BYTES = 32
PROOF_BYTES = 32
REFUSAL = bytes(PROOF_BYTES)
LEAST_SECRET_BYTES = 32
CLIENT, SERVER = b"client", b"server"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The job's secret, and whether what is said over the network is encrypted. An empty secret is none."""

    secret: bytes = field(default=b"", repr=False)
    encrypt: bool = False

    @classmethod
    def of(cls, replica: Replica) -> Credentials:
        """Read the secret that the environment names; refuses one that could be guessed."""
        if replica.secret_path is None:
            if replica.encrypt:
                raise SettingsError("GANGLINE_ENCRYPT is set, but GANGLINE_SECRET_FILE names no secret to do it with")
            return cls()
        try:
            secret = replica.secret_path.read_bytes().strip()
        except OSError as error:
            raise SettingsError(f"the job's secret (GANGLINE_SECRET_FILE) cannot be read: {error}") from error
        if len(secret) < LEAST_SECRET_BYTES:
            raise SettingsError(
                f"the secret in {replica.secret_path} has {len(secret)} bytes: expected at least {LEAST_SECRET_BYTES}"
                " random ones, as `openssl rand -hex 32` prints them"
            )
        return cls(secret, replica.encrypt)

    def proof(self, side: bytes, nonces: bytes, channel: bytes = b"") -> bytes:
        """What only somebody who knows the secret can say. Nobody can make two sides disagree about encryption."""
        how = b" encrypted " if self.encrypt else b" plain "
        return hmac.digest(self.secret, side + how + nonces + channel, "sha256")

    def plain(self) -> Credentials:
        """The same without encryption: for connections that do not leave the machine."""
        return Credentials(self.secret)


def prove(sock: socket.socket, credentials: Credentials) -> socket.socket | EncryptedSocket:
    """The client's part, on a blocking socket. Answers the socket to go on with."""
    greeting = _exactly(sock, len(MAGIC) + NONCE_BYTES)
    if not greeting.startswith(MAGIC):
        raise AuthenticationError("this is not a parameter server, or one of another version")
    own = os.urandom(NONCE_BYTES)
    nonces = greeting[len(MAGIC) :] + own
    sock.sendall(own + credentials.proof(CLIENT, nonces))
    _check_server(_exactly(sock, PROOF_BYTES), credentials.proof(SERVER, nonces))
    if not credentials.encrypt:
        return sock
    from gangline.ps.protocol.encryption import EncryptedSocket

    encrypted = EncryptedSocket(sock, server_side=False)
    try:
        encrypted.shake_hands()
        encrypted.sendall(credentials.proof(CLIENT, nonces, encrypted.channel))
        _check_server(_exactly(encrypted, PROOF_BYTES), credentials.proof(SERVER, nonces, encrypted.channel))
    except BaseException:
        encrypted.close()
        raise
    return encrypted


def _check_server(answer: bytes, expected: bytes) -> None:
    if answer == REFUSAL:
        raise AuthenticationError(
            "the server refused: its secret (GANGLINE_SECRET_FILE) or its GANGLINE_ENCRYPT differs from this process's"
        )
    if not hmac.compare_digest(answer, expected):
        raise AuthenticationError("the server does not know this job's secret")


def _exactly(sock: socket.socket | EncryptedSocket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise ConnectionResetError("the other side closed the connection")
        data += piece
    return data


class PendingConnection:
    """The server's part, on a socket that never blocks: whoever has connected and proved nothing yet."""

    def __init__(self, sock: socket.socket, credentials: Credentials, *, until: float) -> None:
        self.sock: socket.socket | EncryptedSocket = sock
        self.pending: Callable[[], int] = int
        """How many bytes were decrypted and not read yet."""
        self.until = until
        self.descriptor = sock.fileno()
        self._plain = sock
        self._credentials = credentials
        self._steps = self._converse()

    def advance(self) -> bool:
        """Take what has come; whether it has proved itself. Raises AuthenticationError when it never will."""
        try:
            next(self._steps)
        except StopIteration:
            return True
        return False

    def _converse(self) -> Generator[None, None, None]:
        drawn = os.urandom(NONCE_BYTES)
        self.sock.send(MAGIC + drawn)
        claim = yield from self._take(NONCE_BYTES + PROOF_BYTES)
        nonces = drawn + claim[:NONCE_BYTES]
        self._answer(claim[NONCE_BYTES:], nonces, b"")
        if not self._credentials.encrypt:
            return
        from gangline.ps.protocol.encryption import EncryptedSocket

        self.sock = encrypted = EncryptedSocket(self._plain, server_side=True)
        self.pending = encrypted.pending
        while not encrypted.shake_hands():
            yield
        claim = yield from self._take(PROOF_BYTES)
        self._answer(claim, nonces, encrypted.channel)

    def _answer(self, claim: bytes, nonces: bytes, channel: bytes) -> None:
        if not hmac.compare_digest(claim, self._credentials.proof(CLIENT, nonces, channel)):
            self.sock.send(REFUSAL)
            raise AuthenticationError("the job's secret was not known")
        self.sock.send(self._credentials.proof(SERVER, nonces, channel))

    def _take(self, count: int) -> Generator[None, None, bytes]:
        data = b""
        while len(data) < count:
            try:
                piece = self.sock.recv(count - len(data))
            except BlockingIOError:
                yield
                continue
            if not piece:
                raise ConnectionResetError("closed by the client")
            data += piece
        return data
