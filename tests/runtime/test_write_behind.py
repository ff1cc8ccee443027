"""States that are saved behind a training's back. Torch itself is in tests/frameworks."""

import threading
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from gangline.runtime import Checkpoints, WriteBehind, load_state


class Optimizer(NamedTuple):
    step: int
    moments: dict[str, np.ndarray]


def test_what_is_saved_is_the_state_at_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path)
    go_on, save = threading.Event(), checkpoints.save
    monkeypatch.setattr(checkpoints, "save", lambda *given: go_on.wait(30) and save(*given))
    behind = WriteBehind(checkpoints)
    weights = np.arange(6.0).reshape(2, 3)
    behind.save(7, {"layer": {"weights": weights, "bias": jnp.ones(3)}, "epoch": 4})
    weights[:] = -1
    go_on.set()
    behind.wait()
    found = checkpoints.latest()
    assert found is not None
    assert found.step == 7
    state = load_state(found.path)
    assert state["layer"]["weights"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert state["layer"]["bias"].tolist() == [1, 1, 1]
    assert state["epoch"] == 4


def test_buffers_are_used_again_and_follow_a_change_of_shape(tmp_path: Path) -> None:
    behind = WriteBehind(Checkpoints(tmp_path))
    for step, shape in enumerate([(2,), (2,), (3,)]):
        behind.save(step, {"a": np.full(shape, step)})
        behind.wait()
        buffers = list(behind._buffers.values())
        assert [buffer.tolist() for buffer in buffers] == [[step] * shape[0]]
    assert behind._buffers["/a"] is buffers[0]


def test_a_failure_is_raised_by_the_next_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    behind = WriteBehind(Checkpoints(tmp_path / "file"))
    behind.save(1, {"a": np.zeros(1)})
    with pytest.raises(OSError, match="file"):
        behind.wait()


@pytest.mark.parametrize("state", [np.zeros(1), {"a/b": np.zeros(1)}, {"a": [np.zeros(1)]}, {1: np.zeros(1)}])
def test_what_cannot_be_named_is_refused_at_once(tmp_path: Path, state: object) -> None:
    with pytest.raises(TypeError):
        WriteBehind(Checkpoints(tmp_path)).save(1, state)


def test_named_tuples_are_copied_as_they_are(tmp_path: Path) -> None:
    state = Optimizer(3, {"a": np.zeros(1)})
    copied = WriteBehind(Checkpoints(tmp_path))._copy("", state)
    assert isinstance(copied, Optimizer)
    assert copied.moments["a"] is not state.moments["a"]
