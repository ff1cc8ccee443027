"""Pipelines compiled by the real kfp package, in an environment of its own."""

import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.environments import environment_with

KFP = "kfp==2.17.0"
SOURCE = Path(__file__).with_name("written_with_kfp.py")


@cache
def compiled() -> dict[str, Path]:
    """Return the compiled file of each pipeline in ``written_with_kfp.py`` by the pipeline's name."""
    folder = Path(mkdtemp(prefix="compiled-"))  # the run's temporary directory goes with the run
    subprocess.run([environment_with(KFP), "-W", "ignore", SOURCE, folder], check=True, capture_output=True)
    return {file.stem: file for file in sorted(folder.iterdir())}
