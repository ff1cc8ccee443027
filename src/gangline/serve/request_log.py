"""What a model was asked and what it answered, kept for those who look at it later: a part of the requests, by chance.

Records go to files of JSON lines below an address, or one by one to an HTTP server as CloudEvents, which is what
KServe's logger sends. A thread of its own writes them, so that no answer waits for it; what it cannot write soon enough
is dropped and counted.
"""

import http.client
import os
import random
import sys
import threading
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from gangline.serve import tensors
from gangline.serve.errors import ServeError
from gangline.serve.tensors import Array

Mode = Literal["all", "request", "response"]
_WAITING = 10_000
_WAITING_BYTES = 64 << 20
_FILE_RECORDS = 1000
_PAUSE_SECONDS = 2.0
_TRIES = 3
_TIMEOUT_SECONDS = 5.0
_EVENT = "org.kubeflow.serving.inference"


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is logged, and where."""

    to: str
    """An address of a directory or an object store, or of an HTTP server."""
    sample: float = 1.0
    """The part of the requests."""
    mode: Mode = "all"
    name: str = ""
    """Of the service, told to an HTTP server."""


class Target(Protocol):
    """Where records go. Raises OSError, and whatever the store's library raises."""

    def write(self, records: Sequence[dict[str, Any]]) -> None:
        """Keep records."""


class RequestLog:
    """The log of one worker process."""

    def __init__(self, settings: LogSettings, target: Target | None = None) -> None:
        self._settings = settings
        self._target = target or _target(settings)
        self._chance = random.Random()
        self._waiting: deque[tuple[dict[str, Any], int]] = deque()
        self._bytes = 0
        self._stopped = threading.Event()
        self._writing = threading.Thread(target=self._write_all, name="request-log", daemon=True)
        self._writing.start()
        self.dropped = 0
        """Records that could not be written."""

    def chosen(self) -> bool:
        """Whether the next request is one of the sample."""
        return self._settings.sample >= 1 or self._chance.random() < self._settings.sample

    async def recorded(
        self, about: Mapping[str, str], inputs: Mapping[str, Array], answer: Callable[[], Awaitable[dict[str, Array]]]
    ) -> dict[str, Array]:
        """Have a request answered and keep both. Inputs are written down first: a model may change them."""
        began, mode = time.perf_counter(), self._settings.mode
        now = datetime.now(UTC)  # noqa: TID251  # for whoever reads the record; nothing is decided by it
        record: dict[str, Any] = {"time": now.isoformat(timespec="milliseconds"), **about}
        record["id"] = record.get("id") or str(uuid.uuid4())
        size = sum(array.nbytes for array in inputs.values())
        if mode != "response":
            record["inputs"] = _plain(inputs)
        try:
            outputs = await answer()
        except ServeError as error:
            record |= {"status": error.status, "error": str(error)}
            raise
        else:
            record["status"] = 200
            if mode != "request":
                record["outputs"] = _plain(outputs)
                size += sum(array.nbytes for array in outputs.values())
            return outputs
        finally:
            record["seconds"] = round(time.perf_counter() - began, 6)
            self._add(record, size)

    def _add(self, record: dict[str, Any], size: int) -> None:
        if len(self._waiting) >= _WAITING or self._bytes + size > _WAITING_BYTES:
            self.dropped += 1
            return
        self._waiting.append((record, size))
        self._bytes += size

    def close(self) -> None:
        """Write what waits, but not for long."""
        self._stopped.set()
        self._writing.join(_TIMEOUT_SECONDS)

    def _write_all(self) -> None:
        told = 0
        while True:
            stopping = self._stopped.wait(_PAUSE_SECONDS)
            while self._waiting:
                self._write_some()
            if self.dropped > told:
                told = self.dropped
                print(f"{told} records of requests were dropped", file=sys.stderr, flush=True)  # noqa: T201
            if stopping:
                return

    def _write_some(self) -> None:
        some = [self._waiting.popleft() for _ in range(min(len(self._waiting), _FILE_RECORDS))]
        self._bytes -= sum(size for _, size in some)
        records = [record for record, _ in some]
        for again in range(_TRIES):
            try:
                self._target.write(records)
                return
            except Exception as error:  # noqa: BLE001  # of a store's library, too: no answer may suffer from it
                print(f"requests cannot be logged: {error}", file=sys.stderr, flush=True)  # noqa: T201
            if self._stopped.wait(0.2 * 4**again):
                break
        self.dropped += len(records)


def _plain(arrays: Mapping[str, Array]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "datatype": tensors.datatype_of(array),
            "shape": list(array.shape),
            "data": tensors.to_json(array),
        }
        for name, array in arrays.items()
    ]


def _target(settings: LogSettings) -> Target:
    if settings.to.startswith(("http://", "https://")):
        return _Events(settings)
    return _Files(settings.to)


def check_target(settings: LogSettings) -> None:
    """Find out now that an address makes no sense. Raises ValueError."""
    from gangline.data.unpacking import PermanentError

    try:
        _target(settings)
    except (ImportError, OSError, PermanentError) as error:
        raise ValueError(str(error)) from error


class _Files:
    """Files of JSON lines, one directory for each day."""

    def __init__(self, address: str) -> None:
        from gangline.data.credentials import StoreCredentials
        from gangline.data.shelves import shelf_at

        self._shelf = shelf_at(address, StoreCredentials())
        self._own = uuid.uuid4().hex[:8]
        self._number = 0

    def write(self, records: Sequence[dict[str, Any]]) -> None:
        """Write one file."""
        self._number += 1
        name = f"{records[0]['time'][:10]}/{os.getpid()}-{self._own}-{self._number:06}.jsonl"
        self._shelf.write(name, msgspec.json.Encoder().encode_lines(records))


class _Events:
    """CloudEvents over HTTP, one for a request and one for its answer."""

    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings
        self._place = urlsplit(settings.to)

    def write(self, records: Sequence[dict[str, Any]]) -> None:
        """Send them."""
        place = self._place
        kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        connection = kind(place.hostname or "", place.port, timeout=_TIMEOUT_SECONDS)
        path = (place.path or "/") + (f"?{place.query}" if place.query else "")
        try:
            for record in records:
                for part, body in _events(record):
                    connection.request("POST", path, msgspec.json.encode(body), self._headers(record, part))
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status >= 300:
                        raise OSError(f"{self._settings.to} answered {answer.status}")
        finally:
            connection.close()

    def _headers(self, record: Mapping[str, Any], part: str) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "Ce-Specversion": "1.0",
            "Ce-Id": record["id"],
            "Ce-Time": record["time"],
            "Ce-Source": f"/v2/models/{record['model']}",
            "Ce-Type": f"{_EVENT}.{part}",
            "Ce-Inferenceservicename": self._settings.name or record["model"],
            "Ce-Endpoint": record["version"],
        }


def _events(record: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    if "inputs" in record:
        found.append(("request", {"id": record["id"], "inputs": record["inputs"]}))
    if "outputs" in record:
        said = {"model_name": record["model"], "model_version": record["version"], "id": record["id"]}
        found.append(("response", {**said, "outputs": record["outputs"]}))
    return found
