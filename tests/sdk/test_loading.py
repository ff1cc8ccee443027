"""Reading job files."""

from pathlib import Path

import pytest

import gangline
from gangline.errors import InvalidInputError
from gangline.sdk.loading import load_all, load_sweep

JOB = """
apiVersion: gangline.dev/v1
kind: Job
metadata: {name: %s}
spec: {code: %s, command: [python, train.py]}
"""


def test_code_is_taken_from_where_the_file_lies(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB % ("mnist", "."))
    assert gangline.load(tmp_path / "job.yaml").code == str(tmp_path)


@pytest.mark.parametrize("code", ["/absolute/path", "sha256:" + "0" * 64])
def test_absolute_paths_and_digests_stay_as_they_are(tmp_path: Path, code: str) -> None:
    (tmp_path / "job.yaml").write_text(JOB % ("mnist", code))
    assert gangline.load(tmp_path / "job.yaml").code == code


def test_a_file_of_several_jobs_is_read_whole_or_refused(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(JOB % ("one", ".") + "---" + JOB % ("two", "."))
    assert [job.spec.name for job in load_all(tmp_path / "jobs.yaml")] == ["one", "two"]
    with pytest.raises(InvalidInputError, match="2 jobs"):
        gangline.load(tmp_path / "jobs.yaml")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match=r"job\.yaml: the file is not UTF-8"):
        gangline.load(tmp_path / "job.yaml")
    with pytest.raises(InvalidInputError, match=r"missing\.yaml: .*No such file"):
        gangline.load(tmp_path / "missing.yaml")


TF_JOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  %s
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: tensorflow, image: mnist:1, command: [python, train.py]}]}}
"""


def test_a_foreign_file_is_read_in_its_own_dialect(tmp_path: Path) -> None:
    (tmp_path / "tfjob.yaml").write_text(TF_JOB % "runPolicy: {suspend: true}")
    assert gangline.load(tmp_path / "tfjob.yaml").framework == "tensorflow"
    (job,) = load_all(tmp_path / "tfjob.yaml")
    assert job.suspended


def test_a_job_of_another_controller_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tfjob.yaml").write_text(TF_JOB % "runPolicy: {managedBy: kueue.x-k8s.io/multikueue}")
    with pytest.raises(InvalidInputError, match="belongs to the controller"):
        gangline.load(tmp_path / "tfjob.yaml")


def test_the_code_of_a_sweep_is_taken_from_where_its_file_lies(tmp_path: Path) -> None:
    parts = "metadata: {name: grid}\nspec:\n  parameters: {a: [1]}\n  template: {spec: {code: ., command: [x, $(a)]}}\n"
    (tmp_path / "sweep.yaml").write_text(f"kind: Sweep\n{parts}")
    assert load_sweep(tmp_path / "sweep.yaml").template.code == str(tmp_path)


def test_a_sweep_is_not_taken_for_a_job(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text("kind: Sweep\nmetadata: {name: grid}\n")
    with pytest.raises(InvalidInputError, match="gangline sweep create -f"):
        load_all(tmp_path / "sweep.yaml")
