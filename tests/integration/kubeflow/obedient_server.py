"""A replica that does as it is told: it answers with its environment, and exits with the code it is asked for."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith("/exit/"):
            self.answer({})
            os._exit(int(self.path.rpartition("/")[2]))
        self.answer(dict(os.environ))

    def answer(self, body: dict[str, str]) -> None:
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        self.wfile.flush()

    def log_message(self, *arguments: object) -> None:
        """Say nothing of each request."""


if __name__ == "__main__":
    host, _, port = os.environ["GANGLINE_ADDRESS"].rpartition(":")
    server = HTTPServer((host, int(port)), Handler)
    # Whoever waits for this line may ask at once.
    print(f"listening at {host}:{port}", flush=True)
    sys.exit(server.serve_forever())
