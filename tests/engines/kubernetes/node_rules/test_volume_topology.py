"""Jobs are kept to the nodes of their volumes, as these come, go and change."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from gangline.engines.kubernetes.background_tasks import BackgroundTasks
from gangline.engines.kubernetes.node_rules.volume_topology import VolumeTopology
from gangline.engines.kubernetes.node_rules.volumes import Volumes
from gangline.kube import AlreadyExistsError, ForbiddenError, KubeError, Resource
from gangline.model import Job, NodeRequirement
from gangline.scheduling.demand.gang_affinity import colocations_of
from gangline.testing.builders import make_job, make_role, make_running_job, make_spec
from tests.engines.kubernetes.foreign.builders import NAMESPACE
from tests.engines.kubernetes.node_rules.test_volumes import Storage

WAITING = make_job(labels={"gangline.dev/volume": "data"}, tenant=NAMESPACE)
TEMPLATE = {
    "containers": [{"name": "main", "envFrom": [{"secretRef": {"name": "token"}}]}],
    "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
}
NEEDY = make_job(roles=(make_role(pod_template_json=json.dumps({"spec": TEMPLATE})),), tenant=NAMESPACE)
PLAIN = make_job(job_id="job-2", name="plain")


class Cluster(Storage):
    """A storage that counts what it is asked, and may be away."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.away = False
        self.forbidden = False

    def put(self, plural: str, name: str) -> None:
        self.objects[plural, name] = {"metadata": {"name": name}}

    def reached_from_everywhere(self) -> None:
        self.claim(volumeName="disk", accessModes=["ReadWriteMany"])
        self.volume("disk", None)

    def unbound(self, mode: str) -> None:
        self.claim()
        self.kind("example.com/disks", mode)

    async def create(self, resource: Resource[object], body: dict[str, dict[str, str]], **fields: object) -> None:
        """Refuse what is there already; only ever asked, never done."""
        assert fields == {"namespace": NAMESPACE, "dry_run": True}
        if self.away:
            raise KubeError("away")
        if self.forbidden:
            raise ForbiddenError("a rule of the cluster", status=403)
        if (resource.plural, body["metadata"]["name"]) in self.objects:
            raise AlreadyExistsError("it is there", status=409)

    async def get(self, *arguments: object, **fields: object) -> object:
        self.reads += 1
        if self.away:
            raise KubeError("away")
        return await super().get(*arguments, **fields)


class Subject:
    """A confinement and how often it said that something changed."""

    def __init__(self, cluster: Cluster) -> None:
        self.background = BackgroundTasks()
        self.changed = asyncio.Event()
        self.volume_topology = VolumeTopology(
            cluster,
            Volumes(cluster),
            self.background,
            namespace_of=str,
            changed=self.changed.set,
            again_seconds=0.0,
        )

    async def terms(self, job: Job = WAITING) -> object:
        """What the job's first role is kept to."""
        (found,) = await self.volume_topology.confine([job])
        rule = found.spec.roles[0].placement
        return rule.node_affinity if rule is not None else None

    async def until_changed(self) -> None:
        async with asyncio.timeout(60):
            await self.changed.wait()
        self.changed.clear()


def on(node: str) -> object:
    return ((NodeRequirement(key="host", values=(node,)),),)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.claim(volumeName="disk")
    cluster.volume("disk", "node-1")
    return cluster


@pytest.fixture
async def subject(cluster: Cluster) -> AsyncIterator[Subject]:
    subject = Subject(cluster)
    yield subject
    await subject.background.close()


async def test_a_waiting_job_is_kept_to_the_nodes_of_its_volume_and_others_are_left_alone(subject: Subject) -> None:
    found = await subject.volume_topology.confine([PLAIN, WAITING])
    assert [job.id for job in found] == [PLAIN.id, WAITING.id]
    assert next(iter(found)) is PLAIN
    assert await subject.terms() == on("node-1")


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(lambda cluster: cluster.reached_from_everywhere(), id="the volume is reached from everywhere"),
        pytest.param(lambda cluster: setattr(cluster, "away", True), id="the cluster does not answer"),
    ],
)
async def test_a_job_is_left_alone_when(cluster: Cluster, subject: Subject, prepare: Callable[[Cluster], None]) -> None:
    prepare(cluster)
    assert await subject.terms() is None


@pytest.mark.parametrize(
    ("prepare", "want"),
    [
        pytest.param(lambda cluster: cluster.objects.clear(), "claim 'data' does not exist", id="it does not exist"),
        pytest.param(lambda cluster: cluster.unbound("Immediate"), "claim 'data' has no volume yet", id="no volume"),
        pytest.param(lambda cluster: cluster.unbound("WaitForFirstConsumer"), None, id="but not if it awaits a node"),
    ],
)
async def test_a_job_waits_without_nodes_for_a_claim_with_nothing_behind_it(
    cluster: Cluster, subject: Subject, prepare: Callable[[Cluster], None], want: str | None
) -> None:
    prepare(cluster)
    (found,) = await subject.volume_topology.confine([WAITING])
    assert found.spec.nodes_of(found.spec.roles[0]).barred == ((want,) if want else ())


