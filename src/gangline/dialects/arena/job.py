"""A job from Arena's flags: the options become a plain job file, and so obey its rules."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from gangline.dialects.arena.options import Options, Verb, options_of
from gangline.dialects.arena.volumes import pod_template, texts_of
from gangline.dialects.kubeflow.run_policy import priority_of
from gangline.dialects.native.job import job_from_plain
from gangline.dialects.native.short_form import derived_name, pairs
from gangline.dialects.translation import CleanPods, Translation
from gangline.dialects.value import nearest
from gangline.errors import InvalidInputError
from gangline.model import Framework, JobSpec

_FRAMEWORKS = {
    Verb.TENSORFLOW: Framework.TENSORFLOW,
    Verb.PYTORCH: Framework.PYTORCH,
    Verb.MPI: Framework.MPI,
    Verb.HOROVOD: Framework.MPI,
}
_CONTAINERS = {
    Verb.TENSORFLOW: "tensorflow",
    Verb.PYTORCH: "pytorch",
    Verb.MPI: "mpi",
    Verb.HOROVOD: "mpi",
}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CLEAN = {Verb.MPI: CleanPods.ALL}
_TENSORBOARD = (
    "case $GANGLINE_ADDRESS in 127.*) host=${GANGLINE_ADDRESS%:*} ;; *) host=0.0.0.0 ;; esac; "
    'exec tensorboard --logdir "$1" --host "$host" --port "${GANGLINE_ADDRESS##*:}"'
)
"""On one machine it listens at a loopback address of its own: it asks nobody for a password."""
_OF_PODS = (
    "annotation",
    "image-pull-secret",
    "image-pull-policy",
    "share-memory",
    "host-network",
    "host-ipc",
    "host-pid",
)
_SUCCESS = {"ChiefWorker": "lead", "AllWorkers": "all"}


def job_from_options(verb: Verb, options: Options, command: Sequence[str], *, suffix: str) -> Translation:
    """Build the job that ``submit VERB`` with these options means. ``suffix`` makes a derived name unique."""
    _check_known(verb, options)
    if options.get("queue") in ("true", "false"):
        raise InvalidInputError("every job is queued here", field="--queue", expected="the name of a queue, or nothing")
    words = _command(options, command)
    if not any(map(str.strip, words)):
        raise InvalidInputError("there is no command", field="COMMAND", expected="a command at the end")
    priority, notes = _priority(options)
    plain = {
        "metadata": {
            "name": options.get("name") or derived_name(tuple(" ".join(command).split()), suffix),
            "queue": options.get("queue"),
            "priority": priority,
            "labels": pairs(texts_of(options, "label"), "--label"),
        },
        "spec": _spec(verb, options, words),
    }
    try:
        spec = job_from_plain(plain)
    except InvalidInputError as error:
        raise InvalidInputError(
            error.problem,
            field=_option(verb, options, error.field),
            expected=error.expected,
            suggestion=error.suggestion,
        ) from error
    return Translation(
        spec=spec, notes=notes, clean_pods=_clean_pods(verb, options), local_notes=_local_notes(spec, options)
    )


def _check_known(verb: Verb, options: Options) -> None:
    known = [option.name for option in options_of(verb)]
    for name in options:
        if name not in known:
            raise InvalidInputError(
                f"submit {verb} has no such option",
                field=f"--{name}",
                suggestion=None if nearest(name, known) is None else f"--{nearest(name, known)}",
            )


def _command(options: Options, command: Sequence[str]) -> list[str]:
    """One quoted string goes to a shell, as Arena does it; several words are run as they are."""
    if len(command) == 1 and len(command[0].split()) > 1:
        return [str(options.get("shell", "sh")), "-c", command[0]]
    return list(command)


def _priority(options: Options) -> tuple[int, tuple[str, ...]]:
    given = str(options.get("priority", ""))
    return (int(given), ()) if given.isascii() and given.isdigit() else priority_of(given)


def _spec(verb: Verb, options: Options, command: list[str]) -> dict[str, object]:
    return {
        "framework": _FRAMEWORKS[verb].value,
        "processes": options.get("nproc-per-node"),
        "image": options.get("image"),
        "env": pairs(texts_of(options, "env"), "--env"),
        "command": command,
        "roles": _roles(verb, options, command),
        "data": {"inputs": _code(options)},
        "policy": {
            "max_attempts": _whole(options, "retry", 0) + 1,
            "deadline": options.get("running-timeout"),
            "ttl": options.get("ttl-after-finished"),
            "success": _success(verb, options),
        },
        "placement": {
            "node_selector": pairs(texts_of(options, "selector"), "--selector"),
            "tolerations": [toleration_of(text) for text in texts_of(options, "toleration")],
        },
    }


def _roles(verb: Verb, options: Options, command: list[str]) -> dict[str, object]:
    """The roles of each verb. A PyTorch job's ``--workers`` counts its master; a lone TensorFlow worker is a chief."""
    workers = _whole(options, "workers", 1)
    roles: dict[str, object] = {}
    if verb is Verb.TENSORFLOW:
        servers = _whole(options, "ps", 0)
        alone = servers < 1 and workers == 1
        if options.get("chief") or alone:
            roles["chief"] = _role(verb, _of_lone_worker(options) if alone else options, "chief", 1, command)
        if servers:
            roles["ps"] = _role(verb, options, "ps", servers, command)
        if workers and not alone:
            roles["worker"] = _role(verb, options, "worker", workers, command)
        if options.get("evaluator"):
            roles["evaluator"] = _role(verb, options, "evaluator", 1, command)
    elif verb is Verb.PYTORCH:
        roles["master"] = _role(verb, options, "master", 1, command)
        if workers > 1:
            roles["worker"] = _role(verb, options, "worker", workers - 1, command)
    else:
        roles["launcher"] = {
            "command": command,
            "resources": {"cpu": 0},
            **pod_template(_CONTAINERS[verb], options, "launcher", command),
        }
        roles["worker"] = _role(verb, options, "worker", workers, ["sleep", "infinity"])
    if options.get("tensorboard"):
        roles["tensorboard"] = _tensorboard(options)
    return roles


