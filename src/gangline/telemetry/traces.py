"""Traces of the service by OpenTelemetry (the extra ``otel``): a span for each request, and what the store did for it.

Spans go to a collector by OTLP over HTTP, in the background; a collector that is away costs no request anything.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gangline import __version__
from gangline.errors import InvalidInputError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span

_EXPORT_SECONDS = 5
_SERVER_ERROR = 500


def traces_to(address: str) -> "Traces | None":
    """Return what sends spans to a collector; None if the address is empty."""
    if not address:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise InvalidInputError(
            "traces need the extra 'otel'", field="trace_collector", expected="pip install 'gangline[otel]'"
        ) from error
    exporter = OTLPSpanExporter(endpoint=f"{address.rstrip('/')}/v1/traces", timeout=_EXPORT_SECONDS)
    return Traces(BatchSpanProcessor(exporter))


@dataclass
class Served:
    """A request that is being answered."""

    span: "Span"

    def ends(self, name: str, code: int) -> None:
        """Note what it turned out to be."""
        self.span.update_name(name)
        self.span.set_attribute("http.route", name.partition(" ")[2])
        self.span.set_attribute("http.response.status_code", code)
        if code >= _SERVER_ERROR:
            from opentelemetry.trace import StatusCode

            self.span.set_status(StatusCode.ERROR)


class Traces:
    """Makes spans and hands them to a processor."""

    def __init__(self, processor: "SpanProcessor") -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider

        resource = Resource.create({"service.name": "gangline", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("gangline", __version__)

    @contextmanager
    def request(self, method: str, request_id: str, headers: Mapping[str, str]) -> Iterator[Served]:
        """Surround a request; it belongs to the trace that its client says (``traceparent``)."""
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        given = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        parent = TraceContextTextMapPropagator().extract(given)
        about = {"http.request.method": method, "gangline.request_id": request_id}
        with self._tracer.start_as_current_span(method, parent, SpanKind.SERVER, about) as span:
            yield Served(span)

    def note_store(self, operation: str, took: float) -> None:
        """Note what the store has just done; outside of a request nobody asked for it."""
        from opentelemetry.trace import SpanKind, get_current_span

        if not get_current_span().is_recording():
            return
        ended = time.time_ns()  # when a span was is what it is for
        began = ended - int(took * 1e9)
        span = self._tracer.start_span(f"store {operation}", kind=SpanKind.CLIENT, start_time=began)
        span.end(ended)

    def close(self) -> None:
        """Send what is left, and no more."""
        self._provider.shutdown()
