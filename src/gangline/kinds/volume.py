"""The kind Volume: a directory here, a volume claim on a cluster, an NFS export in both."""

import json
from collections.abc import Iterator

from gangline.errors import ConflictError
from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind, Plain, Reader
from gangline.model import JobSpec
from gangline.model.kinds.volume import Volume
from gangline.model.record import NoStatus, Record

VolumeRecord = Record[Volume, NoStatus]


def volume_to_claims(volume: Volume) -> tuple[Plain, ...]:
    """Write the claim of the same name that a cluster keeps, and before it the export that it claims, if it is one."""
    spec: Plain = {"accessModes": [str(volume.access)], "resources": {"requests": {"storage": volume.size}}}
    claim: Plain = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": volume.name},
        "spec": spec,
    }
    if volume.storage_class:
        spec["storageClassName"] = volume.storage_class
    if volume.export is None:
        return (claim,)
    # Without a class, or the cluster would look for a provisioner.
    spec |= {"storageClassName": "", "volumeName": f"gangline-{volume.tenant}-{volume.name}"}
    server, path = volume.export
    export: Plain = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": spec["volumeName"]},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": volume.size},
            "claimRef": {"namespace": str(volume.tenant), "name": volume.name},
            "nfs": {"server": server, "path": path},
            # What is on the export is not Gangline's to delete.
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
        },
    }
    return (export, claim)


async def check_volume(before: VolumeRecord | None, after: VolumeRecord | None, reader: Reader) -> None:
    """Refuse to delete what an unfinished job uses."""
    if before is None or after is not None:
        return
    users = [
        job.spec.name
        for job in await reader.jobs()
        if job.spec.tenant == before.tenant and before.name in set(_claims(job.spec))
    ]
    if users:
        raise ConflictError(
            f"volume '{before.name}' is in use by {', '.join(sorted(users)[:5])}; cancel them or wait for their end"
        )


def _claims(spec: JobSpec) -> Iterator[str]:
    """The claims that a job mounts or moves data from or to."""
    for role in spec.roles:
        pod = json.loads(role.pod_template_json or "{}").get("spec") or {}
        for volume in pod.get("volumes") or ():
            yield str((volume.get("persistentVolumeClaim") or {}).get("claimName"))
    kept = (spec.checkpoints.to,) if spec.checkpoints is not None else ()
    moved = (address for move in (*spec.inputs, *spec.outputs) for address in (move.source, move.target))
    for address in (*kept, *moved):
        if address.startswith("pvc://"):
            yield address.removeprefix("pvc://").partition("/")[0]


VOLUME: Kind[Volume, NoStatus, VolumeRecord] = Kind(
    name="volume",
    plural="volumes",
    summary="Create, list and delete volumes.",
    description="A directory that jobs share and that outlives them.",
    spec=Volume,
    format=derived_format(Volume, "Volume", "How large it is, and who may have it."),
    answer=VolumeRecord,
    columns=(
        Column("SIZE", lambda volume: volume.spec.size),
        Column("ACCESS", lambda volume: volume.spec.access),
        Column("NFS", lambda volume: volume.spec.nfs or None, wide=True),
        Column("CLASS", lambda volume: volume.spec.storage_class or None, wide=True),
    ),
    check=check_volume,
    claims=volume_to_claims,
)
