"""Which kinds of job object this cluster has: our own, and Kubeflow's where they are Gangline's to run.

One request to the server's own discovery tells, so a cluster without them costs no more than that. The marks it looks
for are in the definitions themselves (see ``kubeflow_definitions``): an installation that leaves Kubeflow's jobs to
upstream's operator never touches them, and nobody has to be told.
"""

from collections.abc import Sequence

import msgspec

from gangline.dialects.kubeflow import GROUP, KINDS
from gangline.kube import KubeClient, NotFoundError
from gangline.storage.kubernetes.kubeflow_definitions import CATEGORY, STRICT_CATEGORY
from gangline.storage.kubernetes.kubeflow_records import KubeflowRecords
from gangline.storage.kubernetes.records import RecordKind


class _Served(msgspec.Struct, frozen=True):
    name: str
    categories: tuple[str, ...] = ()


class _ServedList(msgspec.Struct, frozen=True):
    resources: tuple[_Served, ...] = ()


async def kubeflow_kinds(client: KubeClient) -> Sequence[RecordKind]:
    """Return Kubeflow's kinds that are ours to run, in a stable order; raises KubeError."""
    try:
        answer = await client.raw(f"/apis/{GROUP}/v1")
    except NotFoundError:
        return ()
    served = {found.name: found for found in msgspec.json.decode(answer, type=_ServedList).resources}
    return [
        KubeflowRecords(kind, strict=STRICT_CATEGORY in served[kind.plural].categories)
        for kind in KINDS.values()
        if kind.plural in served and CATEGORY in served[kind.plural].categories
    ]
