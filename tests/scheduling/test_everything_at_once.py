"""Every rule of scheduling together, over time: random clusters and gangs, carried out by the real lifecycle.

What is checked after every cycle holds whatever is decided: no node, no GPU, no limit and no rule is passed, and a
cluster that is left alone comes to rest.
"""

from collections import Counter, defaultdict
from random import Random

import pytest

from gangline.model import Job, JobId, Node, NodeRule, Phase, Prefer, Queue, Toleration, TopologySpread
from gangline.scheduling.gangs.holdings import HOLDING_STATES
from tests.scheduling.builders import NOW, job, node, queue, role, taint
from tests.scheduling.test_over_time import Course

ARRIVALS = 12
CYCLES = 40
RESTING = 5


def some_nodes(random: Random) -> list[Node]:
    racks = ({"rack": "r0"}, {"rack": "r1"}, {"rack": "r2"}, {})
    return [
        node(
            f"n{number}",
            gpus=random.randint(0, 4),
            cpus=random.randint(1, 8),
            kind=random.choice(["a100", "h200"]),
            labels=random.choice([{}, {"zone": "a"}]),
            topology=random.choice(racks),
            taints=random.choice([(), (), (taint("slow"),)]),
            shares_gpus=random.random() < 0.8,
        )
        for number in range(random.randint(1, 6))
    ]


def some_queues(random: Random) -> tuple[Queue, ...]:
    def limit() -> dict[str, object] | None:
        of_type = {"extended": {"gpu_millis.a100": 1000 * random.randint(0, 3)}}
        return random.choice([None, None, {"gpus": random.randint(0, 6)}, {"cpus": random.randint(1, 10)}, of_type])

    return (
        queue("a", limit=limit(), guarantee={"gpus": random.randint(0, 3)}, weight=random.randint(1, 3)),
        queue("a1", parent="a", limit=limit()),
        queue("a2", parent="a", limit=limit(), may_borrow=random.random() < 0.8),
        queue("b", limit=limit(), may_borrow=random.random() < 0.8),
        queue("c"),
    )


def some_job(random: Random, name: str, now: float) -> Job:
    roles = []
    for number in range(random.choice([1, 1, 2, 3])):
        replicas = random.randint(1, 4)
        roles.append(
            role(
                replicas,
                name=f"role{number}",
                gpus=random.choice([0, 0.3, 0.5, 0.7, 1, 1, 1.5, 2]),
                cpus=random.choice([0, 1, 2, 3]),
                minimum=random.choice([None, None, random.randint(1, replicas)]),
                placement=NodeRule(topology_spread=(TopologySpread(level="rack"),) if random.random() < 0.1 else ()),
            )
        )
    return job(
        name,
        *roles,
        queue=random.choice(["a1", "a2", "b", "c"]),
        priority=random.choice([10, 50, 50, 90]),
        age=NOW - now,
        prefer=random.choice([None, Prefer.PACK, Prefer.SPREAD]),
        within=random.choice([*[None] * 5, "rack"]),
        apart=random.choice([*[None] * 6, "node", "rack"]),
        kinds=random.choice([*[()] * 4, ("a100",), ("h200", "a100")]),
        selector=random.choice([*[{}] * 4, {"zone": "a"}]),
        tolerations=random.choice([(), (Toleration(operator="Exists"),)]),
        labels=random.choice([{}, {"app": "x"}]),
        away=random.choice([*[{}] * 6, {"app": "x"}]),
        near=random.choice([*[{}] * 8, {"app": "x"}]),
        expected_seconds=random.choice([None, 60.0, 5000.0]),
        preemptible=random.random() < 0.85,
    )


def places(course: Course, each: Job) -> dict[str, list[Node]]:
    """Where the replicas of each role are."""
    nodes = {one.name: one for one in course.nodes}
    found: dict[str, list[Node]] = defaultdict(list)
    for status in each.replicas if each.holding else ():
        if status.state in HOLDING_STATES:
            found[status.id.role].append(nodes[status.node])
    return found


