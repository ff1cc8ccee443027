"""What protects the pages. Each of these fails without the measure that it is about."""

import re
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from gangline import operations
from gangline.compose.dashboard import PrivateDashboard
from gangline.errors import ConflictError
from gangline.kinds.queue import QUEUE
from gangline.model import JobId, Phase, Queue, QueueName, Tenant
from gangline.model.record import RecordId
from gangline.model.team.access import Role
from gangline.testing.builders import make_spec
from gangline.web.application import all_operations
from gangline.web.sessions import LINK_SECONDS, SESSION_SECONDS
from tests.api.team import OWN, TeamOffice, served
from tests.operations.fakes import Office
from tests.web.conftest import Visitor

JOBS = "/dashboard/tenants/default/jobs"


async def submitted(office: Office, name: str = "mnist", tenant: str = "default", **changes: object) -> None:
    spec = replace(make_spec(name=name), tenant=Tenant(tenant), **changes)  # type: ignore[arg-type]
    await operations.submit(office.context(), JobId(f"id-{name}"), spec)


async def phase(office: Office, name: str = "mnist", tenant: str = "default") -> Phase:
    return (await operations.get_job(office.context(), Tenant(tenant), name)).phase


async def test_nobody_sees_anything_without_the_link(office: Office, outsider: Visitor) -> None:
    await submitted(office)
    for path in (JOBS, f"{JOBS}/mnist", "/dashboard/", "/api/v1/tenants/default/jobs"):
        status, text = await outsider.get(path)
        assert status == 401
        assert "mnist" not in text.replace(path, "")


async def test_a_link_opens_once(dashboard: PrivateDashboard, owner: Visitor, link: str) -> None:
    assert (await owner.get(JOBS))[0] == 200
    async with aiohttp.ClientSession() as other, other.get(link) as answer:
        assert answer.status == 422
        assert not answer.cookies


async def test_a_link_is_good_for_two_minutes(office: Office, outsider: Visitor, link: str) -> None:
    office.clock.advance(LINK_SECONDS)
    assert (await outsider.get(link.removeprefix(outsider.base)))[0] == 422


async def test_a_session_ends_by_itself_and_by_logging_out(office: Office, owner: Visitor) -> None:
    assert (await owner.post("/dashboard/logout", {"csrf": await owner.csrf()}))[0] == 200
    assert (await owner.get(JOBS))[0] == 401


async def test_an_old_session_is_forgotten(office: Office, owner: Visitor) -> None:
    office.clock.advance(SESSION_SECONDS)
    assert (await owner.get(JOBS))[0] == 401


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(outsider: Visitor, link: str) -> None:
    async with outsider.session.get(link) as answer:
        (cookie,) = answer.headers.getall("Set-Cookie")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    port = outsider.base.rpartition(":")[2]
    assert cookie.startswith(f"gangline_{port}=")  # ports of a host share their cookies


async def test_a_form_of_another_site_changes_nothing(office: Office, owner: Visitor) -> None:
    await submitted(office)
    csrf = await owner.csrf()
    halt = f"{JOBS}/mnist/halt"
    assert (await owner.post(halt, {}))[0] == 403
    assert (await owner.post(halt, {"csrf": "é" + csrf[1:]}))[0] == 403
    assert (await owner.post(halt, {"csrf": csrf}, headers={"Origin": "https://evil.example"}))[0] == 403
    assert (await owner.post(halt, {"csrf": csrf}, headers={"Sec-Fetch-Site": "cross-site"}))[0] == 403
    assert await phase(office) is Phase.QUEUED
    assert await owner.post(halt, {"csrf": csrf}, headers={"Origin": owner.base}) == (303, f"{JOBS}/mnist")
    assert await phase(office) is not Phase.QUEUED


async def test_a_cookie_changes_nothing_through_the_rest_interface(office: Office, owner: Visitor) -> None:
    await submitted(office)
    assert (await owner.get("/api/v1/tenants/default/jobs/mnist"))[0] == 200
    assert (await owner.post("/api/v1/tenants/default/jobs/mnist/halt", {}))[0] == 403
    assert await phase(office) is Phase.QUEUED


@pytest.mark.parametrize("path", [JOBS, "/api/v1/tenants/default/jobs"], ids=["page", "REST"])
async def test_a_name_that_was_rebound_to_this_machine_is_refused(owner: Visitor, path: str) -> None:
    port = owner.base.rpartition(":")[2]
    status, text = await owner.get(path, headers={"Host": f"evil.example:{port}"})
    assert status == 403
    assert "own machine alone" in text


async def test_the_policy_allows_no_inline_code_and_the_pages_have_none(office: Office, owner: Visitor) -> None:
    await submitted(office, labels={"team": "<img src=x onerror=alert(1)>"})
    for path in (JOBS, f"{JOBS}/mnist", "/dashboard/tenants/default/submit"):
        async with owner.session.get(f"{owner.base}{path}") as answer:
            text, policy = await answer.text(), answer.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert not re.search(r"<style|<script(?! src=)|<[^>]+\s(style|on\w+)=", text)


async def test_a_link_leads_to_no_other_site(owner: Visitor) -> None:
    status, text = await owner.get("/dashboard/", params={"tenant": "//evil.example"}, allow_redirects=False)
    assert status == 400
    assert "not a valid name" in text


