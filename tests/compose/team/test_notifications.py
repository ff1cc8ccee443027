"""Notifications of a team's service that listens, in a process of its own, with receivers on this machine."""

import asyncio
import base64
import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compose.team.process import Team
from tests.controller.notifications.receiver import Receiver, receiving, verify

JOB = ("--cpu", "100m", "--memory", "64Mi", "--", "true")
DEADLINE_SECONDS = 60.0


async def until(found: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not found():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.05)


class Office:
    """A team's service and what its users type, while receivers listen in this process."""

    def __init__(self, folder: Path, sockets: Path) -> None:
        self.team, self.folder = Team(folder, sockets), folder
        self.keys: dict[str, str] = {}

    async def type(self, who: str, *words: str, want: int = 0) -> str:
        return await asyncio.to_thread(lambda: self.team.type(who, *words, want=want))

    async def start(self) -> None:
        await asyncio.to_thread(self.team.start, "--trust-tenants")

    async def stop(self) -> None:
        await asyncio.to_thread(self.team.stop)

    async def admit(self, who: str, tenant: str) -> None:
        token = await self.type("root", "token", "create", who, "--tenant", tenant)
        await asyncio.to_thread(self.team.log_in, who, token)

    async def make_hook(self, who: str, url: str) -> None:
        self.keys[who] = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        file = self.folder / f"{who}.key"
        file.write_text(f"{self.keys[who]}\n")
        await self.type(who, "secret", "set", "hook", "--from-file", f"key={file}")
        await self.type(who, "notification", "create", "hook", "--url", url, "--secret", "hook")


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with tempfile.TemporaryDirectory(prefix="tn") as sockets:  # paths of sockets are short
        yield Office(tmp_path, Path(sockets))


async def test_each_tenant_is_told_of_its_own_jobs_over_a_restart_and_no_secret_is_shown(office: Office) -> None:
    settings = office.folder / "root" / ".config" / "gangline"
    settings.mkdir(parents=True)
    (settings / "config.yaml").write_text("notification_networks: 127.0.0.0/8\n")
    async with receiving(Receiver()) as hers, receiving(Receiver([500])) as theirs:
        await office.start()
        try:
            for who, tenant, receiver in (("alice", "vision", hers), ("eve", "speech", theirs)):
                await office.admit(who, tenant)
                await office.make_hook(who, receiver.url)
            await office.type("alice", "submit", "--name", "a", *JOB)
            await office.type("eve", "submit", "--name", "b", *JOB)
            await until(lambda: hers.got and theirs.got)
            shown = await office.type("eve", "notification", "get", "hook", "-o", "yaml")
            assert theirs.url in shown
            assert office.keys["eve"] not in shown
            assert "may not read in tenant 'speech'" in await office.type(
                "alice", "notification", "get", "hook", "--tenant", "speech", want=5
            )
            assert theirs.url not in await office.type("alice", "notification", "list", "-o", "wide")
            await office.stop()  # one is pending: its receiver refuses it
            refused, theirs.statuses = len(theirs.got), [200]
            await office.start()
            await until(lambda: len(theirs.got) > refused)
        finally:
            await office.stop()
    for receiver, who, tenant, job in ((hers, "alice", "vision", "a"), (theirs, "eve", "speech", "b")):
        for headers, body in receiver.got:
            assert verify(headers, body, time.time(), office.keys[who])  # noqa: TID251  # a real service's clock
            data = json.loads(body)["data"]
            assert (data["tenant"], data["job"], data["phase"]) == (tenant, job, "COMPLETED")
    assert len(hers.got) == 1
    assert len({headers["webhook-id"] for headers, _ in theirs.got}) == 1


async def test_a_teams_service_does_not_post_to_its_own_machine_and_a_private_one_does(office: Office) -> None:
    async with receiving(Receiver()) as receiver:
        await office.start()
        try:
            await office.admit("alice", "vision")
            await office.make_hook("alice", receiver.url)
            await office.type("alice", "submit", "--name", "a", *JOB)
            printed = ""
            for _ in range(100):
                printed = await office.type("alice", "notification", "list")
                if "failing" in printed:
                    break
            assert "its address is not public" in printed
            assert not receiver.got
        finally:
            await office.stop()
        try:
            await office.make_hook("laptop", receiver.url)
            await office.type("laptop", "submit", "--name", "mine", *JOB)
            await until(lambda: receiver.got)
            assert json.loads(receiver.got[0][1])["data"]["job"] == "mine"
        finally:
            await office.type("laptop", "server", "stop")
