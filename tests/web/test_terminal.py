"""The terminal of a page: who gets one, and what passes through it. The shell is a fake that answers in capitals."""

import re

import aiohttp
import pytest

from gangline.engines.interface import Terminals
from gangline.lifecycle.events import GangPlaced
from gangline.model import Job, JobId, ReplicaId
from gangline.model.console import Console
from gangline.testing.builders import make_placement
from tests.operations.fakes import Office, QuietEngine
from tests.web.conftest import Visitor
from tests.web.test_protection import JOBS, submitted


class LoudEngine(QuietEngine):
    """Has a shell that says everything in capitals, and ends at the word exit."""

    def __init__(self) -> None:
        super().__init__()
        self.entered: list[tuple[str, str, tuple[int, int]]] = []

    async def interact(self, job: Job, replica: ReplicaId, console: Console) -> int:
        self.entered.append((job.name, str(replica), await console.size()))
        while (typed := await console.read()) != b"exit":
            await console.write(typed.upper(), error=False)
        return 3


_conforms: type[Terminals] = LoudEngine


@pytest.fixture
async def engine(office: Office) -> LoudEngine:
    found = office.engine = LoudEngine()
    await submitted(office)
    job = await office.store.get(JobId("id-mnist"))
    placement = make_placement(job.spec)
    await office.happen(job.id, GangPlaced(job_id=job.id, at=office.clock.now(), placement=placement))
    return found


async def ticket(owner: Visitor) -> str:
    """The address of the websocket, as the page of a terminal says it."""
    status, text = await owner.post(f"{JOBS}/mnist/terminal", {"csrf": await owner.csrf(), "replica": "worker-0"})
    assert status == 200, text
    found = re.search(r'data-terminal="([^"]+)"', text)
    assert found
    return found[1]


async def test_what_is_typed_reaches_the_shell_and_what_it_writes_comes_back(
    owner: Visitor, engine: LoudEngine
) -> None:
    where = f"{owner.base}{await ticket(owner)}"
    async with owner.session.ws_connect(where, origin=owner.base) as socket:
        await socket.send_str("nonsense")
        await socket.send_str("100 30")
        await socket.send_bytes(b"hello \xff")
        assert await socket.receive_bytes() == b"HELLO \xff"
        await socket.send_bytes(b"exit")
        message = await socket.receive()
        assert (message.type, message.extra) == (aiohttp.WSMsgType.CLOSE, "the shell has ended with 3")
    assert engine.entered == [("mnist", "worker-0", (100, 30))]
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await owner.session.ws_connect(where, origin=owner.base)
    assert refused.value.status == 404, "a ticket is good for once"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
async def test_a_page_of_another_origin_gets_no_terminal(
    owner: Visitor, engine: LoudEngine, origin: str | None
) -> None:
    where = f"{owner.base}{await ticket(owner)}"
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await owner.session.ws_connect(where, origin=origin)
    assert refused.value.status == 403
    assert not engine.entered


async def test_nobody_gets_a_terminal_by_its_address_alone(owner: Visitor, engine: LoudEngine) -> None:
    where = f"{owner.base}{await ticket(owner)}"
    async with aiohttp.ClientSession() as stranger:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await stranger.ws_connect(where, origin=owner.base)
        assert refused.value.status == 401
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await owner.session.ws_connect(f"{where}x", origin=owner.base)
    assert refused.value.status == 404
    assert (await owner.post(f"{JOBS}/mnist/terminal", {"replica": "worker-0"}))[0] == 403, "no CSRF token"
    form = {"csrf": await owner.csrf(), "replica": "worker-9"}
    assert (await owner.post(f"{JOBS}/mnist/terminal", form))[0] == 404
    assert not engine.entered
