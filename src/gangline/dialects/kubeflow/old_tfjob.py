"""TFJob ``v1alpha1``: a list of replica specs, a port each, and a termination policy that names the chief."""

from collections.abc import Mapping

from gangline.dialects.kubeflow.kinds import Kind, RestartPolicy
from gangline.dialects.kubeflow.pod_template import read_template
from gangline.dialects.kubeflow.replicas import Replica, check_replicas
from gangline.dialects.value import Value

SPEC_FIELDS = ("replicaSpecs", "tfImage", "terminationPolicy", "schedulerName", "runtimeId", "RuntimeId")
REPLICA_FIELDS = ("replicas", "template", "tfPort", "tfReplicaType")
_TYPES = {"MASTER": "Master", "WORKER": "Worker", "PS": "PS"}
TODAY = (
    "kubeflow.org/v1alpha1: write today apiVersion kubeflow.org/v1 and, for the list replicaSpecs, the mapping "
    "tfReplicaSpecs with the keys Chief, Worker and PS; a container port named tfjob-port for tfPort; "
    "restartPolicy: ExitCode in each replica spec"
)


def read_old_replicas(spec: Value, given: Mapping[str, Value], kind: Kind) -> list[Replica]:
    """Read ``spec.replicaSpecs``; the chief that the termination policy names must be among them."""
    if "replicaSpecs" not in given:
        raise spec.wrong("must be required", expected="a list of replica specs", below=".replicaSpecs")
    replicas = [_replica(value, kind) for value in given["replicaSpecs"].items()]
    types = [replica.type for replica in replicas]
    if len(set(types)) != len(types):
        raise given["replicaSpecs"].wrong("a replica type is given twice", expected="each tfReplicaType once")
    check_replicas(given["replicaSpecs"], replicas, kind)
    chief = _chief(given)
    if chief not in types:
        raise given["replicaSpecs"].wrong(
            f"Missing ReplicaSpec for chief: {chief.upper()}", expected=f"a replica spec of type {chief.upper()}"
        )
    return sorted(replicas, key=lambda replica: list(kind.roles).index(replica.type))


def _replica(value: Value, kind: Kind) -> Replica:
    given = value.fields(REPLICA_FIELDS)
    type_ = _TYPES[given["tfReplicaType"].one_of(_TYPES)] if "tfReplicaType" in given else "Master"
    template = read_template(value, given, kind, None)
    port = given["tfPort"].integer(1, 65535) if "tfPort" in given else kind.port
    return Replica(
        type=type_,
        where=value,
        role=kind.roles[type_],
        count=given["replicas"].integer(0) if "replicas" in given else 1,
        # The first operator went by exit codes whatever the pod said, unless the pod was never to be restarted.
        restart=RestartPolicy.NEVER if template.restart == "Never" else RestartPolicy.EXIT_CODE,
        template=template,
        port=port,
    )


def _chief(given: Mapping[str, Value]) -> str:
    policy = given["terminationPolicy"].fields(("chief",)) if "terminationPolicy" in given else {}
    chief = policy["chief"].fields(("replicaName", "replicaIndex")) if "chief" in policy else {}
    if "replicaIndex" in chief:
        chief["replicaIndex"].integer(0, 0)
    return _TYPES[chief["replicaName"].one_of(_TYPES)] if "replicaName" in chief else "Master"
