from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from gangline.kube import PODS, Applied, KubeClient, Pod, Resource
from gangline.kube.objects import AnyObject
from tools.cluster import BUSYBOX


@pytest.fixture
def client(kubernetes_client: KubeClient, kubernetes_namespace: str) -> KubeClient:
    """A client whose own namespace is the test's."""
    assert kubernetes_client.namespace == kubernetes_namespace
    return kubernetes_client


def make_pod(name: str, *command: str, image: str = BUSYBOX, **spec: Any) -> dict[str, Any]:
    """A pod that passes the restricted security level and stops at once."""
    container = {
        "name": "main",
        "image": image,
        "command": list(command),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "metadata": {"name": name, "labels": {"app": name.rpartition("-")[0] or name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            **spec,
        },
    }


async def pod_where(client: KubeClient, name: str, condition: Callable[[Pod], bool]) -> Pod:
    """Wait until a pod looks as the condition says."""
    return await object_where(client, PODS, name, condition)


async def object_where(
    client: KubeClient, resource: Resource[AnyObject], name: str, condition: Callable[[AnyObject], bool]
) -> AnyObject:
    """Wait until an object looks as the condition says; the caller sets the time limit."""
    namespace = client.namespace if resource.namespaced else None
    async with aclosing(client.reflect(resource, namespace=namespace, fields={"metadata.name": name})) as changes:
        async for change in changes:
            if isinstance(change, Applied) and condition(change.object):
                return change.object
    raise AssertionError("a reflection does not end by itself")


def running(pod: Pod) -> bool:
    return pod.status.phase == "Running" and all(status.ready for status in pod.status.container_statuses)


def ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")
