"""What ``gangline doctor`` looks at in a cluster: whether it answers, who leads there, and what its user may do.

Everything is asked with the person's own rights. What they may not see is not a fault, and is said.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gangline.compose.contexts import access_of, client_of, refusal_of
from gangline.compose.findings import Finding
from gangline.compose.installing import DEFAULT_NAMESPACE, checked_version
from gangline.dialects.kubeflow import GROUP, KINDS
from gangline.engines.kubernetes.installing.objects import CONTROLLER_NAME
from gangline.engines.kubernetes.names import DOMAIN
from gangline.engines.kubernetes.node_rules.capacity import is_ready
from gangline.errors import GanglineError
from gangline.kube import (
    LEASES,
    NODES,
    ClusterAccess,
    ForbiddenError,
    GenericObject,
    KubeClient,
    NotFoundError,
    Object,
    Partial,
    Resource,
    read_answer,
)
from gangline.storage.kubernetes import DEFINITIONS
from gangline.storage.kubernetes.definitions.kubeflow import CATEGORY

_LEASE_SECONDS = 4.0
"""Longer than a leader may be silent: see ``Leadership``. Clocks of other machines are not asked."""
_LOOK_SECONDS = 0.2
_RIGHTS: Sequence[tuple[str, str, str, str]] = (
    ("list", "list", DOMAIN, "jobs"),
    ("submit", "create", DOMAIN, "jobs"),
    ("submit with code or data", "create", "", "configmaps"),
    ("halt, scale and cancel", "patch", DOMAIN, "jobs"),
    ("delete", "delete", DOMAIN, "jobs"),
    ("sweep", "create", DOMAIN, "sweeps"),
    ("logs", "get", "", "pods/log"),
    ("attach", "create", "", "pods/exec"),
    ("chaos", "delete", "", "pods"),
)
"""What commands need in the tenant's namespace: which of them, verb, group and resource."""
_DEPLOYMENTS = Resource(group="apps", plural="deployments", kind="Deployment", type=GenericObject)
_ACCESS_REVIEWS = Resource(
    group="authorization.k8s.io",
    plural="selfsubjectaccessreviews",
    kind="SelfSubjectAccessReview",
    type=GenericObject,
    namespaced=False,
)
_IDENTITY_REVIEWS = Resource(
    group="authentication.k8s.io",
    plural="selfsubjectreviews",
    kind="SelfSubjectReview",
    type=GenericObject,
    namespaced=False,
)


class _Served(Partial, frozen=True):
    name: str
    categories: tuple[str, ...] = ()


