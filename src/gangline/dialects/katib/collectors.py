"""``metricsCollectorSpec``: where a trial's numbers are read from, and how they look there."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gangline.dialects.value import Value

_FILTER_GROUPS = 2
_DEFAULT_FILE = "/var/log/katib/metrics.log"
_DEFAULT_EVENTS = "/var/log/katib/tfevent/"
_DEFAULT_PORT, _DEFAULT_PATH = 8080, "/metrics"


class CollectorKind(StrEnum):
    """Where numbers are read from."""

    STDOUT = "StdOut"
    FILE = "File"
    TENSORFLOW = "TensorFlowEvent"
    PROMETHEUS = "PrometheusMetric"
    PUSH = "Push"
    NONE = "None"
    CUSTOM = "Custom"


class FileFormat(StrEnum):
    """How numbers look in a file."""

    TEXT = "TEXT"
    JSON = "JSON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """Where numbers are read from; ``path`` is that of a file or directory, or of a URL with its ``port``."""

    kind: CollectorKind = CollectorKind.STDOUT
    path: str = ""
    format: FileFormat = FileFormat.TEXT
    filters: tuple[str, ...] = ()
    port: int = _DEFAULT_PORT

    @property
    def directory(self) -> str | None:
        """The directory of the container that the collector reads, too; None if it reads none."""
        if self.kind is CollectorKind.TENSORFLOW:
            return self.path.rstrip("/") or "/"
        return self.path.rpartition("/")[0] or "/" if self.kind is CollectorKind.FILE else None

    def order(self, metrics: tuple[str, ...]) -> str | None:
        """Write what ``gangline.runtime.collecting`` is told; None where nobody has to read anything."""
        if self.kind in (CollectorKind.PUSH, CollectorKind.NONE, CollectorKind.CUSTOM):
            return None
        order: dict[str, Any] = {"kind": self.kind.value, "metrics": list(metrics)}
        if self.path:
            order["path"] = self.path
        if self.kind is CollectorKind.FILE:
            order["format"] = self.format.value
        if self.kind is CollectorKind.PROMETHEUS:
            order["port"] = self.port
        if self.filters:
            order["filters"] = list(self.filters)
        return json.dumps(order, sort_keys=True)


def read_collector(value: Value | None) -> Collector:
    """Read ``spec.metricsCollectorSpec``; StdOut where nothing is given."""
    given = value.fields(("collector", "source")) if value is not None else {}
    chosen = given["collector"].fields(("kind", "customCollector")) if "collector" in given else {}
    kind = chosen["kind"].choice(CollectorKind) if "kind" in chosen else CollectorKind.STDOUT
    if kind is CollectorKind.CUSTOM:
        raise chosen["kind"].wrong(
            "a collector in a container of one's own is not supported",
            expected="StdOut, File, TensorFlowEvent, PrometheusMetric, Push or None",
        )
    source = given["source"].fields(("fileSystemPath", "filter", "httpGet")) if "source" in given else {}
    filters = _filters(source.get("filter"))
    if kind is CollectorKind.PROMETHEUS:
        return _prometheus(kind, source.get("httpGet"), filters)
    if kind in (CollectorKind.FILE, CollectorKind.TENSORFLOW):
        return _file(kind, source.get("fileSystemPath"), source.get("filter"), filters)
    return Collector(kind=kind, filters=filters)


def _file(kind: CollectorKind, value: Value | None, where: Value | None, filters: tuple[str, ...]) -> Collector:
    given = value.fields(("path", "kind", "format")) if value is not None else {}
    wanted = "File" if kind is CollectorKind.FILE else "Directory"
    if "kind" in given:
        given["kind"].one_of((wanted,))
    default = _DEFAULT_FILE if kind is CollectorKind.FILE else _DEFAULT_EVENTS
    path = given["path"].text() if "path" in given else default
    if not path.startswith("/") or (kind is CollectorKind.FILE and path.endswith("/")) or ".." in path.split("/"):
        raise given["path"].wrong(f"'{path}' is not an absolute path", expected=f"where the {wanted.lower()} is")
    if kind is CollectorKind.TENSORFLOW:
        if "format" in given:
            raise given["format"].wrong("event files have a format of their own", expected="no such field")
        return Collector(kind=kind, path=path)
    form = given["format"].choice(FileFormat) if "format" in given else FileFormat.TEXT
    if form is FileFormat.JSON and where is not None:
        raise where.wrong("a file of JSON lines has no filter", expected="no such field, or format TEXT")
    return Collector(kind=kind, path=path, format=form, filters=filters)


def _prometheus(kind: CollectorKind, value: Value | None, filters: tuple[str, ...]) -> Collector:
    given = value.fields(("path", "port", "host", "scheme", "httpHeaders")) if value is not None else {}
    for name in ("host", "httpHeaders"):
        if name in given:
            raise given[name].wrong("not supported: the trial's own container is asked", expected="no such field")
    if "scheme" in given:
        given["scheme"].one_of(("HTTP",))
    path = given["path"].text() if "path" in given and given["path"].data else _DEFAULT_PATH
    if not path.startswith("/"):
        raise given["path"].wrong(f"'{path}' is not a path", expected="one that begins with '/'")
    port = given["port"].converted(_port, "a port from 1 to 65535") if given.get("port") and given["port"].data else 0
    return Collector(kind=kind, path=path, port=port or _DEFAULT_PORT, filters=filters)


def _port(data: str | float) -> int:
    number = int(data)
    if not 1 <= number <= 65535:
        raise ValueError("is not a port")
    return number


def _filters(value: Value | None) -> tuple[str, ...]:
    given: Mapping[str, Value] = value.fields(("metricsFormat",)) if value is not None else {}
    found = given["metricsFormat"].items() if "metricsFormat" in given else []
    for each in found:
        try:
            groups = re.compile(each.text()).groups
        except re.error as error:
            raise each.wrong(f"not a regular expression: {error}", expected="for example ([\\w|-]+)=(.*)") from error
        if groups < _FILTER_GROUPS:
            raise each.wrong(
                "two groups are required", expected="one in parentheses for the name, and one for the value"
            )
    return tuple(each.text() for each in found)
