"""``gangline workspace``, ``notebook``, ``tensorboard``, ``shell`` and ``port-forward`` as their users meet them."""

import http.client
import sys
from collections.abc import Iterator
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

import pytest

from gangline.cli.commands.port_forward import address_of
from gangline.model import ReplicaId, RoleName
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of as service_address
from tests.cli.conftest import Shell

SERVER = f"{sys.executable},-m,http.server,$(PORT),--bind,$(HOST)"
SMALL = ("--resources", "cpu=50m,memory=64Mi")


def get(link: str, path: str) -> tuple[int, str]:
    """Open a link, then a page behind it; the host is asked for by its name and found at this machine."""
    parts = urlsplit(link)
    host = {"Host": parts.netloc}
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=60)
    connection.request("GET", f"{parts.path}?{parts.query}", headers=host)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    cookie: SimpleCookie = SimpleCookie(answer.headers["Set-Cookie"])
    answer.read()
    (morsel,) = cookie.values()
    connection.request("GET", path, headers={**host, "Cookie": f"{morsel.key}={morsel.value}"})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


@pytest.fixture(scope="module")
def files(shell: Shell) -> Iterator[str]:
    """A workspace whose program shows its files."""
    made = shell.run("workspace", "create", "files", "--tool", "program", "--command", SERVER, *SMALL)
    assert made.returncode == 0, made.stderr
    yield "files"
    shell.out("workspace", "delete", "files")
    assert not list((shell.settings.claim_directory / "default").glob("workspace-files"))
    assert not list((shell.settings.object_directory / "default" / "secrets").glob("workspace-files*"))


def test_a_workspace_is_opened_stopped_and_started_again_with_its_files(shell: Shell, files: str) -> None:
    link = shell.out("workspace", "open", files, "--no-open").strip()
    (shell.settings.claim_directory / "default" / "workspace-files" / "kept.txt").write_text("still here")
    assert get(link, "/kept.txt") == (200, "still here")
    assert "files is stopping" in shell.run("workspace", "stop", files).stderr
    shell.out("workspace", "wait", files)
    refused = shell.run("workspace", "open", files)
    assert refused.returncode != 0
    assert "is stopped" in refused.stderr
    shell.out("workspace", "start", files)
    link = shell.out("workspace", "open", files, "--no-open").strip()
    assert get(link, "/kept.txt") == (200, "still here")
    assert "files-2" in shell.out("list")


def test_a_terminal_and_a_port_lead_to_a_running_replica(shell: Shell, files: str) -> None:
    shell.out("workspace", "open", files, "--no-open")
    client = Client(service_address(shell.settings), settings=shell.settings)
    job = next(each for each in client.list() if not each.finished and each.name.startswith("files-"))
    done = shell.run("shell", job.name, text_in="echo at $GANGLINE_ROLE-$GANGLINE_INDEX; exit 7\n", SHELL="/bin/sh")
    assert (done.returncode, done.stdout) == (7, "at workspace-0\n")
    secrets = shell.run("attach", job.name, "--", "sh", "-c", 'echo "$PORT"')
    assert address_of(job, ReplicaId(RoleName("workspace"), 0), int(secrets.stdout)) == "127.0.0.1"
    refused = shell.run("port-forward", job.name, "1")
    assert "does not listen there" in refused.stderr
    assert "is not a port" in shell.run("port-forward", job.name, "http").stderr


def test_a_notebook_without_jupyterlab_says_what_to_install(shell: Shell) -> None:
    # The environment of these tests has none.
    done = shell.run("notebook", "start", "lab", "--no-open", *SMALL)
    assert done.returncode != 0
    assert "pip install jupyterlab" in done.stderr
    assert "failed" in shell.out("notebook", "list")
    shell.out("notebook", "delete", "lab")


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("tensorboard",), "nothing to look at"),
        (("tensorboard", "nobody"), "no job named 'nobody'"),
        (("notebook", "open", "nobody"), "no workspace named 'nobody'"),
        (("notebook", "start", "x", "--idle", "soon"), "--idle"),
        (("notebook", "start", "x", "--volume", "data"), "data"),
        (("port-forward", "nobody", "80"), "no job named 'nobody'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(shell: Shell, words: tuple[str, ...], want: str) -> None:
    done = shell.run(*words)
    assert done.returncode != 0
    assert want in done.stderr
