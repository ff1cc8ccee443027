"""Whole jobs on a real cluster: controller, scheduler, engine and store together."""

from collections import Counter

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes import names
from gangline.kube import CONFIG_MAPS, SERVICES
from gangline.lifecycle.events import DeleteRequested, HaltRequested
from gangline.model import NodeRequirement, NodeRule, Phase, PlacementRule, Prefer, Resources, Retry, RoleSpec
from gangline.testing.builders import make_role
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import SERVE, World, eventually, shell


async def test_two_roles_run_and_complete_and_leave_nothing_but_their_logs(world: World) -> None:
    script = "echo $GANGLINE_ROLE $GANGLINE_RANK of $GANGLINE_WORLD_SIZE; until [ -e /tmp/end ]; do sleep 0.1; done"
    job_id = await world.submit(shell(script, "chief"), shell(SERVE, "ps", replicas=2))

    async def all_spoke() -> bool:
        lines = Counter([line.text async for line in world.engine.logs(LogQuery(job_id=job_id))])
        return (lines["chief 0 of 1"], lines["serving"]) == (1, 2)

    await eventually(all_spoke)
    (chief,) = [pod.metadata.name for pod in await world.pods() if pod.metadata.labels[names.ROLE] == "chief"]
    await world.client.execute(chief, ["touch", "/tmp/end"], namespace=world.namespace)
    job = await world.phase(job_id, Phase.COMPLETED)
    job = await world.until(job_id, lambda job: not job.holding)
    assert [entry.phase for entry in job.history] == [
        Phase.QUEUED, Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING, Phase.STORING, Phase.COMPLETED,
    ]  # fmt: skip
    lines = [line.text async for line in world.engine.logs(LogQuery(job_id=job_id))]
    assert "chief 0 of 1" in lines
    assert lines.count("serving") == 2
    assert await world.pods() == []
    assert not (await world.client.list(SERVICES, namespace=world.namespace)).items


async def test_replicas_spread_when_asked(world: World) -> None:
    job_id = await world.submit(shell(SERVE, replicas=3), placement=PlacementRule(prefer=Prefer.SPREAD))
    job = await world.phase(job_id, Phase.PROCESSING)
    assert len({status.node for status in job.replicas}) == 3


SERVER = "import socket; s = socket.create_server(('', 2222)); s.accept()[0].sendall(b'hello')"
CLIENT = """
import json, os, socket, time
host, port = json.loads(os.environ["GANGLINE_CLUSTER"])["ps"][0].split(":")
for _ in range(200):
    try:
        print(host, socket.create_connection((host, int(port)), timeout=5).recv(9).decode())
        break
    except OSError:
        time.sleep(0.1)
"""


async def test_replicas_reach_each_other_by_name(world: World, kubernetes_python_image: str) -> None:
    def python(name: str, program: str) -> RoleSpec:
        return make_role(name, command=("python3", "-c", program), image=kubernetes_python_image, resources=SMALL)

    job_id = await world.submit(python("chief", CLIENT), python("ps", SERVER))
    await world.phase(job_id, Phase.COMPLETED)
    lines = [line.text async for line in world.engine.logs(LogQuery(job_id=job_id))]
    assert any(line.startswith("ps-0.") and line.endswith(" hello") for line in lines), lines


async def test_a_server_that_ends_is_started_again_until_the_others_are_done(world: World) -> None:
    job_id = await world.submit(shell(SERVE, "chief"), shell("exit 0", "ps", retry=Retry.ALWAYS))
    job = await world.until(job_id, lambda job: job.replica_restarts >= 2)
    assert (job.phase, job.attempt) == (Phase.PROCESSING, 1)
    assert [status.incarnation for status in job.replicas if status.id.role == "chief"] == [0]


async def test_a_role_goes_where_its_own_rule_says(world: World) -> None:
    chosen = max(node.name for node in await world.engine.nodes() if node.ready and not node.taints)
    own = NodeRule(node_affinity=((NodeRequirement(key="metadata.name", values=(chosen,)),),))
    roles = shell(SERVE, "chief"), shell(SERVE, "worker", replicas=2, placement=own)
    everywhere = PlacementRule(prefer=Prefer.SPREAD)
    job = await world.phase(await world.submit(*roles, placement=everywhere), Phase.PROCESSING)
    assert {status.node for status in job.replicas if status.id.role == "worker"} == {chosen}


async def test_halting_frees_everything(world: World) -> None:
    job_id = await world.submit(shell(SERVE, replicas=2))
    await world.phase(job_id, Phase.PROCESSING)
    await world.ask(HaltRequested, job_id)
    await world.phase(job_id, Phase.HALTED)
    assert await world.pods() == []


async def test_deleting_removes_every_object(world: World) -> None:
    job_id = await world.submit(shell(SERVE, replicas=2))
    await world.phase(job_id, Phase.PROCESSING)
    await world.ask(DeleteRequested, job_id)
    await world.gone(job_id)
    assert await world.pods() == []
    left = (await world.client.list(CONFIG_MAPS, namespace=world.namespace)).items or []
    assert [item.metadata.name for item in left if item.metadata.name != "kube-root-ca.crt"] == []


async def test_a_gang_waits_until_all_of_it_fits(world: World) -> None:
    nodes = await world.engine.nodes()
    half = Resources(cpu_millis=nodes[0].capacity.cpu_millis * 2 // 3, memory_mib=32)
    first = await world.submit(shell(SERVE, replicas=2, resources=half), name="first")
    await world.phase(first, Phase.PROCESSING)
    second = await world.submit(shell("exit 0", replicas=2, resources=half), name="second")
    await world.until(second, lambda job: world.controller.explanation(job.id) is not None)
    assert Counter(pod.metadata.labels["gangline.dev/job"] for pod in await world.pods()) == {"first": 2}
    await world.ask(DeleteRequested, first)
    await world.phase(second, Phase.COMPLETED)
