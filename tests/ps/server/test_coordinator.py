"""Who may pass, who is waited for, and who has left."""

import msgspec
import pytest

from gangline.ps.blocks import Tensor
from gangline.ps.errors import (
    NotLeadError,
    OldMapError,
    ReplacedError,
    SettingsError,
    ShapeMismatchError,
    UnknownWorkerError,
)
from gangline.ps.protocol.messages import Join, Joined
from gangline.ps.server.agreement import Agreement
from gangline.ps.server.coordinator import RECONNECT_SECONDS, Coordinator
from gangline.ps.settings import Settings
from gangline.ps.shards import ShardPlan

MODEL = (Tensor("w", "<f4", (10,)),)
PLAN = ShardPlan(20, 10, 1)
LEASE = 10.0


def make_coordinator(consistency: str = "async", *, address: str = "a:1") -> Coordinator:
    return Coordinator(address, ("a:1",), Agreement(Settings(consistency=consistency)), lease_seconds=LEASE)


def join(coordinator: Coordinator, worker: str, now: float = 0.0, **fields: object) -> Joined:
    return coordinator.join(Join(worker, MODEL, 1, **fields), now)


def test_a_slow_worker_holds_others_back_and_a_dead_one_does_not() -> None:
    coordinator = make_coordinator("ssp:1")
    fast, _ = join(coordinator, "fast"), join(coordinator, "slow")
    assert coordinator.advance("fast", fast.incarnation, 1)
    assert not coordinator.advance("fast", fast.incarnation, 2)

    coordinator.renew("fast", fast.incarnation, LEASE - 1)
    assert coordinator.expire(LEASE + 1) == ["slow"]

    assert coordinator.advance("fast", fast.incarnation, 2)


def test_a_worker_without_a_shard_is_waited_for_by_nobody_and_goes_on_from_where_the_others_are() -> None:
    coordinator = make_coordinator("bsp")
    busy, dying, idle = (join(coordinator, worker).incarnation for worker in ("busy", "dying", "idle"))
    coordinator.take_shard("busy", busy, PLAN)
    held = coordinator.take_shard("dying", dying, PLAN)
    assert held
    coordinator.leave("dying", dying)
    assert coordinator.take_shard("idle", idle, PLAN) == held
    assert not coordinator.advance("busy", busy, 1)
    assert held.shard
    coordinator.finish_shard("idle", idle, held.shard, held.shard.stop)

    coordinator.changed = False
    assert coordinator.take_shard("idle", idle, PLAN) is None
    assert coordinator.changed
    assert coordinator.advance("busy", busy, 1)
    assert coordinator.advance("busy", busy, 7)

    coordinator.leave("busy", busy)
    granted = coordinator.take_shard("idle", idle, PLAN)
    assert granted
    assert granted.shard
    assert granted.clock == 7


def test_a_worker_that_comes_back_after_its_lease_ended_goes_on_where_the_slowest_is() -> None:
    coordinator = make_coordinator("bsp")
    other, late = join(coordinator, "other"), join(coordinator, "late")
    coordinator.renew("other", other.incarnation, LEASE - 1)
    assert coordinator.expire(LEASE + 1) == ["late"]
    assert coordinator.advance("other", other.incarnation, 40)

    assert join(coordinator, "late", LEASE + 1, incarnation=late.incarnation, clock=3).clock == 40
    assert join(coordinator, "late", LEASE + 1, incarnation=late.incarnation, clock=41).clock == 41


def test_a_lead_that_knows_nobody_takes_the_clocks_that_workers_come_back_with() -> None:
    coordinator = make_coordinator("bsp")

    assert join(coordinator, "ahead", incarnation=7, clock=50).clock == 50
    assert join(coordinator, "behind", incarnation=8, clock=49).clock == 49


def test_a_newcomer_begins_where_the_slowest_is_and_holds_nobody_back() -> None:
    coordinator = make_coordinator("ssp:0")
    old = join(coordinator, "old")
    coordinator.advance("old", old.incarnation, 40)

    assert join(coordinator, "new").clock == 40


def test_observers_are_waited_for_by_nobody() -> None:
    coordinator = make_coordinator("bsp")
    worker = join(coordinator, "worker")
    join(coordinator, "chief", observer=True)

    assert coordinator.advance("worker", worker.incarnation, 3)


