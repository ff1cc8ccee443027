"""``KubeClient``: everything Gangline asks of a Kubernetes API server.

It joins ``requests`` (what to send), ``transport`` (sending) and ``resources`` (what comes back). It holds no state of
the cluster; ``reflect`` hands changes on and the caller keeps what it needs.

Namespaces: an act on one object uses the namespace given, else the one in the object, else the client's own. Lists and
``reflect`` cover every namespace unless one is given.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any, Unpack

import msgspec

from gangline.kube import compact, requests, streams
from gangline.kube.errors import GoneError, KubeError
from gangline.kube.kubeconfig import ClusterAccess
from gangline.kube.objects import AnyObject, ListMetadata, ObjectList
from gangline.kube.requests import Body, DeleteOptions, LogOptions, Request, Write, WriteOptions
from gangline.kube.resources import Resource
from gangline.kube.streams import ExecResult
from gangline.kube.transport import RetryPolicy, Transport
from gangline.kube.watching import Change, Follower, Reflection, log_lines
from gangline.model.console import Console

_log = logging.getLogger(__name__)

Selector = Mapping[str, str] | str | None


class KubeClient:
    """A connection to one cluster as one user; an asynchronous context manager."""

    def __init__(
        self,
        access: ClusterAccess,
        *,
        field_manager: str = "gangline",
        connections: int = 64,
        retries: RetryPolicy | None = None,
        randomness: random.Random | None = None,
    ) -> None:
        self.access = access
        self.namespace = access.namespace
        self._field_manager = field_manager
        self._randomness = randomness or random.Random()
        self._transport = Transport(
            access, connections=connections, retries=retries or RetryPolicy(), randomness=self._randomness
        )

    async def __aenter__(self) -> "KubeClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    async def raw(self, path: str, *, query: Mapping[str, str] | None = None) -> bytes:
        """Read any path of the server, such as ``/version`` or ``/readyz``."""
        return await self._transport.call(Request(method="GET", path=path, query=tuple((query or {}).items())))

    async def get(self, resource: Resource[AnyObject], name: str, *, namespace: str | None = None) -> AnyObject:
        """Read one object; raises ``NotFoundError``."""
        request = requests.read(resource, name, namespace=self._place(resource, namespace))
        return resource.decode(await self._transport.call(request))

    async def list(
        self,
        resource: Resource[AnyObject],
        *,
        namespace: str | None = None,
        labels: Selector = None,
        fields: Selector = None,
        page_size: int = 500,
    ) -> ObjectList[AnyObject]:
        """Read a whole collection, page by page, as it was at one version."""
        try:
            return await self._pages(resource, namespace, labels, fields, limit=page_size)
        except GoneError:
            # The version of the first page was compacted away; one unpaged list cannot be overtaken.
            return await self._pages(resource, namespace, labels, fields, limit=None)

    async def create(
        self, resource: Resource[AnyObject], body: Body, *, namespace: str | None = None, dry_run: bool = False
    ) -> AnyObject:
        """Create an object; raises ``AlreadyExistsError``."""
        return resource.decode(await self._write(Write.CREATE, resource, body, namespace, dry_run=dry_run))

    async def create_unread(self, resource: Resource[AnyObject], body: Body, *, namespace: str | None = None) -> None:
        """Create an object of the server's own kinds whose answer nobody needs: as ``create``, at less cost to it."""
        await self._write(Write.CREATE, resource, body, namespace, accept=compact.ACCEPT)

    async def apply(
        self,
        resource: Resource[AnyObject],
        body: Body,
        *,
        namespace: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> AnyObject:
        """Server-side apply: own the fields named in the body, create the object if it is missing.

        Raises ``ConflictError`` where another manager owns a field, unless forced.
        """
        options = WriteOptions(name=_name(body), force=force, subresource=subresource, dry_run=dry_run)
        if field_manager:
            options["field_manager"] = field_manager
        return resource.decode(await self._write(Write.APPLY, resource, body, namespace, **options))

    async def replace(
        self,
        resource: Resource[AnyObject],
        body: Body,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> AnyObject:
        """Replace an object whole; raises ``ConflictError`` if its ``resourceVersion`` is no longer the newest."""
        options = WriteOptions(name=_name(body), subresource=subresource, dry_run=dry_run)
        return resource.decode(await self._write(Write.REPLACE, resource, body, namespace, **options))

    async def patch(
        self,
        resource: Resource[AnyObject],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> AnyObject:
        """Merge a patch into an object: ``None`` removes a field, lists are replaced whole.

        Put ``resourceVersion`` in its metadata to be refused if it moved on.
        """
        place, manager = self._place(resource, namespace), self._field_manager
        options = WriteOptions(name=name, subresource=subresource, dry_run=dry_run, field_manager=manager)
        request = requests.write(Write.MERGE, resource, patch, namespace=place, **options)
        return resource.decode(await self._transport.call(request))

    async def delete(
        self,
        resource: Resource[AnyObject],
        name: str,
        *,
        namespace: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> None:
        """Delete one object, with ``uid`` or ``resource_version`` only if it is still that one (``ConflictError``)."""
        place = self._place(resource, namespace)
        await self._transport.call(requests.delete(resource, name, namespace=place, **options))

    async def delete_all(
        self,
        resource: Resource[AnyObject],
        *,
        labels: Selector,
        namespace: str | None = None,
        **options: Unpack[DeleteOptions],
    ) -> None:
        """Delete every object of one namespace that the labels select."""
        place, chosen = self._place(resource, namespace), requests.selector(labels)
        await self._transport.call(requests.delete(resource, None, namespace=place, labels=chosen, **options))

    async def bind(self, pod: str, node: str, *, namespace: str | None = None, uid: str | None = None) -> None:
        """Give a pending pod its node; raises ``ConflictError`` if it has one or is another pod by now."""
        await self._transport.call(requests.bind(pod, namespace=namespace or self.namespace, node=node, uid=uid))

    async def logs(
        self,
        pod: str,
        *,
        namespace: str | None = None,
        container: str | None = None,
        **options: Unpack[LogOptions],
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a container wrote, line by line; ``follow`` goes on until the container ends.

        A very long line comes in pieces, with ``timestamps`` each with the line's own.
        """
        request = requests.logs(pod, namespace=namespace or self.namespace, container=container, **options)
        stamped = options.get("timestamps", False)
        async with self._transport.stream(request) as chunks, aclosing(log_lines(chunks, stamped=stamped)) as cut:
            async for line in cut:
                yield line

    async def execute(
        self,
        pod: str,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str | None = None,
        stdin: bytes | None = None,
    ) -> ExecResult:
        """Run a command inside a container and wait for it."""
        async with self._command(pod, command, namespace, container, stdin=stdin is not None) as socket:
            return await streams.run_command(socket, stdin=stdin)

    async def stream(
        self,
        pod: str,
        command: Sequence[str],
        *,
        namespace: str | None = None,
        container: str | None = None,
        stdin: AsyncIterator[bytes] | None = None,
    ) -> AsyncGenerator[bytes]:
        """Run a command inside a container and return what it writes as it comes; raises CommandError if it fails."""
        async with (
            self._command(pod, command, namespace, container, stdin=stdin is not None) as socket,
            aclosing(streams.stream_command(socket, stdin)) as chunks,
        ):
            async for chunk in chunks:
                yield chunk

    async def interact(
        self,
        pod: str,
        command: Sequence[str],
        console: Console,
        *,
        namespace: str | None = None,
        container: str | None = None,
        terminal: bool,
    ) -> int:
        """Run a command inside a container for somebody at a console, on a terminal or not; return its exit code."""
        async with self._command(pod, command, namespace, container, stdin=True, tty=terminal) as socket:
            return await streams.converse(socket, console, terminal=terminal)

    @asynccontextmanager
    async def port_forward(
        self, pod: str, port: int, *, namespace: str | None = None, host: str = "127.0.0.1", local_port: int = 0
    ) -> AsyncIterator[int]:
        """Make a pod's port reachable on this machine while the context is open; yields the local port."""
        request = requests.port_forward(pod, port, namespace=namespace or self.namespace)

        def open_socket() -> AbstractAsyncContextManager[streams.WebSocket]:
            return self._transport.websocket(request, protocols=streams.PORT_FORWARD_PROTOCOLS)

        async with streams.listen(open_socket, host=host, port=local_port) as listening:
            yield listening

    def reflect(
        self,
        resource: Resource[AnyObject],
        *,
        namespace: str | None = None,
        labels: Selector = None,
        fields: Selector = None,
        page_size: int = 500,
        reflection: Reflection[AnyObject] | None = None,
    ) -> AsyncGenerator[Change[AnyObject], None]:
        """Yield all that exists, then ``Synced``, then every change forever; no deletion is lost.

        After a gap that the server cannot fill, what was missed comes as ``Deleted`` and ``Applied``, then ``Synced``.
        A ``reflection`` of an earlier call makes what has gone since then come as ``Deleted`` too.
        """
        follower = Follower(
            resource,
            self._transport,
            lambda: self.list(resource, namespace=namespace, labels=labels, fields=fields, page_size=page_size),
            namespace=namespace,
            labels=requests.selector(labels),
            fields=requests.selector(fields),
            randomness=self._randomness,
            reflection=reflection,
        )
        return follower.changes()

    async def follow(
        self,
        resource: Resource[AnyObject],
        take: Callable[[Change[AnyObject]], Awaitable[None] | None],
        *,
        namespace: str | None = None,
        labels: Selector = None,
        goes_on: Callable[[], bool] = lambda: True,
        pause_seconds: float = 1.0,
        level: int = logging.WARNING,
    ) -> None:
        """Hand every change to ``take``, forever; a watch that fails is begun anew, and no deletion is lost by that.

        ``goes_on`` is asked after each failure. All that exists is handed over again then.
        """
        reflection = Reflection(resource)
        while True:
            try:
                changes = self.reflect(resource, namespace=namespace, labels=labels, reflection=reflection)
                async with aclosing(changes):
                    async for change in changes:
                        if (taken := take(change)) is not None:
                            await taken
            except KubeError as error:
                _log.log(level, "%s cannot be watched; trying again: %s", resource.plural, error)
            if not goes_on():
                return
            await asyncio.sleep(pause_seconds)

    async def _write(
        self,
        how: Write,
        resource: Resource[AnyObject],
        body: Body,
        namespace: str | None,
        **options: Unpack[WriteOptions],
    ) -> bytes:
        """Send an object whole, to the namespace that it names unless another one is given."""
        whole, place = requests.body_of(resource, body), self._place(resource, namespace, body)
        options.setdefault("field_manager", self._field_manager)
        return await self._transport.call(requests.write(how, resource, whole, namespace=place, **options))

    def _command(
        self,
        pod: str,
        command: Sequence[str],
        namespace: str | None,
        container: str | None,
        *,
        stdin: bool,
        tty: bool = False,
    ) -> AbstractAsyncContextManager[streams.WebSocket]:
        place = namespace or self.namespace
        request = requests.execute(pod, tuple(command), namespace=place, container=container, stdin=stdin, tty=tty)
        return self._transport.websocket(request, protocols=streams.EXEC_PROTOCOLS)

    async def _pages(
        self,
        resource: Resource[AnyObject],
        namespace: str | None,
        labels: Selector,
        fields: Selector,
        limit: int | None,
    ) -> ObjectList[AnyObject]:
        items: list[AnyObject] = []
        token = ""
        while True:
            request = requests.list_page(
                resource,
                namespace=namespace,
                labels=requests.selector(labels),
                fields=requests.selector(fields),
                limit=limit,
                continue_token=token,
            )
            page = resource.decode_list(await self._transport.call(request))
            items += page.items or ()
            token = page.metadata.continue_token
            if not token:
                return ObjectList(metadata=ListMetadata(resource_version=page.metadata.resource_version), items=items)

    def _place(self, resource: Resource[AnyObject], namespace: str | None, body: Body | None = None) -> str | None:
        if not resource.namespaced:
            return None
        inside = requests.named_by(body)[0] if body is not None else None
        return namespace or inside or self.namespace


def _name(body: Body) -> str:
    name = requests.named_by(body)[1]
    if not name:
        raise msgspec.ValidationError("the object has no metadata.name")
    return name
