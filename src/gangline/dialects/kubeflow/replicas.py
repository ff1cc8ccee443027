"""Replica specs into roles: counts, restart policies, and what the pod templates say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gangline.dialects.kubeflow.kinds import KINDS, V2BETA1, Kind, RestartPolicy
from gangline.dialects.kubeflow.pod_template import PodTemplate, read_template
from gangline.dialects.native.role import IDLE_COMMAND
from gangline.dialects.value import Value
from gangline.model import Framework, Restart, Retry, RoleName, RoleSpec

_FIELDS = ("replicas", "template", "restartPolicy")
_V2_RULES = replace(
    KINDS["MPIJob"],
    at_least_one=("Worker",),
    default_restarts={"Launcher": RestartPolicy.ON_FAILURE},
    restarts=(RestartPolicy.NEVER, RestartPolicy.ON_FAILURE),
)
"""The second version of MPIJob is stricter than the first."""


_RETRIES = {RestartPolicy.EXIT_CODE: Retry.SIGNALS, RestartPolicy.ALWAYS: Retry.ALWAYS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica type of a job, read."""

    type: str
    where: Value
    role: RoleName
    count: int
    restart: RestartPolicy
    template: PodTemplate
    port: int


def read_replicas(spec: Value, given: Mapping[str, Value], kind: Kind, version: str) -> list[Replica]:
    """Read the mapping of replica types (``tfReplicaSpecs`` and its kin) in upstream's order; zero counts are kept."""
    name = kind.replicas_field
    if name not in given or not given[name].fields():
        raise spec.wrong("must be required", expected=f"one of {', '.join(kind.roles)}", below=f".{name}")
    entries = _canonical(given[name], kind)
    rules = _V2_RULES if version == V2BETA1 else kind
    main = given["mainContainer"].text() if "mainContainer" in given else None
    replicas = [_replica(type_, entries[type_], rules, main) for type_ in kind.roles if type_ in entries]
    check_replicas(given[name], replicas, kind)
    return replicas


def check_replicas(where: Value, replicas: Sequence[Replica], kind: Kind) -> None:
    """The rules between replica types."""
    types = [replica.type for replica in replicas]
    for required in kind.required:
        if required not in types:
            raise where.wrong("must be present", expected=f"a {required} replica spec", below=f".{required}")
    if "Chief" in types and "Master" in types:
        raise where.wrong("must not have more than 1 Chief or Master role", expected="either Chief or Master")
    if not any(replica.count for replica in replicas):
        raise where.wrong("the job has no replicas", expected="1 or more")


def _canonical(value: Value, kind: Kind) -> dict[str, Value]:
    """Replica types by their proper name, whatever the case they were written in."""
    folded = {name.casefold(): name for name in kind.roles}
    entries: dict[str, Value] = {}
    for written, entry in value.fields().items():
        name = folded.get(written.casefold())
        if name is None:
            raise value.unknown("replica type", written, kind.roles, below=f".{written}")
        if name in entries:
            raise entry.wrong(f"{name} is given twice", expected=f"one {name}")
        entries[name] = entry
    return entries


def _replica(type_: str, value: Value, kind: Kind, main: str | None) -> Replica:
    given = value.fields(_FIELDS)
    count = given["replicas"].integer(0) if "replicas" in given else kind.default_replicas.get(type_, 1)
    if type_ in kind.single and count != 1:
        raise value.wrong("must be 1", expected="1", below=".replicas")
    if type_ in kind.at_least_one and "replicas" in given and count < 1:
        raise value.wrong("must be at least 1", expected="1 or more", below=".replicas")
    template = read_template(value, given, kind, main)
    return Replica(
        type=type_,
        where=value,
        role=kind.roles[type_],
        count=count,
        restart=_restart(type_, given, kind),
        template=template,
        port=template.port or kind.port,
    )


def _restart(type_: str, given: Mapping[str, Value], kind: Kind) -> RestartPolicy:
    if "restartPolicy" not in given or given["restartPolicy"].data == "":
        return kind.default_restarts.get(type_, kind.restart)
    return RestartPolicy(given["restartPolicy"].one_of([policy.value for policy in kind.restarts]))


def _only_listens(command: tuple[str, ...]) -> bool:
    """Whether an MPI worker does nothing but wait for the launcher, which needs no server on one machine."""
    return not command or command[0].rpartition("/")[2] == "sshd"


def role_of(
    replica: Replica, kind: Kind, *, restart: Restart, minimum: int | None, maximum: int | None, port: int | None = None
) -> RoleSpec:
    """Build the role of a replica type."""
    command = replica.template.command
    if kind.framework is Framework.MPI and replica.type == "Worker" and _only_listens(command):
        command = IDLE_COMMAND
    with replica.where.located(prefix=f"roles.{replica.role}"):
        return RoleSpec(
            name=replica.role,
            replicas=replica.count,
            minimum=minimum,
            maximum=maximum,
            command=command,
            image=replica.template.image,
            env=replica.template.env,
            resources=replica.template.resources,
            restart=restart,
            retry=_RETRIES.get(replica.restart),
            port=port or replica.port,
            pod_template_json=replica.template.json,
        )
