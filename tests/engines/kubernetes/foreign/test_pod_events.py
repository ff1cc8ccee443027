"""What becomes of pods of others, as what happens to replicas."""

from typing import Any

import msgspec
import pytest

from gangline.engines.kubernetes.foreign.pod_events import end_of, start_of
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod
from gangline.model import GangId, JobId, ReplicaId, RoleName, Timestamp
from tests.engines.kubernetes.foreign.builders import make_pod

KEY = ReplicaKey(GangId(JobId("job-1"), 1), ReplicaId(RoleName("pods"), 0), 0)


def with_status(pod: WatchedPod, **status: Any) -> WatchedPod:
    plain = msgspec.to_builtins(pod)
    plain["status"] = {**plain.get("status", {}), **status}
    return msgspec.convert(plain, WatchedPod)


@pytest.mark.parametrize(
    ("node", "phase", "want"),
    [
        pytest.param("", "Pending", False, id="unbound"),
        pytest.param("n", "Pending", False, id="bound"),
        pytest.param("n", "Running", True, id="running"),
        pytest.param("n", "Succeeded", True, id="over before anybody looked"),
    ],
)
def test_a_pod_has_started_once_its_node_runs_it(node: str, phase: str, want: bool) -> None:
    assert (start_of(KEY, make_pod(node=node, phase=phase), Timestamp(1.0)) is not None) is want


def test_a_failed_pod_says_with_what() -> None:
    ended = {"name": "app", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    pod = with_status(make_pod(node="n", phase="Failed"), containerStatuses=[ended])
    assert end_of(pod, gone=False) == (3, "pod pod-0 failed with 3: Error")


def test_a_pod_that_a_kubelet_refused_has_failed() -> None:
    pod = with_status(make_pod(node="n", phase="Failed"), reason="OutOfcpu", message="Node didn't have enough cpu")
    assert end_of(pod, gone=False) == (1, "pod pod-0 failed with 1: Node didn't have enough cpu")


def test_a_deleted_pod_has_not_failed() -> None:
    assert end_of(make_pod(node="n", phase="Running"), gone=True) == (0, "its pod is gone")
    assert end_of(make_pod(node="n", phase="Running"), gone=False) is None
    assert end_of(make_pod(node="n", phase="Succeeded"), gone=False) == (0, "")
