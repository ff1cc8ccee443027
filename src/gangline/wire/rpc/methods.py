"""The methods of the gRPC service, as the generated description has them, and requests of each as those of REST.

The server asks the REST application what a method was asked, and the client's transport asks a method what would be
asked of REST. Both read this table, so neither knows an operation by name.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
from google.protobuf import message_factory

from gangline.wire.rpc.messages import message_from, pb, plain_from

SERVICE = "gangline.v1.Gangline"
PREFIX = "/api/v1"
SERVED = "gangline-version"
"""What a stream begins with in its metadata, unless it is refused."""
_BODY, _CHUNK = "body", "chunk"
_PLACE = re.compile(r"\{(\w+)\}")

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method. ``path`` is that of REST with places in it; ``query`` is always part of what is asked."""

    name: str
    verb: str
    path: str
    query: Query
    request: Any
    answer: Any
    uploads: bool
    streams: bool

    @property
    def full_name(self) -> str:
        """Return the method as gRPC calls it."""
        return f"/{SERVICE}/{self.name}"

    @property
    def downloads(self) -> bool:
        """Whether the answer is a file in parts."""
        return self.answer is pb.Chunk

    @property
    def places(self) -> list[str]:
        """The parts of the path that differ from request to request."""
        return _PLACE.findall(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """What is asked of REST. The body is None where there is none, and where it comes in parts."""

    verb: str
    path: str
    query: Query
    body: bytes | None = None


def _methods() -> Iterable[Method]:
    for each in pb.DESCRIPTOR.services_by_name["Gangline"].methods:
        verb, _, rest = each.GetOptions().Extensions[pb.rest].partition(" ")
        path, _, query = rest.partition("?")
        yield Method(
            name=each.name,
            verb=verb,
            path=path,
            query=tuple(tuple(pair.split("=")) for pair in query.split("&") if pair),
            request=message_factory.GetMessageClass(each.input_type),
            answer=message_factory.GetMessageClass(each.output_type),
            uploads=each.client_streaming,
            streams=each.server_streaming,
        )


METHODS: Mapping[str, Method] = {method.name: method for method in _methods()}


def rest_request(method: Method, message: Any) -> RestRequest:
    """Return what a message asks of REST; an empty place stays one, which REST refuses by name."""
    given = plain_from(message)
    path = _PLACE.sub(lambda place: quote(str(given[place[1]]), safe=""), method.path)
    body = given.get(_BODY) or ({} if _BODY in method.request.DESCRIPTOR.fields_by_name else None)
    query = [
        (name, _written(each))
        for name, value in given.items()
        if name not in (*method.places, _BODY, _CHUNK)
        for each in (value if isinstance(value, list) else [value])
    ]
    return RestRequest(
        verb=method.verb,
        path=PREFIX + path,
        query=(*query, *method.query),
        body=None if body is None else msgspec.json.encode(body),
    )


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def find_method(verb: str, path: tuple[str, ...], query: Query) -> Method | None:
    """Return the method that is asked by a request of REST; None if there is none."""
    truth = {("watch", "true")} & {(name, value.lower()) for name, value in query}
    found = (
        method
        for method in METHODS.values()
        if method.verb == verb and _fits(method.path, path) and bool(method.query) == bool(truth)
    )
    # Of two that fit, the one that says more of the path: a verb of its own before any verb.
    return min(found, key=lambda method: len(method.places), default=None)


def _fits(template: str, path: tuple[str, ...]) -> bool:
    parts = template.strip("/").split("/")
    return len(parts) == len(path) and all(
        part.startswith("{") or part == given for part, given in zip(parts, path, strict=True)
    )


def message_of(method: Method, path: tuple[str, ...], query: Query, body: bytes | None) -> Any:
    """Return the message for a request of REST that the method answers."""
    parts = method.path.strip("/").split("/")
    given: dict[str, Any] = {part[1:-1]: text for part, text in zip(parts, path, strict=True) if part.startswith("{")}
    fields = method.request.DESCRIPTOR.fields_by_name
    for name, text in query:
        if name in fields and fields[name].is_repeated:
            given.setdefault(name, []).append(text)
        elif name in fields:
            given[name] = _read(fields[name], text)
    if body and _BODY in fields:
        given[_BODY] = msgspec.json.decode(body)
    return message_from(method.request, given)


def _read(field: Any, text: str) -> object:
    if field.type == field.TYPE_BOOL:
        return text.lower() in ("true", "1", "all")
    return int(text) if field.type == field.TYPE_INT64 else text
