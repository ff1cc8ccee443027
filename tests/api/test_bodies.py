"""Clients that are slow, send too much or lose their right on the way."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from gangline import operations
from gangline.api import bodies
from gangline.model.team.access import Role
from tests.api.team import OWN, TeamOffice, bearer, served


@pytest.mark.parametrize("path", ["jobs?watch=true", "jobs/tour/logs?follow=true", "jobs/tour?watch=true"])
async def test_a_stream_ends_with_its_token(tmp_path: Path, path: str) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("a", Role.MEMBER, OWN)
    job = {"metadata": {"name": "tour", "tenant": OWN}, "spec": {"command": ["true"]}}
    async with served(office.app(again_seconds=0.01), tmp_path) as session:
        async with session.post(f"/api/v1/tenants/{OWN}/jobs?id=j1", json=job, headers=bearer(token)) as answer:
            assert answer.status == 201
        async with session.get(f"/api/v1/tenants/{OWN}/{path}", headers=bearer(token)) as stream:
            assert stream.status == 200
            await stream.content.readany()
            await operations.revoke_token(office.context("root"), OWN, "a")
            with pytest.raises(aiohttp.ClientError):
                await asyncio.wait_for(stream.content.read(), 60)


async def test_a_stream_of_a_valid_token_goes_on(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("a", Role.MEMBER, OWN)
    job = {"metadata": {"name": "tour", "tenant": OWN}, "spec": {"command": ["true"]}}
    async with (
        served(office.app(again_seconds=0.01), tmp_path) as session,
        session.get(f"/api/v1/tenants/{OWN}/jobs?watch=true", headers=bearer(token)) as stream,
    ):
        for _ in range(20):  # many looks later
            async with session.get("/api/v1/myself", headers=bearer(token)) as answer:
                assert answer.status == 200
        async with session.post(f"/api/v1/tenants/{OWN}/jobs?id=j1", json=job, headers=bearer(token)) as answer:
            assert answer.status == 201
        async for line in stream.content:
            if b"tour" in line:
                break


@pytest.mark.parametrize("told", [True, False], ids=["as it says itself", "as it turns out"])
async def test_files_that_are_too_large_are_refused(tmp_path: Path, told: bool) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("a", Role.MEMBER, OWN)
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        top, big = tarfile.TarInfo("file"), tarfile.TarInfo("file/weights")
        top.type, big.size = tarfile.DIRTYPE, 64 << 20
        yield top.tobuf() + big.tobuf()
        for _ in range(64):
            sent += 1 << 20
            yield bytes(1 << 20)

    data = io.BytesIO(bytes(3 << 20)) if told else chunks()
    async with served(office.app(most_upload_bytes=2 << 20), tmp_path) as session:
        path = f"/api/v1/tenants/{OWN}/models/digits/files"
        async with session.put(path, data=data, headers=bearer(token)) as answer:
            problem = await answer.json(content_type="application/problem+json")
    assert (answer.status, problem["expected"]) == (413, "at most 2 MiB (setting upload_limit_mib)")
    assert sent < 64 << 20


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"/api/v1/tenants/{OWN}/jobs?id=j1"),
        ("PUT", f"/api/v1/tenants/{OWN}/models/digits/files"),
        ("POST", f"/kubernetes/apis/serving.kserve.io/v1beta1/namespaces/{OWN}/inferenceservices"),
        ("POST", "/dashboard/login"),
    ],
)
async def test_a_client_that_stops_in_the_middle_is_not_waited_for(
    tmp_path: Path, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "STALL_SECONDS", 0.05)
    office = TeamOffice(tmp_path)
    token = await office.token("a", Role.MEMBER, OWN)
    async with served(office.app(), tmp_path) as session:
        socket = str(tmp_path / "team.sock")
        reader, writer = await asyncio.open_unix_connection(socket)
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        writer.write(f"{head}Authorization: Bearer {token}\r\n\r\n{{".encode())
        async with asyncio.timeout(60):
            assert b" 408 " in await reader.readline()
        writer.close()
        async with session.get("/api/v1/myself", headers=bearer(token)) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 2000, id="many headers"),
        pytest.param(b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000, id="a long header"),
        pytest.param(b"GET /" + b"y" * 100_000, id="a long path"),
        pytest.param(b"\x16\x03\x01nonsense\r\n", id="no HTTP"),
    ],
)
async def test_heads_of_no_end_are_refused(tmp_path: Path, head: bytes) -> None:
    async with served(TeamOffice(tmp_path).app(), tmp_path):
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "team.sock"))
        writer.write(head + b"\r\n\r\n")
        async with asyncio.timeout(60):
            assert b" 400 " in await reader.readline()
        writer.close()
