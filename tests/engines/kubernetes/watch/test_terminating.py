"""Which pods still take a place that the record no longer counts. No cluster needed."""

from dataclasses import replace

import pytest

from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.engines.kubernetes.watch.terminating import Terminating, uncounted
from gangline.kube import Metadata, Pod
from gangline.kube.objects import PodSpec, PodStatus
from gangline.model import GangId, Job, NodeName, Phase, PhaseEntry, ReplicaId, ReplicaState, ReplicaStatus, RoleName
from gangline.testing.builders import START, make_job, make_role

WORKER = ReplicaId(RoleName("worker"), 0)


def record(state: ReplicaState | None = ReplicaState.RUNNING, incarnation: int = 0) -> Job:
    """A job that runs, with its only replica in a state; None: the record has it no longer."""
    job = make_job(roles=(make_role(replicas=1),))
    history = (*job.history, PhaseEntry(phase=Phase.PROCESSING, at=START, reason="Started"))
    status = ReplicaStatus(id=WORKER, node=NodeName("n0"), state=state or ReplicaState.LOST, incarnation=incarnation)
    return replace(job, history=history, attempt=1, holding=True, replicas=(status,) if state is not None else ())


def pod(phase: str = "Running", role: str = "worker") -> tuple[ReplicaKey, Pod]:
    key = ReplicaKey(GangId(record().id, 1), ReplicaId(RoleName(role), 0), 0)
    return key, Pod(metadata=Metadata(name="p"), spec=PodSpec(node_name="n0"), status=PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("job", "present", "want"),
    [
        pytest.param(record(), pod(), 0, id="a replica that runs is counted by its record"),
        pytest.param(record(ReplicaState.PENDING), pod("Pending"), 0, id="and so is one that starts"),
        pytest.param(record(ReplicaState.SUCCEEDED), pod(), 1, id="a program that ended leaves its pod for a moment"),
        pytest.param(record(ReplicaState.FAILED), pod(), 1, id="however it ended"),
        pytest.param(record(ReplicaState.LOST), pod(), 1, id="a lost replica's pod may still be going"),
        pytest.param(record(None), pod(), 1, id="a replica that was let go takes its place until it is gone"),
        pytest.param(record(incarnation=1), pod(), 1, id="a replica's earlier pod is not its present one"),
        pytest.param(record(ReplicaState.SUCCEEDED), pod("Succeeded"), 0, id="a pod in its final phase takes nothing"),
        pytest.param(record(ReplicaState.FAILED), pod("Failed"), 0, id="whichever that is"),
        pytest.param(record(), pod(role="ghost"), 0, id="of a role that is no more nobody knows the size"),
    ],
)
def test_a_place_is_taken_until_the_pod_is_final(job: Job, present: tuple[ReplicaKey, Pod], want: int) -> None:
    found = uncounted(job, dict([present]))
    assert len(found) == want
    assert all((status.id, status.node) == (WORKER, "n0") for status in found)


class Watched:
    """A view with one gang of one pod."""

    def __init__(self) -> None:
        self.changes = 0
        self.view = ClusterView(
            controller="c",
            changed_pod=lambda *_: None,
            changed_nodes=self.changed,
            lost_node=lambda _: None,
            ownerless=True,
        )

    def changed(self) -> None:
        self.changes += 1

    def show(self, phase: str) -> Pod:
        key, shown = pod(phase)
        shown = Pod(
            metadata=Metadata(name="p", uid="u", labels=labels(key)),
            spec=PodSpec(node_name="n0"),
            status=PodStatus(phase=phase),
        )
        self.view.apply_pod(shown)
        return shown


def labels(key: ReplicaKey) -> dict[str, str]:
    from gangline.engines.kubernetes import names

    return {
        **names.gang_labels("c", key.gang_id),
        names.PART: names.Part.REPLICA,
        names.ROLE: key.replica.role,
        names.INDEX: str(key.replica.index),
        names.INCARNATION: str(key.incarnation),
    }


def test_what_is_terminating_is_found_anew_only_when_something_changed() -> None:
    watched, job = Watched(), record(ReplicaState.SUCCEEDED)
    finder = Terminating(watched.view)
    watched.show("Running")
    (first,) = finder.of([job])
    assert first.holding
    assert finder.of([job]) == [first]
    assert finder.of([job])[0] is first
    watched.show("Succeeded")
    assert finder.of([job]) == []


def test_the_scheduler_is_told_when_a_place_becomes_free() -> None:
    watched = Watched()
    watched.show("Running")
    assert watched.changes == 0
    last = watched.show("Succeeded")
    assert watched.changes == 1
    watched.view.drop_pod(last)
    assert watched.changes == 1
    watched.view.drop_pod(watched.show("Running"))
    assert watched.changes == 2
