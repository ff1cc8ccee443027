"""Nodes and pods in whole numbers."""

from typing import Any

import msgspec
import pytest

from gangline.engines.kubernetes.node_rules.capacity import (
    amounts_to_resources,
    gpu_type,
    is_lost,
    node_to_model,
    occupies,
    pod_requests,
    topology,
)
from gangline.kube import Node, Pod
from gangline.model import Resources


def container(cpu: str = "0", memory: str = "0", **fields: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **fields}


def make_pod(**spec: Any) -> Pod:
    return msgspec.convert({"spec": spec}, Pod)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [container("500m", "1Gi"), container("1", "512Mi")]}, (1500, 1536), id="sum"),
        pytest.param(
            {"containers": [container("1", "1Gi")], "initContainers": [container("3", "512Mi")]},
            (3000, 1024),
            id="a large init container counts for its moment",
        ),
        pytest.param(
            {"containers": [container("1", "1Gi")], "initContainers": [container("1", "1Gi", restartPolicy="Always")]},
            (2000, 2048),
            id="a sidecar stays",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "100m"}}, (1100, 0), id="overhead"),
        pytest.param({"containers": [container("1", "1")]}, (1000, 1), id="a byte takes a whole MiB"),
    ],
)
def test_a_pod_takes_what_its_containers_ask_for_as_kubernetes_counts_it(
    spec: dict[str, Any], want: tuple[int, int]
) -> None:
    requests = pod_requests(make_pod(**spec))
    assert (requests.cpu_millis, requests.memory_mib) == want


def test_a_limit_alone_is_a_request() -> None:
    pod = make_pod(containers=[{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}])
    assert pod_requests(pod).gpu_millis == 2000


@pytest.mark.parametrize(
    ("node", "phase", "want"),
    [("n", "Running", True), ("n", "Succeeded", False), ("n", "Failed", False), ("", "Pending", False)],
)
def test_only_bound_pods_that_have_not_ended_occupy_a_node(node: str, phase: str, want: bool) -> None:
    assert occupies(msgspec.convert({"spec": {"nodeName": node}, "status": {"phase": phase}}, Pod)) is want


@pytest.mark.parametrize(
    ("product", "want"),
    [
        ("NVIDIA-A100-SXM4-80GB", "a100"),
        ("Tesla-V100-SXM2-16GB", "v100"),
        ("NVIDIA-H200", "h200"),
        ("NVIDIA-GeForce-RTX-3090", "rtx-3090"),
    ],
)
def test_gpu_types_are_what_people_call_them(product: str, want: str) -> None:
    assert gpu_type({"nvidia.com/gpu.product": product}) == want


def test_own_labels_outrank_the_plugins() -> None:
    assert gpu_type({"nvidia.com/gpu.product": "NVIDIA-H200", "gangline.dev/gpu-type": "h200x"}) == "h200x"
    assert topology({"topology.kubernetes.io/zone": "a", "gangline.dev/topology.rack": "7"}) == {
        "zone": "a",
        "rack": "7",
    }


def test_a_node_is_described_with_what_others_use() -> None:
    status = {
        "allocatable": {
            "cpu": "7910m",
            "memory": "1048577",
            "nvidia.com/gpu": "8",
            "example.com/fpga": "2",
            "pods": "30",
        },
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    body = {"metadata": {"name": "n"}, "spec": {"unschedulable": True, "taints": [{"key": "k"}]}, "status": status}
    used = Resources(cpu_millis=10)
    node = node_to_model(msgspec.convert(body, Node), foreign=used, foreign_pods=3, synthetic_resources={"port": 1})
    extended = {"example.com/fpga": 2, "port": 1}
    assert node.capacity == Resources(cpu_millis=7910, memory_mib=1, gpu_millis=8000, extended=extended)
    assert (node.ready, node.cordoned, node.pods, node.foreign_pods) == (True, True, 30, 3)


@pytest.mark.parametrize(("status", "want"), [("True", False), ("False", False), ("Unknown", True)])
def test_a_node_is_lost_when_nobody_hears_of_it(status: str, want: bool) -> None:
    body = {"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": status}]}}
    assert is_lost(msgspec.convert(body, Node)) is want
    assert is_lost(None)


@pytest.mark.parametrize(("label", "want"), [("81559", 81559), ("", 0), ("much", 0)])
def test_the_memory_of_a_gpu_is_read_from_its_label(label: str, want: int) -> None:
    body = {"metadata": {"name": "n", "labels": {"nvidia.com/gpu.memory": label} if label else {}}}
    found = node_to_model(msgspec.convert(body, Node), foreign=Resources(), foreign_pods=0, synthetic_resources={})
    assert found.gpu_memory_mib == want


def test_slices_of_gpus_are_amounts_of_their_own() -> None:
    offered = amounts_to_resources({"cpu": "8", "nvidia.com/mig-1g.5gb": "7", "nvidia.com/gpu": "1"}, offered=True)
    assert (offered.gpu_millis, offered.extended) == (1000, {"nvidia.com/mig-1g.5gb": 7})
