"""The structure of gangs against brute force: nested levels, groups, and roles that differ in importance.

Random small worlds of racks in zones, as in ``test_oracle``; every placement is tried. ``GANGLINE_WORLDS`` sets how
many.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from random import Random

import pytest

from gangline.model import Job, JobId, Node, RoleName, RoleSpec, Within
from gangline.scheduling import Constraint, Decision, Explanation, Policies
from tests.scheduling.builders import job, node, role
from tests.scheduling.test_oracle import BATCHES, QUIET, ROUNDS, WORLDS
from tests.scheduling.test_over_time import Course

LEVELS = ("zone", "rack", "node")
Free = tuple[int, ...]
"""Free GPUs, node by node."""


@dataclass(frozen=True)
class Part:
    """A group of a role: how many replicas it needs at least, of how many GPUs, and the levels that bind it."""

    name: str
    least: int
    size: int
    levels: tuple[Within, ...]


def some_levels(random: Random, chance: float) -> tuple[Within, ...]:
    if random.random() > chance:
        return ()
    names = random.choice([("zone",), ("rack",), ("zone", "rack"), ("rack", "node")])
    return tuple(Within(name, random.random() < 0.6) for name in names)


def some_role(random: Random, name: str) -> RoleSpec:
    groups = random.choice([1, 1, 2, 2, 3])
    size = random.randint(1, 2)
    return role(
        groups * size,
        name=name,
        gpus=random.choice([1, 1, 2]),
        minimum=groups * random.randint(1, size) if random.random() < 0.4 else None,
        groups=groups,
        within=some_levels(random, 0.6),
        priority=random.choice([None, None, 10, 30]),
        preemptible=random.choice([None, None, True, False]),
    )


def some_job(random: Random, name: str, now: float) -> Job:
    roles = [some_role(random, f"role{n}") for n in range(random.randint(1, 2))]
    return job(
        name,
        *roles,
        priority=random.choice([10, 50, 50, 90]),
        within=some_levels(random, 0.4),
        age=random.randint(1, 90) - now + 10_000,
        preemptible=random.random() < 0.8,
    )


def some_nodes(random: Random) -> list[Node]:
    found = []
    for number in range(random.randint(2, 5)):
        rack = random.randint(0, 2)
        topology = {"rack": f"r{rack}", "zone": f"z{rack % 2}"} if random.random() < 0.9 else {}
        found.append(node(f"n{number}", gpus=random.randint(1, 3), topology=topology))
    return found


def parts_of(each: Job) -> list[Part]:
    return [
        Part(
            f"{one.name}/{number}" if one.groups > 1 else one.name,
            one.least // one.groups,
            one.resources.gpu_millis // 1000,
            one.within,
        )
        for one in each.spec.roles
        for number in range(one.groups)
    ]


class Machines:
    """What brute force knows of the nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.names = [str(each.name) for each in nodes]
        self.whole = tuple(each.capacity.gpu_millis // 1000 for each in nodes)

    def domain(self, number: int, level: str) -> str | None:
        return self.names[number] if level == "node" else self.nodes[number].topology.get(level)

    def regions(self, levels: Sequence[Within]) -> Iterator[frozenset[int]]:
        """Every choice of one domain of each level."""
        everywhere = range(len(self.nodes))
        choices = [sorted({self.domain(n, each.level) for n in everywhere} - {None}) for each in levels]
        for chosen in product(*choices):
            yield frozenset(
                n
                for n in everywhere
                if all(self.domain(n, level.level) == name for level, name in zip(levels, chosen, strict=True))
            )

    def fits(self, parts: Sequence[Part], levels: Sequence[Within], free: Free) -> bool:
        """Whether any placement keeps to all these levels."""
        return any(self._fits(tuple(parts), region, free) for region in self.regions(levels))

    def _fits(self, parts: tuple[Part, ...], region: frozenset[int], free: Free) -> bool:
        @cache
        def place(number: int, left: Free) -> bool:
            if number == len(parts):
                return True
            part = parts[number]
            spots = {frozenset(own & region) for own in self.regions(part.levels)}
            return any(place(number + 1, after) for own in spots for after in spread(part.least, part.size, own, left))

        return place(0, free)


def spread(count: int, size: int, region: frozenset[int], free: Free) -> Iterator[Free]:
    """What is left after some equal replicas, for every way to lay them over the nodes of a region."""
    numbers = sorted(region)

    def rest(position: int, left: int, state: Free) -> Iterator[Free]:
        if not left:
            yield state
            return
        if position == len(numbers):
            return
        at = numbers[position]
        for here in range(min(left, max(state[at], 0) // size) + 1):
            yield from rest(position + 1, left - here, (*state[:at], state[at] - here * size, *state[at + 1 :]))

    return rest(0, count, free)


def required(levels: Sequence[Within]) -> tuple[Within, ...]:
    return tuple(each for each in levels if each.required)


def bound(each: Job, *, preferred: bool = False) -> tuple[list[Part], tuple[Within, ...]]:
    """The parts and levels of a gang, its preferences as if they were conditions or left out."""
    keep = tuple if preferred else required
    return [replace(part, levels=keep(part.levels)) for part in parts_of(each)], keep(each.spec.placement.levels)


class World(Course):
    """A small cluster of GPUs, and what brute force says of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"structures {seed}")
        super().__init__(some_nodes(self.random), [], (), Policies(defragmentation=seed % 2 == 0))
        self.nodes.sort(key=lambda each: each.name)
        self.machines = Machines(self.nodes)
        self.owed: set[JobId] = set()

    def arrive(self, number: int) -> None:
        for index in range(self.random.randint(0, 3)):
            each = some_job(self.random, f"j{number}{index}", self.now)
            self.jobs[each.id] = each

    def free(self, added: Sequence[tuple[JobId, str, RoleName]] = ()) -> Free:
        left = dict(zip(self.machines.names, self.machines.whole, strict=True))
        holding = [each for each in self.jobs.values() if each.holding]
        taken = [(each.id, status.node, status.id.role) for each in holding for status in each.replicas]
        for job_id, where, name in (*taken, *added):
            left[where] -= self.jobs[job_id].spec.role(name).resources.gpu_millis // 1000
        return tuple(left[name] for name in self.machines.names)


def check_placed(world: World, each: Job) -> None:
    """A gang is whole: the minimum of every group is there, and everything lies where it must."""
    counts = Counter((status.id.role, status.id.index) for status in each.replicas)
    assert all(times == 1 for times in counts.values()), f"{each.id} has a replica twice"
    where = {world.machines.names.index(status.node) for status in each.replicas}
    for level in required(each.spec.placement.levels):
        domains = {world.machines.domain(number, level.level) for number in where}
        assert len(domains) == 1, f"{each.id} is not within one {level.level}: {domains}"
        assert None not in domains
    for one in each.spec.roles:
        size = one.replicas // one.groups
        for group in range(one.groups):
            mine = [s for s in each.replicas if s.id.role == one.name and s.id.index // size == group]
            assert one.least // one.groups <= len(mine) <= size, (
                f"{each.id}: group {group} of {one.name} has {len(mine)}"
            )
            for level in required(one.within):
                domains = {world.machines.domain(world.machines.names.index(s.node), level.level) for s in mine}
                assert len(domains) <= 1, f"{each.id}: group {group} of {one.name} is in {domains}"


def check_preferences(world: World, before: Free, decision: Decision) -> None:
    """What is preferred is so wherever it can be, for a gang that starts alone and without surplus."""
    if len(decision.starts) != 1 or decision.grows:
        return
    (start,) = decision.starts
    each = world.jobs[start.job_id]
    if len(start.placement) > sum(one.least for one in each.spec.roles):
        return
    if not world.machines.fits(*bound(each, preferred=True), before):
        return
    strict = replace(each, spec=_all_required(each))
    check_placed(world, replace(strict, replicas=each.replicas))


def _all_required(each: Job):  # type: ignore[no-untyped-def]
    spec = each.spec
    firm = [replace(one, within=tuple(Within(level.level) for level in one.within)) for one in spec.roles]
    nested = tuple(Within(level.level) for level in spec.placement.nested)
    return replace(spec, roles=tuple(firm), placement=replace(spec.placement, within_required=True, nested=nested))


def check_refusals(world: World, first: Free, last: Free, decision: Decision) -> None:
    """Whoever is refused does not fit; how many of its replicas would is exact."""
    for job_id, why in decision.explanations.items():
        each = world.jobs[job_id]
        parts, levels = bound(each)
        if why.constraint is Constraint.TOO_LARGE:
            assert not world.machines.fits(parts, levels, world.machines.whole), why.words()
        if why.constraint in {Constraint.RESOURCES, Constraint.TOPOLOGY}:
            assert not world.machines.fits(parts, levels, last), why.words()
        if why.constraint is Constraint.TOPOLOGY and why.beside:
            most = [most_of(world, parts, levels, why, free) for free in (last, first)]
            assert most[0] <= why.possible <= most[1], (why.words(), most)


def most_of(world: World, parts: Sequence[Part], levels: Sequence[Within], why: Explanation, free: Free) -> int:
    """How many replicas of the group that is said to be short fit beside the rest."""
    for count in range(why.wanted - 1, -1, -1):
        fewer = [replace(part, least=count) if part.name == why.role else part for part in parts]
        if world.machines.fits(fewer, levels, free):
            return count
    return 0


def check_victims(world: World, decision: Decision) -> None:
    """Nobody is stopped, in whole or in part, that may not be; and nothing that is more important than who gets it."""
    for eviction in decision.evictions:
        spec = world.jobs[eviction.job_id].spec
        assert all(spec.is_preemptible(one) for one in spec.roles), f"{eviction.job_id} may not be stopped"
    for shrink in decision.shrinks:
        spec = world.jobs[shrink.job_id].spec
        for replica in shrink.removed:
            one = spec.role(replica.role)
            assert spec.is_preemptible(one), f"{replica} of {shrink.job_id} may not be stopped"
            if shrink.beneficiary is not None:
                winner = world.jobs[shrink.beneficiary].spec
                assert winner.priority >= spec.priority_of(one), f"{replica} is more important than {winner.name}"


def look(world: World) -> Decision:
    before = world.free()
    waiting = [each for each in world.jobs.values() if each.placeable]
    decision = world.decide()
    check_victims(world, decision)
    placed = [(s.job_id, str(spot), r.role) for s in decision.starts for r, spot in s.placement.items()]
    placed += [(g.job_id, str(spot), r.role) for g in decision.grows for r, spot in g.added.items()]
    check_refusals(world, before, world.free(placed), decision)
    if waiting and not world.owed:
        best = min(waiting, key=lambda each: (-each.spec.priority, each.created_at, each.id))
        started = {start.job_id for start in decision.starts}
        assert best.id in started or not world.machines.fits(*bound(best), before), f"{best.id} is first and fits"
    world.carry_out(decision)
    assert all(amount >= 0 for amount in world.free()), "overcommitted"
    for each in world.jobs.values():
        if each.holding:
            check_placed(world, each)
    check_preferences(world, before, decision)
    assert world.owed <= {start.job_id for start in decision.starts}, "a place was promised, and somebody else has it"
    orders = (*decision.evictions, *decision.shrinks)
    world.owed = {each.beneficiary for each in orders if each.beneficiary is not None}
    world.owed |= {each.job_id for each in decision.evictions if each.reason.startswith("moved")}
    return decision


def follow(world: World) -> None:
    quiet = 0
    for number in range(ROUNDS):
        if number < 3:
            world.arrive(number)
        decision = look(world)
        moved = decision.starts or decision.grows or decision.shrinks or decision.evictions
        quiet = 0 if moved or number < 3 else quiet + 1
        if quiet == QUIET:
            return
    raise AssertionError(f"not at rest after {ROUNDS} rounds")


@pytest.mark.parametrize("batch", range(BATCHES))
def test_structured_gangs_are_as_brute_force_says(batch: int) -> None:
    for seed in range(batch, WORLDS // 8, BATCHES):
        try:
            follow(World(seed))
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from error
