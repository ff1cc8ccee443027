"""One meaning of addresses: jobs that read other jobs' results, and copies by hand."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.data.servers import Server, s3_server


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def source(shell: Shell) -> str:
    """A job with results."""
    script = "mkdir $RESULT_DIR/deep; echo one > $RESULT_DIR/a.txt; echo two > $RESULT_DIR/deep/b.tmp"
    options = ("--name", "adr-source", "--cpu", "100m", "--wait")
    assert shell.run("submit", *options, "--", "sh", "-c", script).returncode == 0
    return "adr-source"


def job_file(place: Path, name: str, address: str, more: str = "") -> str:
    file = place / f"{name}.yaml"
    file.write_text(
        f"""
metadata: {{name: {name}}}
spec:
  command: [sh, -c, 'find $DATA_DIR -type f -printf "%P\\n" | sort']
  resources: {{cpu: 100m, memory: 64Mi}}
  data: {{inputs: [{{from: "{address}", to: $DATA_DIR{more}}}]}}
"""
    )
    return str(file)


@pytest.mark.parametrize(
    ("name", "path", "more", "want"),
    [
        ("adr-all", "results", "", ["a.txt", "deep/b.tmp"]),
        ("adr-part", "results/deep", "", ["b.tmp"]),
        ("adr-some", "results", ', exclude: ["*.tmp"]', ["a.txt"]),
    ],
)
def test_a_job_reads_the_results_of_another(
    shell: Shell, source: str, tmp_path: Path, name: str, path: str, more: str, want: list[str]
) -> None:
    file = job_file(tmp_path, name, f"job://{source}/{path}", more)
    assert shell.run("submit", "-f", file, "--wait").returncode == 0
    assert shell.out("logs", name).splitlines() == want
    status = json.loads(shell.out("get", name, "-o", "json"))["status"]
    assert status["inputs"][0]["address"] == f"job://{source}/{path}"
    assert f"└─ job {source}" in shell.out("lineage", name)


@pytest.mark.parametrize(
    ("name", "address", "tenant", "want"),
    [
        ("adr-none", "job://nobody/results", "default", "no job named 'nobody'"),
        ("adr-other", "job://adr-source/results", "red", "no job named 'adr-source'"),
        ("adr-named", "job://default/adr-source/results", "red", "is not an address of this kind"),
    ],
)
def test_what_is_not_there_or_not_ones_own_is_a_clear_reason(
    shell: Shell, source: str, tmp_path: Path, name: str, address: str, tenant: str, want: str
) -> None:
    file = job_file(tmp_path, name, address)
    done = shell.run("--tenant", tenant, "submit", "-f", file, "--wait")
    assert done.returncode != 0
    assert want in shell.run("--tenant", tenant, "get", name).stdout + done.stderr


def test_a_job_whose_results_could_never_be_stored_is_not_submitted(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "adr-ftp.yaml"
    move = "{from: $RESULT_DIR, to: ftp://host/x}"
    file.write_text(f"metadata: {{name: adr-ftp}}\nspec: {{command: [sleep, '60'], data: {{outputs: [{move}]}}}}\n")
    done = shell.run("submit", "-f", str(file))
    assert (done.returncode, "data.outputs[0].to: ftp://host/x: ftp:// is not known" in done.stderr) == (2, True)
    assert "adr-ftp" not in shell.out("list")


def test_a_job_that_has_not_succeeded_has_no_results_yet(shell: Shell, tmp_path: Path) -> None:
    shell.out("submit", "--name", "adr-waits", "--halted", "--", "true")
    file = job_file(tmp_path, "adr-early", "job://adr-waits/results")
    assert shell.run("submit", "-f", file, "--wait").returncode != 0
    assert "job 'adr-waits' is HALTED; only a COMPLETED one has results" in shell.out("get", "adr-early")


def test_copies_by_hand_go_between_any_address_and_here(shell: Shell, source: str, s3: Server, tmp_path: Path) -> None:
    keys = s3.credentials
    environment = {
        "AWS_ENDPOINT_URL": keys.endpoint,
        "AWS_ACCESS_KEY_ID": keys.key,
        "AWS_SECRET_ACCESS_KEY": keys.secret,
    }

    def cp(first: str, second: str) -> None:
        done = shell.run("cp", first, second, **environment)
        assert done.returncode == 0, done.stderr

    cp(f"job://{source}/results", str(tmp_path / "one"))
    assert (tmp_path / "one/a.txt").read_text() == "one\n"
    cp(str(tmp_path / "one"), "s3://bucket/copied")
    cp("s3://bucket/copied", str(tmp_path / "two"))
    assert (tmp_path / "two/deep/b.tmp").read_text() == "two\n"
    cp(str(tmp_path / "two"), "model://adr-model")
    cp("model://adr-model:1", str(tmp_path / "three"))
    assert (tmp_path / "three/deep/b.tmp").read_text() == "two\n"
    done = shell.run("model", "register", "adr-model", "s3://bucket/copied", **environment)
    assert (done.returncode, done.stdout) == (0, "adr-model:1\n"), "the same content is the same version"
    refused = shell.run("cp", "ftp://x/y", str(tmp_path / "four"))
    assert "ftp:// is not known" in refused.stderr


def test_copies_by_hand_use_the_keys_and_volumes_of_the_service(shell: Shell, s3: Server, tmp_path: Path) -> None:
    def cp(*words: str, tenant: str = "default") -> str:
        done = shell.run("--tenant", tenant, "cp", *words)
        assert "very secret" not in done.stdout + done.stderr
        return done.stderr if done.returncode else ""

    keys = {"AWS_ACCESS_KEY_ID": s3.credentials.key, "AWS_SECRET_ACCESS_KEY": s3.credentials.secret}
    made = shell.run("store", "add", "hand", "s3://bucket/hand", "--endpoint", s3.credentials.endpoint, **keys)
    assert made.returncode == 0, made.stderr
    shell.out("volume", "create", "by-hand")
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "a.txt").write_text("one")
    (tree / "deep" / "b.txt").write_text("two")

    assert cp(str(tree), "s3://bucket/hand/tree", "--store", "hand") == ""
    assert cp("s3://bucket/hand/tree", "pvc://by-hand/tree", "--store", "hand") == ""
    assert cp("pvc://by-hand/tree", str(tmp_path / "back")) == ""
    assert (tmp_path / "back/deep/b.txt").read_text() == "two"
    assert cp("pvc://by-hand/tree/a.txt", f"{tmp_path / 'back'}/deep/") == ""
    assert cp("pvc://by-hand/tree/a.txt", str(tmp_path / "renamed.txt")) == ""
    assert (tmp_path / "back/deep/a.txt").read_text() == (tmp_path / "renamed.txt").read_text() == "one"
    assert cp(str(tree / "a.txt"), "s3://bucket/hand/single/", "--store", "hand") == ""
    assert cp("pvc://by-hand/tree", "model://adr-by-hand") == ""
    assert cp("model://adr-by-hand", "s3://bucket/hand/model", "--store", "hand") == ""
    stored = s3.folder / "bucket/hand"
    assert (stored / "single/a.txt").read_text() == (stored / "model/a.txt").read_text() == "one"

    assert "there is nothing there" in cp("s3://bucket/hand/none", str(tmp_path / "no"), "--store", "hand")
    assert "store 'hand' is for s3://bucket/hand" in cp("s3://bucket/x", str(tmp_path / "no"), "--store", "hand")
    assert "no store named 'hand'" in cp("s3://bucket/hand", str(tmp_path / "no"), "--store", "hand", tenant="red")
    assert "there is no volume 'by-hand'" in cp("pvc://by-hand/tree", str(tmp_path / "no"), tenant="red")
    assert "there is no" in cp(str(tmp_path / "no"), "pvc://by-hand/tree")
    assert not (tmp_path / "no").exists()
    assert "cp-" not in shell.out("list", "-A"), "a job that copied is gone with its files"


def test_the_default_store_of_the_tenant_is_that_of_copies_and_models_too(
    shell: Shell, s3: Server, tmp_path: Path
) -> None:
    keys = {"AWS_ACCESS_KEY_ID": s3.credentials.key, "AWS_SECRET_ACCESS_KEY": s3.credentials.secret}
    words = ("store", "add", "usual", "s3://bucket/usual", "--endpoint", s3.credentials.endpoint, "--default")
    made = shell.run("--tenant", "blue", *words, **keys)
    assert made.returncode == 0, made.stderr
    (tmp_path / "weights").write_text("0.1")
    shell.out("--tenant", "blue", "cp", str(tmp_path / "weights"), "s3://bucket/usual/weights")
    assert (s3.folder / "bucket/usual/weights").read_text() == "0.1"
    shell.out("--tenant", "blue", "model", "register", "usual", "s3://bucket/usual/weights")
    shell.out("--tenant", "blue", "cp", "model://usual", f"{tmp_path}/back/")
    assert (tmp_path / "back/weights").read_text() == "0.1"
