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
from gangline.web.application import all_entries
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


@dataclass
class Browser:
    """A browser without a screen: it has a jar for cookies, and follows no link by itself."""

    session: aiohttp.ClientSession
    base: str

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(f"{self.base}{path}") as answer:
            return answer.status, await answer.text()

    async def post(self, path: str, **fields: str) -> tuple[int, str]:
        async with self.session.post(f"{self.base}{path}", data=fields, allow_redirects=False) as answer:
            return answer.status, answer.headers.get("Location") or await answer.text()

    async def csrf(self) -> str:
        return (await self.get(f"{PAGES}/jobs"))[1].partition('name="csrf" value="')[2].partition('"')[0]


@asynccontextmanager
async def browsing(team: Team, who: str) -> AsyncIterator[Browser]:
    """Somebody who has logged in to the pages with their token."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        browser = Browser(session, str(team.client.make_url("")).rstrip("/"))
        status, text = await browser.post("/dashboard/login", token=f"of-{who}")
        assert status == 200, text
        assert f"of-{who}" not in text
        yield browser


PAGES = "/dashboard/tenants/vision"


async def test_a_cluster_s_pages_show_and_do_what_the_cluster_allows(team: Team) -> None:
    assert (await team.ask("ada", "POST", f"{VISION}?id=job-1", JOB))[0] == 201
    async with browsing(team, "ada") as ada, browsing(team, "eve") as eve, browsing(team, "bob") as bob:
        assert "Submit a job" in (await ada.get(f"{PAGES}/jobs"))[1]
        status, text = await eve.get(f"{PAGES}/jobs")
        assert (status, "mnist" in text, "Submit a job" in text) == (200, True, False)
        assert (await bob.get(f"{PAGES}/jobs"))[0] == 403
        assert (await eve.post(f"{PAGES}/jobs/mnist/cancel", csrf=await eve.csrf()))[0] == 403
        assert (await ada.post(f"{PAGES}/jobs/mnist/cancel"))[0] == 403, "a form without its token"
        assert (await ada.get(f"{VISION}/mnist/metrics?points=5"))[0] == 200, "what the curves read"
        assert (await ada.post(f"{VISION}/mnist/cancel"))[0] == 403, "a cookie changes nothing there"
        assert (await team.ask("ada", "GET", f"{VISION}/mnist"))[1]["status"]["phase"] != "CANCELLED"
        assert (await ada.post(f"{PAGES}/jobs/mnist/cancel", csrf=await ada.csrf()))[0] == 303
    entries = await team.audit.read(None, before=None, limit=10)
    assert ("ada", 303) in [(entry.who, entry.status) for entry in entries]


async def test_a_session_of_the_pages_ends_with_the_cluster_s_token(team: Team) -> None:
    async with browsing(team, "ada") as ada:
        assert (await ada.get(f"{PAGES}/jobs"))[0] == 200
        del team.server.people["of-ada"]
        async with asyncio.timeout(10):
            while (await ada.get(f"{PAGES}/jobs"))[0] != 401:
                pass
    async with aiohttp.ClientSession() as session:
        answer = await session.post(team.client.make_url("/dashboard/login"), data={"token": "of-nobody"})
        assert answer.status == 422


async def test_a_link_lends_a_login_to_a_browser_once(team: Team) -> None:
    status, link = await team.ask("ada", "POST", "/api/v1/dashboard")
    assert status == 200
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        browser = Browser(session, str(team.client.make_url("")).rstrip("/"))
        assert (await browser.get(link["address"]))[0] == 200
        assert (await browser.get(f"{PAGES}/jobs"))[0] == 200
        assert (await browser.get(link["address"]))[0] == 422


OF_THE_CLUSTER = {"nodes", "schedule", "settings", "clustertrainingruntimes", "tokens"}
"""Pages of what is no namespace's: whom the cluster does not show it is told so."""


@pytest.mark.parametrize(
    ("who", "want"),
    [
        pytest.param("ada", OF_THE_CLUSTER, id="a member"),
        pytest.param("eve", OF_THE_CLUSTER | {"audit", "submit", "submit/fields"}, id="a reader"),
        pytest.param("root", {"tokens"}, id="who runs the cluster"),
    ],
)
async def test_no_page_of_a_cluster_fails(team: Team, who: str, want: set[str]) -> None:
    assert (await team.ask("ada", "POST", f"{VISION}?id=job-1", JOB))[0] == 201
    paths = [entry.path for entry in all_entries()]
    paths += ["jobs/mnist", "jobs/mnist/files", "jobs/mnist/lineage", "compare?job=mnist", "submit/fields"]
    async with browsing(team, who) as browser:
        found = {path: await browser.get(f"{PAGES}/{path}") for path in paths}
    assert {path: text for path, (status, text) in found.items() if status >= 500} == {}
    assert {path for path, (status, _) in found.items() if status != 200} == want
