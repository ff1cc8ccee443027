"""Where results come from, as users see it: lineage, rerun and diff."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

PROGRAM = """
import os, pathlib
from gangline import runtime
runtime.report(accuracy=float(os.environ.get("RATE", "0.5")), step=1)
folder = pathlib.Path(os.environ["RESULT_DIR"], "model")
folder.mkdir(exist_ok=True)
folder.joinpath("weights").write_text(pathlib.Path(os.environ["DATA_DIR"], "numbers").read_text())
"""


def write_job(place: Path, name: str, inputs: str, outputs: str) -> str:
    file = place / f"{name}.yaml"
    file.write_text(
        f"""
metadata: {{name: {name}}}
spec:
  code: {place}/code
  command: [{Shell.command()[0]}, train.py]
  resources: {{cpu: 100m, memory: 128Mi}}
  data: {{inputs: [{{from: "{inputs}", to: $DATA_DIR/}}], outputs: [{{from: $RESULT_DIR/model, to: "{outputs}"}}]}}
"""
    )
    return str(file)


def git(place: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(("git", *identity, *words), cwd=place, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def place(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two jobs: one prepares data, the other makes a model of it."""
    place = tmp_path_factory.mktemp("provenance")
    (place / "code").mkdir()
    (place / "code" / "train.py").write_text(PROGRAM)
    git(place / "code", "init", "-q")
    git(place / "code", "add", ".")
    git(place / "code", "commit", "-qm", "first")
    (place / "numbers").write_text("1 2 3")
    prepared = place / "prepared"
    assert (
        shell.run(
            "submit", "-f", write_job(place, "lin-prepare", f"{place}/numbers", str(prepared)), "--wait"
        ).returncode
        == 0
    )
    (prepared / "weights").rename(prepared / "numbers")
    (place / "code" / "train.py").write_text(PROGRAM + "print('changed')\n")
    file = write_job(place, "lin-train", f"{prepared}/numbers", "model://lineage-model")
    assert shell.run("submit", "-f", file, "--wait").returncode == 0
    shutil.rmtree(place / "code")
    return place


def record(shell: Shell, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(shell.out("get", name, "-o", "json"))
    return found


def test_a_record_tells_commit_changes_packages_and_digests(shell: Shell, place: Path) -> None:
    clean, changed = (record(shell, name)["spec"]["source"] for name in ("lin-prepare", "lin-train"))  # type: ignore[index]
    assert len(clean["commit"]) == 40
    assert "dirty" not in clean
    assert (changed["commit"], changed["dirty"]) == (clean["commit"], True)
    assert clean["packages"].startswith("sha256:")
    status = record(shell, "lin-train")["status"]
    assert status["inputs"][0]["digest"].startswith("sha256:")  # type: ignore[index]


def test_a_model_is_traced_back_to_the_first_data(shell: Shell, place: Path) -> None:
    lines = shell.out("lineage", "model://lineage-model").splitlines()
    assert lines[0].startswith("model lineage-model:1  digest ")
    assert "accuracy 0.5" in lines[0]
    assert lines[1].startswith("└─ job lin-train  phase COMPLETED, code sha256:")
    assert "(dirty)" in lines[1]
    assert lines[2].startswith(f"   └─ {place}/prepared/numbers  digest sha256:")
    assert lines[3].startswith("      └─ job lin-prepare  ")
    assert lines[4].startswith(f"         └─ {place}/numbers  digest sha256:")
    nodes = json.loads(shell.out("lineage", "lin-train", "-o", "json"))["nodes"]
    assert [node["kind"] for node in nodes] == ["job", "data", "job", "data"]
    assert shell.out("lineage", f"{place}/prepared").splitlines()[1].startswith("└─ job lin-prepare")
    failed = shell.run("lineage", "model://nothing")
    assert "there is no model named 'nothing'" in failed.stderr or "no model named 'nothing'" in failed.stderr
    assert "no job on record has stored anything there" in shell.run("lineage", "s3://nowhere/x").stderr


def test_a_job_is_repeated_from_its_digest_with_what_should_differ(shell: Shell, place: Path) -> None:
    done = shell.run("rerun", "lin-train", "--set", "env.RATE=0.75", "--set", "policy.max_attempts=2", "--wait")
    assert (done.returncode, done.stdout) == (0, "lin-train-2\n")
    again = record(shell, "lin-train-2")
    assert again["spec"]["code"] == record(shell, "lin-train")["spec"]["code"]  # type: ignore[index]
    assert again["spec"]["source"]["rerun_of"] == "lin-train"  # type: ignore[index]
    rows = json.loads(shell.out("diff", "lin-train", "lin-train-2", "-o", "json"))
    found = {(row["part"], row["name"]): (row.get("first", ""), row.get("second", "")) for row in rows}
    assert found == {
        ("file", "env.RATE"): ("", "0.75"),
        ("file", "policy.max_attempts"): ("", "2"),
        ("metrics", "accuracy"): ("0.5", "0.75"),
    }
    assert shell.run("rerun", "lin-train", "--set", "policy.nonsense=2").returncode != 0
    assert "expected PATH=VALUE" in shell.run("rerun", "lin-train", "--set", "nothing").stderr


def test_two_jobs_differ_in_code_by_file_and_in_inputs(shell: Shell, place: Path) -> None:
    lines = shell.out("diff", "lin-prepare", "lin-train")
    assert "train.py" in lines
    assert "(dirty)" in lines
    assert f"{place}/prepared/numbers" in lines
