"""Pods of others on a real cluster: Deployments, batch Jobs and PodGroups that name our scheduler."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gangline.engines.kubernetes.foreign.groups import GROUP_RESOURCES, PLUGINS_GROUP, VOLCANO_GROUP, GroupKind
from gangline.engines.kubernetes.orders.refused_places import WHOLE_SECONDS
from gangline.kube import PODS
from gangline.lifecycle.events import GangPlaced
from gangline.model import Job, NodeName, Phase, ReplicaId, Resources
from gangline.storage.kubernetes import JOBS
from tests.integration.kubernetes.foreign import (
    BATCH_JOBS,
    DEPLOYMENTS,
    ForeignWorld,
    define,
    foreign_world,
    group_definition,
)
from tests.integration.kubernetes.world import SERVE, eventually, shell
from tools.cluster.pytest_plugin import ClusterUnderTest


@pytest.fixture
async def world(kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str) -> AsyncIterator[ForeignWorld]:
    async with foreign_world(kubernetes_cluster, kubernetes_namespace) as world:
        yield world


def one_seat(world: ForeignWorld) -> Resources:
    return Resources(cpu_millis=10, memory_mib=16, extended={world.seat: 1})


async def make_group(world: ForeignWorld, kind: GroupKind, least: int, **spec: Any) -> None:
    resource = GROUP_RESOURCES[kind]
    has_status = kind is not GroupKind.VOLCANO  # whose own definition has none
    await define(world.client, group_definition(resource.group, resource.version, status=has_status), resource)
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "team"},
        "spec": {"minMember": least, **spec},
    }
    await world.client.create(resource, body, namespace=world.namespace)


async def join(world: ForeignWorld, kind: GroupKind, name: str, **fields: Any) -> None:
    mark = (
        {"annotations": {VOLCANO_GROUP: "team"}} if kind is GroupKind.VOLCANO else {"labels": {PLUGINS_GROUP: "team"}}
    )
    await world.make_pod(name, seats=1, **mark, **fields)


async def group_phase(world: ForeignWorld, kind: GroupKind, phase: str) -> None:
    async def reached() -> bool:
        found = await world.client.get(GROUP_RESOURCES[kind], "team", namespace=world.namespace)
        return found.status.get("phase") == phase

    await eventually(reached)


async def test_pods_that_ask_for_nothing_are_spread_over_the_nodes(world: ForeignWorld) -> None:
    open_nodes = {node.name for node in await world.engine.nodes() if node.ready and not node.taints}
    gang = await world.submit(shell(SERVE, resources=Resources(), replicas=len(open_nodes)), name="gang")
    job = await world.phase(gang, Phase.PROCESSING)
    assert {replica.node for replica in job.replicas} == open_nodes
    labels = {"app": "idle"}
    pod = world.pod_spec()
    del pod["containers"][0]["resources"]
    spec = {
        "replicas": 9,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    await world.client.create(DEPLOYMENTS, {"metadata": {"name": "idle"}, "spec": spec}, namespace=world.namespace)
    bound = await world.until_bound(9 + len(open_nodes))
    nodes = Counter(node for name, node in bound.items() if name.startswith("idle-"))
    assert nodes.keys() == open_nodes, nodes


async def test_the_next_pod_of_an_owner_is_bound_where_its_last_was_refused(world: ForeignWorld) -> None:
    """The first is bound by hand where another still runs: as if the kubelet took longer than the API server shows."""
    (node,) = await world.offer_seats(1)
    await world.make_pod("before", seats=1, restartPolicy="Never")

    async def is_full() -> bool:
        return (await world.pod("before")).status.phase == "Running"

    await eventually(is_full)
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": world.pod_spec(seats=1)}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await world.client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, namespace=world.namespace)
    waiting: list[Job] = []

    async def waits() -> bool:
        waiting[:] = [job for job in await world.pod_jobs() if job.phase is Phase.QUEUED]
        return bool(waiting)

    await eventually(waits)
    placement = {ReplicaId(role.name, 0): NodeName(node) for role in waiting[0].spec.roles}
    world.controller.hear(GangPlaced(job_id=waiting[0].id, at=world.clock.now(), placement=placement))

    async def is_refused() -> bool:
        return any(pod.status.reason.startswith("OutOf") for pod in await world.pods())

    await eventually(is_refused)
    await world.client.delete(PODS, "before", namespace=world.namespace)

    async def runs() -> bool:
        pods = [pod for pod in await world.pods() if pod.metadata.labels.get("app") == "web"]
        return any(pod.status.phase == "Running" for pod in pods)

    await eventually(runs, seconds=WHOLE_SECONDS - 10)


async def test_a_deployment_is_bound_and_scales(world: ForeignWorld) -> None:
    labels = {"app": "web"}
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": world.pod_spec()},
        },
    }
    await world.client.create(DEPLOYMENTS, body, namespace=world.namespace)
    first = await world.until_bound(2)
    pod = next(iter(first))
    assert first[pod] in await world.until_told(pod, "Scheduled", f"Successfully assigned {world.namespace}/{pod}")
    await world.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 3}}, namespace=world.namespace)
    await world.until_bound(3)
    await world.client.delete(PODS, pod, namespace=world.namespace)

    async def replaced() -> bool:
        bound = await world.bound()
        return len(bound) == 3 and pod not in bound

    await eventually(replaced)

    async def one_job_each() -> bool:
        return [job.phase for job in await world.pod_jobs()] == [Phase.PROCESSING] * 3

    await eventually(one_job_each)
    assert await world.records() == []


async def test_a_batch_job_completes_and_keeps_its_pods(world: ForeignWorld) -> None:
    spec = world.pod_spec("echo done", restartPolicy="Never")
    body = {"metadata": {"name": "sum"}, "spec": {"completions": 2, "parallelism": 2, "template": {"spec": spec}}}
    await world.client.create(BATCH_JOBS, body, namespace=world.namespace)

    async def complete() -> bool:
        found = await world.client.get(BATCH_JOBS, "sum", namespace=world.namespace)
        return found.status.get("succeeded") == 2 and not await world.pod_jobs()

    await eventually(complete)
    assert [pod.status.phase for pod in await world.pods()] == ["Succeeded", "Succeeded"]


async def test_a_failed_pod_fails_alone_and_frees_its_place(world: ForeignWorld) -> None:
    await world.make_pod("good")
    await world.make_pod("bad", script="exit 3", restartPolicy="Never")

    async def told() -> bool:
        phases = {pod.metadata.name: pod.status.phase for pod in await world.pods()}
        jobs = [(job.name.rsplit("-", 1)[0], job.phase) for job in await world.pod_jobs()]
        return phases == {"good": "Running", "bad": "Failed"} and jobs == [("good", Phase.PROCESSING)]

    await eventually(told)
    assert {pod.metadata.name for pod in await world.pods()} == {"good", "bad"}


@pytest.mark.parametrize(
    ("kind", "waiting"),
    [
        pytest.param(GroupKind.VOLCANO, "Inqueue", id="volcano"),
        pytest.param(GroupKind.PLUGINS, "Scheduling", id="scheduler-plugins"),
    ],
)
async def test_a_group_of_three_is_bound_whole_or_not_at_all(
    world: ForeignWorld, kind: GroupKind, waiting: str
) -> None:
    await world.offer_seats(1, 1)
    await join(world, kind, "early")
    await world.until_told("early", "FailedScheduling", "There is no PodGroup 'team'")
    await make_group(world, kind, 3)
    await world.until_told("early", "FailedScheduling", "1 of the 3 pods that PodGroup 'team' needs exist")
    for name in ("second", "third"):
        await join(world, kind, name)
    await world.until_told("third", "FailedScheduling", "2 of 3 'pods' replicas would")
    await group_phase(world, kind, waiting)
    assert await world.bound() == {}
    conditions = (await world.pod("third")).status.conditions
    assert [(each.type, each.status, each.reason) for each in conditions] == [
        ("PodScheduled", "False", "Unschedulable")
    ]
    await world.offer_seats(2, 1)
    await world.until_bound(3)
    await group_phase(world, kind, "Running")
    status = (await world.client.get(GROUP_RESOURCES[kind], "team", namespace=world.namespace)).status
    assert {name: status.get(name) or 0 for name in ("running", "succeeded", "failed")} == {
        "running": 3,
        "succeeded": 0,
        "failed": 0,
    }
    record = await world.client.get(JOBS, "team", namespace=world.namespace)
    assert record.metadata.owner_references[0].name == "team"


async def test_a_native_group_is_bound_whole_or_not_at_all(world: ForeignWorld) -> None:
    resource = GROUP_RESOURCES[GroupKind.NATIVE]
    if f'"{resource.api_version}"'.encode() not in await world.client.raw("/apis"):
        pytest.skip(f"this cluster does not serve {resource.api_version}, an alpha of Kubernetes 1.36")
    await world.offer_seats(1, 1)
    body = {"metadata": {"name": "team"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    await world.client.create(resource, body, namespace=world.namespace)
    for name in ("one", "two", "three"):
        await world.make_pod(name, seats=1, schedulingGroup={"podGroupName": "team"})
    await world.until_told("three", "FailedScheduling", "2 of 3 'pods' replicas would")
    assert await world.bound() == {}
    await world.offer_seats(2, 1)
    await world.until_bound(3)

    async def said() -> bool:
        found = await world.client.get(resource, "team", namespace=world.namespace)
        conditions = found.status.get("conditions") or ()
        return [(each["type"], each["status"]) for each in conditions] == [("PodGroupScheduled", "True")]

    await eventually(said)


async def test_pods_beyond_the_minimum_compete_on_their_own(world: ForeignWorld) -> None:
    await world.offer_seats(3)
    await make_group(world, GroupKind.VOLCANO, 2)
    for name in ("one", "two", "three", "four"):
        await join(world, GroupKind.VOLCANO, name)
    await world.until_bound(3)
    late = ({"one", "two", "three", "four"} - (await world.bound()).keys()).pop()
    await world.until_told(late, "FailedScheduling", "Not enough is free")
    await world.offer_seats(4)
    await world.until_bound(4)


async def test_foreign_pods_and_our_own_jobs_share_the_same_room(world: ForeignWorld) -> None:
    await world.offer_seats(2, 2)
    await asyncio.gather(
        *(world.make_pod(f"theirs-{number}", seats=1) for number in range(3)),
        *(world.submit(shell(SERVE, resources=one_seat(world)), name=f"ours-{number}") for number in range(3)),
    )
    bound = await world.until_bound(4)
    assert sorted(Counter(bound.values()).values()) == [2, 2]
    pods = await world.pods()
    assert all(pod.status.phase in ("Pending", "Running") for pod in pods)
    for pod in pods:
        if not pod.spec.node_name:
            await world.until_told(pod.metadata.name, "FailedScheduling", "Not enough is free")


async def test_a_killed_controller_leaves_no_group_half_bound(world: ForeignWorld) -> None:
    await world.offer_seats(4)
    await make_group(world, GroupKind.VOLCANO, 4)
    calls = 0
    bind = world.client.bind

    async def bind_and_die(*arguments: Any, **fields: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            await asyncio.Event().wait()  # the controller never gets to the rest
        await bind(*arguments, **fields)

    world.client.bind = bind_and_die
    for number in range(4):
        await join(world, GroupKind.VOLCANO, f"member-{number}")
    before = await world.until_bound(2)
    await world.kill()
    world.client.bind = bind
    uids = {pod.metadata.name: pod.metadata.uid for pod in await world.pods()}
    await world.restart()
    after = await world.until_bound(4)
    assert before.items() <= after.items()
    assert {pod.metadata.name: pod.metadata.uid for pod in await world.pods()} == uids
    assert len(await world.records()) == 1


async def test_higher_priority_evicts_a_foreign_pod_and_its_record_goes_with_it(world: ForeignWorld) -> None:
    await world.offer_seats(1)
    await world.make_pod("low", seats=1, script="trap 'exit 0' TERM; sleep 1000 & wait")
    await world.until_bound(1)
    ours = await world.submit(shell(SERVE, resources=one_seat(world)), name="urgent", priority=100)
    await world.phase(ours, Phase.PROCESSING)

    async def gone() -> bool:
        pods = [pod.metadata.name for pod in await world.pods()]
        return "low" not in pods and len(await world.records()) == 1

    await eventually(gone)


async def test_a_pod_that_an_earlier_life_bound_keeps_its_place_and_may_be_evicted(world: ForeignWorld) -> None:
    (node,) = await world.offer_seats(1)
    await world.make_pod("low", seats=1, script="trap 'exit 0' TERM; sleep 1000 & wait")
    await world.until_bound(1)
    await world.restart()

    async def known_again() -> bool:
        return [job.phase for job in await world.pod_jobs()] == [Phase.PROCESSING]

    await eventually(known_again)
    assert (await world.bound(), await world.records()) == ({"low": node}, [])
    counted = {each.name: each.foreign.amounts().get(world.seat, 0) for each in await world.engine.nodes()}
    assert counted[node] == 0, "it is ours to count, and not also somebody else's"
    ours = await world.submit(shell(SERVE, resources=one_seat(world)), name="urgent", priority=100)
    await world.phase(ours, Phase.PROCESSING)

    async def gone() -> bool:
        return not await world.pod_jobs() and "low" not in [pod.metadata.name for pod in await world.pods()]

    await eventually(gone)


async def test_gates_are_respected(world: ForeignWorld) -> None:
    await world.make_pod("gated", schedulingGates=[{"name": "example.com/later"}])
    await world.make_pod("free")
    assert (await world.until_bound(1)).keys() == {"free"}
    await world.client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, namespace=world.namespace)
    await world.until_bound(2)


async def test_affinity_ports_and_kind_decide_the_node(world: ForeignWorld) -> None:
    nodes = [node.name for node in await world.engine.nodes()]
    expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": nodes[1:]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    await world.make_pod("picky", affinity=affinity)
    assert await world.until_bound(1) == {"picky": nodes[0]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(len(nodes) + 1):
        await world.make_pod(f"db-{number}", labels={"app": "db"}, affinity=apart)
    bound = await world.until_bound(1 + len(nodes))
    assert sorted(node for name, node in bound.items() if name != "picky") == nodes
    left = next(pod.metadata.name for pod in await world.pods() if not pod.spec.node_name)
    await world.until_told(left, "FailedScheduling", "a replica with app=db runs there")


async def test_what_cannot_be_kept_is_refused_in_words(world: ForeignWorld) -> None:
    chosen = {"namespaceSelector": {"matchLabels": {"team": "a"}}, "labelSelector": {"matchLabels": {"app": "db"}}}
    term = {"topologyKey": "kubernetes.io/hostname", **chosen}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await world.make_pod("strange", labels={"app": "db"}, affinity=apart)
    await world.until_told("strange", "FailedScheduling", "namespaceSelector may ask for the label")
    assert await world.bound() == {}