def _of_lone_worker(options: Options) -> Options:
    """What is said of workers is meant for the chief who is the only one."""
    meant = {name.replace("worker-", "chief-"): value for name, value in options.items() if name.startswith("worker-")}
    return {**meant, **options}


def _role(verb: Verb, options: Options, role: str, count: int, command: list[str]) -> dict[str, object]:
    prefix = f"{role}-" if verb is Verb.TENSORFLOW else ""
    resources: dict[str, object] = {
        # What nobody asks for is nothing, as in Arena.
        "cpu": options.get(f"{prefix}cpu", 0),
        "memory": options.get(f"{prefix}memory"),
        "gpu": options.get("ps-gpus" if role == "ps" else "gpus"),
    }
    if role != "ps":
        resources |= pairs(texts_of(options, "device"), "--device")
        if options.get("rdma"):
            resources["rdma/hca"] = 1
    return {
        "replicas": count,
        "command": command,
        "image": options.get(f"{role}-image"),
        "port": options.get(f"{role}-port"),
        "resources": {name: amount for name, amount in resources.items() if amount is not None},
        **pod_template(_CONTAINERS[verb], options, role, command),
    }


def _tensorboard(options: Options) -> dict[str, object]:
    logs = str(options.get("logdir", "/training_logs"))
    return {
        "command": ["sh", "-c", _TENSORBOARD, "tensorboard", logs],
        "image": options.get("tensorboard-image"),
        "resources": {"cpu": 0},
        "port": 6006,
        "restart": "replica",
    }


