"""How fast a list of pods becomes typed objects: Gangline's client beside the official one, in the same run.

    python bench/kube_decode.py [--pods 10000] [--official-pods 1000]

The official client (``pip install kubernetes``) is optional; it is measured on fewer pods, because it is slow, and
compared per pod. The pods are as a real API server sends them: with managed fields, volumes, tolerations and status.
"""

import argparse
import gc
import inspect
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gangline.kube import PODS

STAMP = "2030-01-01T00:00:00Z"


def realistic_pod(number: int) -> dict[str, Any]:
    """One worker of a training job, as the server would list it."""
    name = f"train-{number // 8}-worker-{number % 8}"
    own = {"f:metadata": {"f:labels": {".": {}, "f:job": {}, "f:role": {}}}, "f:spec": {"f:containers": {}}}
    state = {"f:status": {"f:conditions": {".": {}}, "f:containerStatuses": {}, "f:phase": {}, "f:podIP": {}}}
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "metadata": {
            "name": name,
            "namespace": "research",
            "uid": f"0f8fad5b-d9cb-469f-a165-{number:012}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": STAMP,
            "labels": {"gangline.dev/job": f"train-{number // 8}", "gangline.dev/role": "worker"},
            "annotations": {"gangline.dev/attempt": "1"},
            "ownerReferences": [
                {"apiVersion": "gangline.dev/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
            ],
            "managedFields": [
                {"manager": "gangline", "operation": "Update", "apiVersion": "v1", "time": STAMP, "fieldsV1": own},
                {"manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": STAMP, "fieldsV1": state},
            ],
        },
        "spec": {
            "volumes": [{"name": "access", "projected": {"sources": [token], "defaultMode": 420}}],
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "command": ["python", "train.py", "--epochs", "10"],
                    "env": [{"name": f"VARIABLE_{index}", "value": "value"} for index in range(8)],
                    "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi"}},
                    "volumeMounts": [{"name": "access", "mountPath": "/var/run/secrets", "readOnly": True}],
                    "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log",
                }
            ],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "nodeName": f"node-{number % 1000}",
            "schedulerName": "gangline",
            "tolerations": [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            ],
            "priority": 0,
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": STAMP} for kind in kinds],
            "hostIP": "10.0.0.1",
            "podIP": "10.244.0.1",
            "podIPs": [{"ip": "10.244.0.1"}],
            "startTime": STAMP,
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": STAMP}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": 0,
                    "image": "registry.example/train:1",
                    "imageID": "sha256:" + "0" * 64,
                    "containerID": "containerd://" + "0" * 64,
                    "started": True,
                }
            ],
            "qosClass": "Burstable",
        },
    }


def pages(count: int, *, size: int = 500) -> list[bytes]:
    """The list as the server sends it, page by page."""
    return [
        json.dumps(
            {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": "1"},
                "items": [realistic_pod(number) for number in range(start, min(start + size, count))],
            }
        ).encode()
        for start in range(0, count, size)
    ]


def seconds(work: Callable[[], object], *, rounds: int = 5) -> float:
    """The median time of some rounds, each after a full collection."""
    times = []
    for _ in range(rounds):
        gc.collect()
        began = time.perf_counter()
        kept = work()
        times.append(time.perf_counter() - began)
        del kept
    return statistics.median(times)


@dataclass(frozen=True)
class Body:
    """What the official client expects of a response."""

    data: str


def official_seconds(count: int) -> float | None:
    """Time the official client, or None where it is not installed."""
    try:
        from kubernetes import client
    except ImportError:
        return None
    decode = official_decoder(client.ApiClient())
    bodies = pages(count)
    return seconds(lambda: [decode(body) for body in bodies], rounds=1)


def official_decoder(api: Any) -> Callable[[bytes], object]:
    """Call the official client as its version wants: with a response, or with the text and its type."""
    if len(inspect.signature(api.deserialize).parameters) == 2:
        return lambda page: api.deserialize(Body(page.decode()), "V1PodList")
    return lambda page: api.deserialize(page.decode(), "V1PodList", "application/json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--official-pods", type=int, default=1_000)
    arguments = parser.parse_args()
    bodies = pages(arguments.pods)
    ours = seconds(lambda: [PODS.decode_list(body) for body in bodies])
    untyped = seconds(lambda: [json.loads(body) for body in bodies])
    size = sum(map(len, bodies)) / 1e6
    print(f"{arguments.pods} pods, {size:.1f} MB of JSON")
    print(f"gangline.kube, typed        {ours:8.3f} s   {1e6 * ours / arguments.pods:8.1f} us/pod")
    print(f"json.loads, untyped         {untyped:8.3f} s   {untyped / ours:8.1f} x gangline")
    official = official_seconds(arguments.official_pods)
    if official is None:
        print("official client             not installed (pip install kubernetes)")
        return
    whole = official / arguments.official_pods * arguments.pods
    print(f"official client, typed      {whole:8.3f} s   {whole / ours:8.1f} x gangline")
    print(f"  (measured on {arguments.official_pods} pods, scaled to {arguments.pods})")


if __name__ == "__main__":
    main()
