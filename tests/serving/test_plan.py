"""The plan of a service in a simulated world."""

import contextlib
import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.errors import ConflictError
from gangline.kinds.service import promote, rollback, scale
from gangline.model import Timestamp
from gangline.model.kinds.registered_model import Model, ModelSpec, ModelStatus, ModelVersion
from gangline.model.kinds.service import (
    Check,
    Checks,
    Counters,
    ReplicaRange,
    RevisionTraffic,
    RolloutRules,
    ServiceSpec,
)
from gangline.model.record import Record, RecordId
from gangline.model.routing import LATENCY_BOUNDS, ServiceRoute
from gangline.serving import ServiceSight, plan, route_of, traffic_of, yielding
from tests.serving.world import CRASHES, ERRORS, GOOD, NEVER_READY, SLOW, World, make_service, program


def started(world: World) -> World:
    for _ in range(5):
        world.tick()
    assert world.ready() == world.service.status.scale
    return world


def test_first_revision_gets_all_requests_once_it_is_ready() -> None:
    world = started(World())
    assert (world.service.status.current, world.service.state, world.service.status.ready) == (1, "ready", 2)
    assert world.share(1) == 1.0


def test_rollout_goes_step_by_step_and_never_below_the_minimum() -> None:
    world = started(World())
    world.edit(job=program(GOOD, 2))
    shares = []
    for _ in range(60):
        world.tick()
        shares.append(round(world.share(2), 2))
        assert world.ready() >= world.service.spec.replicas.min
    assert [share for share, after in itertools.pairwise(shares) if share != after][:3] == [0.0, 0.1, 0.5]
    assert (world.service.status.current, world.service.status.previous) == (2, 1)
    assert {each.revision for each in world.service.status.replicas} == {2}


@pytest.mark.parametrize("bad", [SLOW, ERRORS, CRASHES, NEVER_READY])
def test_bad_revision_has_its_canary_share_at_most_and_is_rolled_back(bad: str) -> None:
    world = started(World(make_service(checks=Checks(within_seconds=20))))
    world.edit(job=program(bad, 2))
    shares = []
    for _ in range(60):
        world.tick()
        shares.append(world.share(2))
        assert world.ready() >= 2
    assert max(shares) <= 0.1
    assert (max(shares) > 0) is (bad in {SLOW, ERRORS})
    status = world.service.status
    assert (status.current, status.rollout) == (1, None)
    assert {each.revision for each in status.replicas} == {1}
    failed = status.revision(2)
    assert failed is not None
    assert failed.failed
    assert status.events[-1].message == f"revision 2: {failed.failed}"


def test_revision_that_failed_is_not_tried_again_until_the_file_changes() -> None:
    world = started(World())
    world.edit(job=program(ERRORS, 2))
    for _ in range(120):
        world.tick()
    assert [each.reason for each in world.service.status.events].count("RolloutBegun") == 1
    world.edit(job=program(GOOD, 3))
    for _ in range(40):
        world.tick()
    assert world.service.status.current == 3


def test_going_back_moves_the_pointer_to_the_earlier_revision() -> None:
    world = started(World())
    world.edit(job=program(GOOD, 2))
    for _ in range(40):
        world.tick()
    world.service = rollback(world.service, {})
    for _ in range(20):
        world.tick()
        assert world.ready() >= 2
    assert (world.service.status.current, world.service.status.last_number) == (1, 2)
    with pytest.raises(ConflictError, match="no revision 9"):
        rollback(world.service, {"revision": "9"})


def test_rollback_of_a_rollout_gives_it_up_at_once() -> None:
    world = started(World())
    world.edit(job=program(GOOD, 2))
    for _ in range(4):
        world.tick()
    assert world.share(2) == 0.1
    world.service = rollback(world.service, {})
    world.settle()
    assert world.share(1) == 1.0


def test_promotion_leaves_out_the_steps_that_are_left() -> None:
    world = started(World())
    world.edit(job=program(GOOD, 2))
    for _ in range(4):
        world.tick()
    world.service = promote(world.service)
    for _ in range(8):
        world.tick()
        assert world.ready() >= 2
    assert world.service.status.current == 2
    with pytest.raises(ConflictError, match="nothing is being rolled out"):
        promote(world.service)


def test_header_and_tag_lead_to_the_revision_that_is_rolled_out() -> None:
    world = started(World(make_service(rollout=RolloutRules(steps=(0,), pause_seconds=99, header="X-Try=yes"))))
    world.edit(job=program(GOOD, 2))
    for _ in range(5):
        world.tick()
    assert world.route is not None
    route = {each.name: each for each in world.route.revisions}
    assert (route["2"].weight, route["2"].tag, route["1"].tag) == (0.0, "candidate", "r1")
    assert [(each.name, each.value) for each in route["2"].headers] == [("X-Try", "yes")]


