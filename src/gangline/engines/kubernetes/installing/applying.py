"""Applies an installation to a cluster and takes it away again without trace."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from gangline.engines.kubernetes.installing.admission import GROUP
from gangline.engines.kubernetes.names import DOMAIN, JOB_ID
from gangline.errors import EngineError, WaitTimeoutError
from gangline.kube import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    ConflictError,
    GenericObject,
    KubeClient,
    NotFoundError,
    Resource,
)

_RBAC = "rbac.authorization.k8s.io"
_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.3
_REMINDER = f"{DOMAIN}/looked-at"
_HOPELESS = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CrashLoopBackOff"})

AnyResource = Resource[Any]
Report = Callable[[str], None]


def _kind(group: str, plural: str, kind: str, *, namespaced: bool = True, version: str = "v1") -> AnyResource:
    return Resource(group=group, version=version, plural=plural, kind=kind, type=GenericObject, namespaced=namespaced)


_RESOURCES: Sequence[AnyResource] = (
    NAMESPACES,
    CUSTOM_RESOURCE_DEFINITIONS,
    PRIORITY_CLASSES,
    SERVICES,
    NETWORK_POLICIES,
    _kind(GROUP, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
    _kind(GROUP, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False),
    _kind("", "serviceaccounts", "ServiceAccount"),
    _kind("apps", "deployments", "Deployment"),
    _kind("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
    _kind(_RBAC, "roles", "Role"),
    _kind(_RBAC, "rolebindings", "RoleBinding"),
    _kind(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
)
_BY_KIND: Mapping[tuple[str, str], AnyResource] = {
    (resource.api_version, resource.kind): resource for resource in _RESOURCES
}


def resource_of(body: Mapping[str, Any]) -> AnyResource:
    """Return where an object of the installation lives."""
    return _BY_KIND[body["apiVersion"], body["kind"]]


async def install(client: KubeClient, objects: Iterable[Mapping[str, Any]], report: Report) -> None:
    """Apply every object and wait until the custom resources can be used. May be repeated; it upgrades."""
    definitions = []
    for body in objects:
        resource = resource_of(body)
        await client.apply(resource, body, force=True)
        report(f"applied {body['kind']} {body['metadata']['name']}")
        if resource is CUSTOM_RESOURCE_DEFINITIONS:
            definitions.append(body["metadata"]["name"])
    for name in definitions:
        await _until(partial(_established, client, name), f"custom resource {name} is not served")


async def check_rights(client: KubeClient, objects: Iterable[Mapping[str, Any]]) -> None:
    """Try everything that belongs to the whole cluster without doing it; raises ForbiddenError."""
    for body in objects:
        if not resource_of(body).namespaced:
            await client.apply(resource_of(body), body, force=True, dry_run=True)


async def wait_until_available(client: KubeClient, deployment: Mapping[str, Any], report: Report) -> None:
    """Wait until every replica is ready; raises WaitTimeoutError, or EngineError if it never will."""
    metadata, wanted = deployment["metadata"], deployment["spec"]["replicas"]
    called = deployment["spec"]["template"]["spec"]["containers"][0]["name"]
    told = -1

    async def available() -> bool:
        nonlocal told
        found = await client.get(resource_of(deployment), metadata["name"], namespace=metadata["namespace"])
        status = found.status
        current = status.get("observedGeneration", 0) >= found.metadata.generation
        ready = min(status.get("readyReplicas", 0), status.get("updatedReplicas", 0)) if current else 0
        if ready != told:
            told = ready
            report(f"{called}: {ready} of {wanted} replicas ready")
        if ready < wanted:
            await _check_pods(client, deployment)
        return bool(ready >= wanted)

    await _until(available, f"the {called} is not ready")


async def _check_pods(client: KubeClient, deployment: Mapping[str, Any]) -> None:
    """Say what keeps a replica from ever starting, instead of waiting for it; one of an older version may."""
    labels = deployment["spec"]["selector"]["matchLabels"]
    wanted = deployment["spec"]["template"]["spec"]["containers"][0]
    for pod in (await client.list(PODS, namespace=deployment["metadata"]["namespace"], labels=labels)).items or ():
        for container in pod.status.container_statuses if pod.spec.containers[0].image == wanted["image"] else ():
            waiting = container.state.waiting
            if waiting is not None and waiting.reason in _HOPELESS:
                ended = container.last_state.terminated
                why = (ended.message if ended is not None else "") or waiting.message
                raise EngineError(
                    f"everything is applied, but the {wanted['name']} cannot start: {waiting.reason}: {why.strip()}"
                )


async def uninstall(client: KubeClient, objects: Sequence[Mapping[str, Any]], report: Report) -> None:
    """Remove jobs, what belongs to them, and every object of the installation; wait until all of it is gone."""
    for body in reversed(objects):
        if body["kind"] == "Deployment":  # first, so that nobody makes anything anew
            await _delete(client, body, report)
    for resource in (PODS, CONFIG_MAPS, SERVICES, NETWORK_POLICIES):
        await _delete_everywhere(client, resource)
    for body in reversed(objects):
        await _delete(client, body, report)
    for body in sorted(objects, key=lambda body: body["kind"] != "CustomResourceDefinition"):
        await _until(partial(_gone, client, body), f"{body['kind']} {body['metadata']['name']} does not go")


async def _release_all(client: KubeClient, definition: Mapping[str, Any]) -> None:
    """Take our finalizer off every object of a kind: there is no controller any more that would.

    Only once the kind is being deleted, and as often as it takes: a controller on its way out may still put one on,
    which the server refuses for an object that is being deleted.
    """
    spec = definition["spec"]
    resource = _kind(spec["group"], spec["names"]["plural"], spec["names"]["kind"],
                     namespaced=spec["scope"] == "Namespaced", version=spec["versions"][0]["name"])  # fmt: skip
    try:
        found = await client.list(resource)
    except NotFoundError:
        return
    for item in found.items or ():
        rest = [name for name in item.metadata.finalizers if not name.startswith(f"{DOMAIN}/")]
        if len(rest) < len(item.metadata.finalizers):
            patch = {"metadata": {"finalizers": rest or None}}
            with contextlib.suppress(NotFoundError):
                await client.patch(resource, item.metadata.name, patch, namespace=item.metadata.namespace)


async def _delete_everywhere(client: KubeClient, resource: AnyResource) -> None:
    """Delete what gangs left in the namespaces of tenants."""
    found = [*((await client.list(resource, labels=JOB_ID)).items or ())]
    if resource is NETWORK_POLICIES:
        found += (await client.list(resource, labels=f"{DOMAIN}/part=network,!{JOB_ID}")).items or ()
    for item in found:
        try:
            await client.delete(resource, item.metadata.name, namespace=item.metadata.namespace)
        except NotFoundError:
            continue


async def _delete(client: KubeClient, body: Mapping[str, Any], report: Report) -> None:
    metadata = body["metadata"]
    try:
        await client.delete(resource_of(body), metadata["name"], namespace=metadata.get("namespace"))
    except (NotFoundError, ConflictError):
        return
    report(f"deleted {body['kind']} {metadata['name']}")


async def _established(client: KubeClient, name: str) -> bool:
    found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    conditions = found.status.get("conditions") or ()
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


async def _gone(client: KubeClient, body: Mapping[str, Any]) -> bool:
    metadata = body["metadata"]
    try:
        await client.get(resource_of(body), metadata["name"], namespace=metadata.get("namespace"))
    except NotFoundError:
        return True
    if body["kind"] == "CustomResourceDefinition":
        await _release_all(client, body)
        await _remind(client, metadata["name"])
    return False


async def _remind(client: KubeClient, name: str) -> None:
    """Have the API server look at a kind again that is being deleted.

    It does not delete a kind whose storage it is still preparing, and then waits longer and longer before it tries
    again, a minute and more; a change of the object makes it try at once.
    """
    patch = {"metadata": {"annotations": {_REMINDER: str(time.monotonic())}}}
    with contextlib.suppress(NotFoundError):
        await client.patch(CUSTOM_RESOURCE_DEFINITIONS, name, patch)


async def _until(condition: Callable[[], Awaitable[bool]], problem: str) -> None:
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            while not await condition():  # noqa: ASYNC110  # the condition is the server's, who sends no event
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError as error:
        raise WaitTimeoutError(f"{problem} after {_WAIT_SECONDS:g} s") from error
