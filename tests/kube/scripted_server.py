"""An HTTP server that speaks the API server's wire format and answers as each test scripts it."""

import json
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ScriptedServer:
    """Answers each request with the next scripted answer of its path; the last one repeats."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[Any] = []
        self._answers: dict[tuple[str, str], list[Handler]] = defaultdict(list)

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        return application

    def answer(
        self, method: str, path: str, body: Any = None, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        async def handle(_: web.Request) -> web.StreamResponse:
            return web.json_response(body if body is not None else {}, status=status, headers=headers)

        self.handle(method, path, handle)

    def refuse(
        self, method: str, path: str, *, status: int, reason: str, headers: dict[str, str] | None = None
    ) -> None:
        body = {"kind": "Status", "status": "Failure", "reason": reason, "code": status, "message": f"{reason}: no"}
        self.answer(method, path, body, status=status, headers=headers)

    def cut(self, method: str, path: str) -> None:
        """Close the connection instead of answering."""

        async def handle(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()

        self.handle(method, path, handle)

    def watch(self, path: str, *changes: tuple[str, dict[str, Any]]) -> None:
        """Answer a watch with these changes and then end it."""

        async def handle(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for kind, item in changes:
                await response.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
            return response

        self.handle("WATCH", path, handle)

    def handle(self, method: str, path: str, handler: Handler) -> None:
        self._answers[method, path].append(handler)

    def sent(self, method: str) -> list[web.Request]:
        return [request for request in self.requests if request.method == method]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        text = await request.text()
        self.bodies.append(json.loads(text) if text else None)
        method = "WATCH" if request.query.get("watch") else request.method
        answers = self._answers[method, request.path]
        if not answers:
            return web.json_response({"reason": "NotFound", "message": f"{method} {request.path}"}, status=404)
        return await (answers.pop(0) if len(answers) > 1 else answers[0])(request)


def pod(name: str, *, version: int = 1, uid: str | None = None, node: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}}


def pod_list(*pods: dict[str, Any], version: int = 10, continue_token: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(version)}
    if continue_token:
        metadata["continue"] = continue_token
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(pods)}
