"""What pod states mean."""

from typing import Any

import msgspec
import pytest

from gangline.data.pod_mover import told
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.watch.pod_events import PodContext, pod_events, refused_by_node
from gangline.kube import Pod
from gangline.lifecycle.events import (
    DownloadStarted,
    GangFailed,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
    TransferReported,
)
from gangline.model import GangId, JobId, ReplicaId, RoleName, Timestamp
from gangline.model.jobs.transfer import DataVersion
from tests.engines.last_words import LAST_WORDS

KEY = ReplicaKey(GangId(JobId("job-1"), 2), ReplicaId(RoleName("worker"), 0), 1)
NOW = Timestamp(2_000_000_000.0)
BEGAN = "2026-01-01T00:00:00Z"
ENDED = "2026-01-01T00:01:00Z"


def make_pod(
    state: dict[str, Any] | None = None,
    *,
    deleted: str | None = None,
    labels: dict[str, str] | None = None,
    init_containers: list[dict[str, Any]] | None = None,
    **status: Any,
) -> Pod:
    containers = [{"name": "main", "state": state}] if state else []
    body = {
        "metadata": {"name": "pod", "labels": labels or {}, **({"deletionTimestamp": deleted} if deleted else {})},
        "spec": {
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "resources": {"limits": {"memory": "64Mi"}}}],
            "initContainers": init_containers or [],
        },
        "status": {"containerStatuses": containers, **status},
    }
    return msgspec.convert(body, Pod, strict=False)


def terminated(code: int, **fields: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "startedAt": BEGAN, "finishedAt": ENDED, **fields}}


