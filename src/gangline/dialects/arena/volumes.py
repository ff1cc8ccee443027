"""The part of Arena's flags that only a pod can say: volumes, limits, annotations, node labels of a single role."""

from collections.abc import Mapping, Sequence

from gangline.dialects.native.short_form import pairs
from gangline.errors import InvalidInputError

_HOST = {"host-network": "hostNetwork", "host-ipc": "hostIPC", "host-pid": "hostPID"}


def pod_template(
    name: str, options: Mapping[str, object], role: str, command: Sequence[str], *, needed: bool = False
) -> dict[str, dict[str, object]]:
    """Return the field ``pod_template`` of a role, or nothing when the flags need no pod of their own."""
    volumes, mounts = _volumes(options)
    limits = {what: options[f"{role}-{what}-limit"] for what in ("cpu", "memory") if f"{role}-{what}-limit" in options}
    of_container = {
        "image": options.get(f"{role}-image") or options.get("image"),
        "imagePullPolicy": options.get("image-pull-policy"),
        "workingDir": options.get("working-dir"),
        "volumeMounts": mounts,
        "resources": {"limits": limits} if limits else None,
    }
    of_pod = {
        "volumes": volumes,
        "nodeSelector": pairs(texts_of(options, f"{role}-selector"), f"--{role}-selector"),
        "imagePullSecrets": [{"name": name} for name in texts_of(options, "image-pull-secret")],
        **{field: options.get(name) for name, field in _HOST.items()},
    }
    metadata = {"annotations": pairs(texts_of(options, "annotation"), "--annotation")}
    said = [*of_pod.values(), *metadata.values(), *(of_container[field] for field in of_container if field != "image")]
    if not needed and not any(said):
        return {}
    container = {"name": name, **_given({"command": list(command), **of_container})}
    pod: dict[str, object] = {"spec": {"containers": [container], **_given(of_pod)}}
    if metadata["annotations"]:
        pod["metadata"] = metadata
    return {"pod_template": pod}


def _given(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value}


def _volumes(options: Mapping[str, object]) -> tuple[list[dict[str, object]], list[dict[str, str]]]:
    volumes: list[dict[str, object]] = []
    mounts: list[dict[str, str]] = []
    for number, text in enumerate(texts_of(options, "data")):
        claim, colon, path = text.partition(":")
        if not claim or not colon or not path.startswith("/"):
            raise InvalidInputError(f"'{text}' is not a volume", field="--data", expected="CLAIM:/PATH")
        volumes.append({"name": f"data-{number}", "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": f"data-{number}", "mountPath": path})
    for number, text in enumerate(texts_of(options, "data-dir")):
        source, _, target = text.partition(":")
        if not source.startswith("/"):
            raise InvalidInputError(f"'{text}' is not a directory", field="--data-dir", expected="an absolute path")
        volumes.append({"name": f"data-dir-{number}", "hostPath": {"path": source}})
        mounts.append({"name": f"data-dir-{number}", "mountPath": target or source})
    if "share-memory" in options:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": options["share-memory"]}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # a mount in the pod
    return volumes, mounts


def texts_of(options: Mapping[str, object], name: str) -> tuple[str, ...]:
    """The values of an option that may be given any number of times."""
    given = options.get(name, ())
    if isinstance(given, str):
        return (given,)
    return tuple(map(str, given)) if isinstance(given, Sequence) else ()
