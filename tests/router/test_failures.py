"""Backends that die, fail, hang or lie; what is tried again and what must not be."""

import asyncio
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from gangline.model.routing import Backend, EjectionRules, HoldRules, RetryRules, TimeoutRules
from tests.router.conftest import Routed, answers, gone, revision, service, split

BACKEND = """
import asyncio, sys
from aiohttp import web
async def answer(request):
    await request.read()
    await asyncio.sleep(0.01)
    return web.Response(text="ok")
async def main():
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(sys.argv[1])).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def _start(port: int = 0) -> tuple[asyncio.subprocess.Process, int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BACKEND, str(port), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    return process, int(await process.stdout.readline())


async def test_no_request_is_lost_when_backends_are_killed_again_and_again(routed: Routed) -> None:
    backends = [await _start() for _ in range(2)]
    addresses = [Backend(address=f"127.0.0.1:{port}") for _, port in backends]
    await routed.route(service(*addresses, retries=RetryRules(repeatable=True)))
    seen: Counter[int] = Counter()
    stopping = asyncio.Event()

    async def client() -> None:
        while not stopping.is_set():
            seen[(await routed.post())[0]] += 1

    clients = [asyncio.create_task(client()) for _ in range(8)]
    try:
        for turn in range(6):
            before = seen.total()
            victim, port = backends[turn % 2]
            os.kill(victim.pid, signal.SIGKILL)
            await victim.wait()
            while seen.total() < before + 50:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            backends[turn % 2] = await _start(port)  # at the same address, as the table still says
    finally:
        stopping.set()
        await asyncio.gather(*clients)
        for process, _ in backends:
            process.kill()
            await process.wait()
    assert set(seen) == {200}
    assert (await routed.revision("r1")).errors["connect"] > 0


async def _reset(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def test_only_what_is_safe_is_sent_again(routed: Routed) -> None:
    bad = await routed.raw_backend(_reset)
    good = await routed.backend("good")
    rules = EjectionRules(failures=0)
    await routed.route(service(bad, good, ejection=rules))
    assert {text for _, text in [await routed.get() for _ in range(10)]} == {"good"}
    assert Counter([(await routed.post())[0] for _ in range(10)]) == {200: 5, 502: 5}
    await routed.route(service(bad, good, ejection=rules, retries=RetryRules(repeatable=True, budget=1)))
    assert Counter([(await routed.post())[0] for _ in range(10)]) == {200: 10}


async def test_a_body_too_large_to_keep_is_not_sent_again(routed: Routed) -> None:
    bad, good = await routed.raw_backend(_reset), await routed.backend("good")
    retries = RetryRules(repeatable=True, budget=1, body_bytes=10)
    await routed.route(service(bad, good, ejection=EjectionRules(failures=0), retries=retries))
    assert Counter([(await routed.post(b"x" * 11))[0] for _ in range(10)]) == {200: 5, 502: 5}
    assert Counter([(await routed.post(b"x" * 10))[0] for _ in range(10)]) == {200: 10}


async def test_a_body_is_sent_again_whole(routed: Routed) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    bad, good = await routed.raw_backend(_reset), await routed.backend(echo)
    await routed.route(service(bad, good, retries=RetryRules(repeatable=True)))

    async def pieces() -> object:
        for piece in (b"one", b"two", b"three"):
            yield piece

    for data in (b"onetwothree", pieces(), pieces()):
        assert await routed.post(data) == (200, "onetwothree")


async def test_retries_have_a_budget(routed: Routed) -> None:
    await routed.route(
        service(await routed.raw_backend(_reset), retries=RetryRules(attempts=50, budget=0), hold=HoldRules(seconds=1))
    )
    assert (await routed.get())[0] == 502
    assert (await routed.revision("r1")).retries < 30


async def test_a_refused_connection_is_tried_elsewhere_even_for_a_post(routed: Routed) -> None:
    await routed.route(service(gone(), await routed.backend()))
    assert Counter([(await routed.post())[0] for _ in range(20)]) == {200: 20}


async def test_when_all_refuse_requests_wait_for_one_that_does_not(routed: Routed) -> None:
    await routed.route(service(gone()))
    asking = asyncio.create_task(routed.post())
    await routed.until("r1", lambda found: found.errors.get("connect", 0) > 1)
    await routed.route(service(gone(), await routed.backend()))
    assert await asking == (200, "one")


async def test_a_backend_that_fails_is_ejected_and_comes_back(routed: Routed) -> None:
    failing = True

    async def moody(_: web.Request) -> web.Response:
        return web.Response(status=503 if failing else 200, text="moody")

    bad, good = await routed.backend(moody), await routed.backend("good")
    rules = EjectionRules(failures=3, seconds=0.3)
    await routed.route(service(bad, good, ejection=rules, retries=RetryRules(attempts=1)))
    found = [await routed.get() for _ in range(10)]
    assert Counter(status for status, _ in found)[503] == 3
    statistics = await routed.revision("r1")
    assert {each.address for each in statistics.backends if each.ejected} == {bad.address}
    failing = False
    async with asyncio.timeout(30):
        while "moody" not in await answers(routed, 2):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_the_only_backend_is_never_ejected_for_its_answers(routed: Routed) -> None:
    async def bad(_: web.Request) -> web.Response:
        return web.Response(status=503, text="bad")

    await routed.route(service(await routed.backend(bad), ejection=EjectionRules(failures=1)))
    assert [await routed.get() for _ in range(5)] == [(503, "bad")] * 5


async def test_a_backend_that_cannot_serve_now_is_passed_over(routed: Routed) -> None:
    async def draining(_: web.Request) -> web.Response:
        return web.Response(status=503)

    await routed.route(service(await routed.backend(draining), await routed.backend("good")))
    assert set(await answers(routed, 10)) == {"good"}


async def test_errors_of_a_revision_are_counted_as_its_own(routed: Routed) -> None:
    async def bad(_: web.Request) -> web.Response:
        return web.Response(status=500)

    shares = (revision("r1", await routed.backend(), weight=3), revision("r2", await routed.backend(bad), weight=1))
    await routed.route(split(*shares))
    assert Counter([(await routed.get())[0] for _ in range(8)]) == {200: 6, 500: 2}
    assert (await routed.revision("r1")).errors == {}
    second = await routed.revision("r2")
    assert (second.errors, second.answers, second.requests) == ({"status": 2}, {"5xx": 2}, 2)


async def test_a_backend_that_never_answers_is_given_up(routed: Routed) -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    limits = TimeoutRules(request_seconds=0.2)
    await routed.route(service(await routed.raw_backend(silent), timeouts=limits, retries=RetryRules(attempts=1)))
    assert (await routed.get())[0] == 504
    assert (await routed.revision("r1")).errors == {"timeout": 1}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
    ],
    ids=["length", "chunks"],
)
async def test_an_answer_that_breaks_off_is_seen_to_break_off(routed: Routed, answer: bytes) -> None:
    async def truncated(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    await routed.route(service(await routed.raw_backend(truncated)))
    with pytest.raises(aiohttp.ClientError):
        await routed.get()
    assert (await routed.until("r1", lambda found: found.requests == 1)).errors == {"reset": 1}


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 40000 + b"\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n0\r\n\r\n",
    ],
    ids=["no http", "both lengths", "two lengths", "long head", "upgrade unasked", "bad chunk"],
)
async def test_what_is_no_answer_is_a_bad_gateway(routed: Routed, answer: bytes) -> None:
    async def lying(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        await reader.read()

    await routed.route(service(await routed.raw_backend(lying), retries=RetryRules(attempts=1)))
    assert (await routed.get())[0] == 502


async def test_a_backend_stops_working_when_its_client_has_left(routed: Routed) -> None:
    left = asyncio.Event()

    async def watch(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.read()
        left.set()

    await routed.route(service(await routed.raw_backend(watch)))
    asking = asyncio.create_task(routed.get())
    await routed.until("r1", lambda found: found.under_way == 1)
    asking.cancel()
    async with asyncio.timeout(30):
        await left.wait()
    found = await routed.until("r1", lambda found: found.requests == 1)
    assert (found.errors, found.under_way) == ({"client": 1}, 0)


async def test_a_client_that_leaves_while_it_is_held_leaves_nothing_behind(routed: Routed) -> None:
    await routed.route(service())
    asking = asyncio.create_task(routed.get())
    await routed.until("r1", lambda found: found.held == 1)
    asking.cancel()
    await routed.until("r1", lambda found: found.held == 0)
    await routed.route(service(await routed.backend()))
    assert (await routed.revision("r1")).under_way == 0


async def test_the_table_changes_under_load_and_no_request_notices(routed: Routed) -> None:
    one, two = await routed.backend("one"), await routed.backend("two")
    tables = [
        split(revision("r1", one), revision("r2", two, weight=0)),
        split(revision("r1", one, weight=1), revision("r2", two, weight=3)),
        split(revision("r2", two)),
        split(revision("r2")),
    ]
    seen: Counter[int] = Counter()
    stopping = asyncio.Event()
    await routed.route(tables[0])

    async def client() -> None:
        while not stopping.is_set():
            seen[(await routed.post())[0]] += 1

    clients = [asyncio.create_task(client()) for _ in range(8)]
    for turn in range(40):
        await routed.route(tables[turn % 4])
        await asyncio.sleep(0.01)
    await routed.route(tables[1])
    stopping.set()
    await asyncio.gather(*clients)
    assert set(seen) == {200}


async def test_killed_and_started_again_it_knows_its_table(tmp_path: Path, routed: Routed) -> None:
    await routed.route(service(await routed.backend()))
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gangline.router", "--table", str(routed.table), "--listen", "127.0.0.1:0",
            "--control", str(tmp_path / "other"), stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stderr is not None
        address = (await process.stderr.readline()).decode().split()[-1]
        async with routed.session.get(f"{address}/services/digits/") as answer:
            assert await answer.text() == "one"
        process.kill()
        await process.wait()
