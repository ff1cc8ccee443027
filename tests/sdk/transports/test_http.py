"""The HTTP transport when things go wrong; the contract suite shows it when they go well."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gangline.errors import InvalidInputError, PermissionDeniedError, UnreachableError, WaitTimeoutError
from gangline.sdk.transports import http
from gangline.sdk.transports.http import HttpTransport
from gangline.sdk.transports.interface import Request

REQUEST = Request(method="GET", path="/v1/health")


def serve(path: Path, answer: Callable[[socket.socket], None]) -> str:
    """Answer one connection on a socket."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    def run() -> None:
        with listener:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                answer(connection)

    threading.Thread(target=run, daemon=True).start()
    return f"unix:{path}"


@pytest.mark.parametrize(
    "address", ["", "service", "ftp://host", "unix:", "http://", "http://host:port", "http://host:99999", "http://[::1"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InvalidInputError, match="not an address of a service"):
        HttpTransport(address)


def test_a_token_is_sent_unencrypted_to_this_machine_alone() -> None:
    for host in ("192.0.2.1", "gpu.example.org"):
        with pytest.raises(PermissionDeniedError, match="unencrypted"):
            HttpTransport(f"http://{host}:8470", token=lambda: "secret")
    for address in ("http://127.0.0.1:8470", "http://localhost:8470", "http://[::1]:8470", "https://gpu.example.org"):
        assert HttpTransport(address, token=lambda: "secret").address == address


def test_nobody_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="no service answers"):
        HttpTransport(f"unix:{tmp_path}/missing.sock").send(REQUEST)


def test_a_socket_that_a_dead_service_left_is_unreachable(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / "stale.sock"))
    with pytest.raises(UnreachableError, match="no service answers"):
        HttpTransport(f"unix:{tmp_path}/stale.sock").send(REQUEST)


def test_a_path_too_long_for_a_socket_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="too long"):
        HttpTransport(f"unix:{tmp_path}/{'x' * 120}.sock").send(REQUEST)


def test_a_service_that_dies_in_the_middle_is_unreachable(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    transport = HttpTransport(serve(tmp_path / "s.sock", lambda connection: connection.sendall(head)))
    with pytest.raises(UnreachableError, match="broke"):
        transport.send(REQUEST).read()


def test_a_stream_that_breaks_off_is_no_end(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n"
    transport = HttpTransport(serve(tmp_path / "s.sock", lambda connection: connection.sendall(head)))
    lines = transport.send(REQUEST).lines()
    assert next(lines) == b"one"
    with pytest.raises(UnreachableError):
        next(lines)


def test_a_silent_service_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "SILENCE_SECONDS", 0.05)
    done = threading.Event()
    transport = HttpTransport(serve(tmp_path / "s.sock", lambda connection: done.wait(60) and None))
    with pytest.raises(UnreachableError, match="does not answer"):
        transport.send(REQUEST)
    done.set()


def test_a_deadline_ends_a_stream_that_is_alive(tmp_path: Path) -> None:
    done = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
        done.wait(60)

    transport = HttpTransport(serve(tmp_path / "s.sock", answer))
    lines = transport.send(Request(method="GET", path="/", deadline=time.monotonic() + 1.0)).lines()
    assert next(lines) == b"one"
    with pytest.raises(WaitTimeoutError):
        next(lines)
    done.set()


def test_lines_that_arrive_in_pieces_are_put_together(tmp_path: Path) -> None:
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (b"a\nb", b"c\n", b"\n", b"\nd"))
    body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
    transport = HttpTransport(serve(tmp_path / "s.sock", lambda connection: connection.sendall(body)))
    assert list(transport.send(REQUEST).lines()) == [b"a", b"bc", b"d"]
