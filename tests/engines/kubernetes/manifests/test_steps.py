"""A step in its own image: the shell around its command, and the report that leaves the pod."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gangline.engines.kubernetes.manifests.pod import HOME
from gangline.engines.kubernetes.manifests.steps import job_on_cluster, script_of
from gangline.model import JobSpec, RoleName, RoleSpec
from gangline.model.kinds.pipeline import STEP_VARIABLE
from gangline.pipelines.jobs import LAUNCHER
from gangline.pipelines.placeholders import artifact_place, output_place
from gangline.pipelines.reports import outputs_of

SHELLS = [each for each in ("dash", "bash", "busybox") if shutil.which(each)]


def order(**more: Any) -> dict[str, Any]:
    return {"path": "x", "lead": "worker", "parameters": {"out": output_place("out")}, "artifacts": {}, **more}


def run(tmp_path: Path, shell: str, script: str, told: dict[str, Any]) -> tuple[int, str, str]:
    """Run a command in the shell that a pod would run it in; its folders lie below the test's own."""
    placed = json.loads(json.dumps(told).replace("{{RESULT_DIR}}", f"{HOME}/results"))
    around = script_of(placed).replace(HOME, str(tmp_path))
    name = [shell, "sh"] if shell == "busybox" else [shell]
    result = tmp_path / "result"
    done = subprocess.run(
        [*name, "-c", around, "step", *name, "-c", script.replace("{{RESULT_DIR}}", str(tmp_path / "results"))],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "GANGLINE_RESULT": str(result)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, result.read_text() if result.exists() else "", done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_what_a_step_made_comes_back_byte_for_byte(tmp_path: Path, shell: str) -> None:
    text = "3 'quoted' \"text\"\n\n😀 \\n $HOME"
    told = order(inputs={"{{RESULT_DIR}}/inputs/text": text})
    code, report, _ = run(tmp_path, shell, f"cat {{{{RESULT_DIR}}}}/inputs/text > {output_place('out')}", told)
    assert (code, outputs_of(report, json.dumps(told))["parameters"]) == (0, {"out": text})


@pytest.mark.parametrize("shell", SHELLS)
def test_artefacts_have_addresses_and_digests(tmp_path: Path, shell: str) -> None:
    made = {name: {"name": name, "uri": artifact_place(name)} for name in ("file", "folder", "absent")}
    told = order(artifacts=made, stored="s3://b/run/0")
    folder = artifact_place("folder")
    script = f"printf x > {artifact_place('file')}; mkdir {folder}; printf y > {folder}/y; printf z > {folder}/z"
    code, report, _ = run(tmp_path, shell, script, told)
    found = {name: each[0] for name, each in outputs_of(report, json.dumps(told))["artifacts"].items()}
    assert code == 0
    assert found["file"]["uri"] == "s3://b/run/0/file/file"
    assert (len(found["file"]["digest"]), len(found["folder"]["digest"]), found["absent"]["digest"]) == (64, 64, "")
    (tmp_path / "results" / "outputs" / "folder" / "folder" / "z").unlink()
    shutil.rmtree(tmp_path / "results")
    _, report, _ = run(tmp_path, shell, script.replace("printf z", "printf other"), told)
    other = {name: each[0] for name, each in outputs_of(report, json.dumps(told))["artifacts"].items()}
    assert other["file"]["digest"] == found["file"]["digest"]
    assert other["folder"]["digest"] != found["folder"]["digest"]


def test_a_step_that_fails_reports_nothing_but_its_code(tmp_path: Path) -> None:
    code, report, _ = run(tmp_path, "sh", f"printf 1 > {output_place('out')}; exit 7", order())
    assert (code, report) == (7, "")


def test_outputs_that_no_pod_can_report_fail_the_step_with_a_reason(tmp_path: Path) -> None:
    script = f"head -c 30000 /dev/urandom | od -An -tx1 > {output_place('out')}"
    code, report, said = run(tmp_path, "sh", script, order())
    assert (code, report) == (1, "")
    assert "make them artefacts" in said


def test_a_step_runs_its_own_command_and_only_the_lead_reports() -> None:
    template = {"spec": {"nodeSelector": {"disk": "fast"}}}
    roles = (
        RoleSpec(name=RoleName("chief"), command=(*LAUNCHER, "train", "{{RESULT_DIR}}/outputs/out")),
        RoleSpec(
            name=RoleName("worker"),
            command=(*LAUNCHER, "work", "{{DATA_DIR}}/x"),
            pod_template_json=json.dumps(template),
        ),
    )
    env = {STEP_VARIABLE: json.dumps(order(lead="chief"))}
    found = job_on_cluster(JobSpec(name="a", roles=roles, env=env))
    chief, worker = found.roles
    assert (chief.command[:2], chief.command[3:]) == (("sh", "-c"), ("step", "train", f"{HOME}/results/outputs/out"))
    assert worker.command == ("work", f"{HOME}/data/x")
    assert worker.placement is not None
    assert worker.placement.node_selector == {"disk": "fast"}
    assert found.env == env


def test_a_job_that_is_not_a_step_stays_as_it_is() -> None:
    job = JobSpec(name="a", roles=(RoleSpec(name=RoleName("worker"), command=("{{RESULT_DIR}}",)),))
    assert job_on_cluster(job) == job


@pytest.mark.parametrize("shell", SHELLS)
def test_artefacts_that_the_program_made_elsewhere_are_put_where_they_belong(tmp_path: Path, shell: str) -> None:
    made = {name: {"name": name, "uri": artifact_place(name)} for name in ("a", "b", "c")}
    places = {"a": tmp_path / "own" / "a.txt", "b": None, "c": tmp_path / "own c"}
    said = {
        name: {
            "artifacts": [
                {"name": name, "uri": each["uri"], "metadata": {"x": {"y": 1}}}
                | ({"custom_path": str(places[name])} if places[name] else {})
            ]
        }
        for name, each in made.items()
    }
    script = f"""cd '{tmp_path}'; mkdir own 'own c'; printf a >own/a.txt; printf c >'own c/c'
printf b >{artifact_place("b")}; cat >{{{{RESULT_DIR}}}}/executor_output.json <<'END'
{json.dumps({"artifacts": said})}
END"""
    code, report, _ = run(tmp_path, shell, script, order(artifacts=made))
    found = outputs_of(report, json.dumps(order(artifacts=made)))["artifacts"]
    assert (code, [len(each[0]["digest"]) for each in found.values()]) == (0, [64, 64, 64])
    texts = [(tmp_path / "results" / "outputs" / place).read_text() for place in ("a/a", "b/b", "c/c/c")]
    assert texts == ["a", "b", "c"]
