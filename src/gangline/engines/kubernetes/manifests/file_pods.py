"""The pods and containers in which somebody looks at files by hand, in Gangline's own image. Pure.

A job that runs is looked at in its own pod: by the mover beside its program, or by a container that is added to it.
What an ended job has kept, and models, are looked at in a pod that exists as long as that takes.
"""

from collections.abc import Mapping

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests import moves
from gangline.engines.kubernetes.manifests.moves import ModelUse, reached, scheme_of, store_to_plain
from gangline.engines.kubernetes.manifests.pod import (
    DIRECTORIES,
    HOME,
    RESTRICTED_CONTAINER,
    RESTRICTED_POD,
    Plain,
    joined,
    owner_to_plain,
)
from gangline.engines.kubernetes.manifests.staging import (
    MOVES,
    keys_mount,
    keys_volume,
    place_mount,
    place_to_volume,
    unique_mounts,
)
from gangline.kube import OwnerReference
from gangline.model import JobSpec
from gangline.model.kinds.data_store import DataStore

CONTAINER = "gangline-files"
REACH = ("python3", "-I", "-m", "gangline.data.reach")
REACH_CHECKPOINTS = ("python3", "-I", "-m", "gangline.runtime.checkpoint_files")
VOLUME_ROOT = f"{HOME}/volume"
SCRATCH_ROOT = f"{HOME}/scratch"
PLACE = "/tmp/place.json"  # in a container of its own
_LIFE_SECONDS = 3600
_WAIT = ["python3", "-I", "-c", f"import time; time.sleep({_LIFE_SECONDS})"]


def added_container(image: str, spec: JobSpec, taken: int) -> Plain:
    """Write a container that is added to the pod of a replica that runs; it sees the replica's volumes whole."""
    on_volume = bool(spec.labels.get(names.VOLUME))
    volume, root = ("gangline-volume", VOLUME_ROOT) if on_volume else ("gangline-scratch", SCRATCH_ROOT)
    return {
        "name": f"{CONTAINER}-{taken}",
        "image": image,
        "command": _WAIT,
        "volumeMounts": [{"name": volume, "mountPath": root}],
        "securityContext": RESTRICTED_CONTAINER,
    }


def root_of(spec: JobSpec, container: str) -> str:
    """Where a container has the directories of a job."""
    if not container.startswith(CONTAINER):
        return HOME
    return f"{VOLUME_ROOT}/{spec.name}" if spec.labels.get(names.VOLUME) else SCRATCH_ROOT


def job_pod(
    name: str, image: str, spec: JobSpec, *, shared: str, owner: OwnerReference | None, stores: Mapping[str, DataStore]
) -> Plain:
    """Write the pod in which an ended job's files are looked at: its volume, or its stored outputs brought back."""
    if claim := spec.labels.get(names.VOLUME):
        mount = {"name": "gangline-volume", "mountPath": VOLUME_ROOT}
        volume = {"name": "gangline-volume", "persistentVolumeClaim": {"claimName": claim}}
        return _pod(name, image, spec.tenant, owner, volumes=[volume], mounts=[mount])
    targets = sorted({moves.expanded(move.target, spec) for move in spec.outputs})
    places = [place for place in targets if scheme_of(place) in moves.MOUNTED]
    scratch = [{"name": "scratch", "mountPath": f"{HOME}/{each}", "subPath": each} for each in DIRECTORIES.values()]
    told: Plain = {"name": "gangline-moves", "configMap": {"name": f"{shared}-moves"}}
    opened = [store for store in stores.values() if store.keys]
    restore = {
        "name": "gangline-restore",
        "image": image,
        "command": ["python3", "-I", "-m", "gangline.data.pod_mover", "restore", f"{MOVES}/moves.json"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": RESTRICTED_CONTAINER,
        "volumeMounts": [
            *scratch,
            {"name": "gangline-moves", "mountPath": MOVES},
            *unique_mounts(place_mount(place, read_only=True) for place in places),
            *(keys_mount(store.name) for store in opened),
        ],
    }
    keys = [keys_volume(store.name, store.keys) for store in opened]
    volumes = [{"name": "scratch", "emptyDir": {}}, told, *_volumes(places), *keys]
    return _pod(name, image, spec.tenant, owner, volumes=volumes, mounts=scratch, before=restore)


def _volumes(places: list[str]) -> list[Plain]:
    return list({volume["name"]: volume for volume in map(place_to_volume, places)}.values())


def model_pod(
    name: str, image: str, tenant: str, use: ModelUse, store: DataStore | None, *, owner: OwnerReference | None = None
) -> Plain:
    """Write the pod in which a tenant's models are looked at, or checkpoints of a job that are at an address alone."""
    volumes: list[Plain] = [{"name": "scratch", "emptyDir": {}}]
    mounts: list[Plain] = [{"name": "scratch", "mountPath": "/tmp"}]  # in a container of its own
    if store is not None and store.keys:
        volumes.append(keys_volume(store.name, store.keys))
        mounts.append(keys_mount(store.name))
    if scheme_of(use.at) in moves.MOUNTED:
        volumes.append(place_to_volume(use.at))
        mounts.append(place_mount(use.at, read_only=False))
    return _pod(name, image, tenant, owner, volumes=volumes, mounts=mounts)


def model_place(use: ModelUse, store: DataStore | None) -> Plain:
    """Say where models lie, for the program in the pod."""
    return {"at": reached(use.at), "store": store_to_plain(store) if store is not None else None}


def _pod(
    name: str,
    image: str,
    namespace: str,
    owner: OwnerReference | None,
    *,
    volumes: list[Plain],
    mounts: list[Plain],
    before: Plain | None = None,
) -> Plain:
    main = {
        "name": CONTAINER,
        "image": image,
        "command": _WAIT,
        "volumeMounts": joined(mounts, None, key="mountPath"),
        "securityContext": RESTRICTED_CONTAINER,
    }
    metadata: Plain = {"name": name, "namespace": namespace, "labels": {names.PART: "files"}}
    if owner is not None:
        metadata["ownerReferences"] = [owner_to_plain(owner)]
    spec: Plain = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "activeDeadlineSeconds": _LIFE_SECONDS,
        "terminationGracePeriodSeconds": 0,
        "securityContext": RESTRICTED_POD,
        "containers": [main],
        "volumes": volumes,
    }
    if before is not None:
        spec["initContainers"] = [before]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
