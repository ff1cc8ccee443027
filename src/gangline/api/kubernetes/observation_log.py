"""Katib's DB manager, as far as clients speak to it: trials push their metrics here, and whoever asks reads them.

It is a gRPC service of three methods whose messages are a few texts inside each other, so they are read and written
here; no code is generated from somebody's definitions. Needs ``gangline[katib]``.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import grpc
import grpc.aio

from gangline.dialects.katib import TRIAL_LABEL
from gangline.errors import GanglineError
from gangline.model import Clock, Job, Metric, ReplicaId, Timestamp
from gangline.runtime.protocol_buffers import field_to_bytes
from gangline.runtime.pushed_metrics import SERVICE, pushed_metrics, text_in, texts_of
from gangline.storage.interface import JobQuery, Store

_LAST = Timestamp(253402300799.0)
_NEXT_SECONDS = 1e-6
_MOST = 100_000


class ObservationLog:
    """Answers the three methods from a store."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def report(self, request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        """Keep the metrics of a trial, in their order and at the time they arrive: theirs is told in whole seconds."""
        trial, reports = pushed_metrics(request)
        job = await self._trial(trial, context)
        now = self._clock.now()
        replica = ReplicaId(job.spec.lead_role, 0)
        metrics = [
            Metric(
                job_id=job.id,
                replica=replica,
                name=name,
                value=value,
                step=None,
                at=Timestamp(now + position * _NEXT_SECONDS),
            )
            for position, (name, value) in enumerate(reports)
        ]
        await self._store.add_metrics(metrics)
        return b""

    async def get(self, request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        """Return what a trial reported, oldest first: of one metric, and between two times, if they are given."""
        fields = texts_of(request)
        job = await self._trial(text_in(fields, 1), context)
        begin, end = _moment(text_in(fields, 3), Timestamp(0.0)), _moment(text_in(fields, 4), _LAST)
        found = await self._store.metrics(job.id, name=text_in(fields, 2) or None, since=begin, limit=_MOST)
        logs = b"".join(field_to_bytes(1, _log(each)) for each in found if each.at <= end)
        return field_to_bytes(1, logs)

    async def delete(self, request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        """Answer a deletion: metrics go with the job that reported them."""
        del request, context
        return b""

    async def _trial(self, name: str, context: "grpc.aio.ServicerContext[bytes, bytes]") -> Job:
        try:
            page = await self._store.list(JobQuery(labels=((TRIAL_LABEL, name),), limit=1))
        except GanglineError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        if not page.jobs:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no trial named '{name}'")
        return page.jobs[0]


async def serve_observation_log(log: ObservationLog, host: str, ports: Sequence[int]) -> tuple[grpc.aio.Server, int]:
    """Listen on the first of these ports that is free; returns it with the server."""
    methods = {"ReportObservationLog": log.report, "GetObservationLog": log.get, "DeleteObservationLog": log.delete}
    handlers = {name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()}
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    for port in ports:
        try:
            opened = server.add_insecure_port(f"{host}:{port}")
        except RuntimeError:
            continue  # taken
        await server.start()
        return server, opened
    raise GanglineError(f"none of the ports {', '.join(map(str, ports))} can be listened on")


def _log(metric: Metric) -> bytes:
    at = datetime.fromtimestamp(metric.at, UTC).isoformat().replace("+00:00", "Z")
    value = "nan" if math.isnan(metric.value) else repr(metric.value)
    return field_to_bytes(1, at.encode()) + field_to_bytes(
        2, field_to_bytes(1, metric.name.encode()) + field_to_bytes(2, value.encode())
    )


def _moment(text: str, default: Timestamp) -> Timestamp:
    try:
        return Timestamp(datetime.fromisoformat(text).timestamp()) if text else default
    except ValueError:
        return default
