"""Optimizers that users bring: what they may keep between calls, and what a failure costs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gangline import ps
from gangline.ps.optimizers import State, state_arrays
from tests.ps.gang import free_address, make_replica, running_server_threads, running_servers


def count_calls(value: np.ndarray, gradient: np.ndarray, state: dict[str, Any], learning_rate: float) -> None:
    state["calls"] = state.get("calls", 0) + 1
    value[:] = state["calls"]


def keep_a_list_of_words(value: np.ndarray, gradient: np.ndarray, state: dict[str, Any], learning_rate: float) -> None:
    state["words"] = ["kept"]


def refuse_sevens(value: np.ndarray, gradient: np.ndarray, state: State, learning_rate: float) -> None:
    if (gradient == 7).any():
        raise ValueError("a seven")
    value -= gradient


def test_a_count_that_an_optimizer_keeps_survives_snapshots_and_restarts(tmp_path: Path) -> None:
    address = free_address()
    settings = ps.Settings(optimizer=f"{__name__}:count_calls", snapshot_seconds=0.01)
    limits = ps.Limits(retained_bytes=1)  # has the worker wait for snapshots
    for life in range(2):
        with (
            running_server_threads([address], (address,), settings, tmp_path),
            ps.connect({"w": np.zeros(4)}, replica=make_replica([address]), limits=limits) as session,
        ):
            for _ in range(10):
                session.push_pull({"w": np.ones(4)})
            np.testing.assert_array_equal(session.parameters["w"], np.full(4, 10.0 * (life + 1)))


def test_a_server_outlives_an_optimizer_that_keeps_what_cannot_be_kept(tmp_path: Path) -> None:
    address = free_address()
    settings = ps.Settings(optimizer=f"{__name__}:keep_a_list_of_words", snapshot_seconds=0.01)
    with (
        running_server_threads([address], (address,), settings, tmp_path),
        ps.connect({"w": np.zeros(4)}, replica=make_replica([address])) as session,
    ):
        for _ in range(3):
            with pytest.raises(ps.OptimizerError, match="state 'words' is <U4"):
                session.push_pull({"w": np.ones(4)})


@pytest.mark.parametrize(
    ("state", "want_words"),
    [
        pytest.param({"m": np.zeros((2, 3))}, "'m' is float64", id="not flat"),
        pytest.param({"m": None}, "'m' is object", id="an object"),
        pytest.param({1: np.zeros(3)}, "names are strings", id="a number as name"),
        pytest.param({"value": np.zeros(3)}, "'value' is taken", id="the name of the block itself"),
    ],
)
def test_state_that_could_not_be_restored_is_refused_by_name(state: dict[Any, object], want_words: str) -> None:
    with pytest.raises(TypeError, match=want_words):
        state_arrays(state)


def test_a_push_that_one_server_refuses_leaves_later_replies_in_their_order() -> None:
    model = {"a": np.zeros(4), "b": np.zeros(4)}
    with (
        running_servers(2, optimizer=f"{__name__}:refuse_sevens") as addresses,
        ps.connect(model, replica=make_replica(addresses), shared_memory=False) as session,
    ):
        with pytest.raises(ps.OptimizerError, match="a seven"):
            session.push_pull({"a": np.full(4, 7.0), "b": np.ones(4)})
        for step in range(1, 4):
            session.push_pull({"a": np.ones(4), "b": np.ones(4)})
            np.testing.assert_array_equal(session.parameters["a"], np.full(4, -1.0 * step))
            np.testing.assert_array_equal(session.parameters["b"], np.full(4, -1.0 * step - 1))
