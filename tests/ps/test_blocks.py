"""How a model is cut into blocks, and which server keeps which."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangline.ps.blocks import (
    BlockMap,
    Tensor,
    _best_to_move,
    check_same,
    describe,
    image_bytes,
    image_views,
    readdressed,
    respread,
    spread,
)
from gangline.ps.errors import ShapeMismatchError, UnknownNameError

sizes = st.lists(st.integers(1, 5000), min_size=1, max_size=8)


def make_tensors(*elements: int) -> tuple[Tensor, ...]:
    return tuple(Tensor(f"t{number}", "<f4", (size,)) for number, size in enumerate(elements))


def load_of(block_map: BlockMap) -> list[int]:
    return [sum(block_map.blocks[n].nbytes for n in block_map.owned_by(s)) for s in range(len(block_map.servers))]


@given(sizes, st.integers(1, 5))
def test_every_element_lies_in_exactly_one_block(elements: list[int], servers: int) -> None:
    block_map = spread(make_tensors(*elements), [str(n) for n in range(servers)], block_bytes=1024)

    for number, size in enumerate(elements):
        ranges = sorted((block.start, block.stop) for block in block_map.blocks if block.tensor == number)
        assert ranges[0][0] == 0
        assert ranges[-1][1] == size
        assert all(left[1] == right[0] for left, right in pairwise(ranges))


@given(sizes, st.integers(1, 5), st.integers(1, 5))
def test_servers_differ_by_no_more_than_one_block(elements: list[int], before: int, after: int) -> None:
    current = spread(make_tensors(*elements), [str(n) for n in range(before)], block_bytes=1024)
    later = respread(current, [str(n) for n in range(after)])

    for block_map in (current, later):
        load = load_of(block_map)
        assert max(load) - min(load) <= 1024


def test_adding_a_server_moves_no_more_than_its_share() -> None:
    current = spread(make_tensors(40_000), ["a", "b", "c"], block_bytes=1000)
    later = respread(current, ["a", "b", "c", "d"])

    moved = [new for old, new in zip(current.blocks, later.blocks, strict=True) if old.server != new.server]

    assert {later.servers[block.server] for block in moved} == {"d"}
    assert later.version == current.version + 1


def test_blocks_of_a_server_that_leaves_go_to_the_others() -> None:
    current = spread(make_tensors(40_000), ["a", "b"], block_bytes=1000)
    later = respread(current, ["a"])

    assert later.owned_by(0) == tuple(range(len(later.blocks)))


def test_ten_thousand_small_tensors_are_levelled_among_servers() -> None:
    current = spread(make_tensors(*[3] * 10_000), ["a"])
    later = respread(current, ["a", "b", "c"])

    assert sorted(len(later.owned_by(server)) for server in range(3)) == [3333, 3333, 3334]


@given(sizes=st.lists(st.integers(1, 300), max_size=30), gap=st.integers(0, 400))
def test_the_block_that_moves_is_the_one_that_narrows_the_gap_most(sizes: list[int], gap: int) -> None:
    held = sorted((size, number) for number, size in enumerate(sizes))
    narrowing = [(max(size, gap - size), number, size) for size, number in held if size < gap]
    place = _best_to_move(held, gap)

    assert (None if place is None else (held[place][1], held[place][0])) == (min(narrowing)[1:] if narrowing else None)


@pytest.mark.parametrize(
    ("before", "now", "want_servers", "want_version"),
    [
        pytest.param(("a", "b"), ("a", "b"), ("a", "b"), 1, id="the same addresses"),
        pytest.param(("a", "b"), ("b", "c"), ("b", "c"), 2, id="others, one of which was somebody else's"),
        pytest.param(("a", "b"), ("x", "y", "z"), ("x", "y"), 2, id="one more server"),
        pytest.param(("a",), ("x", "y"), ("x", "b"), 1, id="one that the old list does not know"),
        pytest.param((), ("x", "y"), ("a", "b"), 1, id="no old list"),
    ],
)
def test_servers_are_known_again_by_their_place_in_the_list(
    before: tuple[str, ...], now: tuple[str, ...], want_servers: tuple[str, ...], want_version: int
) -> None:
    later = readdressed(spread(make_tensors(30, 30), ["a", "b"]), before, now)

    assert (later.servers, later.version) == (want_servers, want_version)


def test_views_share_the_memory_of_the_image() -> None:
    tensors = describe({"a": np.zeros((2, 3), np.float32), "b": np.zeros(5, np.float64)})
    image = memoryview(bytearray(image_bytes(tensors)))
    views = image_views(image, tensors)

    views["b"][:] = 7.0

    assert views["a"].shape == (2, 3)
    np.testing.assert_array_equal(image_views(image, tensors)["b"], np.full(5, 7.0))


@pytest.mark.parametrize(
    ("declared", "want_error", "want_words"),
    [
        pytest.param((Tensor("x", "<f4", (3,)),), UnknownNameError, "'x' is unknown", id="unknown name"),
        pytest.param((Tensor("t0", "<f4", (4,)),), ShapeMismatchError, "'t0'", id="other shape"),
        pytest.param((Tensor("t0", "<f8", (3,)),), ShapeMismatchError, "'t0'", id="other type"),
        pytest.param((Tensor("t0", "<f4", (3,)),), ShapeMismatchError, "'t1'", id="one missing"),
    ],
)
def test_a_model_that_differs_is_refused_by_name(
    declared: tuple[Tensor, ...], want_error: type[Exception], want_words: str
) -> None:
    with pytest.raises(want_error, match=want_words):
        check_same(declared, make_tensors(3, 3))


def test_whole_numbers_cannot_be_trained() -> None:
    with pytest.raises(ShapeMismatchError, match="int64"):
        describe({"a": np.zeros(3, np.int64)})


@pytest.mark.parametrize("name", [0, ("layer", "weight")], ids=["a number", "a path"])
def test_names_that_are_no_strings_are_refused(name: object) -> None:
    with pytest.raises(UnknownNameError, match="names are strings"):
        describe({name: np.zeros(3)})


def test_a_model_without_parameters_is_refused() -> None:
    with pytest.raises(ShapeMismatchError, match="no parameters"):
        describe({})
