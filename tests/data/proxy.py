"""A proxy between a client and a store that does what networks and stores do on bad days."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy:
    """Forwards every connection to a port of this machine, and counts requests as they begin.

    ``refuse`` says for the number of a request, from 1, whether it is answered with 503. ``cut_after`` ends an answer
    after so many bytes, the first ``cuts`` times. ``on_bytes`` is told how many bytes of answers have passed in all,
    ``on_sent`` how many of requests.
    """

    def __init__(self, port: int, listen: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._target = port
        self._listener = socket.create_server(listen)
        self._lock = threading.Lock()
        self._over = False
        self.port: int = self._listener.getsockname()[1]
        self.requests = 0
        self.answered_bytes = 0
        self.sent_bytes = 0
        self.refuse: Callable[[int], bool] = lambda _: False
        self.cut_after: int | None = None
        self.cuts = 0
        self.on_bytes: Callable[[int], None] = lambda _: None
        self.on_sent: Callable[[int], None] = lambda _: None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        while not self._over:
            with suppress(OSError):
                client, _ = self._listener.accept()
                threading.Thread(target=self._connection, args=(client,), daemon=True).start()

    def close(self) -> None:
        self._over = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connection(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            first = client.recv(65536)
            if not first:
                return
            with self._lock:
                self.requests += 1
                refused = self.refuse(self.requests)
            if refused:
                client.sendall(UNAVAILABLE)
                return
            with socket.create_connection(("127.0.0.1", self._target)) as server:
                server.sendall(first)
                back = threading.Thread(target=self._answer, args=(server, client), daemon=True)
                back.start()
                while data := client.recv(65536):
                    with self._lock:
                        self.requests += data[:16].split(b" ")[0] in (b"GET", b"PUT", b"POST", b"HEAD", b"DELETE")
                        self.sent_bytes += len(data)
                        refused = self.refuse(self.requests)
                    if refused:
                        break
                    server.sendall(data)
                    self.on_sent(self.sent_bytes)
                with suppress(OSError):
                    server.shutdown(socket.SHUT_RDWR)
                back.join()

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        passed = 0
        with suppress(OSError):
            while data := server.recv(65536):
                with self._lock:
                    cut = self.cut_after is not None and self.cuts > 0 and passed + len(data) > self.cut_after
                    self.cuts -= cut
                if cut:
                    client.sendall(data[: max(0, (self.cut_after or 0) - passed)])
                    break
                client.sendall(data)
                passed += len(data)
                with self._lock:
                    self.answered_bytes += len(data)
                self.on_bytes(self.answered_bytes)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
