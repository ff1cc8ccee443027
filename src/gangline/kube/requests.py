"""What would be sent to the API server, as values: built here, sent by ``transport``.

Everything is pure, so that a dry run is printing and a test is comparing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict, Unpack

import msgspec

from gangline.kube.objects import AnyObject, Object
from gangline.kube.resources import PODS, Resource

Body = Mapping[str, Any] | Object
"""An object to send: plain JSON, or one of our structs."""

_IDEMPOTENT_METHODS = frozenset({"GET", "PUT", "PATCH", "DELETE"})


class Propagation(StrEnum):
    """What a deletion does to what the object owns."""

    FOREGROUND = "Foreground"
    BACKGROUND = "Background"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, ready to be sent."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"

    @property
    def idempotent(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return self.method in _IDEMPOTENT_METHODS


def _query(**values: str | int | bool | None) -> tuple[tuple[str, str], ...]:
    """Keep what is set; Kubernetes spells booleans in lower case."""
    return tuple(
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in values.items()
        if value is not None and value is not False and value != ""
    )


def selector(requirements: Mapping[str, str] | str | None) -> str | None:
    """Spell a label or field selector; a string passes through for the operators a mapping cannot say."""
    if requirements is None or isinstance(requirements, str):
        return requirements
    return ",".join(f"{key}={value}" for key, value in sorted(requirements.items()))


def body_of(resource: Resource[AnyObject], body: Body) -> dict[str, Any]:
    """Return the object as plain JSON, with the kind it must name."""
    plain = dict(body) if isinstance(body, Mapping) else msgspec.to_builtins(body)
    return {**plain, "apiVersion": resource.api_version, "kind": resource.kind}


def named_by(body: Body) -> tuple[str | None, str | None]:
    """Read namespace and name out of an object that is about to be sent."""
    metadata = body.get("metadata") if isinstance(body, Mapping) else body.metadata
    if isinstance(metadata, Mapping):
        return metadata.get("namespace"), metadata.get("name")
    return (metadata.namespace or None, metadata.name or None) if metadata is not None else (None, None)


def read(resource: Resource[AnyObject], name: str, *, namespace: str | None, subresource: str | None = None) -> Request:
    """Read one object."""
    return Request(method="GET", path=resource.path(namespace=namespace, name=name, subresource=subresource))


def list_page(
    resource: Resource[AnyObject],
    *,
    namespace: str | None,
    labels: str | None,
    fields: str | None,
    limit: int | None,
    continue_token: str = "",
) -> Request:
    """Read one page of a collection."""
    query = _query(labelSelector=labels, fieldSelector=fields, limit=limit)
    if continue_token:
        query += (("continue", continue_token),)
    return Request(method="GET", path=resource.path(namespace=namespace), query=query)


def watch(
    resource: Resource[AnyObject],
    *,
    namespace: str | None,
    labels: str | None,
    fields: str | None,
    resource_version: str,
    timeout_seconds: int,
) -> Request:
    """Follow a collection from a version on, with bookmarks so that a quiet watch stays resumable."""
    query = _query(
        watch=True,
        allowWatchBookmarks=True,
        resourceVersion=resource_version,
        timeoutSeconds=timeout_seconds,
        labelSelector=labels,
        fieldSelector=fields,
    )
    return Request(method="GET", path=resource.path(namespace=namespace), query=query)


class Write(StrEnum):
    """A way to change an object, by the type of what is sent; the first two send it whole."""

    CREATE = "POST application/json"
    REPLACE = "PUT application/json"
    APPLY = "PATCH application/apply-patch+yaml"
    MERGE = "PATCH application/merge-patch+json"


class WriteOptions(TypedDict, total=False):
    """What is written, and how carefully."""

    name: str | None
    subresource: str | None
    field_manager: str | None
    force: bool
    dry_run: bool
    accept: str


def write(
    how: Write,
    resource: Resource[AnyObject],
    body: Mapping[str, Any],
    *,
    namespace: str | None,
    **options: Unpack[WriteOptions],
) -> Request:
    """Create or change an object, or post to a subresource of one."""
    method, _, content_type = how.partition(" ")
    dry_run = "All" if options.get("dry_run") else None
    return Request(
        method=method,
        path=resource.path(namespace=namespace, name=options.get("name"), subresource=options.get("subresource")),
        query=_query(fieldManager=options.get("field_manager"), force=options.get("force"), dryRun=dry_run),
        body=msgspec.json.encode(body),
        content_type=content_type,
        accept=options.get("accept", "application/json"),
    )


class DeleteOptions(TypedDict, total=False):
    """How an object goes, and which one it still must be."""

    uid: str | None
    resource_version: str | None
    propagation: Propagation | None
    grace_seconds: int | None


def delete(
    resource: Resource[AnyObject],
    name: str | None,
    *,
    namespace: str | None,
    labels: str | None = None,
    **given: Unpack[DeleteOptions],
) -> Request:
    """Delete one object, or with ``name=None`` every object the labels select."""
    expected = {"uid": given.get("uid"), "resourceVersion": given.get("resource_version")}
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if preconditions := {key: value for key, value in expected.items() if value is not None}:
        options["preconditions"] = preconditions
    if (propagation := given.get("propagation")) is not None:
        options["propagationPolicy"] = propagation.value
    if (grace_seconds := given.get("grace_seconds")) is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return Request(
        method="DELETE",
        path=resource.path(namespace=namespace, name=name),
        query=_query(labelSelector=labels),
        body=msgspec.json.encode(options),
    )


def bind(name: str, *, namespace: str | None, node: str, uid: str | None = None) -> Request:
    """Give a pod its node; with ``uid`` only if it is still the same pod."""
    metadata = {"name": name} if uid is None else {"name": name, "uid": uid}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    return write(Write.CREATE, PODS, body, namespace=namespace, name=name, subresource="binding")


class LogOptions(TypedDict, total=False):
    """Which part of what a container wrote is read."""

    follow: bool
    previous: bool
    timestamps: bool
    tail_lines: int | None
    since_seconds: int | None
    limit_bytes: int | None


def logs(name: str, *, namespace: str | None, container: str | None = None, **options: Unpack[LogOptions]) -> Request:
    """Read what a container wrote."""
    query = _query(
        container=container,
        follow=options.get("follow"),
        previous=options.get("previous"),
        timestamps=options.get("timestamps"),
        tailLines=options.get("tail_lines"),
        sinceSeconds=options.get("since_seconds"),
        limitBytes=options.get("limit_bytes"),
    )
    return Request(method="GET", path=PODS.path(namespace=namespace, name=name, subresource="log"), query=query)


def execute(
    name: str,
    command: tuple[str, ...],
    *,
    namespace: str | None,
    container: str | None,
    stdin: bool,
    tty: bool = False,
) -> Request:
    """Run a command inside a container; sent as a web socket. A terminal has one stream for all that is written."""
    query = tuple(("command", word) for word in command)
    query += _query(container=container, stdin=stdin, stdout=True, stderr=not tty, tty=tty)
    return Request(method="GET", path=PODS.path(namespace=namespace, name=name, subresource="exec"), query=query)


def port_forward(name: str, port: int, *, namespace: str | None) -> Request:
    """Reach one port of a pod; sent as a web socket."""
    path = PODS.path(namespace=namespace, name=name, subresource="portforward")
    return Request(method="GET", path=path, query=(("ports", str(port)),))
