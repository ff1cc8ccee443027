"""The MNIST example from training to an address, on digits that a minute's fraction suffices for."""

import subprocess
import sys
from pathlib import Path

import pytest

from gangline.sdk.transports.background import stop_service
from gangline.settings import Settings
from tests.ps.test_mnist_example import write_images

EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist"


@pytest.mark.slow
def test_served_digits_are_as_good_as_the_training_and_the_better_model_takes_over(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    write_images(data, "train", 6000)
    write_images(data, "t10k", 1000)
    home, runtime = tmp_path / "home", tmp_path / "run"
    environment = {"PATH": "/usr/bin:/bin", "GANGLINE_HOME": str(home), "GANGLINE_RUNTIME_DIRECTORY": str(runtime)}
    command = [sys.executable, EXAMPLE / "serve.py", "--data", data, "--epochs", "1", "3", "--pause", "0.5"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    finally:
        stop_service(Settings.load({}, home=home, runtime_directory=runtime))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "RolledOut: revision 2 gets all requests" in done.stdout
    assert done.stdout.rstrip().endswith("0 requests failed")
