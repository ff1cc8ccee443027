"""Connections that nobody on the way can read or change: TLS 1.2 without certificates, tied to the job's secret.

The keys of each connection are agreed upon anonymously (Diffie-Hellman), and both ends then prove that they know the
job's secret *and* see the same channel (`tls-unique`, RFC 5929): whoever stands between them has a channel with either,
and the two differ. So the secret is all there is to deliver. Certificates would have to be made for every job, which
Python's library cannot; pre-shared keys it knows from 3.13 on only, and the binding of TLS 1.3 not at all.

Only imported where connections are encrypted.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable
from functools import cache
from importlib import resources

from gangline.ps.errors import AuthenticationError, SettingsError
from gangline.ps.protocol.frames import Buffer

# Anonymous suites count as insecure (level 0) because they authenticate nobody: that is the secret's part here.
SUITES = "ADH-AES256-GCM-SHA384:ADH-AES128-GCM-SHA256:@SECLEVEL=0"
GROUP = "ffdhe3072.pem"


class EncryptedSocket:
    """A socket's methods that this package uses, encrypted. Takes over the socket it is given."""

    def __init__(self, sock: socket.socket, *, server_side: bool) -> None:
        self.family = sock.family
        self._tls = _context(server_side=server_side).wrap_socket(
            sock, server_side=server_side, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
        self.fileno = self._tls.fileno
        self.close = self._tls.close
        self.settimeout = self._tls.settimeout
        self.sendall = self._tls.sendall
        self.pending = self._tls.pending

    def shake_hands(self) -> bool:
        """Agree on the keys; False while a socket that does not block has to wait for the other side."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    @property
    def channel(self) -> bytes:
        """What both ends of this one channel know, and nobody who stands between them can bring about."""
        binding = self._tls.get_channel_binding("tls-unique")
        if not binding:
            raise AuthenticationError("the encrypted channel cannot be told from another")
        return binding

    def recv(self, count: int) -> bytes:
        """See socket."""
        try:
            return self._tls.recv(count)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error

    def recv_into(self, target: memoryview) -> int:
        """See socket."""
        try:
            return self._tls.recv_into(target)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error

    def send(self, data: bytes) -> int:
        """See socket."""
        return self.sendmsg([data])

    def sendmsg(self, buffers: Iterable[Buffer]) -> int:
        """See socket. What cannot go now must be offered again unchanged."""
        sent = 0
        for buffer in buffers:
            try:
                size = self._tls.send(buffer) if len(buffer) else 0
            except ssl.SSLWantWriteError as error:
                if sent:
                    break
                raise BlockingIOError from error
            sent += size
            if size < len(buffer):
                break
        return sent


@cache
def _context(*, server_side: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    # One handshake for each connection: resuming or renegotiating one would loosen what ties it to the secret.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        context.set_ciphers(SUITES)
    except ssl.SSLError as error:
        raise SettingsError(f"GANGLINE_ENCRYPT: this system's OpenSSL allows no anonymous suites: {error}") from error
    with resources.as_file(resources.files("gangline.ps").joinpath(GROUP)) as parameters:
        context.load_dh_params(str(parameters))
    return context
