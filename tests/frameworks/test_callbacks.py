"""The callbacks of gangline.runtime in the real Lightning, Transformers and Keras, and in a loop of two torch ranks."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.environments import environment_with
from tests.frameworks.conftest import PROJECT
from tools.frameworks import LOCK

pytestmark = pytest.mark.frameworks

DATA = """
import os, signal, sys, torch
torch.manual_seed(0)
inputs = torch.randn(64, 4)
wanted = inputs.sum(1, keepdim=True)
model = torch.nn.Linear(4, 1)

def stop_at(step):
    # As the engine does it: a signal, in the middle of a step.
    if str(step) == os.environ.get("STOP_AT"):
        os.kill(os.getpid(), signal.SIGTERM)
"""
LOOP = (
    DATA
    + """
from gangline.runtime.callbacks import TorchLoop
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
loop = TorchLoop(model=model, optimizer=optimizer, every_steps=4)
done = 0
for step in loop.steps(10):
    stop_at(step)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    loop.report(loss=loss)
    done += 1
print("steps", done, "weight", model.weight.sum().item())
"""
)
RANKS = (
    """
import torch.distributed, os
torch.distributed.init_process_group("gloo")
if os.environ["RANK"] != os.environ["SIGNALLED"]:
    os.environ.pop("STOP_AT", None)
"""
    + LOOP
)
LIGHTNING = (
    DATA
    + """
import lightning.pytorch as lightning, logging, warnings
warnings.simplefilter("ignore")
from gangline.runtime.callbacks import lightning_callback

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.done = model, 0
    def training_step(self, batch, number):
        stop_at(self.trainer.global_step)
        loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.log("train_loss", loss)
        self.done += 1
        return loss
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)

callback = lightning_callback(every_steps=2)
# All batches are alike: Lightning begins the data of an epoch anew when it goes on in the middle of it.
batches = torch.utils.data.DataLoader([(inputs, wanted)] * 4, batch_size=None)
module = Module()
trainer = lightning.Trainer(
    max_epochs=3, callbacks=[callback], logger=False, enable_checkpointing=False, accelerator="cpu",
    enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1,
)
trainer.fit(module, batches, ckpt_path=callback.resume_path)
print("steps", module.done, "weight", model.weight.sum().item())
"""
)
TRANSFORMERS = (
    DATA
    + """
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from gangline.runtime.callbacks import transformers_callback

class Model(PreTrainedModel):
    config_class = PretrainedConfig
    def __init__(self, config):
        super().__init__(config)
        self.inner, self.done = model, 0
        self.post_init()
    def forward(self, inputs=None, labels=None):
        stop_at(self.done + callback.resume_step)
        self.done += 1
        return {"loss": torch.nn.functional.mse_loss(self.inner(inputs), labels)}

callback = transformers_callback(every_steps=4)
data = [{"inputs": x, "labels": y} for x, y in zip(inputs, wanted)]
arguments = TrainingArguments(
    output_dir="out", max_steps=10, per_device_train_batch_size=16, learning_rate=0.1, logging_steps=1, use_cpu=True,
    report_to=[], save_strategy="no", disable_tqdm=True, seed=0,
)
wrapped = Model(PretrainedConfig())
trainer = Trainer(wrapped, arguments, train_dataset=data, callbacks=[callback])
trainer.train(resume_from_checkpoint=callback.resume_path)
print("steps", wrapped.done, "weight", model.weight.sum().item())
"""
)
KERAS = """
import os, signal
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy
from gangline.runtime.callbacks import keras_callback
keras.utils.set_random_seed(0)
inputs = numpy.random.default_rng(0).normal(size=(64, 4)).astype("float32")
callback = keras_callback()
if callback.resume_path:
    model = keras.models.load_model(callback.resume_path)
else:
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")

class Stopping(keras.callbacks.Callback):
    done = 0
    def on_train_batch_begin(self, batch, logs=None):
        if str(int(model.optimizer.iterations)) == os.environ.get("STOP_AT"):
            os.kill(os.getpid(), signal.SIGTERM)
        self.done += 1

