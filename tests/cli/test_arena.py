"""Arena's verbs, the columns its users know, and the kubeconfig."""

import json
from pathlib import Path

import pytest
import yaml

from gangline.cli.connection.kubeconfig import write_kubeconfig
from gangline.cli.input.arena_routing import arena_serve_verb, arena_verb
from gangline.dialects.arena import REFUSED_VERBS, Verb
from gangline.dialects.arena.serve_options import SERVE_OPTIONS, SERVE_REFUSED, ServeVerb
from gangline.errors import InvalidInputError
from tests.cli.conftest import Here, Shell
from tools import arena_page


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["tf", "--name=a"], (Verb.TENSORFLOW, ["--name=a"]), id="a verb"),
        pytest.param(["horovodjob", "x"], (Verb.HOROVOD, ["x"]), id="its long name"),
        pytest.param(["--mode=tensorflow", "--ps=1", "x"], (Verb.TENSORFLOW, ["--ps=1", "x"]), id="early Arena"),
        pytest.param(
            ["--name", "a", "--mode", "horovod", "x"], (Verb.HOROVOD, ["--name", "a", "x"]), id="values apart"
        ),
        pytest.param(["--workers", "2", "python", "a.py", "--mode=horovod"], None, id="the command's own option"),
        pytest.param(["--", "tf", "--mode=horovod"], None, id="after the dashes"),
        pytest.param(["--mode=fast", "x"], None, id="another mode"),
        pytest.param(["python", "tf"], None, id="a word later"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_arenas_way_of_submitting_is_recognised(arguments: list[str], want: tuple[Verb, list[str]] | None) -> None:
    assert arena_verb(arguments) == want


@pytest.fixture
def present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_tensorflow_job_runs_with_the_files_of_the_present_directory(here: Here, present: Path) -> None:
    (present / "train.py").write_text("import os; print('role', os.environ['GANGLINE_ROLE'], os.environ['RATE'])\n")
    amounts = ("--worker-cpu=100m", "--ps-cpu", "100m", "--chief-cpu=100m")
    code, out, err = here(
        "submit", "tf", "--name=arena-tf", "--workers=1", "--ps=1", "--chief", *amounts, "-e", "RATE=0.1", "--wait",
        "python3 train.py",
    )  # fmt: skip
    assert (code, out) == (0, "arena-tf\n"), err
    assert "shipping the current directory" in err
    assert here("logs", "arena-tf", "-i", "arena-tf-chief-0")[1] == "role chief 0.1\n"
    assert here("logs", "arena-tf", "-i", "ps-9")[0] == 2


def test_the_flags_of_early_arena_still_work(here: Here, present: Path) -> None:
    flags = ("--workerCpu=100m", "--workerMemory=64Mi", "--workerImage=any", "--workerPort=3333", "--sshPort=2345")
    code, out, err = here(
        "submit", "--mode=horovod", "--name=early", "--workers=2", *flags, "--dry-run", "-o", "json", "mpirun true"
    )
    assert code == 0, err
    job = json.loads(out)
    worker = job["spec"]["roles"]["worker"]
    assert (worker["replicas"], worker["image"], worker["port"], worker["resources"]["memory"]) == (
        2,
        "any",
        3333,
        "64Mi",
    )
    assert job["spec"]["roles"]["launcher"]["command"] == ["sh", "-c", "mpirun true"]


def test_nought_is_a_number_and_less_is_refused(here: Here, present: Path) -> None:
    code, out, err = here("submit", "tf", "--name=none", "--workers=0", "--chief", "--dry-run", "-o", "json", "true")
    assert code == 0, err
    assert list(json.loads(out)["spec"]["roles"]) == ["chief"]
    code, _, err = here("submit", "tf", "--workers=-1", "true")
    assert (code, "--workers: -1 is too small" in err) == (2, True), err


def test_a_wrong_flag_is_refused_with_the_nearest(here: Here) -> None:
    code, _, err = here("submit", "tf", "--worker-cpus=1", "true")
    assert code == 2
    assert "--worker-cpu" in err


def test_the_page_of_flags_is_what_the_command_line_answers() -> None:
    assert arena_page.page() == arena_page.PAGE.read_text(encoding="utf-8"), "run: python -m tools.arena_page"
    assert {verb.name: set(verb.flags) for verb in REFUSED_VERBS} == {
        verb.name: set(arena_page.FLAGS[verb.name]) for verb in REFUSED_VERBS
    }
    text = arena_page.page()
    for flag in (*SERVE_OPTIONS, *SERVE_REFUSED):
        assert f"| `--{flag.name}` |" in text


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["mpi", "--gputopology", "true"], "--gputopology: Arena's flag is not known here; expected placement.within"),
        (["tf", "--config-file", "a:b", "true"], "--config-file: Arena's flag is not known here; expected a file in"),
        (["tf", "--queue=true", "x"], "--queue: every job is queued here; expected the name of a queue"),
        (["etjob", "--name=a", "--min-workers=2", "x"], "for --min-workers, min of the role in a job file"),
        (["deepspeed", "--name=a", "x"], "submit deepspeed: Arena's verb is not known here; expected 'gangline submit"),
        (["rayjob", "--head-gpu=1", "x"], "for --head-gpu, resources.gpu of the role chief"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_is_not_known_is_refused_with_what_to_use_instead(here: Here, words: list[str], want: str) -> None:
    code, _, err = here("submit", *words)
    assert (code, want in err) == (2, True), err


def test_a_program_with_the_name_of_a_verb_is_a_program(here: Here) -> None:
    code, out, err = here("submit", "--dry-run", "-o", "json", "deepspeed", "--num_gpus", "2", "train.py")
    assert code == 0, err
    assert arena_verb(["deepspeed", "--num_gpus", "2", "train.py"]) is None
    assert arena_verb(["ray"]) is None
    assert json.loads(out)["spec"]["roles"]["worker"]["command"][0] == "deepspeed"


def test_the_columns_are_those_of_arena(here: Here) -> None:
    here("submit", "pytorch", "--name=arena-columns", "--workers=2", "--cpu=100m", "--", "sleep", "100")
    here("wait", "arena-columns", "--for", "PROCESSING")
    listed = here("list", "arena-columns", "-o", "arena")[1].splitlines()
    assert listed[0].split() == ["NAME", "STATUS", "TRAINER", "DURATION", "GPU(Requested)", "GPU(Allocated)", "NODE"]
    assert listed[1].split()[:3] == ["arena-columns", "RUNNING", "PYTORCHJOB"]
    shown = here("get", "arena-columns", "-e", "-g")[1]
    assert "arena-columns-worker-0" in shown
    assert "ReplicaStarted" in shown
    assert "Allocated/Requested GPUs of Job: 0/0" in shown
    details = here("top", "node", "-d")[1]
    assert "arena-columns  master-0" in details
    assert "gangline logs -f arena-columns --role worker --index 0" in here("logviewer", "arena-columns")[1]
    here("delete", "arena-columns")


def test_attach_runs_where_the_replica_runs(shell: Shell) -> None:
    shell.out("submit", "--name", "attached", "-e", "WORD=inside", "--", "sleep", "100")
    shell.out("wait", "attached", "--for", "PROCESSING")
    found = shell.out("attach", "attached", "-i", "worker-0", "--", "sh", "-c", "echo $WORD $GANGLINE_ROLE; pwd")
    assert found.splitlines()[0] == "inside worker"
    assert found.splitlines()[1].endswith("worker-0/work")
    refused = shell.run("attach", "attached", "--", "no-such-program")
    assert (refused.returncode, "'no-such-program' cannot be run there" in refused.stderr) == (2, True)
    shell.out("cancel", "attached")
    gone = shell.run("attach", "attached")
    assert (gone.returncode, "has none on this machine" in gone.stderr) == (3, True)


def test_prune_refuses_arenas_since_which_means_the_opposite_of_every_other_since(here: Here) -> None:
    here("submit", "--name", "old-enough", "--wait", "--", "true")
    code, _, problem = here("prune", "--since", "0s")
    assert (code, "--since" in problem) == (2, True)
    assert "old-enough" in here("prune", "--older-than", "0s")[1]


def test_a_file_brings_its_config_maps_along(here: Here, tmp_path: Path) -> None:
    container = {
        "name": "tensorflow",
        "image": "any",
        "command": ["cat", "/etc/words/greeting"],
        "volumeMounts": [{"name": "words", "mountPath": "/etc/words"}],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "words", "configMap": {"name": "file-words"}}],
        "nodeSelector": {"pool": "of-a-cluster"},
    }
    documents = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "file-words"}, "data": {"greeting": "hello"}},
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": {"name": "with-words"},
            "spec": {"tfReplicaSpecs": {"Worker": {"template": {"spec": pod}}}},
        },
    ]
    (tmp_path / "job.yaml").write_text(yaml.safe_dump_all(documents))
    code, out, err = here("submit", "-f", str(tmp_path / "job.yaml"), "--follow")
    assert (code, out) == (0, "hello\n"), err
    assert "note: the image any is ignored" in err
    assert "nodeSelector is not used here" in err


