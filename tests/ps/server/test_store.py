"""What a server keeps: every push once, and the newest process only."""

from typing import Any

import numpy as np
import pytest

from gangline.ps.blocks import Tensor, spread
from gangline.ps.errors import (
    MissingBlocksError,
    NonFiniteGradientError,
    OldMapError,
    ReplacedError,
    ShapeMismatchError,
)
from gangline.ps.protocol.messages import AskPosition, Initialise, Push, Pushed
from gangline.ps.server.agreement import Agreement
from gangline.ps.server.store import HeldBlock, Store, check_sizes, is_finite
from gangline.ps.settings import Settings

MAP = spread((Tensor("a", "<f4", (4,)), Tensor("b", "<f4", (4,))), ["a:1"])
ONES = np.ones(4, np.float32)


def make_store(**settings: Any) -> Store:
    store = Store(Agreement(Settings(learning_rate=1.0, **settings)))
    store.initialise(Initialise(MAP, (0, 1)), [np.zeros(4, np.float32), np.zeros(4, np.float32)])
    return store


def push(
    store: Store, sequence: int, gradient: np.ndarray = ONES, blocks: tuple[int, ...] = (0, 1), **fields: Any
) -> Pushed:
    values = {
        "worker": "w",
        "incarnation": 1,
        "clock": sequence,
        "map_version": 1,
        "bases": (0,) * len(blocks),
    } | fields
    message = Push(sequence=sequence, blocks=blocks, **values)
    return store.push(message, store.find(blocks, 1), [gradient] * len(blocks))


def value(store: Store, number: int = 0) -> float:
    return float(store.blocks[number].value[0])


def test_a_repeated_push_is_applied_once() -> None:
    store = make_store()

    first, again = push(store, 1), push(store, 1)

    assert value(store) == -1
    assert first.versions == again.versions


def test_a_push_that_reached_only_some_blocks_is_completed_by_its_repeat() -> None:
    store = make_store()
    push(store, 1, blocks=(0,))

    push(store, 1, blocks=(0, 1))

    assert (value(store, 0), value(store, 1)) == (-1, -1)


def test_a_new_process_counts_from_one_again_and_the_old_one_is_refused() -> None:
    store = make_store()
    push(store, 9, incarnation=1)
    push(store, 1, incarnation=2)

    assert value(store) == -2
    with pytest.raises(ReplacedError):
        push(store, 10, incarnation=1)


def test_position_is_what_all_blocks_hold_of_this_very_process() -> None:
    store = make_store()
    push(store, 1)
    push(store, 2, blocks=(0,))

    def position(incarnation: int) -> int:
        return store.position(AskPosition("w", incarnation, 1, (0, 1)), store.find((0, 1), 1)).sequence

    assert position(1) == 1
    assert position(2) == 0


@pytest.mark.parametrize(
    ("consistency", "replay", "want_value", "want_applied"),
    [
        pytest.param("async", False, -6.0, True, id="plain"),
        pytest.param("async:cutoff=4", False, -5.0, False, id="too old"),
        pytest.param("async:cutoff=4", True, -6.0, True, id="too old, but a repeat after an outage"),
        pytest.param("async:scaled", False, -4.2833333, True, id="scaled"),
    ],
)
def test_the_age_of_a_push_counts(consistency: str, replay: bool, want_value: float, want_applied: bool) -> None:
    store = make_store(consistency=consistency)
    for sequence in range(1, 6):
        push(store, sequence, worker="other", bases=(sequence - 1,) * 2 if consistency != "async:scaled" else (0, 0))

    pushed = push(store, 1, bases=(0, 0), replay=replay)

    assert pushed.staleness == 5
    assert pushed.applied is want_applied
    expected = want_value if consistency != "async:scaled" else -(1 + 1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5)
    assert value(store) == pytest.approx(expected)


def test_bsp_applies_the_mean_of_a_round_once_when_it_is_closed() -> None:
    store = make_store(consistency="bsp")
    push(store, 1, ONES, worker="one")
    push(store, 1, 3 * ONES, worker="two")
    push(store, 1, 3 * ONES, worker="two")
    assert value(store) == 0

    store.close_rounds(store.find((0, 1), 1), 1)

    assert value(store) == -2
    assert store.blocks[0].version == 1


