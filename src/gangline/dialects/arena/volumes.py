"""The part of Arena's flags that only a pod can say: volumes, working directory, node labels of a single role."""

from collections.abc import Mapping, Sequence

from gangline.dialects.arena.options import Verb
from gangline.dialects.native.short_form import pairs
from gangline.errors import InvalidInputError

_CONTAINERS = {
    Verb.TENSORFLOW: "tensorflow",
    Verb.PYTORCH: "pytorch",
    Verb.MPI: "mpi",
    Verb.HOROVOD: "mpi",
}


def pod_template(
    verb: Verb, options: Mapping[str, object], role: str, command: Sequence[str]
) -> dict[str, dict[str, object]]:
    """Return the field ``pod_template`` of a role, or nothing when the flags need no pod of their own."""
    volumes, mounts = _volumes(options)
    selector = pairs(texts_of(options, f"{role}-selector"), f"--{role}-selector")
    working_directory = options.get("working-dir")
    if not volumes and not selector and working_directory is None:
        return {}
    container: dict[str, object] = {"name": _CONTAINERS[verb], "command": list(command)}
    image = options.get(f"{role}-image") or options.get("image")
    if image is not None:
        container["image"] = image
    if working_directory is not None:
        container["workingDir"] = working_directory
    pod: dict[str, object] = {"containers": [container]}
    if volumes:
        container["volumeMounts"] = mounts
        pod["volumes"] = volumes
    if selector:
        pod["nodeSelector"] = selector
    return {"pod_template": {"spec": pod}}


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
    return volumes, mounts


def texts_of(options: Mapping[str, object], name: str) -> tuple[str, ...]:
    """The values of an option that may be given any number of times."""
    given = options.get(name, ())
    if isinstance(given, str):
        return (given,)
    return tuple(map(str, given)) if isinstance(given, Sequence) else ()
