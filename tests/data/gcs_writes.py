"""The writing half of Google's XML interface in front of fake-gcs-server, which has that of the JSON interface alone.

Objects are written by PUT, and large ones in parts; the emulator answers both with "invalid uploadType". So those
requests are translated for it here, and everything else is passed on as it comes.
"""

import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

_PASSED = ("Content-Type", "Range", "If-Match", "If-None-Match", "Authorization")
_ANSWERED = ("Content-Type", "Content-Length", "Content-Range", "ETag", "Last-Modified", "x-goog-generation")


@contextmanager
def writable(port: int) -> Iterator[int]:
    """Stand in front of the emulator at a port; yields the port to use instead."""
    uploads: dict[str, dict[int, bytes]] = {}

    class Front(_Front):
        emulator, parts = port, uploads

    with ThreadingHTTPServer(("127.0.0.1", 0), Front) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


class _Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    emulator: int
    parts: dict[str, dict[int, bytes]]

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "uploadId" in query:
            self.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
            self._answer(200, headers={"ETag": f'"{query["partNumber"][0]}"'})
        else:
            self._store(body, self.headers.get("x-goog-if-generation-match"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "uploads" in query:
            upload = f"upload-{len(self.parts)}"
            self.parts[upload] = {}
            self._answer(200, _xml("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>"))
        elif "uploadId" in query:
            parts = self.parts.pop(query["uploadId"][0])
            wanted = [int(number) for number in re.findall(rb"<PartNumber>(\d+)", body)]
            self._store(b"".join(parts[number] for number in wanted), None, completed=True)
        else:
            self._pass_on(body)

    def do_GET(self) -> None:
        self._pass_on()

    def do_HEAD(self) -> None:
        self._pass_on()

    def do_DELETE(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "uploadId" in query:
            self.parts.pop(query["uploadId"][0], None)
            self._answer(204)
        else:
            self._pass_on()

    def _store(self, content: bytes, generation: str | None, *, completed: bool = False) -> None:
        bucket, _, name = urlsplit(self.path).path.lstrip("/").partition("/")
        place = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(unquote(name), safe='')}"
        if generation is not None:
            place += f"&ifGenerationMatch={generation}"
        status, _, answer = self._ask("POST", place, content, {"Content-Type": "application/octet-stream"})
        if status != 200:
            self._answer(status, answer)
            return
        made = json.loads(answer)
        headers = {"ETag": f'"{made["etag"].strip(chr(34))}"', "x-goog-generation": made["generation"]}
        tag = f"<ETag>{headers['ETag']}</ETag>"
        self._answer(200, _xml("CompleteMultipartUploadResult", tag) if completed else b"", headers)

    def _pass_on(self, body: bytes | None = None) -> None:
        headers = {name: self.headers[name] for name in _PASSED if name in self.headers}
        status, given, answer = self._ask(self.command, self.path, body, headers)
        kept = {name: given[name] for name in _ANSWERED if name in given}
        self._answer(status, answer, kept)

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.emulator, timeout=60)
        # The emulator tells its interfaces apart by the name it is called.
        connection.request(method, path, body, {"Host": f"127.0.0.1:{self.emulator}", **headers})
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, response.headers, answer

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            if name != "Content-Length":
                self.send_header(name, value)
        length = (headers or {}).get("Content-Length") if self.command == "HEAD" else str(len(body))
        if status != 204:
            self.send_header("Content-Length", length or "0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def _xml(name: str, content: str) -> bytes:
    return f'<?xml version="1.0"?><{name}>{content}</{name}>'.encode()
