"""Memory that a worker shares with servers on its machine: gradients in the first half, values in the second.

The memory is anonymous (memfd): it has no name in any file system, is handed over as a descriptor on a Unix socket, and
is gone when the last process that holds it is gone, however that process ended. Nothing can be left behind.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket

from gangline.ps.errors import WireError

# Sealed against a change of size: a peer that could shrink the memory could kill the server with SIGBUS.
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class SharedImage:
    """Room for one model's gradients and values."""

    def __init__(self, descriptor: int, image_bytes: int) -> None:
        self.descriptor = descriptor
        self.image_bytes = image_bytes
        self._map = mmap.mmap(descriptor, 2 * image_bytes)
        whole = memoryview(self._map)
        self.gradients, self.values = whole[:image_bytes], whole[image_bytes:]

    @classmethod
    def create(cls, image_bytes: int) -> SharedImage:
        """New memory, in the worker."""
        descriptor = os.memfd_create("gangline-ps", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, 2 * image_bytes)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        return cls(descriptor, image_bytes)

    @classmethod
    def accept(cls, descriptor: int, image_bytes: int) -> SharedImage:
        """Memory that a worker handed over, in the server; refused when its size could still change."""
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        if seals & SEALS != SEALS or os.fstat(descriptor).st_size != 2 * image_bytes:
            os.close(descriptor)
            raise WireError("the shared memory is not sealed or has another size than announced")
        return cls(descriptor, image_bytes)

    def close(self) -> None:
        """Let go of the descriptor. The mapping goes with the last array that looks into it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def unix_name(address: str) -> str:
    """The abstract Unix socket of the server at `address`: reachable on the same machine only, with no file."""
    return f"\0gangline.ps/{address}"


def peer_is_same_user(sock: socket.socket) -> bool:
    """Whether the process at the other end of a Unix socket belongs to this user (or to root)."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    user = int.from_bytes(credentials[4:8], "little")
    return user in (os.geteuid(), 0)
