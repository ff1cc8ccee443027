"""Checkpoints: whole or absent, the newest found again, the oldest removed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gangline.runtime import Checkpoints, load_arrays, save_arrays


def writing(text: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / "model").write_text(text)

    return write


def test_the_latest_checkpoint_is_the_one_saved_last(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, writing("one"))
    checkpoints.save(2, writing("two"))

    latest = checkpoints.latest()

    assert latest
    assert latest.step == 2
    assert (latest.path / "model").read_text() == "two"


def test_there_is_no_latest_in_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "none").latest() is None


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(5):
        checkpoints.save(step, writing(str(step)))

    assert [checkpoint.step for checkpoint in checkpoints.all()] == [4, 3]


def test_the_same_step_may_be_saved_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, writing("old"))
    saved = checkpoints.save(1, writing("new"))

    assert (saved.path / "model").read_text() == "new"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [saved.path.name]


def flip_a_byte(path: Path) -> None:
    content = bytearray((path / "model").read_bytes())
    content[0] ^= 1
    (path / "model").write_bytes(content)


def cut_short(path: Path) -> None:
    os.truncate(path / "model", 1)


def lose_a_file(path: Path) -> None:
    (path / "model").unlink()


def lose_the_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def break_the_manifest(path: Path) -> None:
    (path / "manifest.json").write_text(json.dumps({"files": {"model": 1}}))


@pytest.mark.parametrize("damage", [flip_a_byte, cut_short, lose_a_file, lose_the_manifest, break_the_manifest])
def test_a_corrupt_checkpoint_gives_way_to_the_one_before(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, writing("one"))
    damage(checkpoints.save(2, writing("two")).path)

    latest = checkpoints.latest()

    assert latest
    assert latest.step == 1


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        (path / "half").write_text("x")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Checkpoints(tmp_path).save(1, fail)

    assert list(tmp_path.iterdir()) == []


def test_a_writer_killed_half_way_leaves_no_checkpoint_and_is_swept_up_later(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\nfrom gangline.runtime import Checkpoints\n"
        "def write(path):\n    (path / 'half').write_text('x')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Checkpoints(sys.argv[1]).save(7, write)\n"
    )
    died = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    assert Checkpoints(tmp_path).latest() is None
    assert len(list(tmp_path.iterdir())) == 1

    saved = Checkpoints(tmp_path).save(8, writing("whole"))

    assert list(tmp_path.iterdir()) == [saved.path]


def test_arrays_come_back_as_they_went(tmp_path: Path) -> None:
    arrays = {"file": np.arange(6, dtype=np.float32).reshape(2, 3), "b/ias": np.float64(3.5).reshape(())}

    saved = Checkpoints(tmp_path).save(1, lambda path: save_arrays(path, arrays))
    loaded = load_arrays(saved.path)

    assert set(loaded) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype


def test_objects_are_refused_because_they_would_need_pickle(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        Checkpoints(tmp_path).save(1, lambda path: save_arrays(path, {"a": np.array([object()])}))


def test_at_least_one_checkpoint_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep=0"):
        Checkpoints(tmp_path, keep=0)


def test_a_saved_checkpoint_is_told_to_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = tmp_path / "metrics"
    monkeypatch.setenv("GANGLINE_METRICS", str(metrics))
    Checkpoints(tmp_path / "kept").save(7, writing("whole"))
    with pytest.raises(ZeroDivisionError):
        Checkpoints(tmp_path / "kept").save(8, lambda _: print(1 / 0))

    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [(line["name"], line["value"], line["step"]) for line in lines] == [("checkpoint", 7.0, 7)]