class _ServedList(Partial, frozen=True):
    resources: tuple[_Served, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The cluster that is looked at, for one person in one namespace."""

    client: KubeClient
    context: str
    namespace: str

    @property
    def installing(self) -> str:
        """The command that installs or mends."""
        return f"gangline install --context {self.context}"


Check = Callable[[Target], Awaitable[Finding]]


async def examine(context: str, *, tenant: str | None) -> list[Finding]:
    """Look at the cluster of a context; what cannot be asked at all ends the examination."""
    try:
        access = access_of(context)
    except GanglineError as error:
        return [Finding.bad("context", str(error), "kubectl config get-contexts shows those there are")]
    async with client_of(access) as client:
        target = Target(client=client, context=access.context, namespace=tenant or access.namespace)
        first = await _asked("cluster", check_cluster, target)
        if first.fix:
            return [_context(access), first]
        rest = await asyncio.gather(*(_asked(subject, check, target) for subject, check in _CHECKS.items()))
        return [_context(access), first, *rest]


def _context(access: ClusterAccess) -> Finding:
    return Finding.good("context", f"{access.context}: {access.server}, namespace {access.namespace}")


async def _asked(subject: str, check: Check, target: Target) -> Finding:
    try:
        return await check(target)
    except ForbiddenError as error:
        return Finding.limited(subject, f"you may not look: {error.message}")
    except GanglineError as error:
        refusal = refusal_of(error, context=target.context)
        return Finding.bad(subject, str(refusal), "kubectl cluster-info says whether the cluster itself is well")


async def check_cluster(target: Target) -> Finding:
    """Does the cluster answer, and is it new enough?"""
    return Finding.good("cluster", f"Kubernetes {await checked_version(target.client)}")


async def check_user(target: Target) -> Finding:
    """Who is asking, as the cluster knows them?"""
    answer = await target.client.create(_IDENTITY_REVIEWS, {"metadata": {}})
    return Finding.good("user", str((answer.status.get("userInfo") or {}).get("username") or "unknown"))


async def check_definitions(target: Target) -> Finding:
    """Are Gangline's kinds served, and whose are Kubeflow's?"""
    subject = "definitions"
    served = await _served(target.client, DOMAIN)
    wanted = [definition["spec"]["names"]["plural"] for definition in DEFINITIONS]
    if missing := [plural for plural in wanted if plural not in served]:
        what = "Gangline is not installed" if not served else f"{', '.join(missing)} of {DOMAIN} are missing"
        return Finding.bad(subject, what, f"an administrator runs: {target.installing}")
    others = await _served(target.client, GROUP)
    ours = [kind.name for kind in KINDS.values() if CATEGORY in others.get(kind.plural, ())]
    theirs = "run by their own operator" if others else "not defined"
    return Finding.good(subject, f"{', '.join(wanted)}; Kubeflow's kinds are {'run by Gangline' if ours else theirs}")


async def _served(client: KubeClient, group: str) -> dict[str, tuple[str, ...]]:
    """The kinds of a group that the server knows, by plural, with their categories."""
    try:
        answer = await client.raw(f"/apis/{group}/v1")
    except NotFoundError:
        return {}
    found = read_answer(answer, msgspec.json.Decoder(_ServedList)).resources
    return {item.name: item.categories for item in found}


async def check_controller(target: Target) -> Finding:
    """Do the controller's pods run?"""
    subject = "controller"
    found = await _deployment(target.client)
    if found is None:
        words = "it has no Deployment; unless it runs outside of the cluster (gangline controller run), no job starts"
        return Finding.limited(subject, words, target.installing)
    ready, wanted = found.status.get("readyReplicas", 0), found.spec.get("replicas", 0)
    image = found.spec["template"]["spec"]["containers"][0]["image"]
    words = f"{ready} of {wanted} replicas ready in {found.metadata.namespace}, image {image}"
    if ready:
        return Finding.good(subject, words) if ready >= wanted else Finding.limited(subject, words, _look_at(found))
    return Finding.bad(subject, words, _look_at(found))


async def _deployment(client: KubeClient) -> GenericObject | None:
    """Find the controller, in its usual namespace or in another that somebody chose."""
    try:
        return await client.get(_DEPLOYMENTS, CONTROLLER_NAME, namespace=DEFAULT_NAMESPACE)
    except NotFoundError:
        found = (await client.list(_DEPLOYMENTS, fields={"metadata.name": CONTROLLER_NAME})).items
        return found[0] if found else None


def _look_at(deployment: Object) -> str:
    return f"kubectl -n {deployment.metadata.namespace} describe pods -l app.kubernetes.io/name=gangline"


async def check_leader(target: Target) -> Finding:
    """Does somebody lead: is the lease renewed while we look?"""
    subject = "leader"
    deployment = await _deployment(target.client)
    place = DEFAULT_NAMESPACE if deployment is None else deployment.metadata.namespace
    try:
        first = await target.client.get(LEASES, CONTROLLER_NAME, namespace=place)
    except NotFoundError:
        return Finding.bad(subject, f"nobody has ever led in {place}", target.installing)
    loop = asyncio.get_running_loop()
    until = loop.time() + _LEASE_SECONDS
    while loop.time() < until:
        await asyncio.sleep(_LOOK_SECONDS)
        found = await target.client.get(LEASES, CONTROLLER_NAME, namespace=place)
        if found.metadata.resource_version != first.metadata.resource_version and found.spec.holder_identity:
            return Finding.good(subject, found.spec.holder_identity)
    last = first.spec.holder_identity or "nobody"
    return Finding.bad(
        subject,
        f"the lease was not renewed for {_LEASE_SECONDS:g} s (last held by {last}): jobs wait",
        f"kubectl -n {place} logs deployment/{CONTROLLER_NAME}",
    )


async def check_rights(target: Target) -> Finding:
    """What may this person do in their namespace?"""
    allowed = await asyncio.gather(*(_may(target, *right[1:]) for right in _RIGHTS))
    missing = [f"{right[0]} ({right[1]} {right[3]})" for right, may in zip(_RIGHTS, allowed, strict=True) if not may]
    where = f"namespace {target.namespace}"
    if not missing:
        return Finding.good("rights", f"all that commands need in {where}")
    fix = f"an administrator binds you to the ClusterRole edit in {where}"
    words = f"in {where} you may not: {', '.join(missing)}"
    return Finding.limited("rights", words, fix) if allowed[0] else Finding.bad("rights", words, fix)


async def _may(target: Target, verb: str, group: str, resource: str) -> bool:
    name, _, below = resource.partition("/")
    asked: dict[str, Any] = {
        "namespace": target.namespace,
        "verb": verb,
        "group": group,
        "resource": name,
        "subresource": below,
    }
    answer = await target.client.create(_ACCESS_REVIEWS, {"metadata": {}, "spec": {"resourceAttributes": asked}})
    return answer.status.get("allowed") is True


async def check_nodes(target: Target) -> Finding:
    """Are there nodes that jobs may run on?"""
    nodes = (await target.client.list(NODES)).items or ()
    usable = [node for node in nodes if is_ready(node) and not node.spec.unschedulable]
    words = f"{len(usable)} of {len(nodes)} ready and not cordoned"
    return Finding.good("nodes", words) if usable else Finding.bad("nodes", words, "kubectl describe nodes says why")


_CHECKS: dict[str, Check] = {
    "user": check_user,
    "definitions": check_definitions,
    "controller": check_controller,
    "leader": check_leader,
    "rights": check_rights,
    "nodes": check_nodes,
}