def test_bsp_sums_in_the_same_order_whoever_comes_first() -> None:
    random = np.random.default_rng(0)
    gradients = {f"w{number}": random.normal(size=4).astype(np.float32) for number in range(7)}
    results = []
    for order in (sorted(gradients), sorted(gradients, reverse=True)):
        store = make_store(consistency="bsp")
        for worker in order:
            push(store, 1, gradients[worker], worker=worker)
        store.close_rounds(store.find((0, 1), 1), 1)
        results.append(store.blocks[0].value.tobytes())

    assert results[0] == results[1]


def test_bsp_counts_what_comes_after_a_round_closed_in_the_next_one() -> None:
    store = make_store(consistency="bsp")
    push(store, 1, worker="fast")
    store.close_rounds(store.find((0, 1), 1), 1)
    push(store, 1, worker="late")
    store.close_rounds(store.find((0, 1), 1), 2)

    assert value(store) == -2


@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=["NaN", "infinity"])
def test_reject_refuses_a_bad_gradient_and_keeps_the_values(bad: float) -> None:
    store = make_store(non_finite="reject")

    with pytest.raises(NonFiniteGradientError, match="push 1 of w"):
        push(store, 1, np.array([1, bad, 1, 1], np.float32))

    assert value(store) == 0
    assert push(store, 2).applied


def test_skip_drops_a_bad_gradient() -> None:
    store = make_store(non_finite="skip")

    assert not push(store, 1, np.array([1, np.nan, 1, 1], np.float32)).applied
    assert value(store) == 0


def test_stop_refuses_everything_after_a_bad_gradient() -> None:
    store = make_store(non_finite="stop")
    with pytest.raises(NonFiniteGradientError):
        push(store, 1, np.array([1, np.nan, 1, 1], np.float32))

    with pytest.raises(NonFiniteGradientError, match="training stopped"):
        push(store, 2)


def test_numbers_too_large_to_square_are_still_finite() -> None:
    assert is_finite(np.full(3, 1e30, np.float32))
    assert not is_finite(np.array([1e30, np.nan], np.float32))


def test_a_reader_keeps_what_it_saw_while_the_block_moves_on() -> None:
    store = make_store(optimizer="momentum")
    push(store, 1)
    block = store.blocks[0]
    seen, velocity = block.value, block.state["velocity"]
    block.pin.readers += 1

    push(store, 2)

    assert (seen[0], velocity[0]) == (-1, 1)
    assert value(store) != -1


def test_a_block_without_readers_is_changed_in_place() -> None:
    store = make_store()
    before = store.blocks[0].value

    push(store, 1)

    assert store.blocks[0].value is before


def test_first_values_are_set_once() -> None:
    store = make_store()
    push(store, 1)
    store.initialise(Initialise(MAP, (0, 1)), [ONES, ONES])

    assert value(store) == -1


def test_blocks_that_moved_away_and_blocks_that_were_lost_are_told_apart() -> None:
    store = make_store()
    with pytest.raises(MissingBlocksError):
        store.find((7,), 1)
    store.follow((1,), map_version=2, now=0.0)

    with pytest.raises(OldMapError, match="2 is in force"):
        store.find((0,), 1)


def test_a_frozen_block_takes_no_push_before_it_is_known_which_map_is_in_force() -> None:
    store = make_store()
    store.freeze(store.find((0,), 1), until=10.0, mover="me")

    for too_early, now in ((1, 9.0), (0, 11.0)):
        store.follow((0, 1), map_version=too_early, now=now)
        with pytest.raises(OldMapError, match="on its way"):
            store.find((0,), 1, to_change=True)
    assert store.find((0,), 1), "reading is allowed"
    store.follow((0, 1), map_version=1, now=11.0)
    assert store.find((0,), 1, to_change=True)


def test_a_mover_thaws_what_it_froze_itself() -> None:
    store = make_store()
    store.freeze(store.find((0, 1), 1), until=10.0, mover="first")
    store.freeze(store.find((1,), 1), until=10.0, mover="second")
    store.thaw("first")

    assert store.find((0,), 1, to_change=True)
    with pytest.raises(OldMapError):
        store.find((1,), 1, to_change=True)


def test_pushes_that_wait_for_their_round_move_with_the_block() -> None:
    here, there = make_store(consistency="bsp"), make_store(consistency="bsp")
    push(here, 1)
    moved, arrays = here.blocks[0].pack()
    there.install(moved, [array.copy() for array in arrays])
    for store in (here, there):
        store.close_rounds(store.find((0,), 1), 1)

    assert value(here) == value(there) == -1


def test_a_payload_of_another_size_is_refused() -> None:
    with pytest.raises(ShapeMismatchError, match="12 bytes, the blocks have 16"):
        check_sizes([HeldBlock(0, 0, ONES)], 12)
