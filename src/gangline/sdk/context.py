"""A Kubernetes cluster as the service: this process speaks for its user to the cluster of a context."""

from gangline.compose.context import ContextService
from gangline.compose.contexts import namespace_of
from gangline.errors import GanglineError
from gangline.sdk.http import HttpAnswer, HttpTransport
from gangline.sdk.scratch import Scratch
from gangline.sdk.service_thread import ServiceThread
from gangline.sdk.transport import Request, Transport
from gangline.settings import Settings


class ContextTransport:
    """Owns what this process needs for one context and one tenant: a namespace of the cluster."""

    def __init__(self, context: str, *, tenant: str | None, settings: Settings) -> None:
        self.tenant = tenant or namespace_of(context)
        self._context = context
        self._scratch = Scratch()
        scratch = self._scratch.path
        service = ContextService(
            context,
            namespace=self.tenant,
            socket=scratch / "service.sock",
            code_directory=scratch / "code",
            code_limits=settings.code_limits,
        )
        try:
            self._service = ServiceThread(service)
        except GanglineError:
            self._scratch.remove()
            raise
        self._http = HttpTransport(f"unix:{scratch / 'service.sock'}")

    @property
    def address(self) -> str:
        """The context, for a person to read."""
        return f"context {self._context}"

    def send(self, request: Request) -> HttpAnswer:
        """Send a request; see Transport."""
        return self._http.send(request)

    def close(self) -> None:
        """Let go of the cluster; its jobs go on."""
        self._service.close()
        self._scratch.remove()


_conforms: type[Transport] = ContextTransport
