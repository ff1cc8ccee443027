"""The HTTP interface: Open Inference Protocol, Triton's repository calls, TensorFlow Serving's and KServe's paths."""

import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from gangline.serve import oip, tf_serving
from gangline.serve.agreement import Agreement
from gangline.serve.counters import MEDIA_TYPE, Counters
from gangline.serve.errors import BadRequestError, ServeError
from gangline.serve.repository import Repository, State, Version

_log = logging.getLogger(__name__)
SERVER_NAME = "gangline"
EXTENSIONS = ("binary_tensor_data", "model_repository", "model_repository(unload_dependents)")
_JSON = "application/json"
_BINARY = "application/octet-stream"
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build(
    repository: Repository, agreement: Agreement, counters: Counters, version: str, max_body_bytes: int
) -> web.Application:
    """Return the application that answers for these models."""
    app = web.Application(client_max_size=max_body_bytes)
    Rest(repository, agreement, counters, version).register(app.router)
    return app


def _answering_errors(handler: Handle) -> Handle:
    """Answer what goes wrong in the protocol's own form; a middleware would cost every request twice as much."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except ServeError as error:
            return _json({"error": str(error)}, error.status)
        except web.HTTPRequestEntityTooLarge:
            return _json({"error": "the body is too large"}, 413)
        except web.HTTPException:
            raise
        except Exception:  # noqa: BLE001  # the top of a request, logged; others go on
            _log.exception("%s %s", request.method, request.path)
            return _json({"error": "internal error; see the log of the server"}, 500)

    return handle


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type=_JSON)


class Rest:
    """The handlers, one for each path."""

    def __init__(self, repository: Repository, agreement: Agreement, counters: Counters, version: str) -> None:
        self._repository = repository
        self._agreement = agreement
        self._counters = counters
        self._version = version

    def register(self, router: web.UrlDispatcher) -> None:
        """Add all paths."""

        def add(method: str, path: str, handler: Handle) -> None:
            router.add_route(method, path, _answering_errors(handler))

        for name in self._repository.names():
            if _PLAIN.fullmatch(name):  # a path without variables is found at once, which a quick model notices
                add("POST", f"/v2/models/{name}/infer", self._infer_newest_of(name))
        for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            add("POST", f"{path}/infer", self._infer)
        add("GET", "/v2", self._server)
        add("GET", "/v2/", self._server)
        add("GET", "/v2/health/live", self._live)
        add("GET", "/v2/health/ready", self._ready)
        add("POST", "/v2/repository/index", self._index)
        add("POST", "/v2/repository/models/{model}/load", self._load)
        add("POST", "/v2/repository/models/{model}/unload", self._unload)
        for path in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
            add("GET", path, self._metadata)
            add("GET", f"{path}/ready", self._model_ready)
        add("GET", "/v1/models", self._list)
        for path in ("/v1/models/{model:[^/:]+}", "/v1/models/{model:[^/:]+}/versions/{version:[^/:]+}"):
            add("GET", path, self._status)
            add("GET", f"{path}/metadata", self._tf_metadata)
            add("POST", f"{path}:{{verb}}", self._tf_verb)
        add("GET", "/metrics", self._metrics)
        add("*", "/{path:.*}", self._unknown)

    def _find(self, request: web.Request) -> Version:
        return self._repository.find(request.match_info["model"], request.match_info.get("version", ""))

    async def _server(self, _: web.Request) -> web.Response:
        return _json({"name": SERVER_NAME, "version": self._version, "extensions": list(EXTENSIONS)})

    async def _live(self, _: web.Request) -> web.Response:
        return _json({"live": True})

    async def _ready(self, _: web.Request) -> web.Response:
        ready = self._repository.ready and not self._repository.stuck
        return _json({"ready": ready}, 200 if ready else 503)

    async def _metadata(self, request: web.Request) -> web.Response:
        return _json(self._described(self._find(request)))

    def _described(self, version: Version) -> dict[str, Any]:
        model = version.loaded()
        return {
            "name": version.name,
            "versions": self._repository.versions(version.name),
            "platform": model.platform,
            "inputs": oip.tensor_metadata(model.inputs),
            "outputs": oip.tensor_metadata(model.outputs),
        }

    async def _model_ready(self, request: web.Request) -> web.Response:
        version = self._find(request)
        ready = version.state is State.READY
        return _json({"name": version.name, "ready": ready}, 200 if ready else 503)

    def _infer_newest_of(self, name: str) -> Handle:
        async def infer(request: web.Request) -> web.StreamResponse:
            return await self._counted(request, self._repository.find(name), self._infer_once)

        return infer

    async def _infer(self, request: web.Request) -> web.Response:
        return await self._counted(request, self._find(request), self._infer_once)

    async def _counted(
        self, request: web.Request, version: Version, answer: Callable[[web.Request, Version], Awaitable[web.Response]]
    ) -> web.Response:
        began, status = time.perf_counter(), 500
        try:
            found = await answer(request, version)
            status = found.status
            return found
        except ServeError as error:
            status = error.status
            raise
        finally:
            version.counters.answered(status, began)

    async def _infer_once(self, request: web.Request, version: Version) -> web.Response:
        asked, inputs = oip.read_request(await request.read(), request.headers.get(oip.HEADER_LENGTH))
        outputs = await version.ask(inputs, asked.id)
        body, head = oip.write_answer(asked, version.name, version.version, outputs)
        if head is None:
            return web.Response(body=body, content_type=_JSON)
        return web.Response(body=body, content_type=_BINARY, headers={oip.HEADER_LENGTH: str(head)})

    async def _index(self, request: web.Request) -> web.Response:
        only_ready = (await _options(request)).get("ready", False)
        return _json(
            [
                {
                    "name": version.name,
                    "version": version.version,
                    "state": version.state.value,
                    "reason": version.reason,
                }
                for version in self._repository
                if version.state is State.READY or not only_ready
            ]
        )

    async def _load(self, request: web.Request) -> web.Response:
        await _options(request)
        await self._agreement.ask(request.match_info["model"], loaded=True)
        return _json({})

    async def _unload(self, request: web.Request) -> web.Response:
        await _options(request)
        await self._agreement.ask(request.match_info["model"], loaded=False)
        return _json({})

    async def _list(self, _: web.Request) -> web.Response:
        return _json({"models": self._repository.names()})

    async def _status(self, request: web.Request) -> web.Response:
        name = request.match_info["model"]
        numbers = (
            [request.match_info["version"]] if "version" in request.match_info else self._repository.versions(name)
        )
        versions = [self._repository.find(name, number) for number in numbers]
        return _json(
            {
                "name": name,
                "ready": any(version.state is State.READY for version in versions),
                "model_version_status": [_tf_status(version) for version in versions],
            }
        )

    async def _tf_metadata(self, request: web.Request) -> web.Response:
        version = self._find(request)
        described = self._described(version)
        signature = {
            side: {
                spec["name"]: {
                    "dtype": _TF_TYPES.get(spec["datatype"], "DT_STRING"),
                    "tensor_shape": {
                        "dim": [{"size": str(length), "name": ""} for length in spec["shape"]],
                        "unknown_rank": False,
                    },
                    "name": spec["name"],
                }
                for spec in described[side]
            }
            for side in ("inputs", "outputs")
        }
        definition = {"signature_def": {"serving_default": {**signature, "method_name": "tensorflow/serving/predict"}}}
        return _json(
            {
                "model_spec": {"name": version.name, "signature_name": "", "version": version.version},
                "metadata": {"signature_def": definition},
            }
        )

    async def _tf_verb(self, request: web.Request) -> web.Response:
        return await self._counted(request, self._find(request), self._tf_answer)

    async def _tf_answer(self, request: web.Request, version: Version) -> web.Response:
        verb, body = request.match_info["verb"], await request.read()
        specs = version.loaded().inputs
        if verb == "predict":
            rows, inputs = tf_serving.read_predict(body, specs)
            return _body(tf_serving.write_predictions(await version.ask(inputs), rows=rows))
        if verb not in ("classify", "regress"):
            raise BadRequestError(f"{verb!r} is not one of predict, classify and regress")
        outputs = await version.ask(tf_serving.read_examples(body, specs))
        write = tf_serving.write_classes if verb == "classify" else tf_serving.write_regressions
        return _body(write(outputs))

    async def _unknown(self, request: web.Request) -> web.Response:
        return _json({"error": f"there is no {request.method} {request.path}"}, 404)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._counters.text(), headers={"Content-Type": MEDIA_TYPE})


def _body(body: bytes) -> web.Response:
    return web.Response(body=body, content_type=_JSON)


def _tf_status(version: Version) -> dict[str, Any]:
    state = {State.READY: "AVAILABLE", State.LOADING: "LOADING", State.UNAVAILABLE: "END"}[version.state]
    failed = version.state is State.UNAVAILABLE and version.reason != "unloaded"
    return {
        "version": version.version,
        "state": state,
        "status": {"error_code": "UNKNOWN" if failed else "OK", "error_message": version.reason if failed else ""},
    }


_TF_TYPES = {
    "BOOL": "DT_BOOL",
    "FP16": "DT_HALF",
    "FP32": "DT_FLOAT",
    "FP64": "DT_DOUBLE",
    "BF16": "DT_BFLOAT16",
    **{f"{sign}INT{bits}": f"DT_{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}


async def _options(request: web.Request) -> dict[str, Any]:
    body = await request.read()
    try:
        return msgspec.json.decode(body, type=dict[str, Any]) if body else {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"the body is not a JSON object: {error}") from error
