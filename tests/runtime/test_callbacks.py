"""What the callbacks share, without a framework; tests/frameworks has them in the real ones."""

import os
import signal
import sys
import types
from pathlib import Path

import pytest

from gangline.runtime import callbacks
from gangline.runtime.callbacks import keras_callback
from gangline.runtime.stop import StopNotice


class Model:
    """A model as Keras would hand it over."""

    stop_training = False

    def save(self, path: Path) -> None:
        path.write_text("weights")


@pytest.fixture
def keras(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A stand-in for Keras with the little that the callback touches; the stop notice is this test's own."""

    class Callback:
        params = {"epochs": 9}  # noqa: RUF012  # as in Keras
        model = Model()

    module = types.ModuleType("keras")
    module.callbacks = types.SimpleNamespace(Callback=Callback)  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "keras", module)
    monkeypatch.setattr(callbacks, "stopping", StopNotice(signal.SIGUSR2).stopping)
    monkeypatch.setenv("CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("GANGLINE_METRICS", str(tmp_path / "metrics"))
    return tmp_path


def test_each_epoch_is_reported_and_saved_and_the_next_run_goes_on_behind_it(keras: Path) -> None:
    callback = keras_callback()
    assert (callback.resume_path, callback.resume_step) == (None, 0)
    for epoch in range(2):
        callback.on_train_batch_end(0)
        callback.on_epoch_end(epoch, {"loss": 0.5, "step": 9})
    again = keras_callback()
    assert again.resume_step == 2
    assert Path(again.resume_path).read_text() == "weights"
    lines = (keras / "metrics").read_text()
    assert lines.count('"name": "loss"') == 2
    assert '"name": "step"' not in lines


def test_a_notice_stops_the_training_and_the_epoch_counts_as_not_done(keras: Path) -> None:
    callback = keras_callback()
    os.kill(os.getpid(), signal.SIGUSR2)
    callback.on_train_batch_end(0)
    assert callback.model.stop_training
    callback.on_epoch_end(1, {})
    assert keras_callback().resume_step == 1


def test_of_several_replicas_the_first_saves(keras: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANGLINE_RANK", "1")
    callback = keras_callback()
    callback.on_epoch_end(0, {})
    assert keras_callback().resume_path is None


def test_a_step_is_saved_once_and_every_so_many(keras: Path) -> None:
    rhythm = callbacks._Rhythm(2, None)
    assert [rhythm.after_step(step) for step in (0, 1, 2, 2, 3, 4)] == [
        (False, save) for save in (False, False, True, False, False, True)
    ]
    assert not rhythm.is_new(4)
    with pytest.raises(ValueError, match="every_steps=0"):
        callbacks._Rhythm(0, None)


def test_without_a_number_of_steps_the_file_says_how_often(keras: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GANGLINE_CHECKPOINT_SECONDS", "60")
    now = 0.0
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now)
    rhythm = callbacks._Rhythm(None, None)
    found = []
    for step, now in ((1, 59.0), (2, 60.0), (3, 61.0), (4, 120.0)):  # noqa: B007  # the clock reads it
        found.append(rhythm.after_step(step)[1])
    assert found == [False, True, False, True]


def test_a_framework_that_took_the_signal_gives_it_back() -> None:
    notice = StopNotice(signal.SIGUSR2)
    before = signal.getsignal(signal.SIGUSR2)
    try:
        assert not notice.stopping()
        signal.signal(signal.SIGUSR2, lambda *_: pytest.fail("the framework's own handler was called"))
        notice.take_back()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert notice.stopping()
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_saved_directory_is_linked_and_not_copied(tmp_path: Path) -> None:
    (tmp_path / "from/inner").mkdir(parents=True)
    (tmp_path / "from/inner/weights").write_text("x")
    (tmp_path / "to").mkdir()
    callbacks._copy_tree(tmp_path / "from", tmp_path / "to")
    assert (tmp_path / "to/inner/weights").samefile(tmp_path / "from/inner/weights")