def _code(options: Options) -> list[dict[str, str]]:
    """Code is fetched like data, into ``code`` below the working directory, under the name of its source."""
    if "sync-mode" not in options:
        return []
    mode, source = str(options["sync-mode"]), str(options.get("sync-source", ""))
    if mode not in ("git", "rsync"):
        raise InvalidInputError(f"'{mode}' is not known", field="--sync-mode", expected="git or rsync")
    if not source:
        raise InvalidInputError("there is no source", field="--sync-source", expected="where the code is")
    name = PurePosixPath(source.rstrip("/")).name.removesuffix(".git")
    return [{"from": f"{mode}+{source}", "to": f"code/{name}"}]


def _success(verb: Verb, options: Options) -> str | None:
    given = options.get("success-policy")
    if given is None:
        return None
    if given not in _SUCCESS:
        raise InvalidInputError(
            f"'{given}' is not known",
            field="--success-policy",
            expected=" or ".join(_SUCCESS),
            suggestion=nearest(str(given), _SUCCESS),
        )
    return _SUCCESS[str(given)] if verb is Verb.TENSORFLOW else None


def toleration_of(text: str) -> dict[str, str]:
    """Read ``KEY[=VALUE][:EFFECT][,OPERATOR]``; ``all`` tolerates everything."""
    if text == "all":
        return {"operator": "Exists"}
    taint, _, operator = text.partition(",")
    taint, _, effect = taint.partition(":")
    key, equals, value = taint.partition("=")
    toleration = {"key": key, "operator": operator or ("Equal" if equals else "Exists")}
    if equals:
        toleration["value"] = value
    if effect:
        if effect not in _EFFECTS:
            raise InvalidInputError(
                f"'{effect}' is not an effect",
                field="--toleration",
                expected=f"one of {', '.join(_EFFECTS)}",
                suggestion=nearest(effect, _EFFECTS),
            )
        toleration["effect"] = effect
    return toleration


def _clean_pods(verb: Verb, options: Options) -> CleanPods:
    given = options.get("clean-task-policy")
    if given is None:
        return _CLEAN.get(verb, CleanPods.RUNNING)
    names = [policy.value for policy in CleanPods]
    if given not in names:
        raise InvalidInputError(
            f"'{given}' is not known",
            field="--clean-task-policy",
            expected=f"one of {', '.join(names)}",
            suggestion=nearest(str(given), names),
        )
    return CleanPods(str(given))


def _local_notes(spec: JobSpec, options: Options) -> tuple[str, ...]:
    notes = [f"the image {spec.image} is ignored: commands run on this machine itself"] if spec.image else []
    if "data" in options:
        notes.append("volume claims are directories of this machine, found in commands and variables only")
    if unused := [f"--{name}" for name in options if name in _OF_PODS or name.endswith("-limit")]:
        notes.append(f"{', '.join(unused)}: of pods on a cluster, not used here")
    return tuple(notes)


def _whole(options: Options, name: str, default: int) -> int:
    given = options.get(name, default)
    if isinstance(given, int) and given >= 0:
        return given
    raise InvalidInputError(f"{given} is too small", field=f"--{name}", expected="0 or more")


def _option(verb: Verb, options: Options, path: str | None) -> str | None:
    """The option a field of the plain job came from: ``spec.roles.ps.resources.cpu`` is ``--ps-cpu``."""
    parts = (path or "").split(".")
    names = {
        "name": "--name",
        "queue": "--queue",
        "priority": "--priority",
        "deadline": "--running-timeout",
        "ttl": "--ttl-after-finished",
        "env": "--env",
        "max_attempts": "--retry",
        "gpu": "--gpus",
        "replicas": "--workers",
        "processes": "--nproc-per-node",
    }
    if parts[:2] == ["spec", "roles"] and parts[-1] in ("cpu", "memory", "image", "port"):
        names_of_role = (f"{parts[2]}-{parts[-1]}", f"worker-{parts[-1]}", parts[-1])
        return next((f"--{name}" for name in names_of_role if name in options), f"--{names_of_role[0]}")
    return next((names[part] for part in reversed(parts) if part in names), path)
