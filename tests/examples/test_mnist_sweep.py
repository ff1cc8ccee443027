"""The sweep of the MNIST example, its manual, and the experiment over both."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gangline.dialects import document
from gangline.dialects.native import sweep_from_value
from gangline.model.kinds.sweep import Assignment, SweepSpec
from gangline.model.search.search_space import combinations
from gangline.sdk import load_sweep
from gangline.sweeps import check_references, trial_to_job
from tests.ps.test_mnist_example import write_images

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "mnist"
BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "sweeps.md").read_text(), re.DOTALL)
DOCUMENTED = [block for block in BLOCKS if "kind: Sweep" in block and "train.py" in block]


@pytest.mark.parametrize(
    "spec",
    [load_sweep(EXAMPLE / "sweep.yaml"), *(sweep_from_value(document.parse(text)[0]) for text in DOCUMENTED)],
    ids=lambda spec: spec.name,
)
def test_every_role_of_every_trial_gets_every_value(spec: SweepSpec) -> None:
    """A parameter server that does not get the learning rate trains all trials alike."""
    check_references(spec)
    for number, values in enumerate(combinations(spec.parameters)):
        for role in trial_to_job(spec, Assignment(number=number, values=values)).roles:
            for name, value in values.items():
                assert role.command[role.command.index(f"--{name}") + 1] == value, f"{role.name} {name}"


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLE)
    return importlib.import_module("experiment_report")


def make_results(cores: int) -> dict[str, object]:
    trial = {"layers": "1", "rate": "0.1", "phase": "COMPLETED", "accuracy": 0.97, "curve": [[0, 0.5], [1, 0.97]]}
    times = [{"compute": 2.0, "submit_to_done": 4.0}, {"compute": 4.0, "submit_to_done": 9.0}]
    failed = {**trial, **times[0], "rate": "9", "phase": "FAILED", "compute": None, "accuracy": None, "curve": []}
    machine = {"cores": cores, "memory_gib": 8, "architecture": "x86_64", "python": "3.11", "node_cores": cores // 3}
    single = {**trial, **times[0], "workers": 1, "start_up": 0.25}
    grid = {"nodes": 1, "workers": 2, "trials": [{**trial, **times[0]}, {**trial, **times[1], "rate": "0.01"}, failed]}
    return {"machine": machine, "epochs": 5, "grids": [grid], "singles": [single]}


def test_the_table_has_the_longest_and_the_mean_time_of_what_completed(report: ModuleType) -> None:
    results = make_results(16)
    assert report.time_rows(results, "compute") == [("1", "1", "1", "2", "4.0", "3.0")]
    assert report.time_rows(results, "submit_to_done") == [("1", "1", "1", "2", "9.0", "6.5")]
    assert report.accuracy_rows(results) == [("1", "0.1", "0.9700"), ("1", "0.01", "0.9700"), ("1", "9", "-")]


def test_the_page_has_a_section_for_each_machine_that_says_what_it_is(report: ModuleType, tmp_path: Path) -> None:
    for cores in (16, 2):
        (tmp_path / f"mnist-grid-{cores}-cores.json").write_text(json.dumps(make_results(cores)))
    report.write_report(tmp_path)
    page = (tmp_path / "mnist-grid.md").read_text()
    assert page.index("## 2 cores") < page.index("## 16 cores")
    assert "16 cores (x86_64), 8 GiB of memory; each logical node has 5 cores" in page
    assert "2 cores (x86_64), 8 GiB of memory; logical nodes share them" in page
    assert "| 1 | 1 | 1 | 2 | 4.0 | 3.0 |" in page


def test_the_experiment_runs_and_leaves_its_page(tmp_path: Path) -> None:
    """The whole of it, on made-up data, as small as it gets."""
    data, output = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    write_images(data, "train", 600)
    write_images(data, "t10k", 100)
    size = ("--epochs", "1", "--nodes", "2", "--workers", "1", "--single-workers", "1", "--layers", "1")
    flags = (*size, "--rates", "0.1", "0.000001")
    command = [sys.executable, str(EXAMPLE / "experiment.py"), "--data", str(data), "--output", str(output), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = output.glob("mnist-grid-*-cores.json")
    (grid,) = json.loads(file.read_text())["grids"]
    accuracies = {trial["rate"]: trial["accuracy"] for trial in grid["trials"]}
    assert accuracies["0.1"] > accuracies["0.000001"] + 0.2, "the rate reaches whoever applies the gradients"
    assert file.with_suffix(".png").exists()
    assert "## " in (output / "mnist-grid.md").read_text()
