"""Callbacks for the loops of others: they report, save checkpoints and stop on notice. One for each framework.

A framework is imported when its callback is asked for, and only then. Of the ranks of a job the first saves; whether a
checkpoint is due, and whether to stop, is what any of them finds, so that none waits in a collective for one that left.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gangline.runtime.checkpoints import Checkpoints
from gangline.runtime.metrics import report
from gangline.runtime.replica import current
from gangline.runtime.stop import stopping, take_back
from gangline.runtime.write_behind import WriteBehind, load_state

_LIGHTNING = "lightning.ckpt"
_KERAS = "model.keras"


class TorchLoop:
    """A loop of your own in PyTorch; give it by name whatever has a ``state_dict``: model, optimizer, scheduler.

    >>> loop = TorchLoop(model=model, optimizer=optimizer)
    >>> for step in loop.steps(1000):
    ...     loop.report(loss=train(step))

    It goes on behind the newest checkpoint and ends early when the job must stop. ``every_steps`` is how often a
    checkpoint is saved; if not given, as often as the job's file says, and at the end. With several ranks, make it
    after ``init_process_group``: all of them begin with what the first has loaded.
    """

    def __init__(self, *, every_steps: int | None = None, directory: Path | str | None = None, **parts: Any) -> None:
        self._rhythm = _Rhythm(every_steps, directory)
        self._parts = parts
        self._behind = WriteBehind(self._rhythm.checkpoints)
        self._now: tuple[int, int] = (0, 0)

    def steps(self, total: int) -> Iterator[int]:
        """Count from the checkpoint to ``total``; what is done after each ``yield`` is a step."""
        begin = self._restore()
        for step in range(begin, total):
            self._now = (step, total)
            yield step
            done = step + 1
            stop, save = self._rhythm.after_step(done)
            if save or (done == total and self._rhythm.is_new(done)):
                self._save(done)
            if stop:
                break
        self._behind.wait()

    def report(self, **metrics: float) -> None:
        """Report numbers of the step at hand."""
        step, total = self._now
        report(step=step, total_steps=total, **metrics)

    def _save(self, step: int) -> None:
        if _is_first():
            self._behind.save(step, {name: part.state_dict() for name, part in self._parts.items()})

    def _restore(self) -> int:
        found = self._rhythm.checkpoints.latest() if _is_first() else None
        kept: list[Any] = [None if found is None else (found.step, load_state(found.path))]
        if (distributed := _process_group()) is not None:
            distributed.broadcast_object_list(kept, src=0)
        if kept[0] is None:
            return 0
        step, state = kept[0]
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        return int(step)


def lightning_callback(*, every_steps: int | None = None, directory: Path | str | None = None) -> Any:
    """Make a ``lightning.pytorch.Callback``; ``trainer.fit(model, ckpt_path=callback.resume_path)`` goes on with it.

    Checkpoints are saved at the end of each epoch, and besides every ``every_steps`` steps or as often as the job's
    file says. For strategies whose checkpoint is one file, not for sharded ones.
    """
    lightning = importlib.import_module("lightning.pytorch" if find_spec("lightning") else "pytorch_lightning")

    class LightningCallback(_Resumable, lightning.Callback):  # type: ignore[misc, name-defined]  # known at run time only
        file = _LIGHTNING

        def on_train_start(self, trainer: Any, module: Any) -> None:
            take_back()  # Lightning's own handler would end the process in the middle of an epoch

        def on_train_batch_end(self, trainer: Any, module: Any, *rest: Any) -> None:
            step = trainer.global_step
            if step % trainer.log_every_n_steps == 0:
                _report_lightning(trainer)
            stop, save = self.rhythm.after_step(step)
            if save:
                _save_lightning(trainer, self.rhythm)
            trainer.should_stop = trainer.should_stop or stop

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:
            _report_lightning(trainer)
            if self.rhythm.is_new(trainer.global_step):
                _save_lightning(trainer, self.rhythm)

        def on_validation_end(self, trainer: Any, module: Any) -> None:
            if not trainer.sanity_checking:
                _report_lightning(trainer)

    return LightningCallback(every_steps, directory)


def _report_lightning(trainer: Any) -> None:
    if trainer.local_rank == 0:
        total = trainer.max_steps if trainer.max_steps > 0 else trainer.estimated_stepping_batches
        _report_all(trainer.callback_metrics, trainer.global_step, total)


def _save_lightning(trainer: Any, rhythm: _Rhythm) -> None:
    if trainer.is_global_zero:
        rhythm.checkpoints.save(trainer.global_step, lambda path: trainer.save_checkpoint(path / _LIGHTNING))
    else:
        # It takes part in what the ranks do together, and writes nothing.
        trainer.save_checkpoint(rhythm.directory / _LIGHTNING)


def transformers_callback(*, every_steps: int | None = None, directory: Path | str | None = None) -> Any:
    """Make a ``transformers.TrainerCallback``; ``trainer.train(resume_from_checkpoint=callback.resume_path)`` goes on.

    What the trainer saves becomes a checkpoint of the job; it is asked to save every ``every_steps`` steps or as often
    as the job's file says, besides its own rhythm, and when the job must stop.
    """
    transformers = importlib.import_module("transformers")

    class TransformersCallback(_Resumable, transformers.TrainerCallback):  # type: ignore[misc, name-defined]  # as above
        file = ""

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            stop, save = self.rhythm.after_step(state.global_step)
            control.should_save = control.should_save or save
            control.should_training_stop = control.should_training_stop or stop

        def on_log(
            self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **rest: Any
        ) -> None:
            if state.is_local_process_zero:
                _report_all(logs or {}, state.global_step, state.max_steps)

        def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            if state.is_world_process_zero:
                saved = Path(args.output_dir) / f"checkpoint-{state.global_step}"
                self.checkpoints.save(state.global_step, lambda path: _copy_tree(saved, path))

    return TransformersCallback(every_steps, directory)


def keras_callback(*, directory: Path | str | None = None) -> Any:
    """Make a ``keras.callbacks.Callback``: it saves the whole model after each epoch, and after the batch of a stop.

    ``keras.models.load_model(callback.resume_path)`` is the model to go on with, ``initial_epoch=callback.resume_step``
    where; an epoch that was broken off is trained again. For one process: other workers are not asked whether to stop.
    """
    keras = importlib.import_module("keras")

    class KerasCallback(_Resumable, keras.callbacks.Callback):  # type: ignore[misc, name-defined]  # as above
        file = _KERAS
        broken_off = False

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if stopping():
                self.model.stop_training = self.broken_off = True

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            _report_all(logs or {}, epoch + 1, self.params.get("epochs"))
            if _is_first():
                done = epoch if self.broken_off else epoch + 1
                self.checkpoints.save(done, lambda path: self.model.save(path / _KERAS))

    return KerasCallback(None, directory)


class _Rhythm:
    """When the next checkpoint is due, and whether to stop: the same for all ranks."""

    def __init__(self, every_steps: int | None, directory: Path | str | None) -> None:
        if every_steps is not None and every_steps < 1:
            raise ValueError(f"every_steps={every_steps}: a checkpoint is saved after one step or more")
        self.directory = Path(directory or current().checkpoint_directory)
        self.checkpoints = Checkpoints(self.directory)
        self._every_steps = every_steps
        self._every_seconds = current().checkpoint_seconds if every_steps is None else None
        self._saved_step: int | None = None
        self._saved_at = time.monotonic()
        stopping()  # from now on: a notice before the first step counts

    def after_step(self, step: int) -> tuple[bool, bool]:
        """Say whether to stop, and whether to save."""
        stop = _any_rank(found=stopping())
        due = stop or (self._every_steps is not None and step % self._every_steps == 0)
        if self._every_seconds is not None and not stop:
            due = _any_rank(found=_is_first() and time.monotonic() - self._saved_at >= self._every_seconds)
        return stop, due and self.is_new(step)

    def is_new(self, step: int) -> bool:
        """Whether a checkpoint of this step has still to be saved; it counts as saved then."""
        if step in (0, self._saved_step):
            return False
        self._saved_step, self._saved_at = step, time.monotonic()
        return True


class _Resumable:
    """What every callback has: the checkpoint to go on from, if there is one."""

    file: str

    def __init__(self, every_steps: int | None, directory: Path | str | None) -> None:
        super().__init__()
        self.rhythm = _Rhythm(every_steps, directory)
        self.checkpoints = self.rhythm.checkpoints
        found = self.checkpoints.latest()
        self.resume_step = 0 if found is None else found.step
        self.resume_path = None if found is None else str(found.path / self.file)


def _report_all(metrics: Mapping[str, Any], step: int, total_steps: Any) -> None:
    named = {name: value for name, value in metrics.items() if name not in ("step", "total_steps")}
    known = total_steps if isinstance(total_steps, int) and total_steps > 0 else None
    report(step=step, total_steps=known, **named)


def _process_group() -> Any:
    """Return torch's process group if this process is one of several in it."""
    torch = sys.modules.get("torch")
    if torch is None or not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    return torch.distributed if torch.distributed.get_world_size() > 1 else None


def _is_first() -> bool:
    distributed = _process_group()
    return current().rank == 0 if distributed is None else distributed.get_rank() == 0


def _any_rank(*, found: bool) -> bool:
    distributed = _process_group()
    if distributed is None:
        return found
    torch = sys.modules["torch"]
    device = "cuda" if "nccl" in distributed.get_backend() else "cpu"
    most = torch.tensor(int(found), device=device)
    distributed.all_reduce(most, op=distributed.ReduceOp.MAX)
    return bool(most.item())


def _copy_tree(source: Path, target: Path) -> None:
    """Copy a directory; the files are links where that is possible, so that they take no room twice."""

    def link(file: str, place: str) -> None:
        try:
            os.link(file, place)
        except OSError:
            shutil.copy2(file, place)

    shutil.copytree(source, target, copy_function=link, dirs_exist_ok=True)
