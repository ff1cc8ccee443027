"""ConfigMaps and Secrets that came in the file of a job: brought into the cluster, never over somebody else's.

Server-side apply alone is not enough for that: it adds keys to a stranger's object without a word, as long as no key
is in both. So an object is only changed if it was sent from here before.
"""

import base64
from collections.abc import Mapping
from typing import Any

from gangline.errors import ConflictError
from gangline.kube import ConflictError as KubeConflictError
from gangline.kube import KubeClient, NotFoundError, Resource
from gangline.kube.objects import ConfigMap, Metadata, Partial

FIELD_MANAGER = "gangline-submit"
"""Who the API server says keeps what was sent; by it an object is known as one of ours."""

_KEPT_METADATA = ("name", "labels", "annotations")


class _Manager(Partial, frozen=True):
    manager: str = ""
    operation: str = ""


class _Metadata(Metadata, frozen=True):
    managed_fields: tuple[_Manager, ...] = ()


class _Kept(ConfigMap, frozen=True):
    """What a ConfigMap or a Secret holds, and who says so."""

    metadata: _Metadata = _Metadata()


_RESOURCES = {
    "ConfigMap": Resource(plural="configmaps", kind="ConfigMap", type=_Kept),
    "Secret": Resource(plural="secrets", kind="Secret", type=_Kept),
}


async def send_object(client: KubeClient, namespace: str, document: Mapping[str, Any]) -> None:
    """Create the object, or bring one that was sent before up to date; raises ConflictError if it is another's."""
    body = _body(namespace, document)
    resource = _RESOURCES[body["kind"]]
    try:
        found = await client.get(resource, body["metadata"]["name"], namespace=namespace)
    except NotFoundError:
        found = None
    if found is not None and not _was_sent(found):
        if (found.data, found.binary_data) != (body.get("data") or {}, body.get("binaryData") or {}):
            raise _taken(body, found)
        return
    try:
        await client.apply(resource, body, namespace=namespace, field_manager=FIELD_MANAGER)
    except KubeConflictError as error:
        raise _taken(body, found) from error


def _body(namespace: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object as it is compared and sent: in the job's namespace, and without what a server filled in."""
    metadata = {name: value for name, value in document["metadata"].items() if name in _KEPT_METADATA}
    body = {**document, "metadata": {**metadata, "namespace": namespace}}
    texts = body.pop("stringData", None) or {}
    if texts:
        # The API server turns it into data and does not remember it: a key that was taken out would stay for ever.
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}
    return body


def _was_sent(found: _Kept) -> bool:
    return any((each.manager, each.operation) == (FIELD_MANAGER, "Apply") for each in found.metadata.managed_fields)


def _taken(body: Mapping[str, Any], found: _Kept | None) -> ConflictError:
    metadata = body["metadata"]
    others = {each.manager for each in found.metadata.managed_fields} if found is not None else set()
    others -= {FIELD_MANAGER}
    who = f" by {', '.join(sorted(others))}" if others else ""
    what = f"{body['kind']} '{metadata['name']}' in namespace '{metadata['namespace']}'"
    return ConflictError(
        f"{what} was made or changed{who}, and differs from the one in your file: "
        "give yours another name, or change that one with kubectl first"
    )
