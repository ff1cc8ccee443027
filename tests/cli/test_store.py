"""``gangline store`` as its users meet it: a real service, a real object store, and keys that nobody sees."""

import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.data.servers import Server, s3_server

KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "very secret"}


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        (server.folder / "bucket" / "in.txt").write_text("hello")
        yield server


def add(shell: Shell, server: Server, name: str, *options: str, **variables: str) -> None:
    done = shell.run(
        "store", "add", name, "s3://bucket", "--endpoint", server.credentials.endpoint, *options, **variables
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{name}\n"
    assert "very secret" not in done.stderr


def write_job(place: Path, name: str, inputs: str) -> str:
    file = place / "job.yaml"
    file.write_text(
        f"""
metadata: {{name: {name}}}
spec:
  command: [sh, -c, "cat $DATA_DIR/in.txt"]
  resources: {{cpu: 100m, memory: 64Mi}}
  data: {{inputs: [{inputs}]}}
"""
    )
    return str(file)


def test_a_job_uses_a_store_and_nothing_shows_the_keys(shell: Shell, s3: Server, tmp_path: Path) -> None:
    def holders() -> set[Path]:
        files = shell.settings.home.rglob("*")
        return {file for file in files if file.is_file() and b"very secret" in file.read_bytes()}

    before = holders()
    add(shell, s3, "lake", **KEYS)
    job = write_job(tmp_path, "from-lake", "{from: s3://bucket/in.txt, to: $DATA_DIR, store: lake}")
    ran = shell.run("submit", "-f", job, "--follow")
    assert ran.returncode == 0, ran.stderr
    assert "hello" in ran.stdout
    shown = "".join(
        shell.out(*words)
        for words in (
            ("store", "list"),
            ("store", "list", "-o", "json"),
            ("store", "get", "lake", "-o", "yaml"),
            ("store", "describe", "lake"),
            ("get", "from-lake", "-o", "yaml"),
            ("describe", "from-lake"),
            ("events", "from-lake"),
        )
    )
    assert "gangline-store-lake" in shown
    assert "very secret" not in shown
    kept = shell.settings.home / "objects" / "default" / "secrets" / "gangline-store-lake.json"
    assert holders() - before == {kept}
    assert shell.run("store", "remove", "lake").returncode == 0
    assert not kept.exists()


def test_another_tenant_cannot_use_the_store(shell: Shell, s3: Server, tmp_path: Path) -> None:
    add(shell, s3, "mine", "--default", **KEYS)
    for name, store in (("by-name", ", store: mine"), ("by-default", "")):
        job = write_job(tmp_path, name, f"{{from: s3://bucket/in.txt, to: $DATA_DIR{store}}}")
        assert shell.run("submit", "-f", job, "--wait").returncode == 0
    job = write_job(tmp_path, "thief", "{from: s3://bucket/in.txt, to: $DATA_DIR, store: mine}")
    ran = shell.run("--tenant", "others", "submit", "-f", job, "--wait")
    assert ran.returncode != 0
    assert "there is no store 'mine'" in shell.out("--tenant", "others", "describe", "thief")
    assert shell.out("--tenant", "others", "store", "list", "-o", "name") == ""
    shell.out("store", "remove", "mine")


@pytest.mark.parametrize(
    "text",
    [
        "key=tester\nsecret=very secret\n",
        '{"key": "tester", "secret": "very secret"}',
        "[default]\naws_access_key_id = tester\naws_secret_access_key = very secret\n",
        "export AWS_ACCESS_KEY_ID=tester\nexport AWS_SECRET_ACCESS_KEY='very secret'\n",
    ],
    ids=["pairs", "json", "aws", "shell"],
)
def test_keys_are_read_from_a_file(shell: Shell, s3: Server, tmp_path: Path, text: str) -> None:
    (tmp_path / "keys").write_text(text)
    add(shell, s3, "filed", "--keys-file", str(tmp_path / "keys"))
    job = write_job(tmp_path, "from-filed", "{from: s3://bucket/in.txt, to: $DATA_DIR, store: filed}")
    assert shell.run("submit", "-f", job, "--wait").returncode == 0
    shell.out("delete", "from-filed")
    shell.out("store", "remove", "filed")


def test_new_keys_count_for_the_next_job(shell: Shell, s3: Server, tmp_path: Path) -> None:
    add(shell, s3, "renewed", **{**KEYS, "AWS_SECRET_ACCESS_KEY": "an old one"})
    inputs = "{from: s3://bucket/in.txt, to: $DATA_DIR, store: renewed}"
    assert shell.run("submit", "-f", write_job(tmp_path, "refused", inputs), "--wait").returncode != 0
    assert "the store refuses the key" in shell.out("describe", "refused")
    assert shell.run("store", "set-keys", "renewed", **KEYS).returncode == 0
    assert shell.run("submit", "-f", write_job(tmp_path, "accepted", inputs), "--wait").returncode == 0
    shell.out("store", "remove", "renewed")


def test_without_keys_nothing_is_added_and_nobody_is_asked_where_nobody_sits(shell: Shell) -> None:
    refused = shell.run("store", "add", "lost", "s3://bucket", text_in="")
    assert refused.returncode == 2
    assert "--keys-file" in refused.stderr
    assert shell.run("store", "get", "lost").returncode != 0
    added = shell.run("store", "add", "lost", "s3://bucket", "--no-keys")
    assert added.returncode == 0
    assert "environment" in shell.out("store", "list")
    shell.out("store", "remove", "lost")


def test_a_file_without_keys_is_refused_and_not_shown(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("very secret\n")
    refused = shell.run("store", "add", "lost", "s3://bucket", "--keys-file", str(tmp_path / "keys"))
    assert refused.returncode != 0
    assert "the file holds no keys" in refused.stderr
    assert "very secret" not in refused.stderr


def test_a_prompt_does_not_echo_the_secret(shell: Shell) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        command = Shell.command("store", "add", "asked", "s3://bucket")
        os.execve(command[0], command, shell.environment)
    said = b""
    for question, answer in ((b"Access key", b"tester\n"), (b"Secret", b"very secret\n")):
        while question not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, answer)
    try:
        while chunk := os.read(terminal, 1000):
            said += chunk
    except OSError:  # the other end is closed
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, said
    assert b"very secret" not in said
    kept = shell.settings.object_directory / "default" / "secrets" / "gangline-store-asked.json"
    assert "very secret" in kept.read_text()
    shell.out("store", "remove", "asked")
