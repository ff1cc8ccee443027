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


def test_what_was_just_saved_is_kept_among_later_steps_of_an_earlier_run(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(9, writing("earlier run"))
    saved = Checkpoints(tmp_path, keep=1).save(1, writing("new run"))

    assert (saved.path / "model").read_text() == "new run"


@pytest.mark.parametrize("step", [np.int64(3), np.array(3), 3.0], ids=["numpy", "array", "float"])
def test_a_step_may_be_a_number_of_any_framework(tmp_path: Path, step: int) -> None:
    saved = Checkpoints(tmp_path).save(step, writing("whole"))

    assert Checkpoints(tmp_path).latest() == saved
    assert saved.step == 3


def test_a_step_below_zero_is_refused_because_it_would_not_be_found_again(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="step=-1"):
        Checkpoints(tmp_path).save(-1, writing("lost"))


def test_a_file_with_the_manifests_name_is_refused_instead_of_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'manifest\.json'"):
        Checkpoints(tmp_path).save(1, lambda path: print((path / "manifest.json").write_text("{}")))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", [1, 2], ids=["the same step", "another step"])
def test_a_save_that_a_stop_notice_interrupts_with_another_one_goes_on(tmp_path: Path, step: int) -> None:
    checkpoints = Checkpoints(tmp_path)

    def write(path: Path) -> None:
        checkpoints.save(step, writing("at the stop"))
        (path / "model").write_text("whole")

    saved = checkpoints.save(1, write)

    assert (saved.path / "model").read_text() == "whole"
    assert {entry.name for entry in tmp_path.iterdir()} == {"step-000000000001", f"step-{step:012d}"}


def test_of_two_writers_of_a_step_the_later_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Checkpoints(tmp_path).save(1, writing("the other's"))
    look = Path.exists
    missed: list[Path] = []

    def look_too_early(path: Path) -> bool:
        if path.name.startswith("step-") and not missed:
            missed.append(path)
            return False
        return look(path)

    monkeypatch.setattr(Path, "exists", look_too_early)
    saved = Checkpoints(tmp_path).save(1, writing("mine"))

    assert missed == [saved.path]
    assert (saved.path / "model").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [saved.path]


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
