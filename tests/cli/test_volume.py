"""``gangline volume`` and jobs that share one."""

from pathlib import Path

import pytest

from tests.cli.conftest import Shell


def write_job(place: Path, name: str, script: str, volume: str) -> str:
    file = place / f"{name}.yaml"
    file.write_text(
        f"""
metadata: {{name: {name}}}
spec:
  roles:
    worker:
      command: [sh, -c, "{script}"]
      resources: {{cpu: 100m, memory: 64Mi}}
      volumes: [{volume}]
"""
    )
    return str(file)


def test_one_job_writes_into_a_volume_and_the_next_one_reads_it(shell: Shell, tmp_path: Path) -> None:
    assert shell.out("volume", "create", "shelf", "--size", "1Gi") == "shelf\n"
    assert shell.out("volume", "list").splitlines()[1].split()[:3] == ["shelf", "1Gi", "ReadWriteMany"]
    volume = "{name: shelf, at: /shelf}"
    written = shell.run("submit", "-f", write_job(tmp_path, "writes", "echo hello > /shelf/a.txt", volume), "--wait")
    assert written.returncode == 0, written.stderr
    script = "cat $GANGLINE_VOLUME_SHELF/a.txt"
    read = shell.run("submit", "-f", write_job(tmp_path, "reads", script, "{name: shelf, at: /s, read_only: true}"))
    assert read.returncode == 0, read.stderr
    assert shell.run("wait", "reads").returncode == 0
    assert "hello" in shell.out("logs", "reads")
    assert "persistentVolumeClaim" in shell.out("get", "reads", "-o", "yaml")
    shell.out("volume", "delete", "shelf")
    assert not (shell.settings.claim_directory / "default" / "shelf").exists()


def test_another_tenant_has_a_volume_of_its_own(shell: Shell, tmp_path: Path) -> None:
    shell.out("volume", "create", "mine")
    (shell.settings.claim_directory / "default" / "mine" / "a.txt").write_text("hidden")
    job = write_job(tmp_path, "looks", "ls /mine; echo looked", "{name: mine, at: /mine}")
    assert shell.run("--tenant", "others", "submit", "-f", job, "--wait").returncode == 0
    assert shell.out("--tenant", "others", "logs", "looks").split() == ["looked"]
    shell.out("volume", "delete", "mine")


def test_two_volumes_at_one_path_are_refused(shell: Shell, tmp_path: Path) -> None:
    both = "{name: shelf, at: /s}, {name: board, at: /s/}"
    refused = shell.run("submit", "--dry-run", "-f", write_job(tmp_path, "twice", "true", both))
    assert refused.returncode != 0
    assert "volumes[1].at: another volume is at /s/" in refused.stderr


@pytest.mark.parametrize(
    ("volume", "want"),
    [
        ("{name: shelf}", "at"),
        ("{at: /shelf}", "name"),
        ("{name: shelf, at: shelf}", "a path from the root"),
        ("{name: shelf, at: /}", "a path from the root"),
        ("{name: Shelf!, at: /shelf}", "not a valid name"),
        ("{name: shelf, at: /shelf, readonly: true}", "read_only"),
    ],
    ids=str,
)
def test_a_mistake_is_named_with_its_place(shell: Shell, tmp_path: Path, volume: str, want: str) -> None:
    refused = shell.run("submit", "--dry-run", "-f", write_job(tmp_path, "wrong", "true", volume))
    assert refused.returncode != 0
    assert "volumes[0]" in refused.stderr
    assert want in refused.stderr
