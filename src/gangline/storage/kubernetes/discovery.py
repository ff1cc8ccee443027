"""Which kinds of job object this cluster has: our own, and Kubeflow's where they are Gangline's to run.

One request to the server's own discovery tells, so a cluster without them costs no more than that. The marks it looks
for are in the definitions themselves (see ``kubeflow_definitions``): an installation that leaves Kubeflow's jobs to
upstream's operator never touches them, and nobody has to be told. The marks outlive the rights, though, where an
installation goes back to leaving these jobs alone: so a client that may not list them does not count them as its own.
"""

from collections.abc import Sequence

import msgspec

from gangline.dialects.kubeflow import GROUP, KINDS
from gangline.kinds import AnyKind
from gangline.kube import GenericObject, KubeClient, NotFoundError, Resource, read_answer
from gangline.storage.kubernetes.definitions.kubeflow import CATEGORY, STRICT_CATEGORY
from gangline.storage.kubernetes.records.kubeflow import KubeflowRecords
from gangline.storage.kubernetes.records.record_kind import RecordKind

_ACCESS_REVIEWS = Resource(
    group="authorization.k8s.io",
    plural="selfsubjectaccessreviews",
    kind="SelfSubjectAccessReview",
    type=GenericObject,
    namespaced=False,
)


class _Served(msgspec.Struct, frozen=True):
    name: str
    categories: tuple[str, ...] = ()


class _ServedList(msgspec.Struct, frozen=True):
    resources: tuple[_Served, ...] = ()


async def kubeflow_kinds(client: KubeClient, *, namespace: str | None) -> Sequence[RecordKind]:
    """Return Kubeflow's kinds that are ours to run, in a stable order; raises KubeError.

    ``namespace`` is the only one they are wanted of, or None for all.
    """
    try:
        answer = await client.raw(f"/apis/{GROUP}/v1")
    except NotFoundError:
        return ()
    served = {found.name: found for found in read_answer(answer, msgspec.json.Decoder(_ServedList)).resources}
    kinds = [
        KubeflowRecords(kind, strict=STRICT_CATEGORY in served[kind.plural].categories)
        for kind in KINDS.values()
        if kind.plural in served and CATEGORY in served[kind.plural].categories
    ]
    # Rights come and go for all of them together, so one question is enough.
    return kinds if kinds and await _may_list(client, GROUP, kinds[0].resource.plural, namespace) else ()


async def served_kinds(client: KubeClient, kinds: Sequence[AnyKind]) -> tuple[AnyKind, ...]:
    """Return our own kinds, and those of other groups that are ours to run here; raises KubeError."""
    found = list[AnyKind]()
    for kind in kinds:
        if not kind.foreign or await _is_served(client, kind):
            found.append(kind)
    return tuple(found)


async def _is_served(client: KubeClient, kind: AnyKind) -> bool:
    try:
        answer = await client.raw(f"/apis/{kind.api_version}")
    except NotFoundError:
        return False
    served = read_answer(answer, msgspec.json.Decoder(_ServedList)).resources
    marked = any(each.name == kind.plural and CATEGORY in each.categories for each in served)
    return marked and await _may_list(client, kind.api_version.partition("/")[0], kind.plural, None)


async def _may_list(client: KubeClient, group: str, plural: str, namespace: str | None) -> bool:
    asked = {"group": group, "resource": plural, "verb": "list", "namespace": namespace or ""}
    answer = await client.create(_ACCESS_REVIEWS, {"metadata": {}, "spec": {"resourceAttributes": asked}})
    return answer.status.get("allowed") is True
