"""Everyday use, as real processes: what is printed where, and the exit code."""

import json
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from gangline.errors import ConflictError, NotFoundError
from gangline.sdk import Client, Explanation
from tests.cli.conftest import Here, Shell

SERVE = ("sh", "-c", "echo serving; exec sleep 1000")


def test_the_first_submit_starts_the_service_and_says_so(fresh_shell: Shell) -> None:
    first = fresh_shell.run("submit", "--name", "first", "--wait", "--", "true")
    assert (first.returncode, first.stdout) == (0, "first\n")
    assert "starting the local service" in first.stderr
    second = fresh_shell.run("submit", "--name", "second", "--wait", "true")
    assert "starting" not in second.stderr
    assert second.returncode == 0


def test_following_prints_output_on_stdout_progress_on_stderr_and_ends_with_the_jobs_code(shell: Shell) -> None:
    done = shell.run("submit", "--name", "follow", "--follow", "--", "sh", "-c", "echo hello; echo oops >&2; exit 7")
    assert done.returncode == 7
    assert sorted(done.stdout.splitlines()) == ["hello", "oops"]
    assert "follow is PROCESSING" in done.stderr
    assert "follow is FAILED (ReplicaFailed" in done.stderr


def test_lines_of_several_replicas_say_whose_they_are(shell: Shell) -> None:
    done = shell.run("submit", "--name", "pair", "--workers", "2", "--cpu", "100m", "--follow", "--", "echo", "hi")
    assert sorted(done.stdout.splitlines()) == ["[worker-0] hi", "[worker-1] hi"]
    assert shell.out("logs", "pair", "--role", "worker", "--index", "1") == "hi\n"


def test_wait_ends_with_the_jobs_own_code(shell: Shell) -> None:
    shell.out("submit", "--name", "five", "--", "sh", "-c", "exit 5")
    assert shell.run("wait", "five").returncode == 5