def test_replica_that_drains_is_stopped_when_the_router_is_done_with_it() -> None:
    world = started(World())
    world.service = scale(world.service, {"min": "1", "max": "1"})
    now = Timestamp(world.now + 120)
    busy = {number: replace(each, idle=False) for number, each in world.sight().replicas.items()}
    loads = tuple(replace(each, at=Timestamp(now - 60 + index)) for index, each in enumerate(world.sight().loads))
    sight = replace(world.sight(), replicas=busy, loads=loads)
    first = plan(world.service, world.jobs.values(), sight, now)
    leaving = [each.number for each in first.status.replicas if each.draining_at is not None]
    assert (len(leaving), first.stop) == (1, ())
    service = replace(world.service, status=first.status)
    states = {each.address: each.state for each in route_of(service, sight).revisions[0].backends}
    assert states == {f"r{number}": "draining" if number in leaving else "ready" for number in (1, 2)}
    assert plan(service, world.jobs.values(), sight, Timestamp(now + 59)).stop == ()
    assert plan(service, world.jobs.values(), sight, Timestamp(now + 60)).stop == tuple(leaving)
    idle = replace(sight, replicas={**busy, leaving[0]: replace(busy[leaving[0]], idle=True)})
    assert plan(service, world.jobs.values(), idle, Timestamp(now + 1)).stop == tuple(leaving)


def test_service_sleeps_without_requests_and_wakes_for_the_first() -> None:
    world = started(World(make_service(replicas=ReplicaRange(min=0, max=3, idle_seconds=30, window_seconds=30))))
    world.rate = 0
    for _ in range(90):
        world.tick()
    assert (world.service.state, world.jobs) == ("asleep", {})
    world.rate = 20
    world.tick()
    assert world.held == 20
    for _ in range(4):
        world.tick()
    assert (world.held, world.service.state) == (0, "ready")


def test_replicas_follow_a_day_without_flapping() -> None:
    rules = ReplicaRange(min=1, max=10, target=4, window_seconds=60)
    world = World(make_service(replicas=rules), seconds=0.1)
    for second in range(2880):
        load = 16 - 14 * math.cos(2 * math.pi * second / 2880)
        world.rate = load / world.seconds * world.random.uniform(0.8, 1.2)
        world.tick()
        if second > 60:
            assert world.service.status.scale * rules.per_replica >= load * 0.75
    turns = [a for a, b in zip(world.scales, world.scales[1:], strict=False) if a != b]
    directions = [b > a for a, b in zip(world.scales, world.scales[1:], strict=False) if a != b]
    reversals = sum(a != b for a, b in itertools.pairwise(directions))
    assert max(world.scales) >= 7
    assert min(world.scales[-30:]) <= 2
    assert len(turns) <= 24
    assert reversals <= 4


@pytest.mark.parametrize("how", [SLOW, ERRORS])
def test_bad_revision_does_not_take_over_because_the_only_other_replica_was_killed(how: str) -> None:
    world = started(World(make_service(replicas=ReplicaRange(min=1))))
    world.edit(job=program(how, 2))
    for _ in range(3):
        world.tick()
    world.kill(1)
    for _ in range(200):
        world.tick()
    assert world.service.status.current == 1
    assert world.service.status.revision(2).failed  # type: ignore[union-attr]


def test_revision_takes_over_at_once_from_one_that_only_crashes() -> None:
    world = started(World(make_service(replicas=ReplicaRange(min=1))))
    world.edit(job=program(GOOD, 2))
    for _ in range(3):
        world.tick()
    for _ in range(3):
        world.kill(1)
        world.tick()
    assert world.service.status.current == 2


@given(
    st.lists(st.sampled_from(["edit", "bad", "kill", "rollback", "scale", "wait", "wait"]), max_size=12),
    st.randoms(use_true_random=False),
)
def test_whatever_happens_it_comes_to_rest_with_the_replicas_it_should_have(actions: list[str], chance: object) -> None:
    world = started(World(make_service(checks=Checks(within_seconds=20))))
    number, bad = 2, set[int]()
    for action in actions:
        match action:
            case "edit" | "bad":
                how = GOOD if action == "edit" else chance.choice([SLOW, ERRORS, CRASHES, NEVER_READY])  # type: ignore[attr-defined]
                bad |= {world.service.status.last_number + 1} if action == "bad" else set()
                world.edit(job=program(how, number))
                number += 1
            case "kill" if world.jobs:
                world.kill(chance.choice(sorted(world.jobs)))  # type: ignore[attr-defined]
            case "rollback":
                with contextlib.suppress(ConflictError):
                    world.service = rollback(world.service, {})
            case "scale":
                count = str(chance.randint(1, 3))  # type: ignore[attr-defined]
                world.service = scale(world.service, {"min": count, "max": count})
        for _ in range(3):
            world.tick()
            rolled_out = world.service.status.rollout
            if rolled_out is not None and rolled_out.revision in bad:
                assert world.share(rolled_out.revision) <= 0.5
    for _ in range(200):
        world.tick()
    status = world.service.status
    assert status.rollout is None
    assert status.current not in bad
    assert world.ready() == status.scale == len(status.replicas)
    assert world.service.spec.replicas.min == status.scale