def test_a_new_process_takes_the_place_of_the_old_and_frees_its_shard_at_once() -> None:
    coordinator = make_coordinator()
    old = join(coordinator, "w")
    grant = coordinator.take_shard("w", old.incarnation, PLAN)
    new = join(coordinator, "w")

    assert new.incarnation > old.incarnation
    assert coordinator.take_shard("w", new.incarnation, PLAN) == grant
    with pytest.raises(ReplacedError):
        coordinator.take_shard("w", old.incarnation, PLAN)
    with pytest.raises(ReplacedError):
        join(coordinator, "w", incarnation=old.incarnation)


def test_a_worker_whose_lease_ended_is_told_so() -> None:
    coordinator = make_coordinator()
    joined = join(coordinator, "w")
    coordinator.expire(LEASE)

    with pytest.raises(UnknownWorkerError):
        coordinator.renew("w", joined.incarnation, LEASE)


def test_a_broken_line_shortens_the_lease_to_the_time_of_a_reconnect() -> None:
    coordinator = make_coordinator()
    join(coordinator, "w")
    coordinator.disconnected("w", now=1.0)

    assert coordinator.expire(1.0 + RECONNECT_SECONDS / 2) == []
    assert coordinator.expire(1.0 + RECONNECT_SECONDS) == ["w"]


def test_when_the_uploader_dies_the_next_one_uploads() -> None:
    coordinator = make_coordinator()
    assert join(coordinator, "first").upload
    assert not join(coordinator, "second", now=5.0).upload
    assert coordinator.await_ready("second") is None

    coordinator.expire(LEASE)

    turn = coordinator.await_ready("second")
    assert turn is not None
    assert not turn.ready


def test_an_observer_never_uploads() -> None:
    coordinator = make_coordinator()
    assert not join(coordinator, "chief", observer=True).upload
    assert coordinator.await_ready("chief") is None

    join(coordinator, "worker")
    coordinator.uploaded()

    turn = coordinator.await_ready("chief")
    assert turn is not None
    assert turn.ready


def test_a_worker_waits_while_the_rest_is_leased_and_gets_what_comes_back() -> None:
    coordinator = make_coordinator()
    one, two = join(coordinator, "one"), join(coordinator, "two", now=5.0)
    first = coordinator.take_shard("one", one.incarnation, PLAN)
    assert coordinator.take_shard("two", two.incarnation, PLAN)
    assert coordinator.take_shard("two", two.incarnation, PLAN) is None

    coordinator.expire(LEASE)

    assert coordinator.take_shard("two", two.incarnation, PLAN) == first


def test_state_survives_a_restart() -> None:
    before = make_coordinator()
    joined = join(before, "w")
    before.uploaded()
    grant = before.take_shard("w", joined.incarnation, PLAN)
    assert grant
    assert grant.shard
    saved = msgspec.msgpack.decode(msgspec.msgpack.encode(before.state_to_keep(0.0)), type=type(before.state()))

    after = make_coordinator()
    after.restore(saved, now=100.0)

    assert after.map == before.map
    after.finish_shard("w", joined.incarnation, grant.shard, grant.shard.stop)
    assert after.progress().examples_done == 10
    assert after.expire(100.0 + LEASE) == ["w"]


def test_a_lease_goes_on_where_it_was_when_the_lead_comes_back_again_and_again() -> None:
    """A lead that lives shorter than a lease must be rid of who is gone all the same."""
    coordinator = make_coordinator()
    join(coordinator, "gone", now=1000.0)
    for life in range(4):
        now = 50.0 * life
        restored = make_coordinator()
        restored.restore(coordinator.state_to_keep(1000.0 if life == 0 else now - 50.0 + LEASE / 3), now)
        coordinator = restored

    assert coordinator.expire(now + 0.1) == ["gone"]


def test_shards_of_a_process_that_was_replaced_while_the_lead_was_older_come_back() -> None:
    """The snapshot knows the first process and its shard; the worker that comes back is the second."""
    before = make_coordinator()
    first = join(before, "w")
    grant = before.take_shard("w", first.incarnation, PLAN)
    assert grant
    after = make_coordinator()
    after.restore(before.state_to_keep(0.0), now=0.0)

    second = join(after, "w", incarnation=first.incarnation + 1, plan=PLAN)
    again = after.take_shard("w", second.incarnation, PLAN)

    assert again
    assert again.shard == grant.shard


def test_a_lead_restored_from_before_a_join_gives_a_new_incarnation() -> None:
    after = make_coordinator()
    first = after.join(Join("w", MODEL, proposed=1000), 0.0)
    restored = make_coordinator()

    assert restored.join(Join("w", MODEL, proposed=2000), 0.0).incarnation > first.incarnation


