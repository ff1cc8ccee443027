"""The least that starting a cluster needs of its API server: blocking calls over one TLS context.

It is not ``gangline.kube`` on purpose: the harness must not depend on the client it is there to test.
"""

import http.client
import json
import ssl
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tools.cluster.errors import ClusterError
from tools.cluster.layout import API_PORT, Layout

_TIMEOUT_SECONDS = 60
"""Long, because a thousand nodes are deleted in one request."""


class ApiServer:
    """The API server, asked as the administrator."""

    def __init__(self, layout: Layout) -> None:
        self._host = layout.control_address
        self._tls = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
        self._tls.load_cert_chain(layout.pki / "admin.crt", layout.pki / "admin.key")

    def ready(self) -> bool:
        """Whether the server says it is ready."""
        try:
            return self._send("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def get(self, path: str) -> dict[str, Any] | None:
        """Read an object or a list; None when there is no such thing."""
        status, body = self._send("GET", path)
        if status == 404:
            return None
        return self._decode("GET", path, status, body)

    def post(self, path: str, body: Mapping[str, Any]) -> None:
        """Create an object; one that exists already is left as it is."""
        status, answer = self._send("POST", path, body)
        if status != 409:
            self._decode("POST", path, status, answer)

    def delete(self, path: str) -> None:
        """Delete an object or a collection."""
        status, answer = self._send("DELETE", path)
        if status != 404:
            self._decode("DELETE", path, status, answer)

    def post_all(self, path: str, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Create many objects side by side."""
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda body: self.post(path, body), bodies))

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(self._host, API_PORT, context=self._tls, timeout=_TIMEOUT_SECONDS)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    @staticmethod
    def _decode(method: str, path: str, status: int, body: bytes) -> dict[str, Any]:
        if status >= 400:
            raise ClusterError(f"{method} {path} was answered {status}: {body.decode(errors='replace')[:500]}")
        decoded: dict[str, Any] = json.loads(body)
        return decoded
