"""Jobs as runs of MLflow, read back by the real MLflow."""

import json
import math
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.cli.output.mlflow import write_run
from gangline.lifecycle import advance
from gangline.lifecycle.events import ReplicaExited
from gangline.model import Job, Metric, ReplicaId, RoleName, Timestamp
from gangline.testing.builders import START, make_role, make_running_job, make_spec
from tests.environments import environment_with

READ = """
import json, sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
found = []
for experiment in client.search_experiments():
    for run in client.search_runs([experiment.experiment_id]):
        history = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
        found.append({
            "experiment": experiment.name, "name": run.info.run_name, "status": run.info.status,
            "start": run.info.start_time, "end": run.info.end_time, "params": run.data.params, "tags": run.data.tags,
            "metrics": {
                name: [[each.timestamp, repr(each.value), each.step] for each in values]
                for name, values in history.items()
            },
        })
print(json.dumps(found))
"""


def number(name: str, value: float, step: int | None = 1, index: int = 0) -> Metric:
    replica = ReplicaId(RoleName("worker"), index)
    return Metric(job_id=make_job().id, replica=replica, name=name, value=value, step=step, at=Timestamp(START + 2))


def make_job() -> Job:
    spec = replace(make_spec(roles=(make_role(),)), labels={"team": "vision", "gangline.dev/sweep": "grid"})
    return make_running_job(spec)


def test_the_real_mlflow_reads_what_was_written(tmp_path: Path) -> None:
    python = environment_with("mlflow-skinny==3.17.2")
    job = make_job()
    write_run(tmp_path / "mlruns", job, [number("gone", 9.0)])
    ended = ReplicaExited(job_id=job.id, at=Timestamp(START + 5), attempt=1, replica=job.replicas[0].id, exit_code=0)
    numbers = [number("train/loss", 0.5), number("train/loss", math.nan, 2), number("rate", 1e-05, None)]
    write_run(tmp_path / "mlruns", advance(job, ended).job, numbers)
    answer = subprocess.run(
        [python, "-c", READ, (tmp_path / "mlruns").as_uri()],
        env={**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    (run,) = json.loads(answer.stdout.splitlines()[-1])
    at = int((START + 2) * 1000)
    assert run["metrics"] == {"train/loss": [[at, "0.5", 1], [at, "nan", 2]], "rate": [[at, "1e-05", 0]]}
    assert (run["experiment"], run["name"], run["status"]) == ("gangline default", job.name, "FINISHED")
    assert (run["start"], run["end"]) == (int(START * 1000), int((START + 5) * 1000))
    assert run["params"] == {"framework": "none", "worker.replicas": "1"}
    assert run["tags"]["team"] == "vision"
    assert run["tags"]["gangline.dev/sweep"] == "grid"


@pytest.mark.parametrize(
    ("metrics", "want"),
    [
        pytest.param([number("loss", 1.0)], ["loss"], id="one replica"),
        pytest.param(
            [number("loss", 1.0), number("loss", 1.0, index=1)], ["worker-0/loss", "worker-1/loss"], id="two replicas"
        ),
        pytest.param([number("../../x", 1.0), number("/y", 1.0), number("..", 1.0)], ["_", "x", "y"], id="ways out"),
        pytest.param([number("a+b%", 1.0)], ["a_b_"], id="letters that MLflow refuses"),
        pytest.param([number("loss", 1.0), number("loss/x", 1.0)], ["loss", "loss.x"], id="a file is no folder"),
    ],
)
def test_every_number_has_a_file_below_its_run(tmp_path: Path, metrics: list[Metric], want: list[str]) -> None:
    run = write_run(tmp_path / "mlruns", make_job(), metrics)
    files = [file for file in (run / "metrics").rglob("*") if file.is_file()]
    assert sorted(str(file.relative_to(run / "metrics")) for file in files) == want
    assert {entry.name for entry in tmp_path.iterdir()} == {"mlruns"}
