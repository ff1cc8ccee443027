"""Verbs of Arena's that nothing here corresponds to, with what to use instead: of the verb, and of each flag it has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangline.errors import InvalidInputError


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedVerb:
    """One verb: ``instead`` is what to use, ``flags`` what to use for those that only it has."""

    name: str
    names: tuple[str, ...]
    instead: str
    flags: Mapping[str, str]


_RESTARTS = {
    "job-restart-policy": "policy.max_attempts of a job file: 1 is Never",
    "job-backoff-limit": "--retry",
    "ssh-secret": "nothing: replicas reach each other without SSH",
}
_PODS = {
    "launcher-selector": "placement.node_selector of the role in a job file",
    "launcher-annotation": "--annotation",
    "worker-annotation": "--annotation",
}
_AMOUNTS = {"cpu": "--cpu", "memory": "--memory"}
_AUTOSCALER = "min and max of the role in a job file: the scheduler grows and shrinks it"

REFUSED_VERBS: tuple[RefusedVerb, ...] = (
    RefusedVerb(
        name="et",
        names=("et", "etjob"),
        instead="'gangline submit pytorch', or a job file whose worker has min and max: it grows and shrinks by itself",
        flags={
            **_AMOUNTS,
            "max-workers": "max of the role in a job file",
            "min-workers": "min of the role in a job file",
            "spot-instance": "nothing: a job whose replicas are lost goes on with fewer, or from its checkpoint",
            "max-wait-time": "'gangline wait JOB --for PROCESSING --timeout 10m', then 'gangline cancel JOB'",
            "worker-restart-policy": "policy.restart and policy.retry of a job file",
            **_RESTARTS,
            **_PODS,
        },
    ),
    RefusedVerb(
        name="deepspeed",
        names=("deepspeed", "deepspeedjob", "dp"),
        instead="'gangline submit pytorch' with the program itself: DeepSpeed reads the ranks that torchrun sets",
        flags={**_AMOUNTS, **_RESTARTS, **_PODS},
    ),
    RefusedVerb(
        name="ray",
        names=("ray", "rayjob", "rj"),
        instead="'gangline submit pytorch' with the program itself: Gangline runs no Ray clusters",
        flags={
            "shutdown-after-finished": "nothing: a job that has ended holds no machines",
            "ttl-after-finished": "--ttl-after-finished",
            "active-deadline-seconds": "--running-timeout",
            "suspend": "--halted",
            "share-memory": "--share-memory",
            "ray-version": "--image",
            "pre-stop-command": "gangline.runtime.on_stop in the program",
            "enable-autoscaling": _AUTOSCALER,
            "autoscaler-cpu": _AUTOSCALER,
            "autoscaler-memory": _AUTOSCALER,
            "autoscaler-image": _AUTOSCALER,
            "autoscaler-image-pull-policy": _AUTOSCALER,
            "autoscaler-idle-timeout-seconds": _AUTOSCALER,
            "autoscaler-upscaling-mode": _AUTOSCALER,
            "head-image": "image of the role chief in a job file",
            "head-cpu": "resources.cpu of the role chief in a job file",
            "head-memory": "resources.memory of the role chief in a job file",
            "head-gpu": "resources.gpu of the role chief in a job file",
            "head-service-type": "'gangline port-forward JOB PORT'",
            "worker-image": "--image",
            "worker-cpu": "--cpu",
            "worker-memory": "--memory",
            "worker-gpu": "--gpus",
            "worker-replicas": "--workers",
            "worker-min-replicas": "min of the role in a job file",
            "worker-max-replicas": "max of the role in a job file",
            "worker-num-of-hosts": "groups of the role in a job file",
        },
    ),
)

_SHARED = ("name", "image", "gpus", "workers")
"""Flags by which Arena's way of submitting is told from a program that has the name of a verb."""


def refuse_verb(arguments: Sequence[str]) -> None:
    """Raise InvalidInputError if this is one of these verbs, and not a program such as ``deepspeed train.py``."""
    found = next((verb for verb in REFUSED_VERBS if arguments and arguments[0] in verb.names), None)
    if found is None:
        return
    flags = [word.partition("=")[0].removeprefix("--") for word in arguments[1:] if word.startswith("--")]
    if not any(flag in found.flags or flag in _SHARED for flag in flags[:1]):
        return
    told = [f"for --{flag}, {found.flags[flag]}" for flag in flags if flag in found.flags]
    raise InvalidInputError(
        "Arena's verb is not known here", field=f"submit {found.name}", expected="; ".join([found.instead, *told])
    )
