"""``KubeClient``: everything Gangline asks of a Kubernetes API server.

It joins ``requests`` (what to send), ``transport`` (sending) and ``resources`` (what comes back). It holds no state of
the cluster; ``reflect`` hands changes on and the caller keeps what it needs.

Namespaces: an act on one object uses the namespace given, else the one in the object, else the client's own. Lists and
``reflect`` cover every namespace unless one is given.
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import msgspec

from gangline.kube import compact, requests, streams
from gangline.kube.errors import GoneError
from gangline.kube.kubeconfig import ClusterAccess
from gangline.kube.objects import AnyObject, ListMetadata, ObjectList
from gangline.kube.requests import Body, Propagation, Request
from gangline.kube.resources import Resource
from gangline.kube.streams import ExecResult
from gangline.kube.transport import Backoff, Transport
from gangline.kube.watching import Change, Follower, log_lines

Selector = Mapping[str, str] | str | None


class KubeClient:
    """A connection to one cluster as one user; an asynchronous context manager."""

    def __init__(
        self,
        access: ClusterAccess,
        *,
        field_manager: str = "gangline",
        connections: int = 64,
        backoff: Backoff | None = None,
        randomness: random.Random | None = None,
    ) -> None:
        self.access = access
        self.namespace = access.namespace
        self._field_manager = field_manager
        self._randomness = randomness or random.Random()
        self._transport = Transport(
            access, connections=connections, backoff=backoff or Backoff(), randomness=self._randomness
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
        self,
        resource: Resource[AnyObject],
        body: Body,
        *,
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> AnyObject:
        """Create an object; raises ``AlreadyExistsError``."""
        request = requests.create(
            resource,
            body,
            namespace=self._place(resource, namespace, body),
            field_manager=self._field_manager,
            dry_run=dry_run,
        )
        return resource.decode(await self._transport.call(request))

    async def create_unread(self, resource: Resource[AnyObject], body: Body, *, namespace: str | None = None) -> None:
        """Create an object of the server's own kinds whose answer nobody needs: as ``create``, at less cost to it."""
        request = requests.create(
            resource,
            body,
            namespace=self._place(resource, namespace, body),
            field_manager=self._field_manager,
            accept=compact.ACCEPT,
        )
        await self._transport.call(request)

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
        """Server-side apply; raises ``ConflictError`` where another manager owns a field, unless forced."""
        request = requests.apply(
            resource,
            body,
            namespace=self._place(resource, namespace, body),
            name=_name(body),
            field_manager=field_manager or self._field_manager,
            force=force,
            subresource=subresource,
            dry_run=dry_run,
        )
        return resource.decode(await self._transport.call(request))

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
        request = requests.replace(
            resource,
            body,
            namespace=self._place(resource, namespace, body),
            name=_name(body),
            subresource=subresource,
            field_manager=self._field_manager,
            dry_run=dry_run,
        )
        return resource.decode(await self._transport.call(request))

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
        """Merge a patch into an object; put ``resourceVersion`` in its metadata to be refused if it moved on."""
        request = requests.merge_patch(
            resource,
            name,
            patch,
            namespace=self._place(resource, namespace),
            subresource=subresource,
            field_manager=self._field_manager,
            dry_run=dry_run,
        )
        return resource.decode(await self._transport.call(request))

    async def delete(
        self,
        resource: Resource[AnyObject],
        name: str,
        *,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete one object, with ``uid`` or ``resource_version`` only if it is still that one (``ConflictError``)."""
        await self._transport.call(
            requests.delete(
                resource,
                name,
                namespace=self._place(resource, namespace),
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
                grace_seconds=grace_seconds,
            )
        )

    async def delete_all(
        self,
        resource: Resource[AnyObject],
        *,
        labels: Selector,
        namespace: str | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete every object of one namespace that the labels select."""
        await self._transport.call(
            requests.delete(
                resource,
                None,
                namespace=self._place(resource, namespace),
                labels=requests.selector(labels),
                propagation=propagation,
                grace_seconds=grace_seconds,
            )
        )

    async def bind(self, pod: str, node: str, *, namespace: str | None = None, uid: str | None = None) -> None:
        """Give a pending pod its node; raises ``ConflictError`` if it has one or is another pod by now."""
        await self._transport.call(requests.bind(pod, namespace=namespace or self.namespace, node=node, uid=uid))

    async def logs(
        self,
        pod: str,
        *,
        namespace: str | None = None,
        container: str | None = None,
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
        limit_bytes: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a container wrote, line by line; ``follow`` goes on until the container ends.

        A very long line comes in pieces, with ``timestamps`` each with the line's own.
        """
        request = requests.logs(
            pod,
            namespace=namespace or self.namespace,
            container=container,
            follow=follow,
            previous=previous,
            timestamps=timestamps,
            tail_lines=tail_lines,
            since_seconds=since_seconds,
            limit_bytes=limit_bytes,
        )
        async with self._transport.stream(request) as chunks, aclosing(log_lines(chunks, stamped=timestamps)) as cut:
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
        request = requests.execute(
            pod,
            tuple(command),
            namespace=namespace or self.namespace,
            container=container,
            stdin=stdin is not None,
        )
        async with self._transport.websocket(request, protocols=streams.EXEC_PROTOCOLS) as socket:
            return await streams.run_command(socket, stdin=stdin)

    async def interact(
        self,
        pod: str,
        command: Sequence[str],
        console: streams.Console,
        *,
        namespace: str | None = None,
        container: str | None = None,
        terminal: bool,
    ) -> int:
        """Run a command inside a container for somebody at a console, on a terminal or not; return its exit code."""
        request = requests.execute(
            pod,
            tuple(command),
            namespace=namespace or self.namespace,
            container=container,
            stdin=True,
            tty=terminal,
        )
        async with self._transport.websocket(request, protocols=streams.EXEC_PROTOCOLS) as socket:
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
    ) -> AsyncGenerator[Change[AnyObject], None]:
        """Yield all that exists, then ``Synced``, then every change for ever; no deletion is lost.

        After a gap that the server cannot fill, what was missed comes as ``Deleted`` and ``Applied``, then ``Synced``.
        """
        follower = Follower(
            resource,
            self._transport,
            lambda: self.list(resource, namespace=namespace, labels=labels, fields=fields, page_size=page_size),
            namespace=namespace,
            labels=requests.selector(labels),
            fields=requests.selector(fields),
            randomness=self._randomness,
        )
        return follower.changes()

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