def test_alias_of_a_model_rolls_the_service() -> None:
    def registered(production: int) -> Model:
        versions = tuple(ModelVersion(number=each, digest=str(each), created_at=Timestamp(0)) for each in (1, 2))
        status = ModelStatus(versions=versions, aliases={"production": production}, last_number=2)
        return Record(id=RecordId("m1"), spec=ModelSpec(name="mnist"), status=status, created_at=Timestamp(0))

    spec = ServiceSpec(name="digits", model="model://mnist@production")
    service = replace(make_service(), spec=spec)
    first = plan(service, (), ServiceSight(), Timestamp(1), models=[registered(1)])
    assert first.start[0][1].inputs[0].source == "model://mnist:1"
    service = replace(service, status=first.status)
    again = plan(service, (), ServiceSight(), Timestamp(2), models=[registered(1)])
    assert again.status.last_number == 1
    moved = plan(service, (), ServiceSight(), Timestamp(3), models=[registered(2)])
    assert moved.status.rollout is not None
    assert [job.inputs[0].source for _, job in moved.start][-1] == "model://mnist:2"
    back = plan(replace(service, status=moved.status), (), ServiceSight(), Timestamp(4), models=[registered(1)])
    assert (back.status.rollout, back.status.last_number) == (None, 2)
    missing = plan(service, (), ServiceSight(), Timestamp(5), models=[])
    assert missing.status.state == "blocked"
    assert "mnist" in missing.status.problem


def test_checks_count_failures_in_a_row() -> None:
    from gangline.serving import Health

    checks = Checks(ready=Check(failures=2), live=Check(failures=2))
    health = Health().after_ready(checks, "").after_ready(checks, "refused")
    assert (health.ready, health.after_ready(checks, "refused").ready) == (True, False)
    assert not health.after_live("no").must_restart(checks)
    assert health.after_live("no").after_live("no").must_restart(checks)
    assert not health.after_live("no").after_live("").after_live("no").must_restart(checks)


def test_first_revision_that_never_becomes_ready_is_told_with_its_reason_and_may_still_become_so() -> None:
    world = World(make_service(checks=Checks(within_seconds=20)), rate=0)
    world.edit(job=program(NEVER_READY))
    for _ in range(10):
        world.tick()
    assert not world.service.status.problem
    for _ in range(20):
        world.tick()
    status = world.service.status
    assert "was not ready within 20 s" in status.problem
    assert status.state == "blocked"
    assert [each.reason for each in status.events].count("NotReady") == 1
    world.edit(job=program(GOOD, 2))
    for _ in range(20):
        world.tick()
    assert not world.service.status.problem
    assert world.service.status.ready == 2


def test_first_revision_that_crashes_is_told_with_its_exit() -> None:
    world = World(make_service(), rate=0)
    world.edit(job=program(CRASHES))
    for _ in range(30):
        world.tick()
    assert "exits again and again" in world.service.status.problem
    assert [each.reason for each in world.service.status.events].count("NotReady") == 1


def test_rollout_that_waits_for_machines_says_so() -> None:
    world = World()
    for _ in range(10):
        world.tick()
    world.full = True
    world.edit(job=program(GOOD, 2))
    for _ in range(20):
        world.tick()
    status = world.service.status
    assert "the rollout of revision 2 waits: digits-2-3 waits for a machine" in status.notice
    assert status.ready == 2
    assert [each.reason for each in status.events].count("Hindered") == 1
    world.full = False
    for _ in range(60):
        world.tick()
    assert not world.service.status.notice
    assert world.service.status.current == 2


def test_host_and_port_stay_with_the_service_that_has_them() -> None:
    """Otherwise another tenant's service would get its requests."""
    shop = ServiceRoute(name="shop.acme", hosts=("shop.example.org",), port=8443)
    wish = ServiceRoute(name="thief", hosts=("Shop.example.org", "shop.acme.localhost", "own.example.org"), port=8443)
    route, said = yielding(wish, [shop])
    assert route == ServiceRoute(name="thief", hosts=("own.example.org",))
    assert said == (
        "Shop.example.org is that of service shop.acme; shop.acme.localhost is that of service shop.acme; "
        "port 8443 is that of service shop.acme"
    )
    assert yielding(shop, [route]) == (shop, "")


def test_traffic_is_what_was_asked_between_two_looks() -> None:
    none = [0] * (len(LATENCY_BOUNDS) + 1)
    before = {1: Counters(requests=100, errors=10, latency=(100, *none[1:])), 2: Counters()}
    now = {
        1: Counters(requests=300, errors=12, latency=(100, 0, 0, 180, *none[5:], 20)),
        2: Counters(),
        3: Counters(requests=5, latency=(0, 5, *none[2:])),
    }
    first, third = traffic_of(now, before, 10.0)
    assert first == RevisionTraffic(revision=1, per_second=20, errors=0.01, median_seconds=0.01, p95_seconds=60)
    assert first.words == ("20", "1.0%", "10 ms", "60 s")
    assert (third.revision, third.words) == (3, ("0.5", "0.0%", "2.5 ms", "2.5 ms"))
