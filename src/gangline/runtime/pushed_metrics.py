"""What trials of Katib push: its message taken apart, and a server that takes it beside a trial in its pod.

In the pod of a trial the name of Katib's DB manager is that of the pod itself: the server writes what it is told to its
output, from where it is read as any other numbers are. Needs ``grpcio``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gangline.runtime.protocol_buffers import fields_of

SERVICE = "api.v1.beta1.DBManager"
PORT = 6789

Texts = dict[int, list[bytes]]


def texts_of(message: bytes) -> Texts:
    """Return the texts and messages inside a message, by the number of their field."""
    found: Texts = {}
    try:
        for number, data in fields_of(message):
            if isinstance(data, bytes):
                found.setdefault(number, []).append(data)
    except IndexError:
        return {}  # cut short: not one of these messages
    return found


def text_in(fields: Texts, number: int) -> str:
    """Return the text of a field; an empty one if it is not there."""
    return fields[number][-1].decode(errors="replace") if number in fields else ""


def pushed_metrics(request: bytes) -> tuple[str, list[tuple[str, float]]]:
    """Return the trial that a request speaks of, and its metrics; what is not a number ("unavailable") is left out."""
    fields = texts_of(request)
    found: list[tuple[str, float]] = []
    for logs in fields.get(2, ()):
        for log in texts_of(logs).get(1, ()):
            metric = texts_of(texts_of(log).get(2, [b""])[0])
            try:
                found.append((text_in(metric, 1), float(text_in(metric, 2))))
            except ValueError:
                continue
    return text_in(fields, 1), found


def serve_until(stopped: threading.Event, add: Callable[[list[tuple[str, float]]], None], port: int) -> None:
    """Take what is pushed until somebody says that it is enough."""
    import grpc

    def report(request: bytes, _: object) -> bytes:
        add(pushed_metrics(request)[1])
        return b""

    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    handlers = {"ReportObservationLog": grpc.unary_unary_rpc_method_handler(report)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port(f"[::]:{port}")
    server.start()
    stopped.wait()
    server.stop(grace=1.0).wait()
