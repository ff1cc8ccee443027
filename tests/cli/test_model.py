"""``gangline model`` as its users meet it, and jobs that leave and read models."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

PROGRAM = """
import json, os, pathlib
from gangline import runtime
runtime.report(accuracy=0.75, step=1)
folder = pathlib.Path(os.environ["RESULT_DIR"], "model")
folder.mkdir()
folder.joinpath("weights").write_text("trained")
folder.joinpath("signature.json").write_text(json.dumps({"inputs": ["image"], "outputs": ["digit"]}))
"""


def write_training(place: Path, name: str, model: str) -> str:
    place.mkdir(exist_ok=True)
    (place / "train.py").write_text(PROGRAM)
    file = place / "job.yaml"
    file.write_text(
        f"""
metadata: {{name: {name}}}
spec:
  code: .
  command: [{Shell.command()[0]}, train.py]
  resources: {{cpu: 100m, memory: 128Mi}}
  data: {{outputs: [{{from: $RESULT_DIR/model, to: model://{model}}}]}}
"""
    )
    return str(file)


@pytest.fixture(scope="module")
def trained(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that a job has left."""
    ran = shell.run("submit", "-f", write_training(tmp_path_factory.mktemp("job"), "trains", "digits"), "--wait")
    assert ran.returncode == 0, ran.stderr
    return "digits"


def test_a_job_registers_a_model_with_where_it_came_from(shell: Shell, trained: str) -> None:
    found = json.loads(shell.out("model", "get", f"{trained}:1", "-o", "json"))
    assert (found["job"], found["files"], found["metrics"]) == ("trains", 2, {"accuracy": 0.75})
    assert found["code"].startswith("sha256:")
    assert json.loads(found["signature"]) == {"inputs": ["image"], "outputs": ["digit"]}
    shown = shell.out("model", "get", f"model://{trained}:1")
    assert "accuracy=0.75" in shown
    assert '{"inputs": ["image"], "outputs": ["digit"]}' in shown
    assert "trains" in shell.out("model", "list")


def test_the_next_job_reads_it_and_leaves_the_next_version(shell: Shell, trained: str, tmp_path: Path) -> None:
    shell.out("model", "promote", f"{trained}:1")
    file = tmp_path / "job.yaml"
    file.write_text(
        f"""
metadata: {{name: goes-on}}
spec:
  command: [sh, -c, "cat $DATA_DIR/base/weights; (cat $DATA_DIR/base/weights; echo more) > $RESULT_DIR/weights"]
  resources: {{cpu: 100m, memory: 64Mi}}
  data:
    inputs: [{{from: "model://{trained}@production", to: $DATA_DIR/base}}]
    outputs: [{{from: $RESULT_DIR/weights, to: "model://{trained}"}}]
"""
    )
    ran = shell.run("submit", "-f", str(file), "--follow")
    assert ran.returncode == 0, ran.stderr
    assert "trained" in ran.stdout
    first, second = json.loads(shell.out("model", "get", trained, "-o", "json"))["status"]["versions"]
    address = f"model://{trained}@production"
    assert (second["number"], second["inputs"]) == (2, [{"address": address, "digest": f"sha256:{first['digest']}"}])
    shell.out("model", "download", trained, str(tmp_path / "newest"))
    assert (tmp_path / "newest" / "weights").read_text() == "trainedmore\n"
    shell.out("model", "download", f"{trained}@production", str(tmp_path / "production"))
    assert {file.name for file in (tmp_path / "production").iterdir()} == {"weights", "signature.json"}


def test_a_model_is_registered_promoted_and_deleted_by_hand(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "weights").write_text("one")
    assert shell.out("model", "register", "by-hand", str(tmp_path), "--framework", "torch") == "by-hand:1\n"
    assert shell.out("model", "register", "by-hand", str(tmp_path)) == "by-hand:1\n"
    (tmp_path / "deep" / "weights").write_text("two")
    assert shell.out("model", "register", "by-hand", str(tmp_path), "--alias", "staging") == "by-hand:2\n"
    table = shell.out("model", "get", "by-hand").splitlines()
    assert [line.split()[:2] for line in table] == [["VERSION", "ALIASES"], ["2", "@staging"], ["1", "-"]]
    refused = shell.run("model", "delete", "by-hand:2")
    assert refused.returncode != 0
    assert "in use: @staging leads to it" in refused.stderr
    shell.out("model", "promote", "by-hand:1", "staging")
    shell.out("model", "delete", "by-hand:2")
    assert shell.run("model", "delete", "by-hand").returncode != 0
    shell.out("model", "promote", "by-hand", "--remove", "staging")
    shell.out("model", "delete", "by-hand")
    assert shell.run("model", "get", "by-hand").returncode != 0


def test_another_tenant_has_no_such_model(shell: Shell, trained: str, tmp_path: Path) -> None:
    for words in (("get", trained), ("download", trained, str(tmp_path / "out")), ("promote", f"{trained}:1")):
        refused = shell.run("--tenant", "others", "model", *words)
        assert refused.returncode != 0
        assert f"no model named '{trained}'" in refused.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("register", "lost", "nowhere"), "there is no 'nowhere'"),
        (("get", "Lost!"), "'Lost!' is not a model"),
        (("download", "lost"), "no model named 'lost'"),
        (("delete", "lost@production"), "is an alias"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_mistake_is_named(shell: Shell, words: tuple[str, ...], want: str) -> None:
    refused = shell.run("model", *words)
    assert refused.returncode != 0
    assert want in refused.stderr
