"""The scheduler against brute force: random small worlds, carried out by the real lifecycle until they come to rest.

Nobody comes and nobody ends, so whatever happens follows from the rules alone. ``GANGLINE_WORLDS`` sets how many worlds
are looked at (hundreds by default, thousands in a long run); a world that fails names its seed.
"""

import os
from collections import Counter
from random import Random

import pytest

from gangline.model import Job, JobId, Queue
from gangline.scheduling import Constraint, Decision, Policies
from tests.scheduling.builders import NOW, job, node, queue, role
from tests.scheduling.test_over_time import Course

WORLDS = int(os.environ.get("GANGLINE_WORLDS", "800"))
BATCHES = 8
ROUNDS = 40
QUIET = 2
"""Rounds without any action after which a world is at rest: nothing but time passes any more."""


def some_queues(random: Random) -> tuple[Queue, ...]:
    def facts() -> dict[str, object]:
        guarantee = {"gpus": random.choice([0, 0, 1, 2, 3])}
        return {"weight": random.choice([1, 1, 2, 4]), "guarantee": guarantee, "limit": some_limit()}

    def some_limit() -> dict[str, int] | None:
        return {"gpus": random.randint(1, 6)} if random.random() < 0.15 else None

    kind = random.random()
    if kind < 0.25:
        return (queue("a"),)
    if kind < 0.8:
        return tuple(queue(name, **facts()) for name in "abc"[: random.randint(2, 3)])  # type: ignore[arg-type]
    below = [queue(name, parent="p", **facts()) for name in "ab"]  # type: ignore[arg-type]
    return (queue("p", **facts()), *below, queue("c", **facts()))  # type: ignore[arg-type]


def some_job(random: Random, name: str, queues: tuple[Queue, ...], now: float) -> Job:
    leaves = [each.name for each in queues if each.name != "p"]
    replicas = random.choice([1, 1, 1, 2, 3, 4])
    return job(
        name,
        role(
            replicas,
            gpus=random.choice([1, 1, 1, 2]),
            minimum=random.randint(1, replicas) if random.random() < 0.2 else None,
        ),
        queue=random.choice(leaves),
        priority=random.choice([10, 50, 50, 50, 90]),
        age=NOW - now + random.randint(1, 90),
        within=random.choice([*[None] * 9, "node"]),
        preemptible=random.random() < 0.9,
    )


class World(Course):
    """A small cluster with GPUs only, and what brute force says of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        queues = some_queues(self.random)
        machines = [node(f"n{i}", gpus=self.random.randint(1, 4)) for i in range(self.random.randint(1, 2))]
        super().__init__(machines, [], queues, Policies(defragmentation=self.random.random() < 0.3))
        self.arrivals = [self.random.randint(*few) for few in ((1, 4), (0, 3), (0, 3), (0, 2))]

    def arrive(self, number: int) -> None:
        """Let some jobs come, in the first few rounds only."""
        for index in range(self.arrivals[number] if number < len(self.arrivals) else 0):
            each = some_job(self.random, f"j{number}{index}", self.queues, self.now)
            self.jobs[each.id] = each

    def free(self, without: frozenset[JobId] = frozenset()) -> dict[str, int]:
        """Free GPUs by node, as if some gangs were gone."""
        free = {str(each.name): each.capacity.gpu_millis // 1000 for each in self.nodes}
        for each in self.jobs.values():
            if each.holding and each.id not in without:
                for status in each.replicas:
                    free[status.node] -= size_of(each)
        return free

    def moved(self, decision: Decision) -> bool:
        """Whether the decision changes anything."""
        return bool(decision.starts or decision.grows or decision.shrinks or decision.evictions)


def size_of(each: Job) -> int:
    return each.spec.roles[0].resources.gpu_millis // 1000


def fits(each: Job, free: dict[str, int]) -> bool:
    """Whether the gang's minimum has room: every distribution is tried, in effect, since all replicas are equal."""
    rooms = [amount // size_of(each) for amount in free.values()]
    most = max(rooms, default=0) if each.spec.placement.within == "node" else sum(rooms)
    return most >= each.spec.roles[0].least


def check_capacity(world: World) -> None:
    assert all(amount >= 0 for amount in world.free().values()), "overcommitted"
    for each in world.jobs.values():
        if each.holding:
            (one,) = each.spec.roles
            assert one.least <= len(each.replicas) <= one.replicas, f"{each.id} is not whole"


def check_first_in_line(world: World, before: dict[str, int], waiting: list[Job], decision: Decision) -> None:
    """In a single queue: whoever comes first and has room starts."""
    if len(world.queues) > 1 or not waiting:
        return
    first = min(waiting, key=lambda each: (-each.spec.priority, each.created_at, each.id))
    assert not fits(first, before) or first.id in {start.job_id for start in decision.starts}


def check_victims(world: World, decision: Decision) -> None:
    """Nobody is stopped in vain: with any of them back, the gang for which they go would have no room."""
    beneficiaries = {each.beneficiary for each in (*decision.evictions, *decision.shrinks) if each.beneficiary}
    if len(beneficiaries) != 1 or decision.shrinks or decision.starts:
        return
    (name,) = beneficiaries
    others = {why.constraint for job_id, why in decision.explanations.items() if job_id != name}
    if others - {Constraint.TOO_LARGE}:
        return  # a place may be kept for one of them
    stopped = frozenset(each.job_id for each in decision.evictions)
    winner = world.jobs[name]
    assert fits(winner, world.free(stopped)), "stopped, and still no room"
    if any("moved" in each.reason for each in decision.evictions) or any(one.limit for one in world.queues):
        return
    for victim in stopped:
        assert not fits(winner, world.free(stopped - {victim})), f"{victim} was stopped for {name} in vain"


def check_no_circles(world: World, history: list[tuple[JobId, JobId]]) -> None:
    """Nobody is stopped for a queue that somebody is then stopped for on behalf of the first."""
    pairs = Counter(history)
    assert not any(times > 1 for times in pairs.values()), "the same victim for the same beneficiary twice"
    queues = [(world.jobs[victim].spec.queue, world.jobs[winner].spec.queue) for victim, winner in history]
    across = [pair for pair in queues if pair[0] != pair[1]]
    for number, (victim, winner) in enumerate(across):
        assert (winner, victim) not in across[number:], f"from '{victim}' for '{winner}', and back"


def follow(world: World) -> None:
    history: list[tuple[JobId, JobId]] = []
    owed: set[JobId] = set()
    quiet = 0
    for number in range(ROUNDS + len(world.arrivals)):
        world.arrive(number)
        if number == len(world.arrivals):
            history.clear()
        waiting = [each for each in world.jobs.values() if each.placeable]
        before = world.free()
        decision = world.decide()
        if not owed:
            check_first_in_line(world, before, waiting, decision)
        check_victims(world, decision)
        world.carry_out(decision)
        check_capacity(world)
        started = {start.job_id for start in decision.starts}
        assert owed <= started, f"room was made for {owed - started}, which does not start"
        owed = {each.beneficiary for each in (*decision.evictions, *decision.shrinks) if each.beneficiary is not None}
        history += [(each.job_id, each.beneficiary) for each in decision.evictions if each.beneficiary]
        quiet = 0 if world.moved(decision) or number < len(world.arrivals) else quiet + 1
        if quiet == QUIET:
            break
    else:
        raise AssertionError(f"not at rest after {ROUNDS} rounds")
    check_no_circles(world, history)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_small_worlds_are_as_brute_force_says(batch: int) -> None:
    for seed in range(batch, WORLDS, BATCHES):
        try:
            follow(World(seed))
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from error
