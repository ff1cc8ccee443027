"""Pipelines compiled by kfp, run by the command line on real jobs: one for each feature of the language."""

import json
import sqlite3
from pathlib import Path
from time import monotonic

import pytest

from gangline.testing.builders import ONE_STEP
from tests.cli.conftest import Shell
from tests.pipelines.compiled import compiled

WANTED = {
    "values": r'Output = "[7, 0.5, \"say \\\"hi\\\"\\n\\ud83d\\ude00\", true, [1, ...',
    "texts": 'Output = "n is 4, of texts"',
    "artifacts": 'Output = "5 5"',
    "conditions": 'Output = "four"',
    "loops": "Output = 6",
    "nested-loops": "Output = 66",
    "collected-artifacts": 'Output = "1,2,3"',
    "sub-graphs": "Output = 6",
    "order": 'Output = "last"',
    "ignored-failure": 'Output = "a default"',
    "resources": 'Output = "x"',
    "nested-conditions": 'Output = "above one"',
    "optional": "Output = \"3 given {'x': [1, 2.5, True]}\"",
    "folders": 'Output = "0,1,2"',
    "one-of-artifacts": 'Output = "7 7"',
    "loop-of-graphs": "Output = 12",
}


@pytest.mark.slow
def test_every_feature_of_the_language_runs(shell: Shell) -> None:
    for name, want_line in WANTED.items():
        done = shell.run("pipeline", "run", "-f", str(compiled()[name]), "--name", name, "--follow")
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] == want_line
    assert len(shell.out("pipeline", "list").splitlines()) == len(WANTED) + 1
    shell.out("pipeline", "delete", "values")
    assert "values" not in shell.out("pipeline", "list", "-o", "name").split()


@pytest.mark.slow
def test_handlers_retries_importers_and_logs(shell: Shell, tmp_path: Path) -> None:
    def run(name: str, *arguments: str) -> tuple[int, str]:
        done = shell.run("pipeline", "run", "-f", str(compiled()[name]), "--name", name, "--follow", *arguments)
        return done.returncode, done.stdout

    code, said = run("exit-handler", "-p", f"folder={tmp_path}")
    assert (code, "exit-handler: failed: exit-handler-1: fail: worker-0 exited with 1: the disk is full" in said) == (
        1,
        True,
    )
    assert json.loads((tmp_path / "end").read_text())[0] == "FAILED"
    assert "the disk is full" in shell.out("pipeline", "logs", "exit-handler", "fail")
    assert run("retries", "-p", f"folder={tmp_path}")[0] == 0
    assert (tmp_path / "tries").read_text() == "xxx"
    (tmp_path / "five").write_text("5")
    code, said = run("importer", "-p", f"place={tmp_path / 'five'}")
    assert (code, said.splitlines()[-1]) == (0, 'Output = "5 5"')
    code, said = run("container", "-p", 'word=a "b"')
    assert code == 0, said
    found = json.loads(shell.out("pipeline", "get", "container", "-o", "json"))
    result = json.loads(found["status"]["steps"][0]["result"])
    assert result["parameters"]["out"].endswith('/outputs/out word=a "b" none')


