"""Checks of a service as probes of its pods, and what kubelets find. Pure."""

import json
import math
from dataclasses import replace
from typing import Any

from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.pod import main_container
from gangline.kube import Pod
from gangline.model import JobSpec, RoleSpec
from gangline.model.kinds.service import Check, Checks

Plain = dict[str, Any]

LEAVING_SECONDS = 2
"""How long a pod that is to go still answers: as long as the news may take to reach every router."""


def with_probes(job: JobSpec, checks: Checks) -> JobSpec:
    """Return the job of a replica whose kubelet checks it; what its own template says of probes stays."""
    return replace(
        job, roles=tuple(_probed(role, checks, job) if role.name == job.lead_role else role for role in job.roles)
    )


def _probed(role: RoleSpec, checks: Checks, job: JobSpec) -> RoleSpec:
    template = json.loads(role.pod_template_json or "{}")
    spec = template.setdefault("spec", {})
    containers = spec.setdefault("containers", [{}])
    main = containers[main_container(containers, job.framework)]
    for name, check in (
        ("readinessProbe", checks.ready),
        ("startupProbe", checks.start),
        ("livenessProbe", checks.live),
    ):
        if check is not None:
            main.setdefault(name, _probe(check, role.port))
    if checks.start is not None and main["startupProbe"].get("failureThreshold") == checks.start.failures:
        # A start may take as long as readiness may; a kubelet would kill the replica after a few failures.
        main["startupProbe"]["failureThreshold"] = max(
            1, math.ceil(checks.within_seconds / _whole(checks.start.every_seconds))
        )
    main.setdefault("lifecycle", {"preStop": {"sleep": {"seconds": LEAVING_SECONDS}}})
    spec.setdefault("terminationGracePeriodSeconds", LEAVING_SECONDS + max(1, round(job.policy.grace_seconds)))
    metadata = template.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), names.SERVING_PORT: str(role.port)}
    return replace(role, pod_template_json=json.dumps(template, ensure_ascii=False))


def _probe(check: Check, port: int) -> Plain:
    action: Plain = {"tcpSocket": {"port": port}}
    if check.http:
        action = {"httpGet": {"path": check.http, "port": port}}
    elif check.exec:
        action = {"exec": {"command": list(check.exec)}}
    return {
        **action,
        "periodSeconds": _whole(check.every_seconds),
        "timeoutSeconds": _whole(check.timeout_seconds),
        "failureThreshold": check.failures,
    }


def _whole(seconds: float) -> int:
    """A kubelet counts in seconds, of which there is at least one."""
    return max(1, round(seconds))


def serving_address(pod: Pod) -> str:
    """Return where a replica of a service answers; empty before its pod has an address."""
    port = pod.metadata.annotations.get(names.SERVING_PORT, "")
    host = f"[{pod.status.pod_ip}]" if ":" in pod.status.pod_ip else pod.status.pod_ip
    return f"{host}:{port}" if host and port else ""


def why_not_ready(pod: Pod) -> str:
    """Say why a pod gets no requests; empty if it does."""
    if pod.metadata.deletion_timestamp is not None:
        return "its pod is going"
    ready = next((each for each in pod.status.conditions if each.type == "Ready"), None)
    if ready is not None and ready.status == "True":
        return ""
    return (ready.message if ready is not None else "") or "its pod is not ready"
