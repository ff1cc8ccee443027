"""Random small worlds for the oracle: what they hold, how they go on, and what brute force says of their nodes."""

from dataclasses import replace
from fractions import Fraction
from random import Random

from gangline.model import Job, JobId, NamedAmounts, NodeName, Queue, Resources
from gangline.scheduling import Decision, Policies
from tests.scheduling.builders import NOW, job, node, queue, role
from tests.scheduling.test_over_time import Course


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


PLENTY = Resources(cpu_millis=10**6, memory_mib=10**9)
KINDS = ("x", "y")


def with_settings(random: Random, each: Queue, *, typed: bool) -> Queue:
    """A queue that may also limit what it borrows and lends, name GPU types, and spare the young and the fixed."""

    def some(most: int) -> NamedAmounts:
        return NamedAmounts({"gpu_millis": 1000 * random.randint(0, most)})

    made = replace(each, guarantee=each.guarantee + PLENTY)
    if random.random() < 0.3:
        made = replace(made, borrowing_limit=some(3))
    if random.random() < 0.4 and each.name != "p":
        made = replace(made, lending_limit=some(2))
    if random.random() < 0.3:
        made = replace(made, minimum_run_seconds=random.choice([0.0, 150.0, 250.0]))
    if random.random() < 0.3:
        made = replace(made, non_preemptible_within_guarantee=True)
    if typed and random.random() < 0.5:
        kind = random.choice(KINDS)
        amount = random.choice([1000, 2000])
        gpus = max(made.guarantee.gpu_millis, amount)
        guarantee = replace(made.guarantee, gpu_millis=gpus, extended={f"gpu_millis.{kind}": amount})
        made = replace(made, guarantee=guarantee)
        if random.random() < 0.3:
            made = replace(made, borrowing_limit=NamedAmounts({f"gpu_millis.{kind}": 1000 * random.randint(0, 1)}))
        if random.random() < 0.3 and made.name != "p":
            made = replace(made, lending_limit=NamedAmounts({f"gpu_millis.{kind}": 0}))
    return made


