"""The scheduler against brute force: random small worlds, carried out by the real lifecycle until they come to rest.

Nobody comes and nobody ends, so whatever happens follows from the rules alone. ``GANGLINE_WORLDS`` sets how many worlds
are looked at; a world that fails names its seed.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement, count

import pytest

from gangline.model import Job, JobId, Queue, ReplicaId, ReplicaStatus
from gangline.scheduling import Constraint, Decision
from gangline.scheduling.gangs.holdings import launched_at
from tests.scheduling.builders import running
from tests.scheduling.worlds import (
    KINDS,
    World,
    below,
    fits,
    guarantee_of,
    need_of,
    room_for,
    shares_of,
    size_of,
    used_of,
)

WORLDS = int(os.environ.get("GANGLINE_WORLDS", "1600"))
"""Worlds of which one decision is looked at; a tenth as many are followed until they come to rest."""
BATCHES = 8
ROUNDS = 40
QUIET = 2
"""Rounds without any action after which a world is at rest: nothing but time passes any more."""


def check_capacity(world: World) -> None:
    assert all(amount >= 0 for amount in world.free().values()), "overcommitted"
    for each in world.jobs.values():
        if each.holding:
            (one,) = each.spec.roles
            assert one.least <= len(each.replicas) <= one.replicas, f"{each.id} is not whole"


def check_first_in_line(world: World, before: dict[str, int], waiting: list[Job], decision: Decision) -> None:
    """In a single queue: whoever comes first and has room starts."""
    if len(world.queues) > 1 or world.settings or not waiting:
        return
    first = min(waiting, key=lambda each: (-each.spec.priority, each.created_at, each.id))
    assert not fits(first, before) or first.id in {start.job_id for start in decision.starts}


def check_victims(world: World, decision: Decision) -> None:
    """Nobody is stopped in vain: with any of it back, the gang for which others give something up has no room.

    Of several such gangs, and where a place is kept for somebody else, nobody can say what is whose.
    """
    orders = (*decision.evictions, *decision.shrinks)
    kept = {each.job_id for each in decision.memory.nominations}
    moved = any("moved" in each.reason for each in decision.evictions)
    beneficiaries = {each.beneficiary for each in orders}
    if len(beneficiaries) != 1 or decision.memory.reservation is not None or (kept - beneficiaries and not moved):
        return
    (name,) = beneficiaries
    if name is None:
        return
    winner, free = world.jobs[name], Counter(world.free_after(decision))
    gone = [(job_id, status.id) for job_id in world.jobs for status in given_up(world, decision, job_id)]
    free.update(where_is(world, gone))
    assert fits(winner, free), "stopped, and still no room"
    if moved or world.settings or any(one.limit for one in world.queues):
        return
    stopped = frozenset(each.job_id for each in decision.evictions)
    needless = beyond_share(world, winner, stopped)
    for victim in stopped - needless:
        # Its surplus is given up first, the rest of it only if that is not enough.
        least = world.jobs[victim].spec.roles[0].least
        back = where_is(world, [each for each in gone if each[0] == victim and each[1].index < least])
        assert not fits(winner, free - back), f"{victim} was stopped for {name} in vain"
    for each in (each for each in gone if each[0] not in stopped):
        assert not fits(winner, free - where_is(world, [each])), f"{each} was given up for {name} in vain"


def given_up(world: World, decision: Decision, job_id: JobId) -> Iterator[ReplicaStatus]:
    """The replicas that a gang gives up, all of them if it stops."""
    shrinks = [each.removed for each in decision.shrinks if each.job_id == job_id]
    stops = any(each.job_id == job_id for each in decision.evictions)
    for status in world.jobs[job_id].replicas:
        if stops or any(status.id in removed for removed in shrinks):
            yield status


def where_is(world: World, replicas: Iterable[tuple[JobId, ReplicaId]]) -> Counter[str]:
    """The GPUs of some replicas, node by node."""
    found: Counter[str] = Counter()
    for job_id, replica in replicas:
        (status,) = (each for each in world.jobs[job_id].replicas if each.id == replica)
        found[str(status.node)] += size_of(world.jobs[job_id])
    return found


def beyond_share(world: World, winner: Job, stopped: frozenset[JobId]) -> frozenset[JobId]:
    """Who of the winner's queue is stopped because the queue would have more than its share with both of them."""
    shares = shares_of(world)

    def is_too_much(one: Queue, victim: JobId) -> bool:
        stays = (each for each in world.jobs.values() if each.holding and each.id not in stopped - {victim})
        has = sum(need_of(each) for each in stays if each.spec.queue in below(world, one.name))
        return has + need_of(winner) > max(shares[one.name], guarantee_of(one))

    path = [one for one in world.queues if winner.spec.queue in below(world, one.name)]
    own = (each for each in stopped if world.jobs[each].spec.queue == winner.spec.queue)
    return frozenset(each for each in own if any(is_too_much(one, each) for one in path))


