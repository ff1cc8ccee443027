"""Loopback addresses: one per replica, so that every replica of every gang may listen on the same port.

All of 127.0.0.0/8 is this machine. Each user has a block of their own; within it, an address is taken by holding an
abstract socket name for it: the engine holds the claim, the keeper holds the address, the kernel lets go of either when
its holder dies. Such names belong to the network namespace, exactly as the addresses do.

Some frameworks listen on every address, whichever they were told. Their replicas get ports of their own as well.
"""

import os
import socket
from collections.abc import Iterator

from gangline.errors import EngineError

_PROBES = 8
_LAST_PORT = 0xFFFF


class Addresses:
    """The addresses that this engine has handed out."""

    def __init__(self, user_id: int | None = None) -> None:
        self._block = 1 + (os.getuid() if user_id is None else user_id) % 253
        self._claims: dict[str, socket.socket] = {}
        self._ports: dict[str, socket.socket] = {}
        self._candidates = self._walk()

    def take(self, port: int) -> str:
        """Return an address that nobody holds and where, if possible, nobody listens on the port."""
        refused = 0
        for address in self._candidates:
            if address in self._claims or (claim := _claim(address)) is None:
                continue
            # A program that listens on every address blocks the port everywhere: after a few tries, take what there is.
            if not _port_is_free(address, port) and refused < _PROBES:
                refused += 1
                claim.close()
                continue
            self._claims[address] = claim
            return address
        raise EngineError("every loopback address is taken")

    def take_port(self, wanted: int, address: str) -> int:
        """Return the first port from the wanted one on that is free on every address; it goes back with ``address``."""
        for port in range(wanted, _LAST_PORT + 1):
            if (claim := _bind(f"port/{port}")) is None:
                continue
            if _port_is_free("", port):
                self._ports[address] = claim
                return port
            claim.close()
        raise EngineError(f"no port from {wanted} on is free")

    def keep(self, address: str) -> None:
        """Claim an address that a gang of an earlier life of this engine holds."""
        if address not in self._claims and (claim := _bind(f"claim/{address}")) is not None:
            self._claims[address] = claim

    def release(self, address: str) -> None:
        """Let go of an address, and of the port that was taken with it."""
        for claims in (self._claims, self._ports):
            if claim := claims.pop(address, None):
                claim.close()

    def close(self) -> None:
        """Let go of every claim; the keepers go on holding the addresses they use."""
        for address in list(self._claims):
            self.release(address)

    def _walk(self) -> Iterator[str]:
        """Go round the block, so that an address is used again as late as possible; give up after a round in vain."""
        while True:
            before = len(self._claims)
            for number in range(1, 0xFFFF):
                yield f"127.{self._block}.{number >> 8}.{number & 0xFF}"
            if len(self._claims) == before:
                return


def _claim(address: str) -> socket.socket | None:
    claim = _bind(f"claim/{address}")
    if claim is None:
        return None
    held = _bind(f"address/{address}")
    if held is None:
        claim.close()
        return None
    held.close()
    return claim


def _bind(name: str) -> socket.socket | None:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind(f"\0gangline/{name}")
    except OSError:
        holder.close()
        return None
    return holder


def _port_is_free(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
