"""Traces and structured logs of a service in a process of its own, as a collector hears of them."""

import json
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.compose.team.serving import ServiceProcess, ask

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
JOBS = "/api/v1/tenants/default/jobs"


class Collector:
    """Takes spans by OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        heard = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
                heard.extend(span for each in sent.resource_spans for scope in each.scope_spans for span in scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def sockets() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tr") as folder:  # paths of sockets are short
        yield Path(folder)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def attributes(span: Span) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_request_is_a_span_of_its_clients_trace_with_what_the_store_did(
    collector: Collector, tmp_path: Path, sockets: Path
) -> None:
    settings = {"GANGLINE_TRACE_COLLECTOR": collector.address, "GANGLINE_LOG_FORMAT": "json"}
    service = ServiceProcess(tmp_path / "home", sockets, settings)
    service.start()
    try:
        token = service.type("token", "create", "ci", "--tenant", "default", "--role", "member").strip()
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-Id": "mine"}
        assert ask("GET", f"{service.address}{JOBS}", token, headers=headers)[0] == 200
        assert ask("GET", f"{service.address}{JOBS}/nothing", token)[0] == 404
    finally:
        service.stop()  # sends what is left

    served = [span for span in collector.spans if span.kind == Span.SPAN_KIND_SERVER]
    listed = next(span for span in served if span.trace_id.hex() == TRACE)
    assert (listed.name, listed.parent_span_id.hex()) == (f"GET {JOBS.replace('default', '{tenant}')}", PARENT)
    found = attributes(listed)
    assert (found["gangline.request_id"], found["http.response.status_code"]) == ("mine", 200)
    within = [span for span in collector.spans if span.parent_span_id == listed.span_id]
    assert within
    assert all(span.name.startswith("store ") for span in within)
    missing = next(span for span in collector.spans if span.name.endswith("/{job}"))
    assert attributes(missing)["http.response.status_code"] == 404
    assert missing.trace_id.hex() != TRACE
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    assert any(line["message"].startswith("serving a team on") and line["level"] == "INFO" for line in lines)


def test_a_collector_that_is_away_costs_nothing(tmp_path: Path, sockets: Path) -> None:
    service = ServiceProcess(tmp_path / "home", sockets, {"GANGLINE_TRACE_COLLECTOR": "http://127.0.0.1:9"})
    service.start()
    try:
        token = service.type("token", "create", "ci", "--tenant", "default", "--role", "member").strip()
        assert ask("GET", f"{service.address}{JOBS}", token)[0] == 200
    finally:
        service.stop()
