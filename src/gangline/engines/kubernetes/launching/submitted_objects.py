"""Objects that came in the file of a job: brought into the cluster, never over somebody else's.

Server-side apply alone is not enough for that: it adds keys to a stranger's object without a word, as long as no key
is in both. So an object is only changed if it was sent from here before; one that is there already and says what the
file says is as good.
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from gangline.errors import ConflictError, InvalidInputError
from gangline.kube import ConflictError as KubeConflictError
from gangline.kube import InvalidError, KubeClient, NotFoundError, Resource
from gangline.kube.objects import ConfigMap, Metadata, Partial

FIELD_MANAGER = "gangline-submit"
"""Who the API server says keeps what was sent; by it an object is known as one of ours."""

_OWN_METADATA = ("name", "labels", "annotations")


class _Manager(Partial, frozen=True):
    manager: str = ""
    operation: str = ""


class _Metadata(Metadata, frozen=True):
    managed_fields: tuple[_Manager, ...] = ()


class _Existing(ConfigMap, frozen=True):
    """What an object of a file holds, and who says so."""

    metadata: _Metadata = _Metadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


_RESOURCES = {
    "ConfigMap": Resource(plural="configmaps", kind="ConfigMap", type=_Existing),
    "Secret": Resource(plural="secrets", kind="Secret", type=_Existing),
    "PersistentVolumeClaim": Resource(plural="persistentvolumeclaims", kind="PersistentVolumeClaim", type=_Existing),
    "PersistentVolume": Resource(plural="persistentvolumes", kind="PersistentVolume", type=_Existing, namespaced=False),
    "Service": Resource(plural="services", kind="Service", type=_Existing),
    "ServiceAccount": Resource(plural="serviceaccounts", kind="ServiceAccount", type=_Existing),
    "Namespace": Resource(plural="namespaces", kind="Namespace", type=_Existing, namespaced=False),
}


async def send_object(client: KubeClient, namespace: str, document: Mapping[str, Any]) -> None:
    """Create the object, or bring one that was sent before up to date; raises ConflictError if it is another's."""
    resource = _RESOURCES.get(str(document.get("kind")))
    if resource is None:
        raise InvalidInputError(
            f"a {document.get('kind')} is not sent with a job", field="kind", expected=f"one of {', '.join(_RESOURCES)}"
        )
    body = _body(namespace, document, namespaced=resource.namespaced)
    try:
        found = await client.get(resource, body["metadata"]["name"], namespace=namespace)
    except NotFoundError:
        found = None
    if found is not None and not _was_sent(found):
        if not _agrees(found, body):
            raise _taken(body, found)
        return
    try:
        await client.apply(resource, body, namespace=namespace, field_manager=FIELD_MANAGER)
    except KubeConflictError as error:
        raise _taken(body, found) from error
    except InvalidError as error:
        raise InvalidInputError(error.message, field=f"{body['kind']} {body['metadata']['name']}") from error


async def remove_object(client: KubeClient, namespace: str, kind: str, name: str) -> None:
    """Remove an object that was sent before; another's of that name stays."""
    resource = _RESOURCES[kind]
    try:
        found = await client.get(resource, name, namespace=namespace)
        if _was_sent(found):
            await client.delete(resource, name, namespace=namespace, uid=found.metadata.uid)
    except (NotFoundError, KubeConflictError):
        return  # somebody has removed it, or put another in its place


def _body(namespace: str, document: Mapping[str, Any], *, namespaced: bool) -> dict[str, Any]:
    """Return the object as it is compared and sent: in the job's namespace, and without what a server filled in."""
    metadata = {name: value for name, value in document["metadata"].items() if name in _OWN_METADATA}
    place = {"namespace": namespace} if namespaced else {}
    body = {name: value for name, value in document.items() if name != "status"} | {"metadata": {**metadata, **place}}
    texts = body.pop("stringData", None) or {}
    if texts:
        # The API server turns it into data and does not remember it: a key that was taken out would stay forever.
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        body["data"] = {**(body.get("data") or {}), **encoded}
    return body


def _was_sent(found: _Existing) -> bool:
    return any((each.manager, each.operation) == (FIELD_MANAGER, "Apply") for each in found.metadata.managed_fields)


def _agrees(found: _Existing, body: Mapping[str, Any]) -> bool:
    """Whether an object says all that the file says; the server completes a spec, but adds nothing to data."""
    data = (found.data, found.binary_data) == (body.get("data") or {}, body.get("binaryData") or {})
    return data and _contains(found.spec, body.get("spec") or {})


def _contains(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(_contains(found.get(name), wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_contains, found, wanted))
    return bool(found == wanted)


def _taken(body: Mapping[str, Any], found: _Existing | None) -> ConflictError:
    metadata = body["metadata"]
    others = {each.manager for each in found.metadata.managed_fields} if found is not None else set()
    others -= {FIELD_MANAGER}
    who = f" by {', '.join(sorted(others))}" if others else ""
    where = f" in namespace '{metadata['namespace']}'" if "namespace" in metadata else ""
    return ConflictError(
        f"{body['kind']} '{metadata['name']}'{where} was made or changed{who}, and differs from the one in your file: "
        "give yours another name, or change that one with kubectl first"
    )