RUNNING = {"running": {"startedAt": BEGAN}}
KUBEFLOW = {"training.kubeflow.org/job-name": "job"}
CASES: dict[str, tuple[Pod, dict[str, bool], list[tuple[type, Any]]]] = {
    "waiting to be created": (make_pod({"waiting": {"reason": "ContainerCreating"}}), {}, []),
    "running": (make_pod(RUNNING), {}, [(ReplicaStarted, None)]),
    "exited": (make_pod(terminated(3)), {}, [(ReplicaStarted, None), (ReplicaExited, 3)]),
    "of Kubeflow, ended before its phase says that it began": (
        make_pod(terminated(0), labels=KUBEFLOW, phase="Pending"),
        {},
        [(ReplicaStarted, None)],
    ),
    "of Kubeflow, ended, and its phase has caught up": (
        make_pod(terminated(0), labels=KUBEFLOW, phase="Succeeded"),
        {},
        [(ReplicaStarted, None), (ReplicaExited, 0)],
    ),
    "of Kubeflow, ended before its phase says that it began, and gone": (
        make_pod(terminated(0), labels=KUBEFLOW, phase="Pending"),
        {"gone": True},
        [(ReplicaStarted, None), (ReplicaExited, 0)],
    ),
    "of ours, ended before its phase says that it began": (
        make_pod(terminated(0), phase="Pending"),
        {},
        [(ReplicaStarted, None), (ReplicaExited, 0)],
    ),
    "out of memory": (
        make_pod(terminated(137, reason="OOMKilled")),
        {},
        [(ReplicaStarted, None), (ReplicaExited, "out of memory: it used more than its 64Mi")],
    ),
    "no such command": (
        make_pod(terminated(128, reason="StartError", message="exec: executable file not found in $PATH")),
        {},
        [(ReplicaExited, 127)],
    ),
    "command that may not be run": (
        make_pod(terminated(128, reason="StartError", message="permission denied")),
        {},
        [(ReplicaExited, 126)],
    ),
    "image cannot be pulled": (
        make_pod({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}),
        {},
        [(GangFailed, "ImageUnavailable")],
    ),
    "first failed pull may be an accident": (make_pod({"waiting": {"reason": "ErrImagePull"}}), {}, []),
    "hopeless but on its way out": (
        make_pod({"waiting": {"reason": "ImagePullBackOff"}}),
        {"ordered_away": True},
        [],
    ),
    "init container failed": (
        make_pod(None, phase="Failed", initContainerStatuses=[{"name": "gangline-code", "state": terminated(2)}]),
        {},
        [(GangFailed, "InitContainerFailed")],
    ),
    "a sidecar failed and is started again": (
        make_pod(
            RUNNING,
            init_containers=[{"name": "proxy", "restartPolicy": "Always"}],
            initContainerStatuses=[{"name": "proxy", "state": terminated(1)}],
        ),
        {},
        [(ReplicaStarted, None)],
    ),
    "fetching its inputs": (
        make_pod(None, initContainerStatuses=[{"name": "gangline-inputs", "state": RUNNING}]),
        {},
        [(DownloadStarted, None)],
    ),
    "inputs cannot be fetched": (
        make_pod(
            None,
            phase="Failed",
            initContainerStatuses=[
                {
                    "name": "gangline-inputs",
                    "state": terminated(3, message="Traceback\n\x1b[31ms3://b/x is not there\x1b[0m\n"),
                }
            ],
        ),
        {},
        [(DownloadStarted, None), (GangFailed, "InputsFailed")],
    ),
    "refused by the kubelet": (
        make_pod(None, phase="Failed", reason="OutOfcpu", message="no cpu"),
        {},
        [(ReplicaLost, "node-1 refused it: no cpu")],
    ),
    "evicted": (
        make_pod(terminated(137), phase="Failed", reason="Evicted", message="disk"),
        {},
        [(ReplicaStarted, None), (ReplicaLost, "Evicted on node-1: disk")],
    ),
    "deleted by somebody else while it ran": (
        make_pod(RUNNING, deleted="2026-01-01T00:02:00Z"),
        {},
        [(ReplicaStarted, None), (ReplicaLost, "its pod was deleted by somebody else")],
    ),
    "killed by that deletion": (
        make_pod(terminated(143), deleted="2026-01-01T00:01:30Z"),
        {},
        [(ReplicaStarted, None), (ReplicaLost, "its pod was deleted by somebody else")],
    ),
    "deleted long after it had exited": (
        make_pod(terminated(0), deleted="2026-01-01T01:00:00Z"),
        {},
        [(ReplicaStarted, None), (ReplicaExited, 0)],
    ),
    "stopped as ordered": (
        make_pod(terminated(143), deleted="2026-01-01T00:01:30Z"),
        {"ordered_away": True},
        [(ReplicaStarted, None), (ReplicaExited, 143)],
    ),
    "gone without a word": (
        make_pod(RUNNING),
        {"gone": True},
        [(ReplicaStarted, None), (ReplicaLost, "its pod is gone")],
    ),
    "node lost": (
        make_pod(RUNNING),
        {"node_lost": True},
        [(ReplicaStarted, None), (ReplicaLost, "node node-1 does not answer")],
    ),
    "exited before its node was lost": (
        make_pod(terminated(0)),
        {"node_lost": True},
        [(ReplicaStarted, None), (ReplicaExited, 0)],
    ),
}


@pytest.mark.parametrize(("pod", "around", "want"), CASES.values(), ids=CASES)
def test_pod_state_is_news(pod: Pod, around: dict[str, bool], want: list[tuple[type, Any]]) -> None:
    events = list(pod_events(KEY, pod, PodContext(now=NOW, **around)))
    assert [type(event) for event in events] == [kind for kind, _ in want]
    for event, (_, fact) in zip(events, want, strict=True):
        assert (event.job_id, event.attempt) == ("job-1", 2)
        if fact is not None:
            assert fact in (getattr(event, name, None) for name in ("exit_code", "message", "reason"))


def disrupted(reason: str) -> Pod:
    return make_pod(
        RUNNING,
        deleted="2026-01-01T00:02:00Z",
        conditions=[{"type": "DisruptionTarget", "status": "True", "reason": reason}],
    )


@pytest.mark.parametrize(
    ("pod", "around", "want"),
    [
        pytest.param(CASES["deleted by somebody else while it ran"][0], {}, True, id="deleted by hand"),
        pytest.param(make_pod(RUNNING), {"gone": True}, True, id="gone without a word"),
        pytest.param(disrupted("EvictionByEvictionAPI"), {}, True, id="evicted from a node that is open"),
        pytest.param(disrupted("EvictionByEvictionAPI"), {"node_open": False}, False, id="evicted by a drain"),
        pytest.param(disrupted("PreemptionByScheduler"), {}, False, id="another scheduler wants its place"),
        pytest.param(disrupted("DeletionByTaintManager"), {}, False, id="its node wants nobody"),
        pytest.param(make_pod(RUNNING), {"node_lost": True}, False, id="its node is lost"),
        pytest.param(CASES["refused by the kubelet"][0], {}, False, id="its place is taken"),
        pytest.param(CASES["evicted"][0], {}, False, id="its node is short of something"),
    ],
)
def test_a_lost_replica_may_return_to_a_place_that_is_still_its_own(
    pod: Pod, around: dict[str, bool], want: bool
) -> None:
    events = pod_events(KEY, pod, PodContext(now=NOW, **around))
    assert [event.in_place for event in events if isinstance(event, ReplicaLost)] == [want]