def test_a_file_is_submitted_with_its_code_and_may_be_overruled(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    job = {
        "apiVersion": "gangline.dev/v1",
        "kind": "Job",
        "metadata": {"name": "in-file"},
        "spec": {"code": ".", "command": ["python3", "train.py"]},
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    done = shell.run(
        "submit", "-f", str(tmp_path / "job.yaml"), "--name", "overruled", "--priority", "high", "--follow"
    )
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    found = json.loads(shell.out("get", "overruled", "-o", "json"))
    assert found["metadata"]["priority"] == 75
    assert found["spec"]["code"].startswith("sha256:")


def test_a_command_that_names_a_file_ships_the_directory_it_is_in(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("print('trained here')\n")
    monkeypatch.chdir(tmp_path)
    code, out, err = here("submit", "--name", "shipped", "--follow", "--", "python3", "train.py")
    assert (code, out) == (0, "trained here\n")
    assert "shipping the current directory, because 'train.py' is in it" in err
    plain = here("submit", "--dry-run", "--no-code", "--", "python3", "train.py")
    assert "code" not in yaml.safe_load(plain[1])["spec"]


def test_a_job_sees_the_environment_its_user_activated(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "/some/venv")
    monkeypatch.setenv("PATH", "/some/venv/bin:/usr/bin:/bin")
    _, out, err = here("submit", "--name", "activated", "--follow", "--", "sh", "-c", "echo $VIRTUAL_ENV $PATH")
    assert out.startswith("/some/venv /some/venv/bin:")
    assert "using the environment /some/venv" in err
    _, out, _ = here("--server", "unix:/elsewhere", "submit", "--dry-run", "--", "true")
    assert "env" not in yaml.safe_load(out)["spec"]


def test_interrupting_a_follower_leaves_the_job_alone(shell: Shell, here: Here) -> None:
    following = subprocess.Popen(
        shell.command("submit", "--name", "left", "--follow", "--", *SERVE),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=shell.environment,
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "serving\n"
    following.send_signal(signal.SIGINT)
    _, err = following.communicate(timeout=30)
    assert following.returncode == 130
    assert "left goes on" in err
    assert "PROCESSING" in here("get", "left")[1]
    here("delete", "left")


def test_a_dry_run_prints_what_would_be_sent_and_needs_no_service(fresh_shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    done = fresh_shell.run(
        "submit", "--dry-run", "--name", "dry", "--workers", "2", "--code", str(tmp_path), "--", "python", "train.py"
    )
    assert done.returncode == 0
    request = yaml.safe_load(done.stdout)
    assert request["spec"]["roles"]["worker"]["replicas"] == 2
    assert request["spec"]["code"].startswith("sha256:")
    assert not fresh_shell.settings.socket.exists()


def test_what_a_dry_run_prints_can_be_submitted(shell: Shell) -> None:
    text = shell.out("submit", "--dry-run", "--name", "again", "--", "echo", "again")
    done = shell.run("submit", "-f", "-", "--follow", text_in=text)
    assert (done.returncode, done.stdout) == (0, "again\n")


def test_halt_resume_cancel_and_delete(here: Here) -> None:
    here("submit", "--name", "steered", "--", *SERVE)
    here("wait", "steered", "--for", "processing", "--timeout", "60s")
    assert "steered is HALTING" in here("halt", "steered")[2]
    assert here("wait", "steered", "--for", "HALTED", "--timeout", "60s")[0] == 0
    here("resume", "steered")
    assert here("wait", "steered", "--for", "PROCESSING", "--timeout", "60s")[0] == 0
    here("cancel", "steered")
    assert "steered is deleted" in here("delete", "steered")[2]
    assert here("get", "steered")[0] == 3


def test_a_name_that_means_nothing_does_not_keep_the_others_from_being_deleted(here: Here) -> None:
    here("submit", "--name", "surplus", "--", "true")
    code, _, said = here("delete", "nobody", "surplus", "none")
    assert (code, "surplus is deleted" in said) == (3, True)
    assert "no job named 'nobody'" in said
    assert "no job named 'none'" in said


def test_scale_asks_for_more_replicas(here: Here) -> None:
    here("submit", "--name", "elastic", "--cpu", "100m", "--max-workers", "3", "--", *SERVE)
    assert "elastic will have worker=3" in here("scale", "elastic", "worker=3")[2]
    assert here("scale", "elastic", "worker=9")[0] == 2
    assert here("scale", "elastic", "worker=many")[0] == 2
    here("delete", "elastic")


def test_a_job_that_refuses_does_not_keep_the_others_from_being_steered(here: Here) -> None:
    for name in ("ended", "ready"):
        here("submit", "--name", name, "--halted", "--", "true")
    here("cancel", "ended")
    code, _, said = here("cancel", "nobody", "ended", "ready")
    assert (code, "ready is CANCELLED" in said) == (4, True)
    assert "error: no job named 'nobody'" in said
    here("delete", "ended", "ready")


def test_what_is_so_already_needs_no_time_to_wait_for(here: Here) -> None:
    here("submit", "--name", "paused", "--halted", "--", "true")
    assert here("wait", "paused", "--for", "halted", "--timeout", "0")[0] == 0
    assert here("wait", "paused", "--timeout", "0")[0] == 124
    here("delete", "paused")


def test_prune_prints_what_it_deletes(fresh_shell: Shell) -> None:
    fresh_shell.out("submit", "--name", "old", "--wait", "--", "true")
    assert fresh_shell.out("prune", "--older-than", "1h") == ""
    assert fresh_shell.out("prune", "--older-than", "0s") == "old\n"


def test_a_waiting_job_is_explained(here: Here) -> None:
    here("submit", "--name", "huge", "--cpu", "10000", "--", "true")
    assert "huge is QUEUED." in here("explain", "huge")[1]
    assert "Why it waits:" in here("describe", "huge")[1]
    here("delete", "huge")
    here("submit", "--name", "at-rest", "--halted", "--", "true")
    assert "does not wait for machines: it is HALTED" in here("explain", "at-rest")[1]
    (sentence,) = json.loads(here("explain", "at-rest", "-o", "json")[1])["sentences"]
    assert "it is HALTED" in sentence


def test_a_job_that_starts_while_it_is_looked_at_is_no_conflict(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(client: Client, job: str) -> Explanation:
        client.cancel(job)  # so that it no longer waits, as if it had started
        raise ConflictError(f"job '{job}' does not wait for machines")

    monkeypatch.setattr(Client, "explain", started)
    for command, want in (("describe", "Queue:"), ("explain", "does not wait for machines: it is CANCELLED")):
        here("submit", "--name", f"brief-{command}", "--cpu", "10000", "--", "true")
        code, shown, _ = here(command, f"brief-{command}")
        assert (code, want in shown) == (0, True)


def test_watching_events_ends_quietly_with_the_job(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(client: Client, job: str, **_: object) -> None:
        raise NotFoundError("job", job)

    here("submit", "--name", "fleeting", "--halted", "--", "true")
    monkeypatch.setattr(Client, "events", gone)
    assert here("events", "--watch", "fleeting") == (0, "", "")


def test_reported_numbers_are_shown(shell: Shell, here: Here) -> None:
    program = "from gangline import runtime; runtime.report(accuracy=0.97, step=10)"
    shell.out("submit", "--name", "numbers", "--wait", "--", shell.command()[0], "-c", program)
    for command in (("get",), ("describe",), ("metrics",), ("metrics", "--latest")):
        assert "accuracy  0.97   10    worker-0" in here(*command, "numbers")[1]
    for options in ((), ("--plot",)):
        assert here("metrics", "numbers", "--name", "loss", *options) == (
            0,
            "",
            "numbers has reported no numbers named 'loss' yet\n",
        )


def test_a_list_of_nothing_is_an_empty_document(here: Here) -> None:
    assert here("list", "-l", "team=nobody", "-o", "yaml")[1] == ""
    assert json.loads(here("list", "-l", "team=nobody", "-o", "json")[1]) == []


def test_documents_can_be_read_by_programs(shell: Shell, here: Here) -> None:
    shell.out("submit", "--name", "documented", "-l", "team=vision", "--wait", "--", "true")
    (from_list,) = json.loads(here("list", "documented", "-l", "team=vision", "-o", "json")[1])
    from_get = yaml.safe_load(here("get", "documented", "-o", "yaml")[1])
    assert from_list == from_get
    assert from_get["status"]["phase"] == "COMPLETED"
    assert from_get["status"]["created_at"].endswith("Z")
    assert here("list", "documented", "-o", "name")[1] == "documented\n"
    assert json.loads(here("events", "documented", "-o", "json")[1])[0]["reason"] == "Submitted"
    assert json.loads(here("top", "node", "-o", "json")[1])[0]["node"]["capacity"]["cpu_millis"] > 0
    assert json.loads(here("queues", "-o", "json")[1])[0]["metadata"]["name"] == "default"
    assert json.loads(here("top", "job", "-o", "json")[1]) == []


def test_tables_have_headings_and_short_times(shell: Shell) -> None:
    shell.out("submit", "--name", "tabled", "--wait", "--", "true")
    heading, row = shell.out("list", "tabled").splitlines()
    assert heading.split() == ["NAME", "PHASE", "REPLICAS", "AGE", "REASON"]
    assert row.split()[:3] == ["tabled", "COMPLETED", "1/1"]
    assert "ATTEMPT" in shell.out("list", "tabled", "-o", "wide").splitlines()[0]


KUBEFLOW_FILE = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: elsewhere, namespace: vision}
spec:
  runPolicy: {suspend: true}
  pytorchReplicaSpecs:
    Worker:
      template:
        spec:
          containers: [{name: pytorch, image: acme/train, command: ["true"]}]
"""


def test_a_kubeflow_file_with_a_namespace_and_a_claim_is_found_again(here: Here, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(KUBEFLOW_FILE)
    code, _, said = here("submit", "-f", str(tmp_path / "job.yaml"))
    assert code == 0, said
    hint = said.strip().rpartition("follow it with: gangline ")[2].split()
    assert hint == ["--tenant", "vision", "logs", "-f", "elsewhere"]
    assert here(*hint)[0] == 0
    assert "the PersistentVolumeClaim 'data' is a directory" in said
    assert "tenant 'vision' has one: --tenant vision" in here("get", "elsewhere")[2]
    assert "-A lists those of all tenants" in here("list", "elsewhere")[2]
    listed = here("list", "-A", "elsewhere")[1].splitlines()
    assert [line.split()[:2] for line in listed] == [["TENANT", "NAME"], ["vision", "elsewhere"]]
    assert here("--tenant", "vision", "delete", "elsewhere")[0] == 0


def test_a_container_with_arguments_alone_is_refused_before_it_runs(here: Here, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(KUBEFLOW_FILE.replace("command:", "args:"))
    code, _, said = here("submit", "-f", str(tmp_path / "job.yaml"))
    assert code == 2
    assert "the container has arguments and no command" in said
    assert here("list", "-A", "elsewhere", "-o", "name")[1] == ""


def test_another_tenants_jobs_are_not_listed(here: Here) -> None:
    here("submit", "--name", "visible", "--tenant", "vision", "--halted", "--", "true")
    assert here("get", "visible")[0] == 3
    assert here("list", "--tenant", "vision", "-o", "name")[1] == "visible\n"
    assert here("--tenant", "vision", "delete", "visible")[0] == 0


def test_watching_prints_every_change_until_it_is_interrupted(shell: Shell) -> None:
    shell.out("submit", "--name", "watched", "--halted", "--", "true")
    watching = subprocess.Popen(
        shell.command("get", "watched", "--watch", "-o", "json"),
        stdout=subprocess.PIPE,
        text=True,
        env=shell.environment,
    )
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["status"]["phase"] == "HALTED"
    shell.out("cancel", "watched")
    assert json.loads(watching.stdout.readline())["status"]["phase"] == "CANCELLED"
    watching.send_signal(signal.SIGINT)
    assert watching.wait(30) == 130
    watching.stdout.close()


def test_the_jobs_of_all_tenants_can_be_watched(shell: Shell) -> None:
    shell.out("submit", "--name", "first", "--tenant", "vision", "--halted", "--", "true")
    with subprocess.Popen(
        shell.command("list", "-A", "-w", "first"), stdout=subprocess.PIPE, text=True, env=shell.environment
    ) as watching:
        assert watching.stdout is not None

        def row() -> list[str]:
            return watching.stdout.readline().split()

        assert row()[:3] == ["TENANT", "NAME", "PHASE"]
        assert row()[:3] == ["vision", "first", "HALTED"]
        shell.out("submit", "--name", "first-of-speech", "--tenant", "speech", "--halted", "--", "true")
        assert row()[:3] == ["speech", "first-of-speech", "HALTED"]
        shell.out("--tenant", "vision", "delete", "first")
        while (seen := row())[:2] == ["vision", "first"] and seen[-1] != "deleted":
            pass
        assert (seen[:2], seen[-1]) == (["vision", "first"], "deleted")
        watching.send_signal(signal.SIGINT)
    shell.out("--tenant", "speech", "delete", "first-of-speech")


def test_a_reader_that_has_seen_enough_is_no_error(shell: Shell) -> None:
    shell.out("submit", "--name", "chatty", "--wait", "--", "seq", "100000")
    pipeline = " ".join(shell.command("logs", "chatty")) + " | head -1; echo ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, env=shell.environment, check=False)
    assert done.stdout.split() == ["1", "0"]
    assert done.stderr == ""


def test_a_tail_is_short(shell: Shell, here: Here) -> None:
    shell.out("submit", "--name", "tailed", "--wait", "--", "seq", "50")
    assert here("logs", "tailed", "--tail", "3")[1] == "48\n49\n50\n"
    assert here("logs", "tailed", "--tail", "0")[1] == ""
