"""Who is at the other end of the socket."""

import os
import socket
import struct

import pytest

from gangline.api.auth import local_caller, user_name
from gangline.errors import PermissionDeniedError


class _Wire:
    """A connection as the kernel describes it; patched only because another user cannot be had in a test."""

    def __init__(self, user_id: int, family: int = socket.AF_UNIX) -> None:
        self.family = family
        self._user_id = user_id

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_PEERCRED)
        return struct.pack("3i", 1234, self._user_id, 0)


class _Request:
    def __init__(self, wire: _Wire | None) -> None:
        self.transport = None if wire is None else self
        self._wire = wire

    def get_extra_info(self, name: str) -> object:
        return {"socket": self._wire}[name]


def test_the_owner_is_known_by_name() -> None:
    assert local_caller(_Request(_Wire(os.getuid()))).name == user_name(os.getuid())


def test_root_may_ask() -> None:
    assert local_caller(_Request(_Wire(0))).tenants is None


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(_Request(_Wire(os.getuid() + 4711)), id="somebody else"),
        pytest.param(_Request(_Wire(os.getuid(), socket.AF_INET)), id="over the network"),
        pytest.param(_Request(None), id="gone"),
    ],
)
def test_others_are_refused(request_: _Request) -> None:
    with pytest.raises(PermissionDeniedError):
        local_caller(request_)
