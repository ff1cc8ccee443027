"""The object store over HTTP: paths to kinds, verbs to calls, lists in pages, watches as streams, logs of pods."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from gangline.kube import ClusterAccess
from tests.apiserver.errors import RefusedError, bad_request, conflict, expired
from tests.apiserver.kinds import PODS, Kind
from tests.apiserver.kubelet import Kubelet
from tests.apiserver.objects import Body, Key, ObjectStore
from tests.apiserver.selectors import Test, selector

_BOOKMARK_SECONDS = 1.0
_APPLY, _MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
_REVIEWS = {
    "selfsubjectaccessreviews": {"allowed": True},
    "selfsubjectreviews": {"userInfo": {"username": "admin", "groups": ["system:masters"]}},
}
"""Questions that are answered and not kept: everybody here may do everything, unless there are ``people``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """Somebody with a token, and what they may do where."""

    name: str
    verbs: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    admin: bool = False

    def may(self, verb: str, namespace: str) -> bool:
        return self.admin or (namespace in self.namespaces and verb in self.verbs)


_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a path names: a collection, an object, or a part of one."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    part: str = ""

    @property
    def key(self) -> Key:
        return (self.namespace if self.kind.namespaced else "", self.name)


class ApiServer:
    """Serves one store and runs the pods of its nodes."""

    def __init__(self, store: ObjectStore, kubelet: Kubelet) -> None:
        self.store = store
        self.kubelet = kubelet
        self._pages: dict[str, list[Body]] = {}
        self.people: dict[str, Bearer] = {}
        """Who has which token; if there is anybody, nobody else is let in."""

    @classmethod
    @asynccontextmanager
    async def running(cls, *, nodes: int = 2) -> AsyncIterator[tuple["ApiServer", ClusterAccess]]:
        """Serve a new cluster on a port of this machine; yields the way to it, too."""
        store = ObjectStore()
        async with Kubelet.running(store, nodes=nodes) as kubelet:
            server = cls(store, kubelet)
            app = web.Application(client_max_size=8 * 2**20)
            app.router.add_route("*", "/{path:.*}", server._handle)
            async with TestServer(app) as listening:
                yield server, ClusterAccess(server=str(listening.make_url("")).rstrip("/"))

    def compact(self) -> None:
        """Forget every version but the newest: pages and watches that lag behind are told that they are too old."""
        self.store.compact()
        self._pages.clear()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except RefusedError as refused:
            return web.json_response(refused.body(), status=refused.code)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.match_info["path"].split("/") if part]
        if parts in (["version"], ["readyz"]):
            return web.json_response({"major": "1", "minor": "35", "gitVersion": "v1.35.0"})
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (*parts[1:3], parts[3:])  # type: ignore[misc]
        if not rest:
            return self._discovered(group, version)
        if self.people and (answer := await self._judged(request, rest)) is not None:
            return answer
        if rest[0] in _REVIEWS:
            return web.json_response({**await request.json(), "status": _REVIEWS[rest[0]]}, status=201)
        target = self._target(group, version, rest)
        if target.kind == PODS and target.part == "log":
            return await self._log(request, target)
        if request.method == "GET" and not target.name and request.query.get("watch") == "true":
            return await self._watch(request, target)
        body = await request.json() if request.can_read_body else {}
        return web.json_response(self._called(request, target, body))

    async def _judged(self, request: web.Request, rest: list[str]) -> web.Response | None:
        """Answer questions about people, and refuse what somebody may not do."""
        bearer = self.people.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        if bearer is None:
            raise RefusedError(401, "Unauthorized", "Unauthorized")
        if rest[0] in ("tokenreviews", "subjectaccessreviews") and not bearer.admin:
            raise RefusedError(403, "Forbidden", f"{bearer.name} cannot create {rest[0]}")
        spec = (await request.json())["spec"] if rest[0].endswith("reviews") and request.can_read_body else {}
        if rest[0] == "tokenreviews":
            found = self.people.get(spec["token"])
            user = {} if found is None else {"user": {"username": found.name, "groups": ["system:authenticated"]}}
            return web.json_response({"status": {"authenticated": found is not None, **user}}, status=201)
        if rest[0] == "subjectaccessreviews":
            asked = spec.get("resourceAttributes") or {"verb": "", "namespace": ""}
            subject = next(each for each in self.people.values() if each.name == spec["user"])
            allowed = subject.may(asked["verb"], asked.get("namespace", ""))
            return web.json_response({"status": {"allowed": allowed}}, status=201)
        if rest[0] in _REVIEWS:
            return None
        namespace = rest[1] if rest[0] == "namespaces" and len(rest) > 2 else ""
        verb = "list" if request.method == "GET" and len(rest) == 3 else _VERBS[request.method]
        if not (bearer.may(verb, namespace) or (not namespace and rest[0] == "queues" and verb in ("get", "list"))):
            raise RefusedError(403, "Forbidden", f'User "{bearer.name}" cannot {verb} resource in "{namespace}"')
        return None

    def _called(self, request: web.Request, target: Target, body: Body) -> Body:
        """Carry out all that is one question and one answer."""
        store, kind, key, query = self.store, target.kind, target.key, request.query
        options = {"manager": query.get("fieldManager", "unknown"), "dry_run": "dryRun" in query}
        match request.method:
            case "GET":
                return store.get(kind, key) if target.name else self._page(request, target)
            case "POST" if target.part == "binding":
                return self._bind(target, body)
            case "POST":
                return store.create(kind, target.namespace, body, **options)
            case "PUT":
                return store.replace(kind, key, body, part=target.part, **options)
            case "PATCH" if request.content_type == _APPLY:
                force = query.get("force") == "true"
                return store.apply(kind, key, body, part=target.part, force=force, **options)
            case "PATCH" if request.content_type == _MERGE:
                return store.merge(kind, key, body, part=target.part, **options)
            case "DELETE" if target.name:
                return store.delete(kind, key, body)
            case "DELETE":
                for found in self._selected(request, target):
                    store.delete(kind, (target.namespace, found["metadata"]["name"]), body)
                return {"kind": "Status", "status": "Success"}
        raise RefusedError(415, "UnsupportedMediaType", f"{request.method} with {request.content_type}")

    def _target(self, group: str, version: str, rest: list[str]) -> Target:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        plural, name, part = (*rest, "", "")[:3]
        kind = self.store.kinds.get((group, version, plural))
        if kind is None or (part == "status" and not kind.has_status):
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return Target(kind=kind, namespace=namespace, name=name, part=part)

    def _discovered(self, group: str, version: str) -> web.Response:
        served = [kind.described() for kind in self.store.kinds.values() if kind.place[:2] == (group, version)]
        if not served:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return web.json_response({"kind": "APIResourceList", "groupVersion": f"{group}/{version}", "resources": served})

    def _bind(self, target: Target, body: Body) -> Body:
        found = self.store.get(PODS, target.key)
        if found["spec"].get("nodeName"):
            raise conflict("pods/binding", target.name, f"pod {target.name} is already assigned to node")
        guard = {name: value for name, value in body["metadata"].items() if name == "uid"}
        bound = {"metadata": guard, "spec": {"nodeName": body["target"]["name"]}}
        self.store.merge(PODS, target.key, bound, "binding")
        return {"kind": "Status", "status": "Success"}

    # Collections ---------------------------------------------------------------------------------------------

    def _selected(self, request: web.Request, target: Target) -> list[Body]:
        return list(filter(_selector(request), self.store.all(target.kind, target.namespace)))

    def _page(self, request: web.Request, target: Target) -> Body:
        """One page of a list as it was when its first page was read."""
        limit, token = int(request.query.get("limit", 0)), request.query.get("continue", "")
        version, start = json.loads(base64.b64decode(token)) if token else (self.store.version, 0)
        asked = [request.query.get(name) for name in ("labelSelector", "fieldSelector")]
        snapshot = f"{version} {target.kind.place} {target.namespace} {asked}"
        if token and snapshot not in self._pages:
            raise expired()
        found = self._pages[snapshot] if token else self._selected(request, target)
        end = start + limit if limit else len(found)
        metadata = {"resourceVersion": str(version)}
        self._pages.pop(snapshot, None)
        if end < len(found):
            self._pages[snapshot] = found
            metadata["continue"] = base64.b64encode(json.dumps([version, end]).encode()).decode()
        listed = {"kind": f"{target.kind.kind}List", "apiVersion": target.kind.api_version, "metadata": metadata}
        return {**listed, "items": found[start:end]}

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)

        async def send(kind: str, body: Body) -> None:
            await response.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")

        with suppress(ConnectionResetError, TimeoutError):
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", 1800))):
                try:
                    await self._follow(request, target, send)
                except RefusedError as refused:
                    await send("ERROR", refused.body())
        return response

    async def _follow(self, request: web.Request, target: Target, send: Callable[[str, Body], Awaitable[None]]) -> None:
        seen = int(request.query.get("resourceVersion") or 0)
        if not seen:
            seen = self.store.version
            for body in self._selected(request, target):
                await send("ADDED", body)
        while True:
            changed = self.store.changed
            for moment in list(self.store.since(seen)):
                if moment.kind == target.kind and (event := _event(moment.before, moment.after, request, target)):
                    await send(event[0], _at_version(event[1], moment.version))
                seen = moment.version
            with suppress(TimeoutError):
                async with asyncio.timeout(_BOOKMARK_SECONDS):
                    await changed.wait()
                    continue
            if request.query.get("allowWatchBookmarks") == "true":
                mark = {"kind": target.kind.kind, "apiVersion": target.kind.api_version}
                await send("BOOKMARK", {**mark, "metadata": {"resourceVersion": str(seen)}})

    # Logs ----------------------------------------------------------------------------------------------------

    async def _log(self, request: web.Request, target: Target) -> web.StreamResponse:
        pod, query = self.store.get(PODS, target.key), request.query
        container = query.get("container") or pod["spec"]["containers"][0]["name"]
        output = self.kubelet.output(pod["metadata"]["uid"], container)
        if output is None:
            raise bad_request(f'container "{container}" in pod "{target.name}" is waiting to start')
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        stamped, tail = query.get("timestamps") == "true", query.get("tailLines")
        with suppress(ConnectionResetError):
            async for line in output.read(follow=query.get("follow") == "true", tail=int(tail) if tail else None):
                await response.write((f"{line.at} ".encode() if stamped else b"") + line.text + b"\n")
        return response


def _selector(request: web.Request) -> Test:
    return selector(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))


def _event(before: Body | None, after: Body | None, request: web.Request, target: Target) -> tuple[str, Body] | None:
    """What one change is to a watch that selects some objects only."""
    selects = _selector(request)

    def shown(body: Body | None) -> bool:
        here = body is not None and target.namespace in ("", body["metadata"].get("namespace"))
        return here and selects(body)

    if shown(after):
        return ("MODIFIED" if shown(before) else "ADDED"), after
    return ("DELETED", after or before) if shown(before) else None


def _at_version(body: Body, version: int) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}
