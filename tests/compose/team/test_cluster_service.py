"""A team's service over a cluster: the API server says who somebody is and what they may do."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gangline.compose.clock import SystemClock
from gangline.compose.team.cluster_people import ClusterPeople
from gangline.compose.team.cluster_service import ClusterSessions, LoggedAudit, make_cluster_app
from gangline.engines.kubernetes import install
from gangline.kube import NAMESPACES, ClusterAccess, Credential, FixedCredential, KubeClient
from gangline.settings import Settings
from gangline.storage.audit import MemoryAudit
from gangline.storage.kubernetes import DEFINITIONS
from tests.apiserver.server import ApiServer, Bearer

ALL = frozenset({"get", "list", "watch", "create", "update", "patch", "delete"})
PEOPLE = {
    "of-the-service": Bearer(name="system:serviceaccount:gangline-system:gangline-api", admin=True),
    "of-ada": Bearer(name="ada", verbs=ALL, namespaces=frozenset({"vision"})),
    "of-bob": Bearer(name="bob", verbs=ALL, namespaces=frozenset({"speech"})),
    "of-eve": Bearer(name="eve", verbs=frozenset({"get", "list"}), namespaces=frozenset({"vision"})),
    "of-ci": Bearer(name="system:serviceaccount:vision:ci", verbs=ALL, namespaces=frozenset({"vision"})),
    "of-root": Bearer(name="root", admin=True),
}
JOB = {"apiVersion": "gangline.dev/v1", "kind": "Job", "metadata": {"name": "mnist", "tenant": "vision"}}
JOB["spec"] = {"roles": {"worker": {"command": ["sh", "-c", "sleep 600"], "image": "busybox"}}}  # type: ignore[assignment]
VISION = "/api/v1/tenants/vision/jobs"


@dataclass
class Team:
    """Asks the service as anybody."""

    server: ApiServer
    client: "TestClient[web.Request, web.Application]"
    audit: MemoryAudit

    async def ask(self, who: str, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        given = {"Authorization": f"Bearer of-{who}", **headers}
        async with self.client.request(method, path, json=body, headers=given) as answer:
            text = await answer.read()
            found = json.loads(text) if "json" in answer.content_type else text.decode()
            return answer.status, found


@asynccontextmanager
async def serving(directory: Path, audit: Any = None) -> AsyncIterator[Team]:
    async with ApiServer.running() as (server, access):
        async with KubeClient(access) as admin:
            await install(admin, DEFINITIONS, print)
            for name in ("vision", "speech"):
                await admin.create(NAMESPACES, {"metadata": {"name": name}})
        server.people.update(PEOPLE)
        own = replace(access, credentials=FixedCredential(Credential(token="of-the-service")))
        clock, log = SystemClock(), audit or MemoryAudit()
        settings = replace(Settings.load({"HOME": str(directory)}), home=directory)
        sessions = ClusterSessions(own, directory / "code", clock)
        async with KubeClient(own) as client:
            app = make_cluster_app(
                ClusterPeople(client, clock, believed_seconds=0.05),
                sessions,
                clock,
                settings,
                audit=log,
                again_seconds=0.05,
            )
            app.on_shutdown.append(sessions.close)
            async with TestClient(TestServer(app)) as asking:
                yield Team(server, asking, log)


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with serving(tmp_path) as team:
        yield team


async def test_a_job_is_its_senders_object_and_in_the_audit_record(team: Team) -> None:
    status, made = await team.ask("ada", "POST", VISION, JOB, **{"Idempotency-Key": "one"})
    assert (status, made.get("metadata", made)["name"]) == (201, "mnist")
    again, same = await team.ask("ada", "POST", VISION, JOB, **{"Idempotency-Key": "one"})
    assert (again, same) == (201, made)
    assert [job["metadata"]["name"] for job in (await team.ask("eve", "GET", VISION))[1]["jobs"]] == ["mnist"]
    assert (await team.ask("ada", "POST", f"{VISION}/mnist/cancel"))[0] == 200
    entries = await team.audit.read(None, before=None, limit=10)
    assert [(entry.who, entry.method, entry.status, entry.tenant) for entry in reversed(entries)] == [
        ("ada", "POST", 201, "vision"),
        ("ada", "POST", 201, "vision"),
        ("ada", "POST", 200, "vision"),
    ]


@pytest.mark.parametrize(
    ("who", "method", "path", "want"),
    [
        pytest.param("nobody", "GET", VISION, 401, id="a token that nobody has"),
        pytest.param("bob", "GET", VISION, 403, id="reading another tenant's"),
        pytest.param("bob", "POST", VISION, 403, id="writing there"),
        pytest.param("eve", "GET", VISION, 200, id="a reader reads"),
        pytest.param("eve", "POST", VISION, 403, id="a reader does not write"),
        pytest.param("ada", "GET", "/api/v1/tenants/vision/audit", 200, id="who may give roles reads the audit record"),
        pytest.param("eve", "GET", "/api/v1/tenants/vision/audit", 403, id="a reader does not"),
        pytest.param("ada", "GET", "/api/v1/audit", 403, id="all of it is for who runs the platform"),
        pytest.param("root", "GET", "/api/v1/audit", 200, id="and they read it"),
        pytest.param("ada", "GET", "/api/v1/queues", 200, id="queues are everybody's to read"),
        pytest.param("ada", "POST", "/api/v1/queues", 403, id="and not to make"),
        pytest.param("ada", "GET", "/metrics", 403, id="figures are not for everybody"),
        pytest.param("root", "GET", "/metrics", 200, id="but for who may read them"),
        pytest.param("root", "GET", "/api/v1/tokens", 400, id="tokens are the cluster's"),
        pytest.param("ada", "GET", "/api/v1/nodes", 403, id="the cluster refuses what nothing here asks about"),
    ],
)
async def test_the_cluster_decides(team: Team, who: str, method: str, path: str, want: int) -> None:
    status, answer = await team.ask(who, method, path, JOB if method == "POST" else None)
    assert status == want, answer
    assert "of-" not in str(answer), "a token is in the answer"


async def test_what_the_cluster_takes_back_is_gone_within_seconds(team: Team) -> None:
    headers = {"Authorization": "Bearer of-ada", "Accept": "text/event-stream"}
    async with team.client.get(f"{VISION}?watch=true", headers=headers) as stream:
        async with asyncio.timeout(10):
            while b"bookmark" not in await stream.content.readline():
                pass
        assert (await team.ask("ada", "POST", f"{VISION}?id=job-1", JOB))[0] == 201
        async with asyncio.timeout(10):
            while b"mnist" not in await stream.content.readline():
                pass
        del team.server.people["of-ada"]
        with pytest.raises(aiohttp.ClientError):  # the connection is cut
            await asyncio.wait_for(stream.read(), 10)
    assert (await team.ask("ada", "GET", VISION))[0] == 401


async def test_a_service_account_is_at_home_in_its_namespace(team: Team) -> None:
    status, myself = await team.ask("ci", "GET", "/api/v1/myself")
    assert (status, myself["name"]) == (200, "system:serviceaccount:vision:ci")
    assert (myself["roles"], myself.get("operator", False)) == ({"vision": "member"}, False)


async def test_a_cluster_that_does_not_let_the_service_ask_is_said(team: Team) -> None:
    team.server.people["of-the-service"] = replace(PEOPLE["of-the-service"], admin=False)
    status, answer = await team.ask("ada", "GET", VISION)
    assert (status, "system:auth-delegator" in answer["detail"]) == (500, True)


async def test_a_cluster_that_does_not_answer_is_told_as_503(tmp_path: Path) -> None:
    async with KubeClient(ClusterAccess(server="http://127.0.0.1:9")) as client:
        clock, settings = SystemClock(), replace(Settings.load({"HOME": str(tmp_path)}), home=tmp_path)
        sessions = ClusterSessions(client.access, tmp_path, clock)
        app = make_cluster_app(ClusterPeople(client, clock), sessions, clock, settings, audit=MemoryAudit())
        async with TestClient(TestServer(app)) as asking:
            answer = await asking.get(VISION, headers={"Authorization": "Bearer of-ada"})
            assert answer.status == 503


async def test_without_a_database_the_audit_record_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gangline.audit")
    async with serving(tmp_path, LoggedAudit()) as team:
        assert (await team.ask("ada", "POST", f"{VISION}?id=job-1", JOB))[0] == 201
        entry = json.loads(caplog.messages[-1])
        assert (entry["who"], entry["path"], entry["after"]["metadata.name"]) == ("ada", VISION, "mnist")
        status, answer = await team.ask("root", "GET", "/api/v1/audit")
        assert (status, "setting database" in answer["detail"]) == (404, True)