@pytest.mark.slow
def test_a_run_says_why_a_step_of_our_own_waits_for_ever(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "wide.yaml"
    file.write_text(
        "{apiVersion: gangline.dev/v1, kind: Pipeline, metadata: {name: wide}, spec: {steps: {train: {job: "
        "{command: ['true'], resources: {cpu: 1, gpu: 64}}}}}}"
    )
    done = shell.run("pipeline", "run", "-f", str(file), "--name", "wide")
    assert (done.returncode, "train asks for 64 GPU, which no node has; it waits" in done.stderr) == (0, True)
    deadline = monotonic() + 60
    while "train waits: " not in (said := shell.out("pipeline", "get", "wide")):
        assert monotonic() < deadline, said
    waited = shell.run("pipeline", "wait", "wide", "--timeout", "1s")
    assert waited.returncode == 124, waited.stderr
    shell.out("pipeline", "delete", "wide")


def test_a_run_says_what_of_an_embedded_manifest_is_not_used_here(shell: Shell, tmp_path: Path) -> None:
    pod = "{initContainers: [{name: i, image: a}], containers: [{name: pytorch, image: a, command: ['true']}]}"
    job = (
        f"{{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {{name: t}}, "
        f"spec: {{pytorchReplicaSpecs: {{Master: {{template: {{spec: {pod}}}}}}}}}}}"
    )
    (tmp_path / "job.yaml").write_text(job)
    file = tmp_path / "p.yaml"
    file.write_text("{kind: Pipeline, metadata: {name: p}, spec: {steps: {g: {steps: {train: {file: job.yaml}}}}}}")
    done = shell.run("pipeline", "run", "-f", str(file), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "only the training container runs here, not the 1 beside it" in done.stderr


@pytest.mark.slow
def test_a_second_run_reuses_what_is_the_same(shell: Shell) -> None:
    file = str(compiled()["artifacts"])
    shell.out("pipeline", "run", "-f", file, "--name", "made", "--no-cache", "--follow")
    again = shell.out("pipeline", "run", "-f", file, "--name", "reused", "--follow")
    assert "✓ write succeeded, reused from " in again
    assert again.splitlines()[-1] == 'Output = "5 5"'
    assert "did not run: its outputs are those of" in shell.run("pipeline", "logs", "reused", "write").stderr
    never = shell.out("pipeline", "run", "-f", file, "--name", "never", "--no-cache", "--follow")
    assert "reused" not in never


@pytest.mark.slow
def test_a_failed_run_goes_on_from_where_it_failed_and_is_drawn(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "once.yaml"
    flag = tmp_path / "flag"
    container = {"image": "alpine", "command": ["sh", "-c", f"test -e {flag}"]}
    tasks = {"a": {"componentRef": {"name": "comp-a"}}}
    document = {
        **ONE_STEP,
        "deploymentSpec": {"executors": {"exec-a": {"container": container}}},
        "root": {"dag": {"tasks": tasks}},
    }
    file.write_text(json.dumps(document))
    assert (
        shell.run("pipeline", "run", "-f", str(file), "--name", "once", "--experiment", "tries", "--follow").returncode
        == 1
    )
    flag.touch()
    shell.out("pipeline", "retry", "once")
    shell.out("pipeline", "wait", "once", "--timeout", "60s")
    assert "once: succeeded" in shell.out("pipeline", "get", "once")
    assert shell.out("pipeline", "get", "once", "--svg", "-").startswith("<svg ")
    assert json.loads(shell.out("pipeline", "get", "once", "-o", "json"))["spec"]["experiment"] == "tries"


@pytest.mark.slow
def test_a_run_that_cannot_be_read_is_named_and_hides_no_other(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(json.dumps(dict(ONE_STEP)))
    names = ("kept", "damaged", "refused")
    for name in names:
        shell.run("pipeline", "run", "-f", str(file), "--name", name, "--follow")
    with sqlite3.connect(shell.settings.database_file) as database:
        database.execute("UPDATE records SET document = 'torn' WHERE name = 'damaged'")
        ((text,),) = database.execute("SELECT document FROM records WHERE name = 'refused'")
        document = json.loads(text)
        document["spec"]["documents_json"] = '[{"pipelineInfo": {}}]'
        database.execute("UPDATE records SET document = ? WHERE name = 'refused'", (json.dumps(document),))
    database.close()
    listed = shell.run("pipeline", "list", "-o", "name")
    assert (listed.returncode, set(listed.stdout.split()) & set(names)) == (0, {"kept"}), listed.stderr
    for name in ("damaged", "refused"):
        said = f"pipeline '{name}' cannot be read and is left out; 'gangline pipeline get {name}' says why"
        assert said in listed.stderr
        assert shell.run("pipeline", "get", name).returncode != 0


@pytest.mark.slow
def test_a_schedule_is_made_listed_paused_and_deleted(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(json.dumps(dict(ONE_STEP)))
    when = ("--cron", "0 3 * * mon", "--time-zone", "Europe/Berlin", "--at-most", "2", "--catch-up")
    assert shell.out("pipeline", "schedule", "create", "weekly", "-f", str(file), *when) == "weekly\n"
    assert shell.out("pipeline", "schedule", "list").splitlines()[1].split()[:2] == ["weekly", "active"]
    shell.out("pipeline", "schedule", "pause", "weekly")
    assert shell.out("pipeline", "schedule", "list").splitlines()[1].split()[1:4] == ["paused", "0", "3"]
    refused = shell.run("pipeline", "schedule", "create", "never", "-f", str(file), "--cron", "at noon")
    assert (refused.returncode, "has 2 fields" in refused.stderr) == (2, True)
    shell.out("pipeline", "schedule", "edit", "weekly", "--cron", "0 4 * * *", "--at-most", "5")
    assert "0 4 * * *" in shell.out("pipeline", "schedule", "list")
    wrong = shell.run("pipeline", "schedule", "edit", "weekly", "--cron", "at noon")
    assert (wrong.returncode, "0 4 * * *" in shell.out("pipeline", "schedule", "list")) == (2, True)
    shell.out("pipeline", "schedule", "edit", "weekly", "--every", "1h")
    assert "every 3600 s" in shell.out("pipeline", "schedule", "list")
    pipeline = {"documents": [dict(ONE_STEP)]}
    whole = {"kind": "Schedule", "metadata": {"name": "weekly"}, "spec": {"pipeline": pipeline, "every": "2h"}}
    file.write_text(json.dumps(whole))
    shell.out("pipeline", "schedule", "edit", "weekly", "-f", str(file))
    assert "every 7200 s" in shell.out("pipeline", "schedule", "list")
    shell.out("pipeline", "schedule", "delete", "weekly")
    both = shell.run("pipeline", "schedule", "create", "weekly", "-f", str(file))
    assert (both.returncode, "the file says everything" in both.stderr) == (2, True)
    nameless = shell.run("pipeline", "schedule", "create", "-f", "-", text_in=json.dumps(dict(ONE_STEP)))
    assert (nameless.returncode, "a name is needed" in nameless.stderr) == (2, True)
    assert shell.run("pipeline", "schedule", "create", "-f", "-", text_in=json.dumps(whole)).stdout == "weekly\n"
    assert "every 7200 s" in shell.out("pipeline", "schedule", "list")
    shell.out("pipeline", "schedule", "delete", "weekly")
    found = json.loads(shell.out("pipeline", "api", "-o", "json"))
    assert shell.out("pipeline", "api").strip() == f"{found['host']}/{found['existing_token']}"


REFUSED = {
    "an input that does not exist": (("-p", "m=3"), "arguments.m"),
    "a value that does not fit": (("-p", "n=many"), '"many" is not a whole number'),
    "no equals sign": (("-p", "n"), "has no '='"),
}


@pytest.mark.parametrize(("arguments", "want_words"), REFUSED.values(), ids=REFUSED)
def test_wrong_arguments_are_refused_before_anything_is_sent(
    shell: Shell, arguments: tuple[str, ...], want_words: str
) -> None:
    done = shell.run("pipeline", "run", "-f", str(compiled()["texts"]), *arguments)
    assert (done.returncode, want_words in done.stderr) == (2, True), done.stderr


STORED = """
apiVersion: gangline.dev/v1
kind: Pipeline
metadata: {name: stored}
spec:
  root: pvc://runs/mine
  steps:
    make:
      job: {command: [sh, -c, 'mkdir $1; echo 1 > $1/x; echo 2 > $1/y', sh, $(outputs.d)], resources: {cpu: 100m}}
      outputs: {d: dataset}
    take:
      file: take.yaml
      outputs: {s: string}
"""
TAKE = """
kind: Job
metadata: {name: take}
spec: {command: [sh, -c, 'cat $1/x $1/y > $2', sh, $(make.d), $(outputs.s)], resources: {cpu: 100m}}
"""


@pytest.mark.slow
def test_artefacts_are_kept_in_a_store_and_fetched_from_it(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "stored.yaml").write_text(STORED)
    (tmp_path / "take.yaml").write_text(TAKE)
    shell.out("volume", "create", "runs")
    done = shell.run("pipeline", "run", "-f", str(tmp_path / "stored.yaml"), "--name", "one", "--follow")
    assert done.returncode == 0, done.stderr
    assert "✓ make succeeded: d=pvc://runs/mine/one/0/d/d" in done.stdout
    assert '✓ take succeeded: s="1\\n2\\n"' in done.stdout
    shell.out("pipeline", "delete", "one")
    (tmp_path / "stored.yaml").write_text(STORED.replace("  root: pvc://runs/mine\n", ""))
    again = ("pipeline", "run", "-f", str(tmp_path / "stored.yaml"), "--follow", "--name")
    made = shell.run(*again, "two").stdout
    place = Path(made.partition("✓ make succeeded: d=")[2].splitlines()[0])
    assert place.is_dir()
    (place / "x").unlink()
    (place / "y").unlink()
    place.rmdir()
    (tmp_path / "take.yaml").write_text(TAKE.replace("cat", "head -n 1"))
    gone = shell.run(*again, "three")
    assert gone.returncode == 1
    assert f"the artefact 'make.d' is no longer at {place}" in gone.stdout
    shell.out("pipeline", "retry", "three")
    shell.out("pipeline", "wait", "three")
    assert "three: succeeded" in shell.out("pipeline", "get", "three")
