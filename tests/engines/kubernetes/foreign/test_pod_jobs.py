"""Single pods as jobs in memory: made from the pod alone, and forgotten with it."""

from collections.abc import Callable

import pytest

from gangline.engines.kubernetes.foreign.pod_jobs import pod_to_job
from gangline.engines.kubernetes.foreign.pod_requests import pod_request_of
from gangline.engines.kubernetes.foreign.record_store import RecordStore
from gangline.engines.kubernetes.foreign.records import Member, Recorded, members_of
from gangline.engines.kubernetes.names import is_foreign, is_pod_job
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod
from gangline.lifecycle import Event, advance, check_invariants
from gangline.lifecycle.events import GangPlaced, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import Job, JobId, NodeName, Phase, ReplicaId
from gangline.scheduling import Explanation
from gangline.testing.builders import START
from tests.engines.kubernetes.foreign.builders import NAMESPACE, make_pod


def job_of(pod: WatchedPod) -> Job:
    member = Member(pod=pod, request=pod_request_of(pod))
    return pod_to_job(member, None, tenant=NAMESPACE, priority=None, now=START)[0]


def test_a_pod_reads_as_a_job_of_one_replica() -> None:
    job = job_of(make_pod("web.0", requests={"cpu": "250m", "memory": "64Mi"}, priority=1000))
    spec = job.spec
    assert is_foreign(spec)
    assert is_pod_job(job.id)
    assert (spec.origin, spec.queue, spec.priority, job.phase) == ("v1 Pod", "default", 75, Phase.QUEUED)
    assert [(role.name, role.replicas, role.resources.cpu_millis) for role in spec.roles] == [("pods", 1, 250)]
    assert {str(replica): pod.name for replica, pod in members_of(spec).items()} == {"pods-0": "web.0"}
    assert spec.name.startswith("web-0-")


def test_a_pod_that_has_its_node_reads_as_a_job_that_was_given_it() -> None:
    job = job_of(make_pod(node="node-3", phase="Running"))
    check_invariants(job)
    assert (job.phase, job.holding) == (Phase.STARTING, True)
    assert [str(status.node) for status in job.replicas] == ["node-3"]


def test_the_same_pod_is_the_same_job_in_every_life() -> None:
    assert job_of(make_pod("a")) == job_of(make_pod("a"))
    assert job_of(make_pod("a")).id != job_of(make_pod("b")).id


class Memory:
    """Where the controller would find them, and the controller that is told."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.told: list[JobId] = []
        self.save: Callable[[Job], None] = lambda _: None

    def follow_pods(self, changed: Callable[[Job], None]) -> None:
        self.save = changed

    def keep_pod(self, job: Job) -> None:
        self.jobs[job.id] = job

    def drop_pod(self, job_id: JobId) -> None:
        self.jobs.pop(job_id, None)

    def changed(self, job_id: JobId) -> None:
        self.told.append(job_id)

    def explanation(self, job_id: JobId) -> Explanation | None:
        raise AssertionError(job_id)


class Book:
    """A book with one pod in it."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.changes: list[Recorded] = []
        self.records = RecordStore(None, namespace=None, changed=self.changes.append)
        self.records.open(self.memory, self.memory)
        pod = make_pod("a")
        member = Member(pod=pod, request=pod_request_of(pod))
        self.job, manifest = pod_to_job(member, None, tenant=NAMESPACE, priority=None, now=START)
        self.record = self.records.keep(self.job, manifest, NAMESPACE)

    def live(self, *events: Event) -> Phase:
        """Let the controller bring the job through these events."""
        for event in events:
            self.job = advance(self.job, event).job
            self.memory.save(self.job)
        return self.job.phase

    def run_and_exit(self, exit_code: int) -> Phase:
        """Let the pod live and end."""
        job_id, replica = self.job.id, ReplicaId(self.job.spec.roles[0].name, 0)
        return self.live(
            GangPlaced(job_id=job_id, at=START, placement={replica: NodeName("node-0")}),
            ReplicaStarted(job_id=job_id, at=START, attempt=1, replica=replica),
            ReplicaExited(job_id=job_id, at=START, attempt=1, replica=replica, exit_code=exit_code),
            GangStopped(job_id=job_id, at=START, attempt=1),
        )


@pytest.fixture
def book() -> Book:
    return Book()


def test_a_recorded_pod_is_told_to_the_controller_and_waits(book: Book) -> None:
    assert (list(book.memory.jobs), book.memory.told) == ([book.job.id], [book.job.id])
    assert list(book.records.unsettled()) == [book.record]
    assert set(book.records.pods_in(NAMESPACE)) == {"uid-a"}


async def test_a_removed_one_is_forgotten_everywhere(book: Book) -> None:
    await book.records.remove(book.record)
    assert book.memory.jobs == {}
    assert book.memory.told == [book.job.id] * 2
    assert not book.records.pods_in(NAMESPACE)
    assert book.changes == [book.record]


def test_a_pod_that_has_ended_needs_no_job(book: Book) -> None:
    assert book.run_and_exit(0) is Phase.COMPLETED
    assert book.memory.jobs == {}
    assert not book.records.pods_in(NAMESPACE)
    # The last is said twice: when it is reached, and when the record goes.
    assert [record.phase for record in book.changes] == [Phase.STARTING, Phase.PROCESSING, *[Phase.COMPLETED] * 2]


def test_a_failure_stands_until_somebody_has_looked_at_it(book: Book) -> None:
    assert book.run_and_exit(3) is Phase.FAILED
    assert [record.phase for record in book.records.unsettled()] == [Phase.FAILED]
