"""What somebody who asks a service is told when nobody answers."""

import socket
import struct
import threading
from unittest.mock import patch

import pytest

from gangline.errors import GanglineError
from gangline.sdk.verbs.services import Services


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"nonsense\r\n\r\n"])
def test_an_answer_that_breaks_off_is_an_error_of_ours(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(4096)
                peer.sendall(said)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        thread = threading.Thread(target=answer)
        thread.start()
        service = type(
            "Found", (), {"status": type("Status", (), {"address": f"http://127.0.0.1:{listener.getsockname()[1]}"})}
        )
        with patch.object(Services, "get", return_value=service), pytest.raises(GanglineError, match="does not answer"):
            Services.__new__(Services).predict("digits", b"", path="/x", timeout=5)
        thread.join()