def lender_and_guest(random: Random) -> tuple[Queue, ...]:
    return (queue("a", guarantee={"gpus": random.randint(1, 3)}), queue("b", weight=random.choice([1, 4])))


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
        self.lending = lending = seed % 4 == 0
        """Whether it is about a queue with a guarantee that shares the nodes with one that has none."""
        queues = lender_and_guest(self.random) if lending else some_queues(self.random)
        sizes = [self.random.randint(3, 6)] if lending else [self.random.randint(1, 4) for _ in range(2)]
        machines = [node(f"n{i}", gpus=size) for i, size in enumerate(sizes[: self.random.randint(1, 2)])]
        self.extra = Random(seed * 7919)
        self.settings, self.typed = seed % 5 == 1, seed % 10 == 1
        """Whether queues have more settings than weight, guarantee and limit; and whether GPUs have types."""
        if self.typed:
            machines = [
                replace(each, name=NodeName(f"n{i}-{kind}"), gpu_type=kind)
                for i, each in enumerate(machines)
                for kind in [self.extra.choice(KINDS)]
            ]
        if self.settings:
            queues = tuple(with_settings(self.extra, each, typed=self.typed) for each in queues)
        moves, after = self.random.random() < 0.5, 0.0 if seed % 3 else 3600.0
        super().__init__(machines, [], queues, Policies(defragmentation=moves, reserve_after_seconds=after))
        self.passed: dict[JobId, set[JobId]] = {}
        """Who waited when a gang got its place: it is not to be stopped for them."""
        self.owed: set[JobId] = set()
        """Who must start next, because others were stopped for it or it was moved."""
        self.promised: dict[JobId, set[JobId]] = {}
        """Who has a place promised in what others give up; and who waited at that time."""
        self.seen: dict[JobId, Job] = {}
        """Jobs as they were before the decision, and when that was made."""
        self.decided_at = self.now
        self.promising: set[JobId] = set()
        self.arrivals = [self.random.randint(*few) for few in ((1, 4), (0, 3), (0, 3), (0, 2))]

    def arrive(self, number: int) -> None:
        """Let some jobs come, in the first few rounds only."""
        for index in range(self.arrivals[number] if number < len(self.arrivals) else 0):
            each = self.some_job(f"j{number}{index}")
            self.jobs[each.id] = each

    def some_job(self, name: str) -> Job:
        """A job, which may want GPUs of a type where they have one."""
        each = some_job(self.random, name, self.queues, self.now)
        kinds = self.extra.choice([(), (), ("x",), ("y",), ("x", "y"), ("y", "x")]) if self.typed else ()
        return replace(each, spec=replace(each.spec, placement=replace(each.spec.placement, gpu_types=kinds)))

    def free(self, without: frozenset[JobId] = frozenset()) -> dict[str, int]:
        """Free GPUs by node, as if some gangs were gone."""
        free = {str(each.name): each.capacity.gpu_millis // 1000 for each in self.nodes}
        for each in self.jobs.values():
            if each.holding and each.id not in without:
                for status in each.replicas:
                    free[status.node] -= size_of(each)
        return free

    def free_after(self, decision: Decision) -> dict[str, int]:
        """The same once all have started, and grown, that do now."""
        free = self.free()
        added = [(each.job_id, each.placement) for each in decision.starts]
        added += [(each.job_id, each.added) for each in decision.grows]
        for job_id, spots in added:
            for spot in spots.values():
                free[str(spot)] -= size_of(self.jobs[job_id])
        return free

    def moved(self, decision: Decision) -> bool:
        """Whether the decision changes anything."""
        return bool(decision.starts or decision.grows or decision.shrinks or decision.evictions)


def room_for(each: Job, free: dict[str, int], *, one: bool = False) -> int:
    """How many replicas fit, on all nodes or on the best ``one``."""
    rooms = rooms_of(each, free)
    return max(rooms, default=0) if one else sum(rooms)


def rooms_of(each: Job, free: dict[str, int]) -> list[int]:
    """How many replicas fit on each node that it may use; the name of a node ends with the type of its GPUs."""
    kinds = each.spec.placement.gpu_types
    return [amount // size_of(each) for name, amount in free.items() if not kinds or name.partition("-")[2] in kinds]


def size_of(each: Job) -> int:
    return each.spec.roles[0].resources.gpu_millis // 1000


def fits(each: Job, free: dict[str, int]) -> bool:
    """Whether the gang's minimum has room: every distribution is tried, in effect, since all replicas are equal."""
    rooms = rooms_of(each, free)
    most = max(rooms, default=0) if each.spec.placement.within == "node" else sum(rooms)
    return most >= each.spec.roles[0].least


def need_of(each: Job) -> int:
    return size_of(each) * each.spec.roles[0].least


def below(world: World, name: str) -> set[str]:
    """A queue and all below it."""
    return {one.name for one in world.queues if name in (one.name, one.parent)}


def used_of(world: World, queues: set[str], kind: str = "", *, fixed: bool = False) -> int:
    """GPUs (of one type) that the gangs of some queues hold; ``fixed``: those that may not be stopped."""
    return sum(
        size_of(each) * sum(status.node.endswith(kind) for status in each.replicas)
        for each in world.jobs.values()
        if each.holding and each.spec.queue in queues and not (fixed and each.spec.policy.preemptible)
    )


def guarantee_of(each: Queue, kind: str = "") -> int:
    """GPUs (of one type) that a queue is guaranteed."""
    typed = {name: amount // 1000 for name, amount in each.guarantee.extended.items()}
    if kind:
        return typed.get(f"gpu_millis.{kind}", 0)
    return max(each.guarantee.gpu_millis // 1000, sum(typed.values()))


def shares_of(world: World, parent: str | None = None, whole: Fraction | None = None) -> dict[str, int]:
    """GPUs that every queue deserves: guarantees first, the rest by weight, nobody more than it asks for."""
    whole = Fraction(sum(each.capacity.gpu_millis for each in world.nodes), 1000) if whole is None else whole
    queues = [each for each in world.queues if each.parent == parent]
    asked = {
        one.name: sum(need_of(each) for each in world.jobs.values() if each.spec.queue in below(world, one.name))
        for one in queues
    }
    has = {one.name: Fraction(min(guarantee_of(one), asked[one.name])) for one in queues}
    if (promised := sum(has.values())) > whole:
        has = {name: amount * whole / promised for name, amount in has.items()}
    while (left := whole - sum(has.values())) and (open_ := [one for one in queues if has[one.name] < asked[one.name]]):
        weights = sum(one.weight for one in open_)
        has |= {one.name: min(has[one.name] + left * one.weight / weights, Fraction(asked[one.name])) for one in open_}
    found = {name: int(amount) for name, amount in has.items()}
    for one in queues:
        found |= (
            shares_of(world, one.name, has[one.name]) if any(each.parent == one.name for each in world.queues) else {}
        )
    return found
