"""A Kubernetes cluster as the service: this process speaks for its user to the cluster of a context."""

import asyncio
from pathlib import Path

from gangline.compose.context import ContextService
from gangline.compose.contexts import namespace_of
from gangline.errors import UnreachableError
from gangline.sdk.transports.interface import Transport
from gangline.sdk.transports.service_thread import ServiceThread
from gangline.settings import Settings


class ContextTransport(ServiceThread):
    """Owns what this process needs for one context and one tenant: a namespace of the cluster, whose jobs go on."""

    def __init__(self, context: str, *, tenant: str | None, settings: Settings) -> None:
        if not hasattr(asyncio, "start_unix_server"):
            raise UnreachableError(
                "a cluster is driven from Linux or macOS; on Windows use WSL or a team's service ('gangline login URL')"
            )
        self.tenant = tenant or namespace_of(context)
        self._context = context

        def make(scratch: Path) -> tuple[ContextService, Path]:
            socket = scratch / "service.sock"
            service = ContextService(
                context,
                namespace=self.tenant,
                socket=socket,
                code_directory=scratch / "code",
                code_limits=settings.code_limits,
            )
            return service, socket

        super().__init__(make)

    @property
    def address(self) -> str:
        """The context, for a person to read."""
        return f"context {self._context}"


_conforms: type[Transport] = ContextTransport