def bounds_of(each: Queue) -> Iterator[tuple[str, int]]:
    """What a queue may have at most: all GPUs, and those of a type."""
    if each.limit is not None:
        yield "", each.limit.amounts["gpu_millis"] // 1000
    for kind in ("", *KINDS):
        named = each.borrowing_limit.amounts if each.borrowing_limit else {}
        name = f"gpu_millis.{kind}" if kind else "gpu_millis"
        if name in named:
            yield kind, guarantee_of(each, kind) + named[name] // 1000


def kept_of(world: World, each: Queue, kind: str = "") -> int:
    """GPUs (of a type) that a queue keeps from all others now, because it does not lend them."""
    name = f"gpu_millis.{kind}" if kind else "gpu_millis"
    named = each.lending_limit.amounts if each.lending_limit else {}
    if name not in named:
        return 0
    return max(guarantee_of(each, kind) - named[name] // 1000 - used_of(world, below(world, each.name), kind), 0)


def check_settings(world: World, decision: Decision) -> None:
    """Whoever got something has no more than its queues may have, and nothing that others keep."""
    got = [world.jobs[each.job_id] for each in (*decision.starts, *decision.grows)]
    whole = {
        kind: sum(each.capacity.gpu_millis // 1000 for each in world.nodes if kind in (each.gpu_type, ""))
        for kind in ("", *KINDS)
    }
    everybody = {str(each.name) for each in world.queues}
    for each in world.queues:
        mine = below(world, each.name)
        fresh = [one for one in got if one.spec.queue in mine]
        for kind, most in bounds_of(each) if fresh else ():
            # Of a type it has got something only if some of it lies there.
            if any(status.node.endswith(kind) for one in fresh for status in one.replicas):
                assert used_of(world, mine, kind) <= most, f"'{each.name}' has more than it may"
        if each.non_preemptible_within_guarantee and any(not one.spec.policy.preemptible for one in fresh):
            assert used_of(world, mine, fixed=True) <= guarantee_of(each), f"too much of '{each.name}' is fixed"
        for kind in ("", *KINDS):
            kept = kept_of(world, each, kind)
            others = [one for one in got if one.spec.queue not in mine]
            takes = [one for one in others if any(status.node.endswith(kind) for status in one.replicas)]
            own = [own_room(world, one, kind) for one in takes]
            if kept and takes and any(room < 0 for room in own):
                rest = sum(kept_of(world, one, kind) for one in world.queues)
                assert used_of(world, everybody, kind) + rest <= whole[kind], f"what '{each.name}' keeps is given away"
    for eviction in decision.evictions:
        before = world.seen[eviction.job_id]
        path = [one for one in world.queues if one.name == before.spec.queue]
        path += [one for one in world.queues if path and one.name == path[0].parent]
        said = [one.minimum_run_seconds for one in path if one.minimum_run_seconds is not None]
        ran = world.decided_at - launched_at(before)
        assert ran >= (said[0] if said else world.policies.minimum_run_seconds), (
            f"{eviction.job_id} ran for {ran} s only"
        )


def own_room(world: World, each: Job, kind: str) -> int:
    """What the queue of a job keeps for itself beyond what it uses; negative if it uses more than that."""
    (mine,) = (one for one in world.queues if one.name == each.spec.queue)
    name = f"gpu_millis.{kind}" if kind else "gpu_millis"
    named = mine.lending_limit.amounts if mine.lending_limit else {}
    kept = guarantee_of(mine, kind) - named[name] // 1000 if name in named else 0
    return kept - used_of(world, {mine.name}, kind)


def check_types(world: World) -> None:
    """Of the only node of a type, nobody without a guarantee of it keeps anything from one who is guaranteed it."""
    for kind in KINDS if world.typed else ():
        places = [each for each in world.nodes if each.gpu_type == kind]
        promised = [each for each in world.queues if guarantee_of(each, kind)]
        bounded = any(each.parent or list(bounds_of(each)) or each.lending_limit for each in world.queues)
        if len(places) != 1 or len(promised) != 1 or bounded:
            continue
        (owner,) = promised
        guests = [
            each
            for each in world.jobs.values()
            if each.holding
            and each.spec.queue != owner.name
            and any(one.node == places[0].name for one in each.replicas)
        ]
        if sum(map(bool, map(guarantee_of, world.queues))) > 1 or not all(
            each.spec.policy.preemptible for each in guests
        ):
            continue
        if guarantee_of(owner, kind) > places[0].capacity.gpu_millis // 1000:
            continue
        for each in world.jobs.values():
            if each.placeable and each.spec.queue == owner.name and each.spec.placement.gpu_types == (kind,):
                covered = used_of(world, {owner.name}) + need_of(each) <= guarantee_of(owner, kind)
                assert not (covered and guests), f"{each.id} is guaranteed its place, and others borrow it"


def used_by(world: World, name: str, *, least: bool = False) -> int:
    """GPUs that the gangs of one queue hold, or cannot be made to give up."""
    running = (each for each in world.jobs.values() if each.holding and each.spec.queue == name)
    return sum(
        size_of(each) * (each.spec.roles[0].least if least and each.spec.policy.preemptible else len(each.replicas))
        for each in running
    )


def check_guarantees(world: World) -> None:
    """Of a single node, one queue without a guarantee keeps nothing from the guarantee of others."""
    queues = {each.name: each.guarantee.gpu_millis // 1000 for each in world.queues}
    guests = [name for name, guarantee in queues.items() if not guarantee]
    total = sum(each.capacity.gpu_millis // 1000 for each in world.nodes)
    flat = len(world.nodes) == 1 and not world.settings
    flat = flat and not any(each.parent or each.limit for each in world.queues)
    if not flat or len(guests) != 1 or sum(queues.values()) > total:
        return
    if any(used_by(world, name, least=True) > guarantee for name, guarantee in queues.items() if guarantee):
        return
    held = [each for each in world.jobs.values() if each.holding and each.spec.queue == guests[0]]
    if not all(each.spec.policy.preemptible for each in held):
        return
    for each in world.jobs.values():
        covered = used_by(world, each.spec.queue, least=True) + need_of(each) <= queues[each.spec.queue]
        assert not (each.placeable and covered and held), f"{each.id} is guaranteed its place, and others borrow"


def top_up(each: Job, free: dict[str, int]) -> int:
    """GPUs that must be added at least so that the gang fits: every way to add them to the nodes is tried."""
    for more in count():
        ways = combinations_with_replacement(sorted(free), more)
        if any(fits(each, {name: free[name] + way.count(name) for name in free}) for way in ways):
            return more
    raise AssertionError


def check_sentences(world: World, decision: Decision) -> None:
    """What is said is so at some moment between the first start and the last."""
    queues = {each.name: each for each in world.queues}
    first, last = world.free(), world.free_after(decision)
    for job_id, why in decision.explanations.items():
        each, said = world.jobs[job_id], why.words()
        if why.constraint is Constraint.TOO_LARGE:
            assert not fits(each, world.free(frozenset(world.jobs))), said
        if why.constraint in {Constraint.RESOURCES, Constraint.TOPOLOGY}:
            assert not fits(each, last), said
            one = why.constraint is Constraint.TOPOLOGY
            assert room_for(each, last, one=one) <= why.possible <= room_for(each, first, one=one), said
            missing = why.missing.get("gpu_millis", 0) // 1000
            least = top_up(each, first)
            assert least <= missing <= (least if first == last else top_up(each, last)), said
        if why.constraint is Constraint.RESERVATION:
            assert fits(each, first), said
            assert why.behind in decision.explanations, said
        if why.constraint is Constraint.QUEUE_LIMIT:
            limit = queues[why.queue].limit.amounts["gpu_millis"] // 1000
            assert bool(why.at_most) == (need_of(each) > limit), said
            gone = frozenset(one.id for one in world.jobs.values() if one.spec.queue in below(world, why.queue))
            if any(sentence.startswith("It starts when") for sentence in said):
                assert fits(each, world.free(gone)), said
        for sentence in said:
            if found := re.match(r"Queue '(.*)' has (\d+) GPU of the (\d+) GPU that it is guaranteed", sentence):
                assert int(found[3]) == guarantee_of(queues[found[1]]), said
            if found := re.match(r"With (\d+) instead of", sentence):
                assert room_for(each, first) >= int(found[1]), said
        assert all(world.jobs[holder].holding or holder in decision.explanations for holder in why.holders), said


def check_refusals(world: World, decision: Decision) -> None:
    """Who is refused for a setting of a queue would pass it, now that all have got what they get."""
    queues = {each.name: each for each in world.queues}
    for job_id, why in decision.explanations.items():
        each, said = world.jobs[job_id], why.words()
        if why.constraint is Constraint.BORROWING_LIMIT:
            mine = queues[why.queue]
            used = {kind: used_of(world, below(world, mine.name), kind) for kind in ("", *KINDS)}
            going = sum(
                size_of(world.seen[one.job_id]) * len(world.seen[one.job_id].replicas) for one in decision.evictions
            )
            going += sum(size_of(world.seen[one.job_id]) * len(one.removed) for one in decision.shrinks)
            going += sum(need_of(world.jobs[one]) for one in world.promising)
            assert any(used[kind] + going + need_of(each) > most for kind, most in bounds_of(mine)), said
        if why.constraint is Constraint.LENDING_LIMIT:
            assert queues[why.queue].lending_limit is not None, said
            assert each.spec.queue not in below(world, why.queue), said
        if why.constraint is Constraint.NOT_GUARANTEED:
            mine = queues[why.queue]
            assert not each.spec.policy.preemptible, said
            fixed = used_of(world, below(world, mine.name), fixed=True)
            promised = sum(
                need_of(world.jobs[one]) for one in world.promising if not world.jobs[one].spec.policy.preemptible
            )
            rest = guarantee_of(mine) - sum(guarantee_of(mine, kind) for kind in KINDS)
            assert fixed + promised + need_of(each) > guarantee_of(mine) or all(
                used_of(world, below(world, mine.name), kind, fixed=True) + promised + need_of(each)
                > guarantee_of(mine, kind) + rest
                for kind in each.spec.placement.gpu_types or KINDS
            ), said


def check_no_circles(world: World, history: list[tuple[JobId, JobId]]) -> None:
    """Nobody is stopped for a queue that somebody is then stopped for on behalf of the first."""
    pairs = Counter(history)
    assert not any(times > 1 for times in pairs.values()), "the same victim for the same beneficiary twice"
    queues = [(world.jobs[victim].spec.queue, world.jobs[winner].spec.queue) for victim, winner in history]
    across = [pair for pair in queues if pair[0] != pair[1]]
    for number, (victim, winner) in enumerate(across):
        assert (winner, victim) not in across[number:], f"from '{victim}' for '{winner}', and back"


def look(world: World) -> Decision:
    """One decision, held against brute force from the state before and after it."""
    waiting = [each for each in world.jobs.values() if each.placeable]
    before = world.free()
    world.seen, world.decided_at = dict(world.jobs), world.now
    decision = world.decide()
    if not world.owed:
        check_first_in_line(world, before, waiting, decision)
    check_victims(world, decision)
    check_sentences(world, decision)
    world.carry_out(decision)
    check_capacity(world)
    check_settings(world, decision)
    world.promising = {name for name, why in decision.explanations.items() if why.constraint is Constraint.MAKING_ROOM}
    check_refusals(world, decision)
    started = {start.job_id for start in decision.starts}
    assert world.owed <= started, f"a place was promised to {world.owed - started}, which does not start"
    still = set(decision.explanations)
    world.passed |= {name: world.promised.get(name, still) for name in started}
    orders = (*decision.evictions, *decision.shrinks)
    world.owed = {each.beneficiary for each in orders if each.beneficiary is not None}
    world.owed |= {each.job_id for each in decision.evictions if each.reason.startswith("moved")}
    room = {name for name, why in decision.explanations.items() if why.constraint is Constraint.MAKING_ROOM}
    world.promised = dict.fromkeys(world.owed | room, still)
    return decision


def follow(world: World) -> None:
    history: list[tuple[JobId, JobId]] = []
    quiet = 0
    world.passed.clear()
    for number in range(ROUNDS + len(world.arrivals)):
        world.arrive(number)
        if number == len(world.arrivals):
            history.clear()
        if number < len(world.arrivals):
            world.passed.clear()  # whoever comes changes what the queues deserve
        decision = look(world)
        for each in decision.evictions:
            in_vain = each.beneficiary in world.passed.get(each.job_id, ())
            assert not in_vain, f"{each.job_id} started while {each.beneficiary} waited, and is stopped for it"
        history += [(each.job_id, each.beneficiary) for each in decision.evictions if each.beneficiary]
        quiet = 0 if world.moved(decision) or number < len(world.arrivals) else quiet + 1
        if quiet == QUIET:
            break
    else:
        raise AssertionError(f"not at rest after {ROUNDS} rounds")
    check_guarantees(world)
    check_types(world)
    check_no_circles(world, history)


def glance(world: World) -> None:
    """Fill a world somehow, let others come, and look at what is decided then."""
    for each in (world.some_job(f"early{n}") for n in range(world.random.randint(0, 4))):
        free = world.free()
        kinds = each.spec.placement.gpu_types
        usable = {name: amount for name, amount in free.items() if not kinds or name.partition("-")[2] in kinds}
        spots = [name for name, amount in usable.items() for _ in range(amount // size_of(each))]
        world.random.shuffle(spots)
        (one,) = each.spec.roles
        spots = spots[: world.random.randint(one.least, one.replicas)]
        if len(spots) >= one.least and (each.spec.placement.within is None or len(set(spots)) == 1):
            world.jobs[each.id] = running(each, Counter(spots))
    for number in range(2):
        world.arrive(number)
        look(world)


ONCE_WRONG = (2382, 2643, 2676, 4657, 4692, 5239, 5880, 6607, 6658, 6843, 6909, 7675, 21887, 60486)
"""Worlds beyond those that are looked at every time in which something was not as it should be."""


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_worlds_that_were_wrong_once_are_not_any_more(seed: int) -> None:
    glance(World(seed))
    follow(World(seed))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_small_worlds_are_as_brute_force_says(batch: int) -> None:
    for seed in range(batch, WORLDS, BATCHES):
        kinds = (glance, follow) if seed // BATCHES % 10 == 0 else (glance,)
        for kind in kinds:
            try:
                kind(World(seed))
            except AssertionError as error:
                raise AssertionError(f"world {seed}, {kind.__name__}: {error}") from error