def test_two_plans_do_not_mix() -> None:
    coordinator = make_coordinator()
    joined = join(coordinator, "w")
    coordinator.take_shard("w", joined.incarnation, PLAN)

    with pytest.raises(SettingsError, match="differs from the plan in force"):
        coordinator.take_shard("w", joined.incarnation, ShardPlan(99, 10, 1))


def test_another_model_is_refused() -> None:
    coordinator = make_coordinator()
    join(coordinator, "w")

    with pytest.raises(ShapeMismatchError):
        coordinator.join(Join("x", (Tensor("w", "<f4", (11,)),), 1), 0.0)


@pytest.mark.parametrize("servers", [(), ("a:1", "b:1", "b:1")], ids=["none", "twice"])
def test_servers_that_cannot_be_are_refused(servers: tuple[str, ...]) -> None:
    coordinator = make_coordinator()
    join(coordinator, "w")

    with pytest.raises(SettingsError, match="there must be one, and none twice"):
        coordinator.propose(servers, until=20.0)


@pytest.mark.parametrize(
    ("withdrawn", "now"),
    [pytest.param(False, 20.0, id="too late"), pytest.param(True, 1.0, id="withdrawn")],
)
def test_a_map_is_put_in_force_in_its_time_or_not_at_all(withdrawn: bool, now: float) -> None:
    coordinator = make_coordinator()
    join(coordinator, "w")
    proposed = coordinator.propose(("a:1", "b:1"), until=20.0).proposed
    assert coordinator.moving
    if withdrawn:
        coordinator.withdraw(0.5)

    with pytest.raises(OldMapError, match="not the one proposed"):
        coordinator.commit(proposed, now)
    assert coordinator.map.version == 1


def test_a_move_whose_mover_died_ends_by_itself_and_costs_nobody_the_lease() -> None:
    coordinator = make_coordinator()
    joined = join(coordinator, "w")
    coordinator.uploaded()
    coordinator.propose(("b:1",), until=20.0)
    coordinator.hand_over()

    assert not coordinator.may_answer()
    assert coordinator.expire(LEASE + 1) == []
    assert coordinator.expire(20.0) == []

    assert coordinator.may_answer()
    coordinator.renew("w", joined.incarnation, 20.0)


def test_the_next_lead_goes_on_where_the_lead_left_off() -> None:
    lead, heir = make_coordinator("ssp:0"), make_coordinator("ssp:0", address="b:1")
    fast, slow = join(lead, "fast"), join(lead, "slow")
    lead.uploaded()
    lead.advance("fast", fast.incarnation, 1)
    grant = lead.take_shard("slow", slow.incarnation, PLAN)
    assert grant
    assert grant.shard
    proposed = lead.propose(("b:1",), until=20.0).proposed

    heir.take_over(lead.hand_over(), now=100.0)
    with pytest.raises(NotLeadError, match="a:1 does"):
        heir.may_answer()
    lead.commit(proposed, now=1.0)
    heir.adopt(proposed, now=105.0)

    with pytest.raises(NotLeadError, match="b:1 does"):
        lead.may_answer()
    assert heir.may_answer()
    assert heir.expire(104.0 + LEASE) == [], "leases begin when it leads"
    assert not heir.advance("fast", fast.incarnation, 1)
    heir.finish_shard("slow", slow.incarnation, grant.shard, grant.shard.stop)
    assert heir.advance("slow", slow.incarnation, 1)
    assert heir.advance("fast", fast.incarnation, 1)
    assert heir.progress().examples_done == 10


def test_what_a_slow_mover_brings_does_not_unseat_a_lead() -> None:
    lead, heir = make_coordinator(), make_coordinator(address="b:1")
    join(lead, "w")
    lead.uploaded()
    proposed = lead.propose(("b:1",), until=20.0).proposed
    late = lead.hand_over()
    lead.commit(proposed, now=1.0)
    heir.adopt(proposed, now=1.0)

    with pytest.raises(OldMapError, match="map 2 is in force"):
        heir.take_over(late, now=30.0)


def test_a_lead_restored_from_before_a_resize_takes_the_map_from_a_worker() -> None:
    before = make_coordinator()
    joined = join(before, "w")
    old = before.state()
    newer = before.propose(("a:1", "b:1"), until=20.0).proposed
    after = make_coordinator()
    after.restore(old, now=0.0)

    after.adopt(newer, now=0.0)
    after.adopt(joined.map, now=0.0)

    assert join(after, "w", incarnation=joined.incarnation).map == newer