counting = Stopping()
model.fit(
    inputs, inputs.sum(1), epochs=3, batch_size=16, verbose=0, initial_epoch=callback.resume_step, shuffle=False,
    callbacks=[counting, callback],
)
print("steps", counting.done, "weight", float(keras.ops.sum(model.weights[0])))
"""


@dataclass(frozen=True)
class Run:
    """What one run of a program left."""

    steps: int
    weight: float
    reported: list[dict[str, Any]]

    def values(self, name: str) -> list[float]:
        return [each["value"] for each in self.reported if each["name"] == name]


@pytest.fixture(scope="session")
def python() -> Path:
    pinned = [line.split()[0] for line in LOCK.read_text().splitlines() if line.startswith(("torch==", "keras=="))]
    return environment_with(*pinned, "lightning==2.6.6", "transformers==5.23.0", "accelerate==1.15.0")


def run(python: Path, place: Path, program: str, stop_at: int | None = None, **variables: str) -> Run:
    place.mkdir(exist_ok=True)
    process = begin(python, place, program, stop_at, **variables)
    return end(process, place)


def begin(python: Path, place: Path, program: str, stop_at: int | None, **variables: str) -> "subprocess.Popen[str]":
    numbers = place / f"metrics-{variables.get('RANK', '0')}"
    numbers.unlink(missing_ok=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("GANGLINE_")}
    environment = own | variables | {
        "PYTHONPATH": str(PROJECT / "src"),
        "CHECKPOINT_DIR": str(place / "checkpoints"),
        "GANGLINE_METRICS": str(numbers),
        "GANGLINE_ROLE": "worker",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    if stop_at is not None:
        environment["STOP_AT"] = str(stop_at)
    return subprocess.Popen(
        [str(python), "-c", program], cwd=place, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip


def end(process: "subprocess.Popen[str]", place: Path, rank: str = "0") -> Run:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    words = output.rpartition("steps ")[2].split()
    numbers = place / f"metrics-{rank}"
    reported = [json.loads(line) for line in numbers.read_text().splitlines()] if numbers.exists() else []
    return Run(int(words[0]), float(words[2]), reported)


def saved(place: Path) -> list[int]:
    return sorted(int(each.name.removeprefix("step-")) for each in (place / "checkpoints").glob("step-*"))


@pytest.mark.parametrize(
    ("program", "steps", "stop_at", "loss", "want_saved"),
    [
        pytest.param(LOOP, 10, 5, "loss", 6, id="a loop of one's own"),
        pytest.param(LIGHTNING, 12, 6, "train_loss", 7, id="Lightning"),
        pytest.param(TRANSFORMERS, 10, 5, "loss", 6, id="Transformers"),
    ],
)
def test_a_run_that_is_stopped_goes_on_and_ends_as_one_that_was_not(
    python: Path, tmp_path: Path, program: str, steps: int, stop_at: int, loss: str, want_saved: int
) -> None:
    whole = run(python, tmp_path / "whole", program)
    assert whole.steps == steps
    assert len(whole.values(loss)) >= steps
    assert whole.values("progress")[-1] == 1
    assert whole.values("checkpoint")
    stopped = run(python, tmp_path / "stopped", program, stop_at)
    assert (stopped.steps, saved(tmp_path / "stopped")[-1]) == (want_saved, want_saved)
    rest = run(python, tmp_path / "stopped", program)
    assert rest.steps == steps - want_saved
    assert rest.weight == pytest.approx(whole.weight, abs=1e-5)


def test_keras_goes_on_with_the_epoch_that_was_broken_off(python: Path, tmp_path: Path) -> None:
    whole = run(python, tmp_path / "whole", KERAS)
    assert whole.steps == 12
    assert len(whole.values("loss")) == 3
    assert saved(tmp_path / "whole") == [1, 2, 3]
    stopped = run(python, tmp_path / "stopped", KERAS, stop_at=6)
    assert (stopped.steps, saved(tmp_path / "stopped")) == (7, [1])
    rest = run(python, tmp_path / "stopped", KERAS)
    assert rest.steps == 8
    assert rest.values("progress")[-1] == 1


@pytest.mark.parametrize("signalled", ["0", "1"])
def test_two_ranks_leave_after_the_same_step_whoever_is_told_to_stop(
    python: Path, tmp_path: Path, signalled: str
) -> None:
    def together(port: int, stop_at: int | None) -> list[Run]:
        rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "SIGNALLED": signalled}
        processes = [begin(python, tmp_path, RANKS, stop_at, RANK=rank, **rendezvous) for rank in ("0", "1")]
        return [end(process, tmp_path, str(rank)) for rank, process in enumerate(processes)]

    port = 29000 + os.getpid() % 1000 * 2
    assert [each.steps for each in together(port, 5)] == [6, 6]
    assert saved(tmp_path) == [4, 6]
    rest = together(port + 1, None)
    assert [each.steps for each in rest] == [4, 4]
    assert rest[0].weight == rest[1].weight
