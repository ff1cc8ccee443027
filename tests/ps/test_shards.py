"""Shards of the data: every example once an epoch, whoever dies."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.ps.errors import SettingsError
from gangline.ps.shards import ShardPlan, ShardQueue, ShardRange, ShardState, epoch_order

actions = st.lists(
    st.tuples(st.sampled_from(["take", "finish", "half", "die", "restart"]), st.integers(0, 3)), max_size=80
)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 3), actions)
def test_every_example_is_done_once_per_epoch_whatever_happens(
    examples: int, size: int, epochs: int, what: list[tuple[str, int]]
) -> None:
    queue = ShardQueue(ShardState(ShardPlan(examples, size, epochs)))
    seen = np.zeros((epochs, examples), int)
    held: dict[int, list[ShardRange]] = {worker: [] for worker in range(4)}

    def step(action: str, worker: int) -> None:
        nonlocal queue
        owner = f"worker-{worker}"
        if action == "take" and (shard := queue.take(owner)):
            held[worker].append(shard)
        elif action in ("finish", "half") and held[worker]:
            shard = held[worker].pop()
            reached = shard.stop if action == "finish" else (shard.start + shard.stop) // 2
            queue.give_back(owner, shard, reached)
            seen[shard.epoch, shard.start : reached] += 1
        elif action == "die":
            queue.release(owner)
            held[worker] = []
        elif action == "restart":
            queue = ShardQueue(msgspec.convert(msgspec.to_builtins(queue.state()), ShardState))

    for action, worker in what:
        step(action, worker)
    for worker in held:
        step("die", worker)
    while not queue.finished:
        step("take", 0)
        step("finish", 0)

    assert (seen == 1).all()
    assert queue.take("worker-0") is None


def test_late_news_of_a_lost_lease_changes_nothing() -> None:
    queue = ShardQueue(ShardState(ShardPlan(10, 10, 1)))
    shard = queue.take("old")
    assert shard
    queue.release("old")
    queue.take("new")

    queue.finish("old", shard)

    assert queue.done_examples == 0


def test_a_survivor_brings_a_restored_queue_up_to_date() -> None:
    queue = ShardQueue(ShardState(ShardPlan(30, 10, 2)))
    old = queue.state()
    done, held = queue.take("w"), queue.take("w")
    assert done
    assert held

    restored = ShardQueue(old)
    restored.claim("w", [held], [done])

    assert restored.done_examples == 10
    assert restored.take("other") == ShardRange(0, 20, 30)


def test_a_grant_that_got_lost_is_handed_out_again() -> None:
    queue = ShardQueue(ShardState(ShardPlan(10, 10, 1)))
    lost = queue.take("w")

    queue.claim("w", [], [])

    assert queue.take("other") == lost


@pytest.mark.parametrize("plan", [ShardPlan(0, 1, 1), ShardPlan(1, 0, 1), ShardPlan(1, 1, 0)], ids=str)
def test_a_plan_for_nothing_is_refused(plan: ShardPlan) -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        ShardQueue(ShardState(plan))


def test_the_order_of_an_epoch_depends_on_epoch_and_seed_alone() -> None:
    first = epoch_order(100, epoch=0, seed=1)

    np.testing.assert_array_equal(first, epoch_order(100, epoch=0, seed=1))
    assert sorted(first) == list(range(100))
    assert (first != epoch_order(100, epoch=1, seed=1)).any()