async def test_a_second_port_is_refused_and_says_where_the_first_is(dashboard: PrivateDashboard, link: str) -> None:
    with pytest.raises(ConflictError, match=r"is on port \d+ already"):
        await dashboard.link(None, 1)  # type: ignore[arg-type]


def test_every_route_that_changes_something_is_a_form() -> None:
    assert {each.method for each in all_operations()} == {"GET", "POST"}


class TestTeam:
    """The same pages on a team's port."""

    @pytest.fixture
    def team(self, tmp_path: Path) -> TeamOffice:
        return TeamOffice(tmp_path)

    async def test_a_token_opens_them_and_they_close_with_it(self, team: TeamOffice, tmp_path: Path) -> None:
        token = await team.token("alice", Role.MEMBER, OWN)
        await submitted(team, tenant=OWN)
        async with served(team.app(), tmp_path, cookies=True) as session:
            visitor = Visitor(session, "http://service")
            jobs = f"/dashboard/tenants/{OWN}/jobs"
            assert (await visitor.post("/dashboard/login", {"token": "gangline_made_up"}))[0] == 422
            assert (await visitor.get(jobs))[0] == 401
            evil = {"Origin": "https://evil.example"}
            assert (await visitor.post("/dashboard/login", {"token": token}, headers=evil))[0] == 403
            assert (await visitor.post("/dashboard/login", {"token": token}))[0] == 200
            status, text = await visitor.get("/dashboard/")
            assert (status, "mnist" in text) == (200, True)
            csrf = await visitor.csrf(jobs)
            assert (await visitor.post(f"{jobs}/mnist/halt", {"csrf": csrf}))[0] == 303
            (entry, *_) = (await operations.read_audit(replace(team.context(), audit=team.audit), OWN, limit=9)).entries
            assert (entry.who, entry.path, entry.status) == ("token:alice", f"{jobs}/mnist/halt", 303)
            await operations.revoke_token(team.context("root"), OWN, "alice")
            assert (await visitor.get(jobs))[0] == 401

    async def test_a_viewer_is_offered_nothing_and_may_nothing(self, team: TeamOffice, tmp_path: Path) -> None:
        token = await team.token("bob", Role.VIEWER, OWN)
        await submitted(team, tenant=OWN)
        async with served(team.app(), tmp_path, cookies=True) as session:
            visitor = Visitor(session, "http://service")
            await visitor.post("/dashboard/login", {"token": token})
            job = f"/dashboard/tenants/{OWN}/jobs/mnist"
            text = (await visitor.get(job))[1]
            assert "Why it waits" in text
            assert "/halt" not in text
            csrf = await visitor.csrf(job)
            assert (await visitor.post(f"{job}/halt", {"csrf": csrf}))[0] == 403
            assert (await visitor.get("/dashboard/tenants/speech/jobs"))[0] == 403
            assert await phase(team, tenant=OWN) is Phase.QUEUED

    async def test_a_cookie_opens_no_other_interface(self, team: TeamOffice, tmp_path: Path) -> None:
        token = await team.token("alice", Role.MEMBER, OWN)
        async with served(team.app(), tmp_path, cookies=True) as session:
            visitor = Visitor(session, "http://service")
            await visitor.post("/dashboard/login", {"token": token})
            assert (await visitor.get(f"/api/v1/tenants/{OWN}/jobs"))[0] == 200
            assert (await visitor.get(f"/kubernetes/api/v1/namespaces/{OWN}/secrets"))[0] == 401

    async def test_the_bearer_of_a_token_gets_a_link_for_a_browser(self, team: TeamOffice, tmp_path: Path) -> None:
        token = await team.token("alice", Role.MEMBER, OWN)
        async with served(team.app(), tmp_path, cookies=True) as session:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.post("http://service/api/v1/dashboard", headers=headers) as answer:
                path = (await answer.json())["address"]
            visitor = Visitor(session, "http://service")
            assert (await visitor.get(path))[0] == 200
            assert "token:alice" in (await visitor.get("/dashboard/"))[1]

    async def test_what_if_tells_nobody_the_names_of_others(self, team: TeamOffice, tmp_path: Path) -> None:
        token = await team.token("alice", Role.MEMBER, OWN)
        await submitted(team, "secret-plan", tenant="speech")
        closed = Queue(name=QueueName("hidden"), tenants=(Tenant("speech"),))
        await operations.create_record(team.context("root"), QUEUE, RecordId("queue-1"), closed)
        async with served(team.app(), tmp_path, cookies=True) as session:
            visitor = Visitor(session, "http://service")
            await visitor.post("/dashboard/login", {"token": token})
            where, csrf = f"/dashboard/tenants/{OWN}/what-if", await visitor.csrf(f"/dashboard/tenants/{OWN}/jobs")
            for given in ({"quota": "nowhere=weight:3"}, {"add-nodes": "2x8"}, {"priority": "secret-plan=high"}):
                _, text = await visitor.post(where, {"csrf": csrf, **given})
                said = text.replace('value="secret-plan=high"', "").replace("no job named 'secret-plan'", "")
                assert "What if" in said
                assert "hidden</" not in said
                assert "hidden," not in said
                assert "speech" not in said
