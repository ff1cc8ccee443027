"""Frames on a socket."""

import socket
import threading

import pytest

from gangline.ps.errors import WireError
from gangline.ps.protocol.frames import (
    HEADER,
    MESSAGE_LIMIT,
    FrameReader,
    byte_view,
    drop_sent,
    frame,
    parse_header,
    send_all,
)
from tests.ps.gang import connected, dial, running_servers


def test_a_frame_comes_through_with_its_payload() -> None:
    left, right = socket.socketpair()
    payload = [bytes(100_000), b"end"]
    sender = threading.Thread(target=send_all, args=(left, [frame(b"hello", 100_003, flags=1), *payload]))
    sender.start()
    with left, right:
        reader = FrameReader(right)
        flags, message, size = reader.message()
        target = memoryview(bytearray(size))
        reader.payload([target[:50], target[50:]])
        sender.join()

    assert (flags, message) == (1, b"hello")
    assert bytes(target) == b"".join(payload)


def test_many_frames_in_one_piece_are_told_apart() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"".join(frame(str(number).encode()) for number in range(50)))
        reader = FrameReader(right, buffer_bytes=64)

        assert [int(reader.message()[1]) for _ in range(50)] == list(range(50))


def test_a_message_larger_than_the_buffer_comes_through() -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(frame(b"x" * 1000))

        assert FrameReader(right, buffer_bytes=64).message()[1] == b"x" * 1000


def test_a_closed_line_is_an_error_and_not_an_empty_message() -> None:
    left, right = socket.socketpair()
    left.close()
    with right, pytest.raises(ConnectionResetError):
        FrameReader(right).message()


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(b"GET / HTTP/1.1\r\n", id="another protocol"),
        pytest.param(HEADER.pack(b"GL", 9, 0, 0, 0), id="another version"),
        pytest.param(HEADER.pack(b"GL", 1, 0, MESSAGE_LIMIT + 1, 0), id="absurd message"),
        pytest.param(HEADER.pack(b"GL", 1, 0, 0, 1 << 60), id="absurd payload"),
    ],
)
def test_bytes_that_are_not_ours_are_refused_before_memory_is_set_aside(header: bytes) -> None:
    with pytest.raises(WireError):
        parse_header(header)


def test_what_is_left_after_part_was_sent() -> None:
    views = [memoryview(b"abc"), memoryview(b"def")]

    assert [bytes(view) for view in drop_sent(views, 4)] == [b"ef"]
    assert drop_sent(views, 6) == []


def test_an_empty_array_has_no_bytes() -> None:
    assert byte_view(b"").nbytes == 0


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(frame(b"\xff\xff\xff"), id="not a message"),
        pytest.param(frame(b"\x92\x0e\x01"), id="not a greeting"),
    ],
)
def test_a_server_drops_nonsense_and_serves_on(sent: bytes) -> None:
    with running_servers() as (address,):
        with connected(address) as sock:
            sock.sendall(sent)
            assert sock.recv(100) == b""

        dial(address).close()
