"""The client half on a system that is not Linux; ``test_team_service.py`` uses a team's service from one."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

from gangline.kube import KubeClient
from tests.apiserver import ApiServer
from tests.contract.kubernetes import store_over

CLIENT = Path(__file__).with_name("bare_client.py")


def typed(home: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_"))}
    command = [sys.executable, str(CLIENT), *words]
    environment = {**kept, "HOME": str(home), **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_client_half_imports_without_what_only_linux_has(tmp_path: Path) -> None:
    done = typed(tmp_path, "import")
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stdout + done.stderr


def test_what_needs_linux_says_so_in_one_sentence(tmp_path: Path) -> None:
    done = typed(tmp_path, "list")
    assert done.returncode == 6
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "the local service needs Linux" in line
    assert "gangline login URL" in line
    assert "Traceback" not in done.stderr


def test_what_needs_no_service_works(tmp_path: Path) -> None:
    done = typed(tmp_path, "submit", "--dry-run", "--", "echo", "hello")
    assert done.returncode == 0, done.stderr
    assert "hello" in done.stdout


async def test_a_cluster_is_driven_from_there(tmp_path: Path) -> None:
    async with ApiServer.running() as (_, access), KubeClient(access) as client, store_over(client):
        cluster = {"name": "c", "cluster": {"server": access.server}}
        context = {"name": "test", "context": {"cluster": "c", "user": "u"}}
        config = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
        file = tmp_path / "config"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config}))

        async def type_there(*words: str) -> str:
            done = await asyncio.to_thread(typed, tmp_path, "--context", "test", *words, KUBECONFIG=str(file))
            assert done.returncode == 0, done.stderr
            return done.stdout

        await type_there("submit", "--name", "away", "--image", "python", "--", "echo", "hello")
        assert "away" in await type_there("list")
