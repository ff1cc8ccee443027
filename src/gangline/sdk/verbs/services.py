"""The verbs of services, and requests to them."""

import json
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from gangline.errors import ConflictError, GanglineError, InvalidInputError
from gangline.model.kinds.service import Service, ServiceSpec
from gangline.sdk.verbs.records import Records

_PREDICT_SECONDS = 120.0


class Services(Records[ServiceSpec, Service]):
    """Asks one Gangline about services; made by ``Client``."""

    def scale(self, name: str, least: int, most: int | None = None) -> Service:
        """Have this many replicas, or a number between two that follows the load."""
        values = {"min": least} if most is None else {"min": least, "max": most}
        return self.do(name, "scale", values)

    def rollback(self, name: str, revision: int | None = None) -> Service:
        """Give up a rollout or, if none is under way, go back to the revision before or to another one."""
        return self.do(name, "rollback", {} if revision is None else {"revision": revision})

    def promote(self, name: str) -> Service:
        """Let the revision that is rolled out take over now."""
        return self.do(name, "promote")

    def wait_ready(self, name: str, *, timeout: float | None = None) -> Service:
        """Return when the service answers and nothing is being rolled out.

        Raises ConflictError when it cannot begin: its model is not there, or services do not run here.
        """
        for found in self.watch(name, timeout=timeout):
            if found.status.problem:
                raise ConflictError(f"service '{name}' is blocked: {found.status.problem}")
            if found.state == "ready":
                return found
        raise ConflictError(f"service '{name}' was deleted meanwhile")

    def predict(self, name: str, body: bytes, *, path: str = "", timeout: float = _PREDICT_SECONDS) -> bytes:
        """Send a request to a service and return its answer.

        Without a path, one for a model: ``inputs`` of the Open Inference Protocol, or ``instances``.
        """
        service = self.get(name)
        if not service.status.address:
            raise ConflictError(f"service '{name}' has no address yet")
        request = Request(  # the address of the router
            f"{service.status.address}/{(path or _path_of(name, body)).lstrip('/')}",
            data=body or None,
            headers={"Content-Type": "application/json"} if body else {},
        )
        try:
            with urlopen(request, timeout=timeout) as answer:  # see above
                return bytes(answer.read())
        except HTTPError as error:
            text = error.read().decode(errors="replace").strip()
            raise GanglineError(f"service '{name}' answered {error.code}: {text}") from error
        except (OSError, HTTPException) as error:  # the router may end at any moment, and comes back
            reason = error.reason if isinstance(error, URLError) else error
            raise GanglineError(f"service '{name}' does not answer: {reason}") from error


def _path_of(name: str, body: bytes) -> str:
    """Which path of the model server takes such a request."""
    try:
        given: Any = json.loads(body)
    except ValueError as error:
        raise InvalidInputError(f"this is not JSON: {error}", expected="a request, or --path") from error
    inputs = given.get("inputs") if isinstance(given, dict) else None
    tensors = isinstance(inputs, list) and inputs and all(isinstance(each, dict) for each in inputs)
    return f"/v2/models/{name}/infer" if tensors else f"/v1/models/{name}:predict"
