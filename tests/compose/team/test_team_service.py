"""A team's service as people meet it: started by one, used by others from homes of their own."""

import asyncio
import base64
import io
import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from gangline.api.auth import own_name
from gangline.errors import PermissionDeniedError, UnreachableError
from gangline.sdk import Client
from gangline.sdk.login.logging_in import certificate_fingerprint
from gangline.sdk.login.logins import logins_file
from gangline.sdk.transports.http import HttpTransport
from gangline.settings import Settings
from tests.compose.team.process import Team


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with tempfile.TemporaryDirectory(prefix="tm") as sockets:  # paths of sockets are short
        team = Team(tmp_path_factory.mktemp("team"), Path(sockets))
        try:
            team.start("--trust-tenants")
            yield team
        finally:
            team.stop()


def test_a_user_elsewhere_submits_follows_and_cancels_and_others_see_nothing(team: Team) -> None:
    team.log_in("alice", team.type("root", "token", "create", "alice", "--tenant", "vision"))
    team.log_in("eve", team.type("root", "token", "create", "eve", "--tenant", "speech"))

    team.type("alice", "submit", "--name", "tour", "--cpu", "100m", "--memory", "64Mi", "--", "echo", "hello there")
    assert "hello there" in team.type("alice", "logs", "-f", "tour")
    team.type("alice", "submit", "--name", "long", "--cpu", "100m", "--memory", "64Mi", "--", "sleep", "600")
    team.type("alice", "cancel", "long")
    assert "tour" in team.type("alice", "list")

    assert "tour" not in team.type("eve", "list")
    assert "no job named" in team.type("eve", "get", "tour", want=3)
    assert "may not read in tenant 'vision'" in team.type("eve", "--tenant", "vision", "get", "tour", want=5)

    team.type("root", "token", "revoke", "eve", "--tenant", "speech")
    assert "expired or revoked" in team.type("eve", "list", want=5)


async def test_what_its_own_user_changes_is_in_the_audit_record_whatever_the_door(team: Team) -> None:
    team.type("root", "token", "create", "cleaner", "--tenant", "vision")
    home = Path(team.environment("root")["GANGLINE_HOME"])
    door = json.loads((home / "kubernetes.json").read_text())
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shapes"}, "data": {"a": "b"}}
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {door['token']}"}) as session:
        address = f"http://127.0.0.1:{door['port']}"
        async with session.post(f"{address}/api/v1/namespaces/vision/configmaps", json=config_map) as answer:
            assert answer.status == 201
        async with session.post(f"{address}/apis/v2beta1/experiments", json={"display_name": "tries"}) as answer:
            assert answer.status == 200
    found = json.loads(team.type("root", "audit", "-A", "--limit", "3", "-o", "json"))
    assert [(each["who"], each["path"], each["status"]) for each in reversed(found)] == [
        (own_name(), "/api/v1/tenants/vision/tokens", 201),
        (own_name(), "/api/v1/namespaces/vision/configmaps", 201),
        (own_name(), "/apis/v2beta1/experiments", 200),
    ]
    assert [each["origin"] for each in reversed(found)] == ["socket", "127.0.0.1", "127.0.0.1"]
    assert "gangline_" not in str(found)


def test_a_laptop_without_anything_of_linux_uses_the_service_like_any_other(team: Team) -> None:
    bare = (str(Path(__file__).parents[2] / "sdk" / "bare_client.py"),)
    team.log_in("mac", team.type("root", "token", "create", "mac", "--tenant", "vision"), program=bare)
    job = ("submit", "--name", "away", "--cpu", "100m", "--memory", "64Mi", "--", "echo", "from elsewhere")
    team.type("mac", *job, program=bare)
    assert "from elsewhere" in team.type("mac", "logs", "-f", "away", program=bare)
    assert "away" in team.type("mac", "list", program=bare)
    assert "COMPLETED" in team.type("mac", "wait", "away", program=bare) + team.type("mac", "get", "away", program=bare)


def test_a_login_is_kept_for_its_user_alone(team: Team) -> None:
    team.log_in("bob", team.type("root", "token", "create", "bob", "--role", "viewer"))
    file = logins_file(Settings.load(team.environment("bob")))
    assert file.stat().st_mode & 0o777 == 0o600
    assert "may not write" in team.type("bob", "cancel", "tour", want=5)
    team.type("bob", "logout")
    assert "gpu" not in file.read_text()


def test_a_wrong_token_is_not_kept(team: Team) -> None:
    team.log_in("mallory", "gangline_000000000000_wrong", want=5)
    assert not logins_file(Settings.load(team.environment("mallory"))).exists()


def test_nothing_is_said_to_a_server_with_another_certificate(team: Team) -> None:
    said = []
    transport = HttpTransport(team.address, token=lambda: said.append("token") or "x", fingerprint="0" * 64)
    with pytest.raises(PermissionDeniedError, match="another certificate"):
        Client(context="", transport=transport).version()
    assert not said


def test_its_own_certificate_is_refused_by_whoever_has_not_pinned_it(team: Team) -> None:
    assert certificate_fingerprint(team.address) == team.fingerprint
    with pytest.raises(PermissionDeniedError, match="not trusted"):
        Client(context="", transport=HttpTransport(team.address)).version()


def test_there_is_no_plain_http(team: Team) -> None:
    plain = team.address.replace("https", "http")
    with pytest.raises(UnreachableError):
        Client(context="", transport=HttpTransport(plain)).version()


MANIFEST = """
name: squares
cpus: 0.1
memory: 64MiB
framework: {name: custom, version: none, command: 'sh train.sh; echo done $LEARNER_ID'}
"""


async def test_a_client_of_ffdl_trains_follows_and_downloads(team: Team) -> None:
    token = team.type("root", "token", "create", "old", "--tenant", "vision").strip()
    definition, form = io.BytesIO(), aiohttp.FormData()
    with zipfile.ZipFile(definition, "w") as archive:
        archive.writestr("train.sh", "mkdir -p $RESULT_DIR/model; echo 4 9 16 > $RESULT_DIR/model/weights")
    form.add_field("manifest", MANIFEST, filename="manifest.yml")
    form.add_field("model_definition", definition.getvalue(), filename="model.zip")
    pinned = aiohttp.TCPConnector(ssl=aiohttp.Fingerprint(bytes.fromhex(team.fingerprint)))
    opening = {"Authorization": f"Basic {base64.b64encode(f'me:{token}'.encode()).decode()}"}
    async with aiohttp.ClientSession(team.address, connector=pinned, headers=opening) as session:
        async with session.post("/v1/models", data=form) as answer:
            assert answer.status == 201, await answer.text()
            model = (await answer.json())["model_id"]
        async with session.ws_connect(f"/v1/models/{model}/logs?follow=true") as socket:
            said = "".join([message.data async for message in socket])
        assert "done 1" in said
        await asyncio.to_thread(team.type, "root", "--tenant", "vision", "wait", model)
        async with session.get(f"/v1/models/{model}") as answer:
            status = (await answer.json())["training"]["training_status"]
            assert status["status"] == "COMPLETED"
            assert status["completed"] >= status["submitted"]
        async with session.get(f"/v1/models/{model}/trained_model") as answer:
            assert answer.status == 200, await answer.text()
            with zipfile.ZipFile(io.BytesIO(await answer.read())) as archive:
                assert archive.read("model/weights") == b"4 9 16\n"
        async with session.delete(f"/v1/models/{model}") as answer:
            assert answer.status == 200, await answer.text()