def test_times_are_the_kubelets() -> None:
    started, exited = pod_events(KEY, make_pod(terminated(0)), PodContext(now=NOW))
    assert exited.at - started.at == 60


@pytest.mark.parametrize(
    ("left", "want"),
    [
        pytest.param("Traceback:\n  File x\nValueError: no\n\n", "ValueError: no", id="the last line"),
        pytest.param("1%\r2%\r\x1b[31mred\x07\n", "red", id="nothing that plays with a terminal"),
        pytest.param("x" * 2000, "x" * 500, id="not too much"),
        pytest.param(" \n", "", id="nothing"),
    ],
)
def test_the_message_of_an_exit_is_fit_for_a_table(left: str, want: str) -> None:
    (exited,) = [
        event
        for event in pod_events(KEY, make_pod(terminated(1, message=left)), PodContext(now=NOW))
        if isinstance(event, ReplicaExited)
    ]
    assert exited.message == want


@pytest.mark.parametrize(("left", "want"), LAST_WORDS.values(), ids=LAST_WORDS)
def test_the_reason_is_chosen_from_the_last_words(left: str, want: str) -> None:
    *_, exited = pod_events(KEY, make_pod(terminated(1, message=left)), PodContext(now=NOW))
    assert isinstance(exited, ReplicaExited)
    assert exited.message == want


def test_a_kubelet_whose_clock_is_ahead_tells_no_news_of_the_future() -> None:
    long_ago = Timestamp(1_000_000_000.0)
    assert [event.at for event in pod_events(KEY, make_pod(terminated(0)), PodContext(now=long_ago))] == [long_ago] * 2


def test_a_refusal_is_told_from_a_failure() -> None:
    assert refused_by_node(make_pod(None, phase="Failed", reason="OutOfpods"))
    assert not refused_by_node(make_pod(terminated(1), phase="Failed"))


@pytest.mark.parametrize(("code", "want_permanent"), [(3, True), (1, False)], ids=["for good", "for now"])
def test_a_failed_fetch_repeats_the_movers_last_words_and_whether_for_good(code: int, want_permanent: bool) -> None:
    state = terminated(code, message="Traceback\ns3://b/x is not there\n")
    pod = make_pod(None, initContainerStatuses=[{"name": "gangline-inputs", "state": state}])
    failed = [event for event in pod_events(KEY, pod, PodContext(now=NOW)) if isinstance(event, GangFailed)]
    assert [(event.message, event.permanent) for event in failed] == [
        ("worker-0: s3://b/x is not there", want_permanent)
    ]


def test_what_a_mover_has_fetched_is_news_of_its_pod() -> None:
    report = '{"stage": "inputs", "moved": [{"address": "s3://bucket/set", "digest": "sha256:1"}]}'
    ended = {"name": "gangline-inputs", "state": terminated(0, message=told("", {}, report))}
    events = list(pod_events(KEY, make_pod(initContainerStatuses=[ended]), PodContext(now=NOW)))
    assert [type(event) for event in events] == [DownloadStarted, TransferReported]
    assert isinstance(events[1], TransferReported)
    assert (events[1].storing, events[1].moved) == (False, (DataVersion("s3://bucket/set", "sha256:1"),))


def test_a_start_tells_the_image_by_its_digest() -> None:
    statuses = [
        {"name": "beside", "imageID": "sha256:other"},
        {"name": "main", "imageID": "registry/mnist@sha256:1", "state": RUNNING},
    ]
    (event,) = pod_events(KEY, make_pod(containerStatuses=statuses), PodContext(now=NOW))
    assert isinstance(event, ReplicaStarted)
    assert event.image == "registry/mnist@sha256:1"