def check_nodes(course: Course) -> None:
    cpus: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    parts: Counter[tuple[str, int]] = Counter()
    shared = {one.name: one.shares_gpus for one in course.nodes}
    for each in course.jobs.values():
        for status in each.replicas if each.holding else ():
            asked = each.spec.role(status.id.role).resources
            cpus[status.node] += asked.cpu_millis
            whole[status.node] += asked.gpu_millis // 1000
            if asked.gpu_millis % 1000:
                assert status.gpu_slot is not None
                parts[status.node, status.gpu_slot] += asked.gpu_millis % 1000 if shared[status.node] else 1000
    assert all(amount <= 1000 for amount in parts.values())
    for one in course.nodes:
        opened = sum(1 for name, _ in parts if name == one.name)
        assert cpus[one.name] <= one.capacity.cpu_millis
        assert whole[one.name] + opened <= one.capacity.gpu_millis // 1000


def check_rules(course: Course) -> None:
    for each in course.jobs.values():
        rule, found = each.spec.placement, places(course, each)
        everywhere = [one for nodes in found.values() for one in nodes]
        if rule.within:
            assert len({one.topology["rack"] for one in everywhere}) <= 1
        for one in each.spec.roles:
            mine = found[one.name]
            assert not each.holding or one.least <= len(mine) <= one.most
            if rule.apart:
                assert len({place.topology.get(rule.apart, place.name) for place in mine}) == len(mine)
            if rule.gpu_types and one.resources.gpu_millis:
                assert all(place.gpu_type in rule.gpu_types for place in mine)
        for other in course.jobs.values():
            if rule.away and other is not each and rule.away.items() <= other.spec.labels.items():
                theirs = {one.name for nodes in places(course, other).values() for one in nodes}
                assert theirs.isdisjoint(one.name for one in everywhere)


def check_limits(course: Course) -> None:
    used: dict[str, Counter[str]] = defaultdict(Counter)
    parents = {one.name: one.parent for one in course.queues}
    for each in course.jobs.values():
        for name, nodes in places(course, each).items():
            asked = each.spec.role(name).resources  # type: ignore[arg-type]
            for one in nodes:
                for each_queue in {each.spec.queue, parents[each.spec.queue]} - {None}:
                    used[each_queue].update(cpu_millis=asked.cpu_millis, gpu_millis=asked.gpu_millis)  # type: ignore[index]
                    used[each_queue][f"gpu_millis.{one.gpu_type}"] += asked.gpu_millis  # type: ignore[index]
    for one in course.queues:
        limits = {} if one.limit is None else one.limit.amounts
        assert all(used[one.name][name] <= amount for name, amount in limits.items())


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_ever_passed_and_a_cluster_left_alone_comes_to_rest(seed: int) -> None:
    random = Random(seed)
    course = Course(some_nodes(random), [], some_queues(random))
    stopped: list[tuple[JobId, JobId | None]] = []
    for number in range(CYCLES):
        if number < ARRIVALS:
            for index in range(random.choice([0, 1, 2])):
                each = some_job(random, f"j{number}-{index}", course.now)
                course.jobs[each.id] = each
            for each in list(course.jobs.values()):
                if each.phase is Phase.STARTING and random.random() < 0.12:
                    course.end(each.id)
                    del course.jobs[each.id]
        decision = course.step()
        if number >= ARRIVALS:
            stopped += [(eviction.job_id, eviction.beneficiary) for eviction in decision.evictions]
        assert all(all(why.words()) for why in decision.explanations.values())
        for check in (check_nodes, check_rules, check_limits):
            check(course)
    assert not any((beneficiary, victim) in stopped for victim, beneficiary in stopped), "A for B, then B for A"
    for _ in range(RESTING):
        decision = course.step()
        happened = (*decision.evictions, *decision.starts, *decision.shrinks, *decision.grows)
        assert not happened