def test_the_kubeconfig_is_added_to_what_a_file_says_already(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "kube" / "config"
    file.parent.mkdir()
    other = {"name": "other", "cluster": {"server": "https://other"}}
    file.write_text(yaml.safe_dump({"clusters": [other], "contexts": [], "users": [], "current-context": "other"}))
    for _ in range(2):
        code, _, said = here("config", "kubeconfig", "--output", str(file))
        assert code == 0
        assert "its current context is still 'other'" in said
    found = yaml.safe_load(file.read_text())
    assert [entry["name"] for entry in found["clusters"]] == ["other", "gangline"]
    assert found["current-context"] == "other", "whoever uses another cluster goes on using it"
    assert found["contexts"][0]["context"]["namespace"] == "default"
    assert file.stat().st_mode & 0o777 == 0o600
    printed = yaml.safe_load(here("config", "kubeconfig")[1])
    assert printed["users"] == found["users"]
    assert here("config", "kubeconfig", "--output", str(tmp_path / "new"))[0] == 0
    assert yaml.safe_load((tmp_path / "new").read_text())["current-context"] == "gangline"


@pytest.mark.parametrize("text", ["[1]", "a: ["])
def test_a_file_that_is_no_kubeconfig_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(InvalidInputError):
        write_kubeconfig({"clusters": [], "users": [], "contexts": []}, file)
    assert file.read_text() == text


def test_a_program_and_a_model_are_served_with_arenas_flags(here: Here, present: Path) -> None:
    (present / "hello").write_text("hello there")
    words = f"exec python3 -m http.server $PORT --bind $HOST --directory {present}"
    probe = ("--readiness-probe-action=httpGet", "--readiness-probe-action-option", "path: /hello")
    flags = ("--name=arena", "--version=v1", "--cpu=100m", *probe, "--readiness-probe-option", "periodSeconds: 1")
    code, out, err = here("serve", "custom", *flags, words)
    assert (code, out.strip().endswith("/services/arena-v1")) == (0, True), err
    assert here("service", "predict", "arena-v1", "--path", "/hello")[1].strip() == "hello there"
    assert here("service", "delete", "arena-v1")[0] == 0
    model = present / "digits" / "1"
    model.mkdir(parents=True)
    (model / "handler.py").write_text(
        "class Model:\n  def load(self, folder): pass\n  def predict(self, inputs): return inputs['x'] * 2\n"
    )
    named = ("--name=digits", "--model-name=twice", f"--model-path={model.parent}", "--cpu=100m")
    code, out, err = here("serve", "tf", *named)
    assert (code, out.strip().endswith("/services/digits")) == (0, True), err
    body = json.dumps({"inputs": {"x": [1, 2]}})
    code, out, err = here("service", "predict", "digits", "--path", "/v1/models/twice:predict", "-d", body)
    assert (code, json.loads(out)) == (0, {"outputs": [2, 4]}), err
    assert here("service", "delete", "digits")[0] == 0


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (
            ["tf", "--name=a", "--version-policy=all"],
            "--version-policy: Arena's flag is not known here; expected nothing",
        ),
        (["triton", "--name=a"], "serve triton: Arena's verb is not known here; expected 'gangline serve model://"),
        (["custom", "--name=a"], "COMMAND: nothing is served"),
        (["custom", "--imagee=a"], "--image"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_arena_cannot_serve_here_is_told(here: Here, words: list[str], want: str) -> None:
    code, _, err = here("serve", *words)
    assert (code, want in err) == (2, True), err


def test_a_program_that_is_called_as_a_verb_is_served(here: Here) -> None:
    assert arena_serve_verb(["custom", "x"]) is None
    assert arena_serve_verb(["triton"]) is None
    assert arena_serve_verb(["tf", "--name=a"]) is ServeVerb.TENSORFLOW
