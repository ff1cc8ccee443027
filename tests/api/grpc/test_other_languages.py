"""A client that was generated from the .proto in another language does a day's work with a real service over TLS."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.compose.team.process import Team
from tests.environments import node_modules_of
from tools.rpc import FILE

HERE = Path(__file__).parent / "client"


@pytest.mark.skipif(not (shutil.which("npm") and shutil.which("node")), reason="node and npm are not installed")
def test_a_node_client_submits_follows_and_cancels(tmp_path: Path) -> None:
    modules = node_modules_of(HERE)
    with tempfile.TemporaryDirectory(prefix="tm") as sockets:  # paths of sockets are short
        team = Team(tmp_path, Path(sockets))
        try:
            team.start("--grpc", "127.0.0.1:0", "--trust-tenants")
            token = team.type("root", "token", "create", "node", "--tenant", "vision").strip()
            certificate = Path(team.environment("root")["GANGLINE_HOME"]) / "team.crt"
            address = team.rpc_address.removeprefix("grpcs://")
            command = [
                "node",
                "--no-warnings",
                HERE / "client.mjs",
                modules,
                FILE,
                address,
                certificate,
                token,
                "vision",
            ]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        finally:
            team.stop()
    assert ran.stdout == "submitted, followed and cancelled\n", ran.stderr
