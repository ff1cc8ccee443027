"""Pods that want others near them or away from them, on a real cluster: jobs of ours, Kubeflow's and pods of others."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gangline.engines.kubernetes.node_rules.affinity import HOSTNAME, PREFERRED, REQUIRED
from gangline.kube import NODES, PODS
from gangline.model import Job, JobId, Phase, ReplicaId
from tests.integration.kubernetes.foreign import ForeignWorld, foreign_world
from tests.integration.kubernetes.kubeflow import Play, replica
from tests.integration.kubernetes.world import OBEDIENT, SERVE, World, eventually, shell
from tools.cluster import BUSYBOX
from tools.cluster.pytest_plugin import ClusterUnderTest


@pytest.fixture
async def world(kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str) -> AsyncIterator[ForeignWorld]:
    async with foreign_world(kubernetes_cluster, kubernetes_namespace) as world:
        yield world


def towards(app: str, kind: str, key: str = HOSTNAME) -> dict[str, Any]:
    """A required affinity to pods of an app, or against them."""
    return {kind: {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}


def template(app: str, **spec: Any) -> str:
    return json.dumps({"metadata": {"labels": {"app": app}}, "spec": spec})


async def usable(world: World) -> list[str]:
    """The nodes that anybody may use."""
    return [node.name for node in await world.engine.nodes() if node.ready and not node.taints]


async def outsider(world: World, name: str, node: str, app: str, **spec: Any) -> None:
    """Run a pod that Gangline has nothing to do with, and wait until it has seen it."""
    container = {"name": "app", "image": BUSYBOX, "command": ["sh", "-c", OBEDIENT]}
    body = {
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }
    made = await world.client.create(PODS, body, namespace=world.namespace)

    async def seen() -> bool:
        return (world.namespace, made.metadata.name) in world.engine.view.unmanaged_pods

    await eventually(seen)


async def placed(world: World, job_id: JobId) -> Job:
    return await world.phase(job_id, Phase.PROCESSING)


def where(job: Job) -> dict[ReplicaId, str | None]:
    return {status.id: status.node for status in job.replicas}


async def until_told(world: World, job_id: JobId, words: str) -> None:
    """Wait until the scheduler says why a job waits."""

    async def told() -> bool:
        why = world.controller.explanation(job_id)
        return why is not None and words in " ".join(why.words())

    await eventually(told)


async def test_replicas_that_bear_none_of_their_kind_lie_on_different_nodes(world: ForeignWorld) -> None:
    nodes = await usable(world)
    alone = template("db", affinity=towards("db", "podAntiAffinity"))
    job = await placed(world, await world.submit(shell(SERVE, replicas=len(nodes), pod_template_json=alone)))
    assert sorted(map(str, where(job).values())) == sorted(nodes)
    # Nor is there room for another job's replica of that kind.
    second = await world.submit(shell(SERVE, pod_template_json=alone), name="second")
    await until_told(world, second, "a replica with app=db runs there")
    too_many = await world.submit(shell(SERVE, replicas=len(nodes) + 1, pod_template_json=alone), name="too-many")
    await until_told(world, too_many, "No two 'worker' replicas may share a node")


async def test_replicas_go_where_a_pod_of_others_is_or_keep_away_from_it(world: ForeignWorld) -> None:
    nodes = await usable(world)
    waits = await world.submit(
        shell(SERVE, replicas=2, pod_template_json=template("web", affinity=towards("cache", "podAffinity"))),
        name="near",
    )
    await until_told(world, waits, "no replica with app=cache runs there")
    await outsider(world, "cache", nodes[-1], "cache")
    assert set(where(await placed(world, waits)).values()) == {nodes[-1]}
    away = template("web", affinity=towards("cache", "podAntiAffinity"))
    job = await placed(world, await world.submit(shell(SERVE, replicas=4, pod_template_json=away), name="away"))
    assert nodes[-1] not in where(job).values()


async def test_a_pod_of_others_keeps_replicas_away(world: ForeignWorld) -> None:
    nodes = await usable(world)
    for node in nodes[:-1]:
        await outsider(world, f"hostile-{node}", node, "db", affinity=towards("web", "podAntiAffinity"))
    job = await placed(world, await world.submit(shell(SERVE, replicas=2, pod_template_json=template("web"))))
    assert set(where(job).values()) == {nodes[-1]}


async def test_replicas_lie_together_and_evenly_by_a_label_of_the_nodes(world: ForeignWorld) -> None:
    nodes = await usable(world)
    row = f"{world.namespace}.example.com/row"
    for number, node in enumerate(nodes):
        await world.client.patch(NODES, node, {"metadata": {"labels": {row: "last" if number == 2 else "first"}}})

    async def labelled() -> bool:
        return sum(row in node.labels for node in await world.engine.nodes()) == len(nodes)

    await eventually(labelled)
    selector = {"labelSelector": {"matchLabels": {"app": "even"}}}
    spread = [{"maxSkew": 1, "topologyKey": row, "whenUnsatisfiable": "DoNotSchedule", **selector}]
    topology_spread = shell(SERVE, replicas=4, pod_template_json=template("even", topologySpreadConstraints=spread))
    job = await placed(world, await world.submit(topology_spread, name="even"))
    assert Counter(node == nodes[2] for node in where(job).values()) == {True: 2, False: 2}
    both = towards("team", "podAffinity", row) | towards("team", "podAntiAffinity")
    team = shell(SERVE, replicas=2, pod_template_json=template("team", affinity=both))
    job = await placed(world, await world.submit(team, name="team"))
    assert set(where(job).values()) == set(nodes[:2])
    for node in nodes:
        await world.client.patch(NODES, node, {"metadata": {"labels": {row: None}}})


async def test_a_template_names_and_prefers_nodes(world: ForeignWorld) -> None:
    nodes = await usable(world)
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": nodes[-1:]}]}
    liking = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": term}]}}
    job = await placed(world, await world.submit(shell(SERVE, pod_template_json=template("a", affinity=liking))))
    assert set(where(job).values()) == {nodes[-1]}
    named = template("a", nodeSelector={HOSTNAME: nodes[1]})
    job = await placed(world, await world.submit(shell(SERVE, pod_template_json=named), name="named"))
    assert set(where(job).values()) == {nodes[1]}


async def test_what_a_template_says_and_nobody_understands_is_told(world: ForeignWorld) -> None:
    term = {"topologyKey": HOSTNAME, "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    strange = template("a", affinity={"podAntiAffinity": {REQUIRED: [term]}})
    job_id = await world.submit(shell(SERVE, pod_template_json=strange))
    await until_told(world, job_id, "a namespaceSelector may ask for the label kubernetes.io/metadata.name alone")


async def test_the_workers_of_a_kubeflow_job_keep_away_from_its_chief(kubeflow: World) -> None:
    term = {
        "topologyKey": HOSTNAME,
        "labelSelector": {"matchLabels": {"training.kubeflow.org/job-name": "apart"}},
    }
    alone = {"podAntiAffinity": {REQUIRED: [term]}}
    replicas = {"Chief": replica("TFJob"), "Worker": replica("TFJob", 2, affinity=alone)}
    play = await Play.begin(kubeflow, "TFJob", "apart", replicas)
    await play.condition("Running")
    nodes = [pod.spec.node_name for pod in (await play.pods()).values()]
    assert len(set(nodes)) == len(nodes) == 3


async def test_pods_of_others_find_one_another_or_not(world: ForeignWorld) -> None:
    nodes = await usable(world)
    await world.make_pod("cache", labels={"app": "cache"}, nodeSelector={HOSTNAME: nodes[-1]})
    await world.until_bound(1)
    await world.make_pod("near", labels={"app": "web"}, affinity=towards("cache", "podAffinity"))
    await world.make_pod("away", labels={"app": "db"}, affinity=towards("cache", "podAntiAffinity"))
    bound = await world.until_bound(3)
    assert bound["near"] == nodes[-1]
    assert bound["away"] != nodes[-1]
    # A job's replicas are their neighbours like anybody.
    keeps_off = template("web", affinity=towards("db", "podAntiAffinity"))
    job = await placed(world, await world.submit(shell(SERVE, replicas=3, pod_template_json=keeps_off)))
    assert bound["away"] not in where(job).values()
