"""The gateway in front of workspaces. Each of these fails without the measure that it is about."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from gangline.api.operation import OPERATIONS
from gangline.errors import ConflictError
from gangline.kinds.workspace import WORKSPACE
from gangline.model import GangId, ReplicaId, Tenant, Timestamp
from gangline.model.kinds.service import Check
from gangline.model.kinds.workspace import Tool, Workspace, WorkspaceSpec, WorkspaceStatus
from gangline.model.record import Record, RecordId
from gangline.model.team.access import Identity, Role
from gangline.testing.builders import START, make_running_job
from gangline.web.gateway import Gateway, attach, divided
from gangline.web.gateway.gateway import ENTER, label_of
from gangline.web.sessions import LINK_SECONDS
from gangline.workspaces import run_job
from tests.api.team import OWN, TeamOffice, served
from tests.operations.fakes import Office, QuietEngine

TOKEN = "the-program's-own"


class AnsweringEngine(QuietEngine):
    """Has one program, at an address."""

    probed = False
    address = ""

    def address_of(self, gang_id: GangId, replica: ReplicaId) -> str:
        return self.address

    async def check(self, gang_id: GangId, replica: ReplicaId, check: Check) -> str:
        return ""


@dataclass
class World:
    """A program, a gateway in front of it, and what both have seen."""

    office: Office
    gateway: Gateway
    engine: AnsweringEngine
    identity: Identity | None = Identity(name="ada", roles={Tenant("default"): Role.MEMBER})  # noqa: RUF009  # frozen
    port: int = 0
    seen: list[web.Request] = field(default_factory=list)
    uses: list[RecordId] = field(default_factory=list)

    async def holder(self) -> Identity | None:
        return self.identity

    async def make(self, name: str = "nb", tool: Tool = Tool.NOTEBOOK) -> Workspace:
        spec = WorkspaceSpec(name=name, tool=tool)
        status = WorkspaceStatus(ready=True)
        made: Workspace = Record(id=RecordId(f"id-{name}"), spec=spec, status=status, created_at=Timestamp(START))
        await self.office.store.records(WORKSPACE).create(made)
        await self.office.store.create(make_running_job(run_job(made), job_id=made.job_id(1)), [])
        return made

    def link(self, workspace: Workspace) -> str:
        return self.gateway.link(workspace, self.holder, base=f"http://127.0.0.1:{self.port}")


class Visitor:
    """A browser without a screen, at one workspace. Names of hosts are not looked up: all of them are this machine."""

    def __init__(self, world: World, workspace: Workspace) -> None:
        self.base, self.host = f"http://127.0.0.1:{world.port}", f"{label_of(workspace.id)}.localhost:{world.port}"
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        self.cookie = ""

    def headers(self, **more: str) -> dict[str, str]:
        return {"Host": self.host, "Cookie": self.cookie, **more}

    async def enter(self, link: str) -> int:
        path = link.partition(self.host)[2]
        async with self.session.get(f"{self.base}{path}", headers=self.headers()) as answer:
            for morsel in answer.cookies.values():
                self.cookie = f"{morsel.key}={morsel.value}"
                self.morsel = morsel
            return answer.status

    async def get(self, path: str = "/", **headers: str) -> tuple[int, str]:
        return await self.ask("GET", path, **headers)

    async def ask(self, method: str, path: str, data: bytes | None = None, **headers: str) -> tuple[int, str]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"{self.base}{path}"
        async with self.session.request(method, url, data=data, headers=self.headers(**given)) as answer:
            self.answer = answer
            return answer.status, await answer.text()

    async def websocket(self, origin: str | None) -> aiohttp.ClientWebSocketResponse[bool]:
        headers = self.headers(**({} if origin is None else {"Origin": origin}))
        return await self.session.ws_connect(f"{self.base}/socket", headers=headers)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    office, engine = Office(tmp_path / "code"), AnsweringEngine()
    uses: list[RecordId] = []
    gateway = Gateway(
        lambda caller: replace(office.context(), engine=engine, caller=caller),
        clock=office.clock,
        token_of=lambda record_id: TOKEN,
        note_use=uses.append,
        again_seconds=0.05,
    )
    world = World(office, gateway, engine, uses=uses)

    async def program(request: web.Request) -> web.StreamResponse:
        world.seen.append(request)
        if request.headers.get("Upgrade"):
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            async for message in socket:
                await socket.send_str(f"echo {message.data}")
            return socket
        if request.path == "/stream":
            response = web.StreamResponse()
            await response.prepare(request)
            for _ in range(50):
                await response.write(b"x" * 10_000)
            return response
        body = await request.read()
        response = web.Response(text=f"{request.method} {request.path_qs} {len(body)}")
        response.headers.add("Set-Cookie", "_xsrf=1; Domain=localhost; Path=/")
        response.headers.add("Set-Cookie", f"gangline_workspace_{world.port}=forged; Path=/")
        return response

    async def dashboard(request: web.Request) -> web.Response:
        return web.Response(text="the dashboard")

    upstream = web.Application()
    upstream.router.add_route("*", "/{path:.*}", program)
    front = web.Application(middlewares=list(divided(gateway)))
    front[OPERATIONS] = {}
    front.router.add_get("/", dashboard)
    attach(front, gateway)
    runners = [web.AppRunner(app, access_log=None, shutdown_timeout=0.1) for app in (upstream, front)]
    for runner in runners:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
    engine.address = f"127.0.0.1:{runners[0].addresses[0][1]}"
    world.port = runners[1].addresses[0][1]
    yield world
    for runner in reversed(runners):
        await runner.cleanup()


@pytest.fixture
async def workspace(world: World) -> Workspace:
    return await world.make()


@pytest.fixture
async def visitor(world: World, workspace: Workspace) -> AsyncIterator[Visitor]:
    """Somebody who has opened the link."""
    made = Visitor(world, workspace)
    assert await made.enter(world.link(workspace)) == 200
    yield made
    await made.session.close()


async def test_requests_reach_the_program_with_its_token_and_without_our_cookie(world: World, visitor: Visitor) -> None:
    visitor.cookie += "; _xsrf=abc"
    status, text = await visitor.ask("POST", "/api/x?y=%20z", b"hello" * 50_000, Authorization="token stolen")
    assert (status, text) == (200, "POST /api/x?y=%20z 250000")
    seen = world.seen[-1].headers
    assert seen["Authorization"] == f"token {TOKEN}"
    assert seen["Cookie"] == "_xsrf=abc"
    assert TOKEN not in str(visitor.answer.headers) + text


async def test_large_answers_come_whole(visitor: Visitor) -> None:
    status, text = await visitor.get("/stream")
    assert (status, len(text)) == (200, 500_000)


async def test_a_cookie_of_the_program_stays_with_its_host_and_cannot_replace_ours(visitor: Visitor) -> None:
    await visitor.get()
    assert visitor.answer.headers.getall("Set-Cookie") == ["_xsrf=1; Path=/"]


async def test_our_cookie_is_of_one_host_and_kept_from_scripts_and_other_sites(visitor: Visitor) -> None:
    assert visitor.morsel["httponly"] is True
    assert visitor.morsel["samesite"] == "Strict"
    assert visitor.morsel["domain"] == ""


async def test_nobody_gets_in_without_the_cookie(world: World, workspace: Workspace, visitor: Visitor) -> None:
    visitor.cookie = ""
    assert (await visitor.get())[0] == 401
    visitor.cookie = f"gangline_workspace_{world.port}=made-up"
    assert (await visitor.get())[0] == 401
    assert not world.seen


async def test_a_link_opens_once_and_soon(world: World, workspace: Workspace, visitor: Visitor) -> None:
    link = world.link(workspace)
    assert await visitor.enter(link) == 200
    assert await visitor.enter(link) == 401
    late = world.link(workspace)
    world.office.clock.advance(LINK_SECONDS)
    assert await visitor.enter(late) == 401


async def test_the_cookie_and_the_link_of_one_workspace_do_not_open_another(world: World, visitor: Visitor) -> None:
    other = await world.make("other")
    link = world.link(other)
    code = link.partition("code=")[2]
    intruder = Visitor(world, other)
    intruder.cookie = visitor.cookie
    assert (await intruder.get())[0] == 401
    assert await visitor.enter(f"http://{visitor.host}{ENTER}?code={code}") == 401
    assert await intruder.enter(link) == 200
    await intruder.session.close()
    assert label_of(other.id) not in visitor.host


async def test_a_host_of_a_workspace_never_shows_the_dashboard(world: World, visitor: Visitor) -> None:
    async with visitor.session.get(visitor.base) as answer:
        assert await answer.text() == "the dashboard"
    assert "dashboard" not in (await visitor.get())[1]
    visitor.host = f"unknown.localhost:{world.port}"
    assert (await visitor.get())[0] == 401


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1", None])
async def test_a_websocket_of_another_origin_is_refused(world: World, visitor: Visitor, origin: str | None) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await visitor.websocket(origin)
    assert refused.value.status == 403
    assert not world.seen


async def test_a_change_from_another_site_is_refused(world: World, visitor: Visitor) -> None:
    assert (await visitor.ask("POST", "/api", b"x", Origin="http://evil.example"))[0] == 403
    assert (await visitor.ask("DELETE", "/api", Sec_Fetch_Site="same-site"))[0] == 403
    assert not world.seen
    assert (await visitor.ask("POST", "/api", b"x", Origin=f"http://{visitor.host}"))[0] == 200


async def test_a_websocket_is_passed_on_and_what_is_typed_counts_as_use(world: World, visitor: Visitor) -> None:
    socket = await visitor.websocket(f"http://{visitor.host}")
    before = len(world.uses)
    await socket.send_str("a" * 100_000)
    assert (await socket.receive_str(timeout=60)) == "echo " + "a" * 100_000
    assert len(world.uses) > before
    assert world.seen[-1].headers["Authorization"] == f"token {TOKEN}"
    await socket.close()


async def test_who_loses_the_right_loses_the_websocket_and_every_request(world: World, visitor: Visitor) -> None:
    socket = await visitor.websocket(f"http://{visitor.host}")
    world.identity = Identity(name="ada", roles={Tenant("default"): Role.VIEWER})
    async with asyncio.timeout(60):
        assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
    assert (await visitor.get())[0] == 403
    world.identity = None
    assert (await visitor.get())[0] == 401


async def test_who_may_only_look_gets_into_a_tensorboard(world: World) -> None:
    board = await world.make("board", Tool.TENSORBOARD)
    world.identity = Identity(name="eve", roles={Tenant("default"): Role.VIEWER})
    made = Visitor(world, board)
    assert await made.enter(world.link(board)) == 200
    assert (await made.get())[0] == 200
    world.identity = Identity(name="eve", roles={Tenant("other"): Role.ADMIN})
    assert (await made.get())[0] == 403
    await made.session.close()


async def test_polling_of_an_open_notebook_is_not_use(world: World, visitor: Visitor) -> None:
    world.uses.clear()
    await visitor.get("/api/kernels")
    assert not world.uses
    await visitor.get("/lab", Sec_Fetch_Mode="navigate")
    await visitor.ask("PUT", "/api/contents/x", b"{}")
    assert len(world.uses) == 2


async def test_a_workspace_that_stopped_or_was_made_anew_is_not_reached(
    world: World, workspace: Workspace, visitor: Visitor
) -> None:
    records = world.office.store.records(WORKSPACE)
    found = await records.find(Tenant("default"), "nb")
    assert found is not None
    off = replace(found, status=replace(found.status, wanted=False, ended=True))
    await records.save(off)
    assert (await visitor.get())[0] == 409
    with pytest.raises(ConflictError, match="is stopped"):
        world.link(off)
    found = await records.find(Tenant("default"), "nb")
    assert found is not None
    await records.remove(found)
    await records.create(replace(workspace, id=RecordId("another")))
    assert (await visitor.get())[0] == 404


async def test_a_program_that_is_gone_is_told_of(world: World, visitor: Visitor) -> None:
    world.engine.address = "127.0.0.1:1"
    status, text = await visitor.get()
    assert status == 409
    assert "does not accept connections" in text


def test_a_service_for_others_needs_a_domain_for_workspaces(tmp_path: Path) -> None:
    office = Office(tmp_path / "code")
    spec = WorkspaceSpec(name="nb")
    made: Workspace = Record(
        id=RecordId("s1"), spec=spec, status=WorkspaceStatus(ready=True), created_at=Timestamp(START)
    )

    async def holder() -> Identity | None:
        return None

    def gateway(address: str = "") -> Gateway:
        return Gateway(
            lambda caller: office.context(),
            clock=office.clock,
            token_of=str,
            note_use=lambda record_id: None,
            address=address,
        )

    with pytest.raises(ConflictError, match="workspaces_address"):
        gateway().link(made, holder, base="https://gangline.example.org")
    link = gateway("https://work.example.net").link(made, holder, base="https://gangline.example.org")
    assert link.startswith(f"https://{label_of(made.id)}.work.example.net{ENTER}?code=")


async def test_a_team_s_viewer_sees_a_notebook_and_may_not_open_it(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    viewer, member = [await office.token(role, role, OWN) for role in (Role.VIEWER, Role.MEMBER)]
    spec = WorkspaceSpec(name="nb", tenant=OWN)
    status = WorkspaceStatus(ready=True)
    made: Workspace = Record(id=RecordId("s1"), spec=spec, status=status, created_at=Timestamp(START))
    await office.store.records(WORKSPACE).create(made)
    gateway = Gateway(
        lambda caller: replace(office.context(), caller=caller),
        clock=office.clock,
        token_of=str,
        note_use=lambda record_id: None,
        address="https://work.example.net",
    )
    path = f"/api/v1/tenants/{OWN}/workspaces/nb"
    async with served(office.app(gateway=gateway), tmp_path) as team:
        answers = {}
        for token in (viewer, member):
            headers = {"Authorization": f"Bearer {token}"}
            async with team.get(path, headers=headers) as answer:
                assert answer.status == 200
            async with team.post(f"{path}/open", headers=headers) as answer:
                answers[token] = answer.status, await answer.text()
    assert answers[viewer][0] == 403
    assert answers[member][0] == 200
    assert f"https://{label_of(made.id)}.work.example.net{ENTER}?code=" in answers[member][1]
