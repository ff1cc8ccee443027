"""Submitting: from Python as from the shell, many jobs at once, and what does not go together."""

import os
import select
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.errors import UnreachableError
from gangline.model.kinds.sweep import SweepSpec
from gangline.model.search.parameter import Parameter
from gangline.sdk import Client
from gangline.sdk.transports.background import running_process, stop_service
from gangline.sdk.transports.http import HttpAnswer, HttpTransport
from gangline.sdk.transports.interface import Request
from gangline.testing.builders import make_role, make_spec
from tests.cli.conftest import Here, Shell
from tests.engines.local.nodes.test_machine import install_nvidia_smi


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


def test_gpu_types_that_no_node_has_are_told_once_with_the_nearest(
    fresh_shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvidia_smi(tmp_path, "echo '0, NVIDIA H200, 143771, 0, 0'", monkeypatch)
    fresh_shell.environment["PATH"] = os.environ["PATH"]
    fresh_shell.environment.pop("CUDA_VISIBLE_DEVICES", None)
    spec = "{command: ['true'], resources: {gpu: 1}, placement: {gpu_type: [h20, h200]}}"
    jobs = [f"metadata: {{name: slip-{number}}}\nspec: {spec}\n" for number in range(2)]
    (tmp_path / "jobs.yaml").write_text("---\n".join(jobs))
    done = fresh_shell.run("submit", "-f", str(tmp_path / "jobs.yaml"))
    assert done.returncode == 0
    notes = [line for line in done.stderr.splitlines() if line.startswith("note:")]
    assert notes == ["note: no node has GPU type 'h20'; did you mean 'h200'?"]


def test_code_and_no_code_do_not_go_together(here: Here) -> None:
    code, _, said = here("submit", "--dry-run", "--code", ".", "--no-code", "--", "true")
    assert (code, said) == (2, "error: --code: it does not go with --no-code; expected one of the two\n")


class DyingTransport(HttpTransport):
    """Reaches a service that is killed when it has recorded what it was sent, before its answer arrives."""

    def __init__(self, address: str, dies: Callable[[], None]) -> None:
        super().__init__(address)
        self._dies: Callable[[], None] | None = dies

    def send(self, request: Request) -> HttpAnswer:
        answer = super().send(request)
        if request.method == "POST" and (dies := self._dies) is not None:
            self._dies = None
            answer.close()
            dies()
            raise UnreachableError("the connection broke")
        return answer


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("what", ["job", "sweep"])
def test_a_submission_outlives_its_service_and_makes_one_job(
    fresh_shell: Shell, monkeypatch: pytest.MonkeyPatch, how: str, what: str
) -> None:
    settings = fresh_shell.settings

    def dies() -> None:
        process = running_process(settings)
        assert process is not None
        if how == "stopped":
            stop_service(settings)
        else:
            handle = os.pidfd_open(process)
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            select.select([handle], [], [])
            os.close(handle)

    monkeypatch.setattr("gangline.sdk.client.HttpTransport", lambda address: DyingTransport(address, dies))
    client = Client(settings=settings)
    spec = make_spec(name="once", roles=(make_role(command=("true",)),))
    if what == "job":
        client.submit(spec)
    else:
        client.sweeps.submit(SweepSpec(name="once", template=spec, parameters=(Parameter("rate", ("1",)),)))
        client.sweeps.wait("once", timeout=60)
    assert [job.name for job in client.list()] == (["once"] if what == "job" else ["once-0"])


def test_a_submission_to_an_address_where_nobody_is_ends_at_once(here: Here, tmp_path: Path) -> None:
    code, _, said = here("--server", f"unix:{tmp_path}/nobody", "submit", "--", "true")
    assert code == 6
    assert "waiting" not in said
