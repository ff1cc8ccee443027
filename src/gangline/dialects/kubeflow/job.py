"""A whole Kubeflow job into the model."""

import re
from collections.abc import Mapping
from dataclasses import replace

from gangline.dialects.document import compact_json
from gangline.dialects.frameworks import mpi
from gangline.dialects.frameworks.tensorflow import DYNAMIC_WORKERS
from gangline.dialects.kubeflow import old_tfjob
from gangline.dialects.kubeflow.elastic import read_elastic
from gangline.dialects.kubeflow.kinds import KINDS, MPI_V2_FIELDS, OLD_TF_VERSIONS, V1, V2BETA1, Kind, RestartPolicy
from gangline.dialects.kubeflow.parts import Parts, local_notes_on, notes_on
from gangline.dialects.kubeflow.replicas import Replica, read_replicas, role_of
from gangline.dialects.kubeflow.run_policy import OLD_SPEC_FIELDS, priority_of, read_run_policy
from gangline.dialects.translation import CleanPods, Translation
from gangline.dialects.value import Value
from gangline.errors import InvalidInputError
from gangline.model import (
    DEFAULT_TENANT,
    Clean,
    Framework,
    JobSpec,
    PlacementRule,
    Policy,
    Processes,
    Restart,
    RoleSpec,
    Success,
    Tenant,
)
from gangline.model.identity import check_name

ENDLESS = 1_000_000
"""Attempts of a job that may restart and names no backoffLimit: upstream would never give up."""

_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME_RULE = "a DNS-1035 label: lower-case letters, digits and '-', beginning with a letter, such as my-name or abc-123"
_SUCCESS_POLICIES = ("", "AllWorkers")
_LAUNCHER_POLICIES = ("AtStartup", "WaitForWorkersReady")


def job_from_value(value: Value, *, strict: bool = False) -> Translation:
    """Translate one document. ``strict`` keeps upstream's behaviour of restarting failed replicas one by one."""
    parts = _take_apart(value, strict=strict)
    priority, priority_notes = priority_of(_priority_class(parts))
    with value.located():
        spec = JobSpec(
            name=parts.metadata["name"].text(),
            tenant=_tenant(parts.metadata),
            queue=parts.run.queue,
            priority=priority,
            labels=parts.metadata["labels"].strings() if "labels" in parts.metadata else {},
            framework=parts.kind.framework,
            processes=_processes(parts),
            env=_environment(parts),
            roles=_roles(parts),
            policy=_policy(parts),
            placement=_placement(parts),
            origin=f"{parts.version} {parts.kind.name}",
            manifest_json=_manifest(value),
        )
    return Translation(
        spec=spec,
        notes=(*notes_on(parts), *priority_notes),
        local_notes=local_notes_on(parts),
        local_refusal=_local_refusal(parts, spec),
        suspended=parts.run.suspended,
        clean_pods=parts.run.clean_pods,
        managed_by=parts.run.managed_by,
    )


def _take_apart(value: Value, *, strict: bool) -> Parts:
    top = value.fields(_TOP)
    for name in ("apiVersion", "kind", "metadata", "spec"):
        if name not in top:
            raise value.missing(name, "a Kubeflow job")
    kind = KINDS[top["kind"].one_of(KINDS)]
    version = top["apiVersion"].one_of(kind.versions)
    metadata = top["metadata"].fields()
    _check_name(top["metadata"], metadata)
    spec = top["spec"]
    given = spec.fields(_spec_fields(kind, version))
    run = read_run_policy(given, clean_pods=CleanPods.NONE if version in (V1, V2BETA1) else CleanPods.RUNNING)
    if version == OLD_TF_VERSIONS[0]:
        replicas = old_tfjob.read_old_replicas(spec, given, kind)
    else:
        replicas = read_replicas(spec, given, kind, version)
    workers = next((replica.count for replica in replicas if replica.type == "Worker"), None)
    elastic = read_elastic(spec, given, kind, workers)
    return Parts(
        kind=kind,
        version=version,
        metadata=metadata,
        given=given,
        run=run,
        replicas=replicas,
        elastic=elastic,
        strict=strict,
    )


def _spec_fields(kind: Kind, version: str) -> tuple[str, ...]:
    if version == OLD_TF_VERSIONS[0]:
        return old_tfjob.SPEC_FIELDS
    if version == V2BETA1:
        return (*MPI_V2_FIELDS, kind.replicas_field)
    old = OLD_SPEC_FIELDS if kind.framework is Framework.TENSORFLOW else ()
    return (*kind.spec_fields, kind.replicas_field, *old)


def _check_name(where: Value, metadata: Mapping[str, Value]) -> None:
    if "name" not in metadata:
        generated = ", and none is made from generateName here" if "generateName" in metadata else ""
        raise where.wrong(f"the field is missing{generated}", expected="the name of the job", below=".name")
    name = metadata["name"].text()
    if not _NAME.fullmatch(name) or len(name) > 63:
        raise metadata["name"].wrong(f"'{name}' should match a DNS-1035 label", expected=_NAME_RULE)


def _manifest(value: Value) -> str:
    """The document without its status, which is ours to tell."""
    return compact_json({name: part.data for name, part in value.fields().items() if name != "status"})


def _tenant(metadata: Mapping[str, Value]) -> Tenant:
    if "namespace" not in metadata:
        return DEFAULT_TENANT
    with metadata["namespace"].located():
        check_name(metadata["namespace"].text(), "")
    return Tenant(metadata["namespace"].text())


