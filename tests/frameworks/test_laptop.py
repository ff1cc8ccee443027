"""Real frameworks train MNIST through unmodified Kubeflow files on one machine."""

import os
import re
import signal
import threading
from pathlib import Path

import pytest

from tests.frameworks.conftest import EXAMPLES, Laptop, accuracies
from tools.debian import require_program

pytestmark = pytest.mark.frameworks

TARGET = 0.95
PATIENCE_SECONDS = 900.0


@pytest.mark.parametrize(
    ("file", "want_reports"),
    [
        pytest.param("tensorflow/tfjob-ps.yaml", 2, id="TensorFlow with parameter servers: the chief, two epochs"),
        pytest.param("tensorflow/tfjob-mirrored.yaml", 4, id="TensorFlow mirrored: two workers, two epochs"),
        pytest.param("pytorch/pytorchjob.yaml", 2, id="PyTorch under torchrun: two ranks"),
        pytest.param("jax/jaxjob.yaml", 2, id="JAX: two processes"),
        pytest.param("mpi/mpijob-v1.yaml", 2, id="MPI v1: two ranks"),
        pytest.param("mpi/mpijob-v2beta1.yaml", 2, id="MPI v2beta1: two ranks"),
    ],
)
def test_mnist_reaches_its_accuracy(laptop: Laptop, file: str, want_reports: int) -> None:
    if file.startswith("mpi"):
        require_program("mpirun", "openmpi-bin")
    output = laptop.run("submit", "-f", str(EXAMPLES / "kubeflow" / file), "--follow")
    reached = accuracies(output)
    assert len(reached) == want_reports, output
    assert reached[-1] >= TARGET, output


def test_three_paddle_workers_train_together(paddle_laptop: Laptop) -> None:
    output = paddle_laptop.run("submit", "-f", str(EXAMPLES / "kubeflow" / "paddle" / "paddlejob.yaml"), "--follow")
    reached = accuracies(output)
    assert len(reached) == 3, output
    assert len(set(reached)) == 1, "every worker has the same model"
    assert reached[0] >= TARGET, output


def test_a_pytorch_job_goes_on_from_its_checkpoint_when_a_torchrun_is_killed(laptop: Laptop) -> None:
    file = EXAMPLES / "kubeflow" / "pytorch" / "pytorchjob-elastic.yaml"
    with laptop.gangline("submit", "-f", str(file), "--follow") as following:
        assert following.stdout
        output, killed = [], False
        overdue = threading.Timer(PATIENCE_SECONDS, following.kill)
        overdue.start()
        for line in following.stdout:
            output.append(line)
            begun = re.search(r"rank 1 of 2 begins epoch 2, process (\d+)", line)
            if begun and not killed:
                # Not the training process: torchrun's own restart of all processes may hang when it finds one of them
                # dead and another, on another replica, still dying (their restart counts then differ for good).
                os.kill(parent_of(int(begun[1])), signal.SIGKILL)
                killed = True
        overdue.cancel()
    text = "".join(output)
    assert following.returncode == 0, text
    assert accuracies(text)[-1] >= TARGET
    begun = re.findall(r"rank (\d) of 2 begins epoch (\d)", text)
    assert begun.count(("0", "1")) == begun.count(("1", "1")) == 1, "what the checkpoint holds is not trained again"
    assert begun.count(("1", "2")) == 2, "the interrupted epoch is"


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_our_parameter_server_trains_gradients_of_jax(laptop: Laptop) -> None:
    output = laptop.run(
        "submit", "--framework", "parameter-server", "--chief", "--workers", "2", "--ps", "1",
        "--cpu", "100m", "--memory", "1Gi", "-e", f"DATA_DIR={laptop.data}", "-e", "JAX_PLATFORMS=cpu",
        "--code", str(EXAMPLES / "mnist"), "--follow", "--", "python", "train_jax.py", "--epochs", "2",
    )  # fmt: skip
    assert accuracies(output)[-1] >= TARGET, output
