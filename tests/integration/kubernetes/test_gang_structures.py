"""Gangs with an inner structure on a real cluster: groups, levels inside levels, and roles that are not alike."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gangline.kube import NODES
from gangline.model import Job, Phase, PlacementRule, RoleSpec
from gangline.model.jobs.placement import Within
from tests.integration.kubernetes.foreign import ForeignWorld, foreign_world
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import SERVE, eventually, shell
from tools.cluster.pytest_plugin import ClusterUnderTest


class RackWorld(ForeignWorld):
    """One whose nodes lie in racks, and these in zones, that exist for this test alone."""

    nodes: list[str]

    @property
    def rack(self) -> str:
        return f"rack-{self.namespace}"

    @property
    def zone(self) -> str:
        return f"zone-{self.namespace}"

    async def lay_out(self, *places: tuple[int, str, str]) -> None:
        """Give every node so many seats, a rack and a zone, and wait until the engine has seen it."""
        self.nodes = await self.offer_seats(*(seats for seats, _, _ in places))
        for node, (_, rack, zone) in zip(self.nodes, places, strict=True):
            await self.label(node, rack, zone)
        want = {
            node: (seats, rack, zone) for node, (seats, rack, zone) in zip(self.nodes, places, strict=True) if seats
        }

        async def seen() -> bool:
            found = {
                node.name: (
                    node.capacity.extended[self.seat],
                    node.topology.get(self.rack),
                    node.topology.get(self.zone),
                )
                for node in await self.engine.nodes()
                if node.capacity.extended.get(self.seat)
            }
            return found == want

        await eventually(seen)

    async def label(self, node: str, rack: str | None, zone: str | None) -> None:
        labels = {f"gangline.dev/topology.{self.rack}": rack, f"gangline.dev/topology.{self.zone}": zone}
        await self.client.patch(NODES, node, {"metadata": {"labels": labels}})

    def role(self, replicas: int, name: str = "worker", **fields: object) -> RoleSpec:
        """A role whose replicas take a seat each."""
        seat = replace(SMALL, extended={self.seat: 1})
        return shell(SERVE, name, resources=seat, replicas=replicas, **fields)


@pytest.fixture
async def world(kubernetes_cluster: ClusterUnderTest, kubernetes_namespace: str) -> AsyncIterator[RackWorld]:
    async with foreign_world(kubernetes_cluster, kubernetes_namespace, RackWorld) as world:
        assert isinstance(world, RackWorld)
        world.nodes = []
        yield world
        for node in world.nodes:
            await world.label(node, None, None)


def where(job: Job) -> dict[str, str | None]:
    return {str(status.id): status.node for status in job.replicas}


async def test_every_group_has_its_minimum_in_one_rack_and_grows_there(world: RackWorld) -> None:
    await world.lay_out((1, "r0", "z0"), (1, "r0", "z0"), (3, "r1", "z0"))
    a, b, c = world.nodes
    stages = world.role(6, minimum=4, groups=2, within=(Within(world.rack),))
    job_id = await world.submit(stages, name="pipeline")
    job = await world.until(job_id, lambda job: job.phase is Phase.PROCESSING and len(job.replicas) == 5)
    groups = [{where(job).get(f"worker-{index}") for index in stage} - {None} for stage in ((0, 1, 2), (3, 4, 5))]
    assert sorted(groups, key=len) == [{c}, {a, b}], "the smaller rack has its two and the larger one its three"


async def test_a_gang_stays_in_its_zone_and_in_one_rack_where_that_is_possible(world: RackWorld) -> None:
    await world.lay_out((1, "r0", "z0"), (2, "r1", "z0"), (1, "r2", "z1"))
    a, b, _ = world.nodes
    nested = PlacementRule(within=world.zone, nested=(Within(world.rack, required=False),))
    pair = await world.submit(world.role(2), name="pair", placement=nested)
    assert set(where(await world.phase(pair, Phase.PROCESSING)).values()) == {b}
    await world.delete(pair)
    three = await world.submit(world.role(3), name="three", placement=nested)
    assert set(where(await world.phase(three, Phase.PROCESSING)).values()) == {a, b}
    await world.delete(three)
    four = await world.submit(world.role(4), name="four", placement=nested)

    async def told() -> bool:
        why = world.controller.explanation(four)
        return why is not None and why.level == world.zone and (why.possible, why.wanted) == (3, 4)

    await eventually(told)


async def test_less_important_roles_give_way_to_jobs_less_important_than_their_own(world: RackWorld) -> None:
    await world.lay_out((3, "r0", "z0"))
    chief = world.role(1, "chief", preemptible=False)
    gang = await world.submit(chief, world.role(2, "helper", minimum=1, priority=10), name="gang", priority=50)
    await world.until(gang, lambda job: job.phase is Phase.PROCESSING and len(job.replicas) == 3)
    other = await world.submit(world.role(1), name="other", priority=30)
    await world.phase(other, Phase.PROCESSING)
    job = await world.until(gang, lambda job: len(job.replicas) == 2)
    assert (set(where(job)), job.phase, job.attempt) == ({"chief-0", "helper-0"}, Phase.PROCESSING, 1)
    # Nobody stops a gang whose chief may not be stopped.
    urgent = await world.submit(world.role(2), name="urgent", priority=90)

    async def told() -> bool:
        return world.controller.explanation(urgent) is not None

    await eventually(told)
    assert set(where(await world.store.get(gang))) == {"chief-0", "helper-0"}