def _environment(parts: Parts) -> dict[str, str]:
    """What the job's own fields say to its framework, in the variables that carry it."""
    given, env = parts.given, dict(parts.elastic.env)
    if parts.dynamic_workers:
        env[DYNAMIC_WORKERS] = "1"
    if "mpiImplementation" in given:
        env[mpi.IMPLEMENTATION] = given["mpiImplementation"].choice(mpi.Implementation).value
    if "runLauncherAsWorker" in given and given["runLauncherAsWorker"].boolean():
        env[mpi.LAUNCHER_WORKS] = "1"
    if "launcherCreationPolicy" in given:
        given["launcherCreationPolicy"].one_of(_LAUNCHER_POLICIES)
    if "sshAuthMountPath" in given:
        given["sshAuthMountPath"].text()
    return env


def _processes(parts: Parts) -> int | Processes | None:
    slots = parts.given.get("slotsPerWorker")
    return parts.elastic.processes if slots is None else slots.integer(1)


def _roles(parts: Parts) -> tuple[RoleSpec, ...]:
    spare = _spare(parts)
    alike = _nodes_alike(parts)
    roles = []
    for replica in parts.present:
        worker = replica.type == "Worker"
        minimum = parts.elastic.minimum if worker else None
        if worker and minimum is None and spare:
            minimum = max(0, replica.count - spare)
        role = role_of(
            replica,
            parts.kind,
            restart=_restart(parts, replica),
            minimum=minimum,
            maximum=parts.elastic.maximum if worker else None,
            port=parts.elastic.rendezvous_port if worker and not parts.has_lead else None,
        )
        roles.append(role if alike else replace(role, placement=replica.template.nodes))
    return tuple(roles)


def _local_refusal(parts: Parts, spec: JobSpec) -> InvalidInputError | None:
    """Why the job cannot run without containers. Workers that only wait for an MPI launcher need no command there."""
    for replica, role in zip(parts.present, spec.roles, strict=True):
        if not role.command:
            return replica.template.local_refusal
    return None


def _spare(parts: Parts) -> int:
    """How many workers the gang may start without, by ``schedulingPolicy.minAvailable``."""
    total = sum(replica.count for replica in parts.present)
    wanted = parts.run.minimum_available
    if wanted is not None and wanted > total:
        policy = parts.given["runPolicy"].fields()["schedulingPolicy"]
        raise policy.wrong(
            f"{wanted} is more than the job has replicas: it would never start",
            expected=f"at most {total}",
            below=".minAvailable",
        )
    return 0 if wanted is None else total - wanted


def _restart(parts: Parts, replica: Replica) -> Restart:
    if replica.restart is RestartPolicy.NEVER:
        return Restart.NEVER
    one_by_one = parts.strict or parts.elastic.minimum is not None or parts.dynamic_workers
    return Restart.REPLICA if one_by_one else Restart.GANG


def _policy(parts: Parts) -> Policy:
    restarts = {replica.restart for replica in parts.present} - {RestartPolicy.NEVER}
    limit = parts.run.backoff_limit if parts.run.backoff_limit is not None else ENDLESS
    graces = [replica.template.grace_seconds for replica in parts.present]
    return Policy(
        max_attempts=limit + 1 if restarts else 1,
        max_replica_restarts=limit if restarts else 0,
        success=_success(parts),
        deadline_seconds=parts.run.deadline_seconds,
        ttl_seconds=parts.run.ttl_seconds,
        grace_seconds=max((grace for grace in graces if grace is not None), default=Policy().grace_seconds),
        clean=_clean(parts),
    )


def _clean(parts: Parts) -> Clean:
    """What is removed at the end. Upstream's None leaves survivors running forever; here only ``strict`` does."""
    if parts.strict and parts.run.clean_pods is CleanPods.NONE:
        return Clean.LEAVE
    return {CleanPods.ALL: Clean.ALL, CleanPods.RUNNING: Clean.RUNNING, CleanPods.NONE: Clean.NONE}[
        parts.run.clean_pods
    ]


def _success(parts: Parts) -> Success:
    """A chief, master or launcher decides alone; without one it is the kind that says who must succeed."""
    policy = parts.given["successPolicy"].one_of(_SUCCESS_POLICIES) if "successPolicy" in parts.given else ""
    if parts.has_lead:
        return Success.LEAD
    if parts.kind.framework is Framework.TENSORFLOW:
        return Success.ALL if policy == "AllWorkers" else Success.LEAD
    return Success.LEAD if parts.elastic.minimum is not None else Success.ALL


def _priority_class(parts: Parts) -> str | None:
    classes = (replica.template.priority_class for replica in parts.present)
    return parts.run.priority_class or next((name for name in classes if name), None)


def _placement(parts: Parts) -> PlacementRule:
    """What all templates say alike of nodes; where they differ, each role has a rule of its own."""
    if not _nodes_alike(parts):
        return PlacementRule()
    nodes = parts.present[0].template.nodes
    return PlacementRule(
        node_selector=nodes.node_selector, node_affinity=nodes.node_affinity, tolerations=nodes.tolerations
    )


def _nodes_alike(parts: Parts) -> bool:
    return all(replica.template.nodes == parts.present[0].template.nodes for replica in parts.present)
