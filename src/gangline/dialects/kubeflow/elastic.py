"""``elasticPolicy`` and ``nprocPerNode``: how many workers may come and go, and what torchrun is told about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.dialects.kubeflow.kinds import Kind
from gangline.dialects.native.job import read_processes
from gangline.dialects.value import Value
from gangline.model import Framework, Processes

PYTORCH_FIELDS = (
    "minReplicas",
    "maxReplicas",
    "rdzvBackend",
    "rdzvPort",
    "rdzvHost",
    "rdzvId",
    "rdzvConf",
    "standalone",
    "nProcPerNode",
    "maxRestarts",
    "metrics",
)
PADDLE_FIELDS = ("minReplicas", "maxReplicas", "maxRestarts", "metrics")
_BACKENDS = ("c10d", "etcd", "etcd-v2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    """How far the workers may shrink and grow (None: they may not), what torchrun is told, and remarks."""

    minimum: int | None = None
    maximum: int | None = None
    rendezvous_port: int | None = None
    processes: int | Processes | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_elastic(spec: Value, given: Mapping[str, Value], kind: Kind, workers: int | None) -> Elastic:
    """Read the two fields; ``workers`` is the number of Worker replicas, None when the job has none."""
    processes: int | Processes | None = None
    if kind.framework is Framework.PYTORCH:
        processes = read_processes(given["nprocPerNode"]) if "nprocPerNode" in given else Processes.AUTO
    if "elasticPolicy" not in given:
        return Elastic(processes=processes)
    value = given["elasticPolicy"]
    policy = value.fields(PYTORCH_FIELDS if kind.framework is Framework.PYTORCH else PADDLE_FIELDS)
    if workers is None:
        raise spec.wrong(
            "must be configured if elastic policy is used",
            expected="a Worker replica spec",
            below=f".{kind.replicas_field}.Worker",
        )
    notes = []
    if "nProcPerNode" in policy:
        if "nprocPerNode" in given:
            raise policy["nProcPerNode"].wrong("must not be used with spec.nprocPerNode", expected="one of the two")
        processes = policy["nProcPerNode"].integer(1)
        notes.append(f"{policy['nProcPerNode'].path} is deprecated, use spec.nprocPerNode instead")
    if "metrics" in policy:
        notes.append(f"{policy['metrics'].path}: workers grow when machines are free, not by a metric")
    minimum, maximum = _bounds(policy, workers)
    return Elastic(
        minimum=minimum,
        maximum=maximum,
        rendezvous_port=policy["rdzvPort"].integer(1, 65535) if "rdzvPort" in policy else None,
        processes=processes,
        env=_variables(policy, kind),
        notes=tuple(notes),
    )


def _bounds(policy: Mapping[str, Value], workers: int) -> tuple[int, int]:
    """The bounds, each standing in for the other when only one is given."""
    low, high = (policy[name].integer(1) if name in policy else None for name in ("minReplicas", "maxReplicas"))
    minimum = low if low is not None else high if high is not None else workers
    maximum = high if high is not None else low if low is not None else workers
    if low is not None and minimum > workers:
        raise policy["minReplicas"].wrong(
            f"{minimum} is more than the {workers} workers", expected=f"at most {workers}"
        )
    if high is not None and maximum < workers:
        raise policy["maxReplicas"].wrong(
            f"{maximum} is less than the {workers} workers", expected=f"{workers} or more"
        )
    return min(minimum, workers), max(maximum, workers)


def _variables(policy: Mapping[str, Value], kind: Kind) -> dict[str, str]:
    if kind.framework is Framework.PADDLE:
        return {"PADDLE_MAX_RESTART": str(policy["maxRestarts"].integer(0))} if "maxRestarts" in policy else {}
    env = {"PET_RDZV_BACKEND": policy["rdzvBackend"].one_of(_BACKENDS) if "rdzvBackend" in policy else "c10d"}
    if "rdzvHost" in policy:
        port = policy["rdzvPort"].integer(1, 65535) if "rdzvPort" in policy else kind.port
        env["PET_RDZV_ENDPOINT"] = f"{policy['rdzvHost'].text()}:{port}"
    if "rdzvId" in policy:
        env["PET_RDZV_ID"] = policy["rdzvId"].text()
    if "rdzvConf" in policy:
        env["PET_RDZV_CONF"] = ",".join(map(_pair, policy["rdzvConf"].items()))
    if "standalone" in policy and policy["standalone"].boolean():
        env["PET_STANDALONE"] = "1"  # upstream sets it to nothing, at which torchrun stumbles
    if "maxRestarts" in policy:
        env["PET_MAX_RESTARTS"] = str(policy["maxRestarts"].integer(0))
    return env


def _pair(value: Value) -> str:
    given = value.fields(("key", "value"))
    return "=".join(given[name].text_or_number() if name in given else "" for name in ("key", "value"))
