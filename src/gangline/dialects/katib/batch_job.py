"""A Job of ``batch/v1`` as a job: one role with its pod template, kept whole for the cluster."""

from dataclasses import replace

from gangline.dialects.document import compact_json
from gangline.dialects.kubeflow.kinds import KINDS, RestartPolicy
from gangline.dialects.kubeflow.pod_template import read_template
from gangline.dialects.translation import Translation
from gangline.dialects.value import Value
from gangline.model import DEFAULT_TENANT, Framework, JobSpec, Policy, Restart, RoleName, RoleSpec, Tenant
from gangline.model.jobs.placement import PlacementRule

ORIGIN = "batch/v1 Job"
_ROLE = RoleName("worker")
BATCH = replace(KINDS["MPIJob"], name="Job", plural="jobs", framework=Framework.NONE, container=None, port_name="")
"""What of Kubeflow's rules holds for any pod template: no container must have a certain name."""
_BACKOFF = 6
_FIELDS = (
    "template",
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "parallelism",
    "completions",
    "completionMode",
    "suspend",
    "manualSelector",
    "selector",
    "podFailurePolicy",
    "podReplacementPolicy",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
    "successPolicy",
    "managedBy",
)


def job_from_batch(value: Value, main: str) -> Translation:
    """Translate one document; ``main`` is the container that trains."""
    top = value.fields(("apiVersion", "kind", "metadata", "spec", "status"))
    if "spec" not in top:
        raise value.missing("spec", "a Job")
    spec = top["spec"].fields(_FIELDS)
    if "template" not in spec:
        raise top["spec"].missing("template", "a pod template")
    spec = {**spec, "template": _with_main_first(spec["template"], main)}
    template = read_template(top["spec"], spec, BATCH, main)
    if template.restart not in (None, "Never", "OnFailure"):
        raise top["spec"].wrong(
            f"'{template.restart}' is not for a Job",
            expected="Never or OnFailure",
            below=".template.spec.restartPolicy",
        )
    limit = spec["backoffLimit"].integer(0) if "backoffLimit" in spec else _BACKOFF
    metadata = top["metadata"].fields() if "metadata" in top else {}
    role = RoleSpec(
        name=_ROLE,
        replicas=spec["parallelism"].integer(1) if "parallelism" in spec else 1,
        command=template.command,
        image=template.image,
        env=template.env,
        resources=template.resources,
        restart=Restart.GANG if RestartPolicy.NEVER.value == template.restart else Restart.REPLICA,
        pod_template_json=template.json,
    )
    policy = Policy(
        max_attempts=limit + 1,
        max_replica_restarts=limit,
        deadline_seconds=spec["activeDeadlineSeconds"].integer(1) if "activeDeadlineSeconds" in spec else None,
        ttl_seconds=spec["ttlSecondsAfterFinished"].integer(0) if "ttlSecondsAfterFinished" in spec else None,
        grace_seconds=template.grace_seconds if template.grace_seconds is not None else Policy().grace_seconds,
    )
    job = JobSpec(
        name=metadata["name"].text(),
        tenant=Tenant(metadata["namespace"].text()) if "namespace" in metadata else DEFAULT_TENANT,
        labels=metadata["labels"].strings() if "labels" in metadata else {},
        roles=(role,),
        policy=policy,
        placement=PlacementRule(
            node_selector=template.nodes.node_selector,
            node_affinity=template.nodes.node_affinity,
            tolerations=template.nodes.tolerations,
        ),
        origin=ORIGIN,
        manifest_json=compact_json(value.data),
    )
    return Translation(
        spec=job,
        notes=template.notes,
        local_notes=template.local_notes,
        local_refusal=None if role.command else template.local_refusal,
    )


def _with_main_first(template: Value, main: str) -> Value:
    """Put the container that trains before all others: engines take the first for it where none has a known name."""
    data = template.data
    pod = data.get("spec") if isinstance(data, dict) else None
    containers = pod.get("containers") if isinstance(pod, dict) else None
    if not isinstance(data, dict) or not isinstance(pod, dict) or not isinstance(containers, list):
        return template
    ordered = sorted(containers, key=lambda each: not (isinstance(each, dict) and each.get("name") == main))
    return replace(template, data={**data, "spec": {**pod, "containers": ordered}})
