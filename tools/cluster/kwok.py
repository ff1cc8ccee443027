"""Nodes that exist only as objects: KWOK plays kubelet for thousands of them against the real API server.

How they behave is told to KWOK in stages: a node becomes Ready, a bound pod runs at once and forever, a deleted pod
goes at once.
"""

from pathlib import Path
from typing import Any

import yaml

from tools.cluster.layout import Layout

LABEL = "gangline.dev/pretended-node"
LEASE_SECONDS = 1200
_ANNOTATION = "kwok.x-k8s.io/node"
_OPTIONS = {
    "podPlayStageParallelism": 64,
    "nodePlayStageParallelism": 4,
    "nodeLeaseParallelism": 4,
    "podsOnNodeSyncParallelism": 4,
}
"""A hundred real kubelets would report side by side; KWOK's four of all pods at a time would be the limit of every
benchmark that waits for pods to run."""

_NODE_STATUS = """
{{ $now := Now | Quote }}
conditions:
{{ range NodeConditions }}
- {type: {{ .type }}, status: {{ .status | Quote }}, reason: {{ .reason }}, message: {{ .message | Quote }},
   lastHeartbeatTime: {{ $now }}, lastTransitionTime: {{ $now }}}
{{ end }}
"""
_POD_STATUS = """
{{ $now := Now | Quote }}
phase: Running
startTime: {{ $now }}
conditions:
- {type: Initialized, status: "True", lastTransitionTime: {{ $now }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now }}}
containerStatuses:
{{ range .spec.containers }}
- {name: {{ .name | Quote }}, image: {{ .image | Quote }}, ready: true, restartCount: 0,
   state: {running: {startedAt: {{ $now }}}}}
{{ end }}
"""


def command(layout: Layout, binaries: Path) -> list[str]:
    """Spell KWOK's command line; it minds only the nodes made for it."""
    return [
        str(binaries / "kwok"),
        f"--config={layout.folder}/kwok.yaml",
        f"--kubeconfig={layout.pki}/kwok.kubeconfig",
        f"--manage-nodes-with-annotation-selector={_ANNOTATION}=fake",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        "--v=WARN",
        f"--server-address={layout.inner_address}:10247",
    ]


def write(layout: Layout) -> None:
    """Write the stages and the settings that have no place on the command line."""
    not_ready = ('.status.conditions.[] | select( .type == "Ready" ) | .status', "NotIn", ["True"])
    stages = [
        _stage("node-ready", "Node", [not_ready], {"statusTemplate": _NODE_STATUS}),
        _stage(
            "pod-running",
            "Pod",
            [(".metadata.deletionTimestamp", "DoesNotExist", None), (".status.phase", "In", ["Pending"])],
            {"statusTemplate": _POD_STATUS},
        ),
        _stage("pod-gone", "Pod", [(".metadata.deletionTimestamp", "Exists", None)], {"delete": True}),
    ]
    settings = {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": _OPTIONS}
    (layout.folder / "kwok.yaml").write_text(yaml.safe_dump_all([settings, *stages]), encoding="utf-8")


def node(number: int, *, cpu: int, memory_gib: int, pods: int) -> dict[str, Any]:
    """Describe one pretended node."""
    name = f"kwok-{number:05}"
    capacity = {"cpu": str(cpu), "memory": f"{memory_gib}Gi", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_ANNOTATION: "fake"},
            "labels": {LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
        },
        # Born Ready, which spares the server one write per node.
        "status": {"allocatable": capacity, "capacity": capacity, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _stage(
    name: str, kind: str, when: list[tuple[str, str, list[str] | None]], following: dict[str, Any]
) -> dict[str, Any]:
    expressions = [
        {"key": key, "operator": operator, **({"values": values} if values else {})} for key, operator, values in when
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": expressions},
            "next": following,
        },
    }