@pytest.mark.parametrize(
    ("prepare", "want"),
    [
        pytest.param(
            lambda _: None,
            ("ConfigMap 'settings' does not exist", "Secret 'token' does not exist"),
            id="neither is there",
        ),
        pytest.param(
            lambda cluster: cluster.put("secrets", "token"), ("ConfigMap 'settings' does not exist",), id="one"
        ),
        pytest.param(lambda cluster: setattr(cluster, "forbidden", True), (), id="but not if nobody may ask"),
        pytest.param(lambda cluster: setattr(cluster, "away", True), (), id="nor if the cluster does not answer"),
    ],
)
async def test_a_job_waits_without_nodes_for_objects_its_template_names(
    cluster: Cluster, subject: Subject, prepare: Callable[[Cluster], None], want: tuple[str, ...]
) -> None:
    prepare(cluster)
    (found,) = await subject.volume_topology.confine([NEEDY])
    assert found.spec.nodes_of(found.spec.roles[0]).barred == want


async def test_an_object_that_comes_is_noticed(cluster: Cluster, subject: Subject) -> None:
    cluster.put("secrets", "token")
    await subject.volume_topology.confine([NEEDY])
    cluster.put("configmaps", "settings")
    await subject.until_changed()
    (found,) = await subject.volume_topology.confine([NEEDY])
    assert found is NEEDY


async def test_a_claim_that_comes_is_noticed(cluster: Cluster, subject: Subject) -> None:
    cluster.objects.clear()
    await subject.terms()
    cluster.claim(volumeName="disk")
    cluster.volume("disk", "node-1")
    await subject.until_changed()
    assert await subject.terms() == on("node-1")


@pytest.mark.parametrize(
    ("modes", "want_together", "want_barred"),
    [
        pytest.param(["ReadWriteOnce"], True, (), id="one node at a time"),
        pytest.param(["ReadWriteOnce", "ReadWriteMany"], False, (), id="any number of nodes"),
        pytest.param(["ReadOnlyMany"], False, (), id="any number of readers"),
        pytest.param(
            ["ReadWriteOncePod"],
            False,
            ("claim 'data' is ReadWriteOncePod and 2 replicas use it",),
            id="one pod at a time",
        ),
    ],
)
async def test_replicas_share_a_claim_as_its_access_mode_allows(
    cluster: Cluster, subject: Subject, modes: list[str], *, want_together: bool, want_barred: tuple[str, ...]
) -> None:
    cluster.claim(volumeName="disk", accessModes=modes)
    shared = replace(WAITING, spec=replace(WAITING.spec, roles=(make_role(replicas=2),)))
    (found,) = await subject.volume_topology.confine([shared])
    assert bool(colocations_of(found.spec)) is want_together
    assert found.spec.nodes_of(found.spec.roles[0]).barred == want_barred


async def test_a_claim_of_a_single_replica_binds_nobody(cluster: Cluster, subject: Subject) -> None:
    cluster.claim(volumeName="disk", accessModes=["ReadWriteOncePod"])
    single = replace(WAITING, spec=replace(WAITING.spec, roles=(make_role(replicas=1),)))
    (found,) = await subject.volume_topology.confine([single])
    assert colocations_of(found.spec) == ()
    assert found.spec.nodes_of(found.spec.roles[0]).barred == ()


async def test_jobs_that_run_ask_nothing(cluster: Cluster, subject: Subject) -> None:
    running = make_running_job(WAITING.spec)
    assert await subject.volume_topology.confine([PLAIN, running]) == [PLAIN, running]
    assert cluster.reads == 0


async def test_a_running_job_that_may_grow_is_kept_too(subject: Subject) -> None:
    spec = make_spec(roles=(make_role(maximum=4),), labels=WAITING.spec.labels, tenant=NAMESPACE)
    assert await subject.terms(make_running_job(spec)) == on("node-1")


async def test_a_volume_that_changes_is_noticed(cluster: Cluster, subject: Subject) -> None:
    await subject.terms()
    cluster.volume("disk", "node-0")
    await subject.until_changed()
    assert await subject.terms() == on("node-0")


async def test_nobody_looks_any_more_when_nobody_waits(cluster: Cluster, subject: Subject) -> None:
    await subject.terms()
    await subject.until_changed()  # it forgets what it knows now and then, so that whoever waits asks again
    async with asyncio.timeout(60):
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "claims of waiting jobs"))
    reads = cluster.reads
    assert await subject.terms(replace(WAITING, spec=PLAIN.spec)) is None
    assert cluster.reads == reads


async def test_a_claim_for_which_no_volume_lies_ready_keeps_its_job_from_every_node(
    cluster: Cluster, subject: Subject
) -> None:
    cluster.objects.clear()
    cluster.claim()
    cluster.kind()
    (job,) = await subject.volume_topology.confine([WAITING])
    placement = job.spec.roles[0].placement
    assert placement is not None
    assert placement.barred == ("no node reaches a volume for claim 'data'",)
