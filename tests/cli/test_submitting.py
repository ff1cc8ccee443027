"""Submitting: from Python as from the shell, many jobs at once, and what does not go together."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.model.sweep import Parameter, SweepSpec
from gangline.sdk import Client
from gangline.testing.builders import make_role, make_spec
from tests.cli.conftest import Here, Shell


def test_a_job_from_python_sees_the_environment_that_the_command_line_gives_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in shell.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("VIRTUAL_ENV", "/some/venv")
    monkeypatch.setenv("PATH", f"/some/venv/bin:{os.environ['PATH']}")
    spec = make_spec(name="from-python", roles=(make_role(command=("sh", "-c", "echo $VIRTUAL_ENV $PATH")),))
    client = Client(settings=shell.settings)
    job = client.submit(spec)
    client.wait(job.name)
    (line,) = client.logs(job.name)
    assert line.text.startswith("/some/venv /some/venv/bin:")
    swept = SweepSpec(name="from-python", template=spec, parameters=(Parameter("rate", ("1",)),))
    assert client.sweeps.submit(swept).spec.template.env["VIRTUAL_ENV"] == "/some/venv"
    client.sweeps.delete("from-python")
    elsewhere = Client(client.address, settings=shell.settings)
    assert "VIRTUAL_ENV" not in elsewhere.submit(replace(spec, name="from-elsewhere"), halted=True).spec.env


def test_what_holds_for_many_jobs_of_a_file_is_said_once(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/some/venv")
    pod = "{spec: {containers: [{name: pytorch, image: x, command: ['true']}]}}"
    jobs = [
        f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: many-{number}}}\n"
        f"spec: {{pytorchReplicaSpecs: {{Master: {{replicas: 1, template: {pod}}}}}}}\n"
        for number in range(50)
    ]
    file = tmp_path / "jobs.yaml"
    file.write_text("---\n".join(jobs))
    code, _, said = here("submit", "--dry-run", "-f", str(file))
    assert code == 0
    assert "note:" in said
    assert len(said.splitlines()) == len(set(said.splitlines())) < 10, said
    assert "(50 jobs)" in said
