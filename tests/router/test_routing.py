"""Which service, revision and backend a request gets."""

import asyncio
import hashlib
from collections import Counter

import aiohttp
import pytest
from aiohttp import web

from gangline.model.routing import Backend, BackendState, HeaderRule, HoldRules, Token
from tests.router.conftest import Routed, answers, gone, revision, service, split


async def test_a_service_is_named_by_host_path_or_port(routed: Routed, free_port: int) -> None:
    one, two = await routed.backend("one"), await routed.backend("two")
    await routed.route(service(one, hosts=("digits.example.com",), port=free_port), service(two, name="letters"))
    base = f"http://127.0.0.1:{routed.port}/"
    asked = {
        "host": await _text(routed, base, "digits.localhost"),
        "host with a port": await _text(routed, base, f"LETTERS.localhost:{routed.port}"),
        "own host": await _text(routed, base, "digits.example.com"),
        "path": await _text(routed, f"{base}services/letters/x", "127.0.0.1"),
        "port": await _text(routed, f"http://127.0.0.1:{free_port}/", "127.0.0.1"),
    }
    assert asked == {
        "host": "one", "host with a port": "two", "own host": "one", "path": "two", "port": "one"
    }  # fmt: skip


async def _text(routed: Routed, url: str, host: str) -> str:
    async with routed.session.get(url, headers={"Host": host}) as answer:
        return await answer.text()


async def test_the_backend_sees_the_path_without_the_prefix_and_who_asked(routed: Routed) -> None:
    async def echo(request: web.Request) -> web.Response:
        names = ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Forwarded-Host")
        return web.json_response([request.path_qs, *(request.headers[name] for name in names)])

    await routed.route(service(await routed.backend(echo)))
    async with routed.session.get(routed.url("/a/b?c=d"), headers={"X-Forwarded-For": "6.6.6.6"}) as answer:
        assert await answer.json() == ["/a/b?c=d", "127.0.0.1", "http", "/services/digits", f"127.0.0.1:{routed.port}"]


@pytest.mark.parametrize(
    ("path", "want_status"), [("/", 404), ("/services/other/", 404), ("/services/digits:nope/", 404)]
)
async def test_what_is_not_there_is_not_found(routed: Routed, path: str, want_status: int) -> None:
    await routed.route(service(await routed.backend()))
    async with routed.session.get(f"http://127.0.0.1:{routed.port}{path}") as answer:
        assert answer.status == want_status
        assert "error" in await answer.json()


async def test_weights_hold_exactly(routed: Routed) -> None:
    one, two, three = [await routed.backend(text) for text in ("one", "two", "three")]
    shares = (revision("r1", one, weight=70), revision("r2", two, weight=20), revision("r3", three, weight=10))
    await routed.route(split(*shares))
    assert Counter(await answers(routed, 100)) == {"one": 70, "two": 20, "three": 10}


async def test_a_revision_without_weight_is_reached_by_tag_and_by_headers_alone(routed: Routed) -> None:
    one, two = await routed.backend("one"), await routed.backend("two")
    rules = (HeaderRule(name="X-Try", value="yes"), HeaderRule(name="X-Team"))
    await routed.route(split(revision("r1", one), revision("r2", two, weight=0, tag="next", headers=rules)))
    assert set(await answers(routed, 20)) == {"one"}
    assert (await routed.get(**{"Gangline-Tag": "next"}))[1] == "two"
    assert (await routed.get(**{"Gangline-Tag": "other"}))[0] == 404
    assert await _text(routed, f"http://127.0.0.1:{routed.port}/", "next.digits.localhost") == "two"
    async with routed.session.get(f"http://127.0.0.1:{routed.port}/services/digits:next/") as answer:
        assert await answer.text() == "two"
    assert (await routed.get(**{"x-try": "yes", "x-team": "any"}))[1] == "two"
    assert (await routed.get(**{"x-try": "no", "x-team": "any"}))[1] == "one"
    assert (await routed.get(**{"x-try": "yes"}))[1] == "one"


async def test_the_backend_with_the_fewest_requests_gets_the_next(routed: Routed) -> None:
    release = asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        await release.wait()
        return web.Response(text="slow")

    stuck, quick = await routed.backend(slow), await routed.backend("quick")
    await routed.route(service(stuck, quick))
    waiting = []
    while not (await routed.revision("r1")).under_way:
        waiting.append(asyncio.create_task(routed.get()))
        await routed.until("r1", lambda found: found.under_way + found.requests == len(waiting))
    assert set(await answers(routed, 10)) == {"quick"}
    release.set()
    assert Counter(text for _, text in await asyncio.gather(*waiting))["slow"] == 1


async def test_a_concurrency_limit_holds_what_exceeds_it(routed: Routed) -> None:
    most = now = 0

    async def count(_: web.Request) -> web.Response:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1
        return web.Response()

    await routed.route(split(revision("r1", await routed.backend(count), concurrency=2)))
    found = await asyncio.gather(*(routed.get() for _ in range(20)))
    assert {status for status, _ in found} == {200}
    assert most == 2


async def test_tokens_are_checked_and_kept_from_the_backend(routed: Routed) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=request.headers.get("Authorization", "none"))

    backend = await routed.backend(echo)
    token = Token(name="ci", sha256=hashlib.sha256(b"secret").hexdigest())
    await routed.route(service(backend, tokens=(token,)), service(backend, name="open"))
    assert (await routed.get())[0] == 401
    assert (await routed.get(Authorization="Bearer wrong"))[0] == 401
    assert (await routed.get(Authorization="Basic secret"))[0] == 401
    assert await routed.get(Authorization="Bearer secret") == (200, "none")
    async with routed.session.get(routed.url(service="open"), headers={"Authorization": "Bearer x"}) as answer:
        assert await answer.text() == "Bearer x"


async def test_a_digest_that_is_none_closes_its_service_and_harms_no_other(routed: Routed) -> None:
    backend = await routed.backend("one")
    bad = service(backend, tokens=(Token(name="ci", sha256="not one"),))
    await routed.route(bad, service(backend, name="alpha"), service(backend, name="zeta"))
    for secret in ("", "not one", "x"):
        assert (await routed.get(Authorization=f"Bearer {secret}"))[0] == 401
    for name in ("alpha", "zeta"):
        async with routed.session.get(routed.url(service=name)) as answer:
            assert await answer.text() == "one"


async def test_no_host_that_a_service_is_given_takes_the_name_of_another(routed: Routed) -> None:
    backends = [await routed.backend(text) for text in ("own", "thief", "other")]
    victim = split(revision("r1", backends[0], tag="next"))
    thief = service(backends[1], name="thief", hosts=("digits.localhost", "next.digits.localhost", "a.example.org"))
    other = service(backends[2], name="a", hosts=())
    await routed.route(victim, thief, other)
    base = f"http://127.0.0.1:{routed.port}/"
    asked = [await _text(routed, base, host) for host in ("digits.localhost", "next.digits.localhost", "a.localhost")]
    assert asked == ["own", "own", "other"]
    assert await _text(routed, base, "a.example.org") == "thief"


async def test_two_hundred_requests_are_held_until_there_is_a_backend(routed: Routed) -> None:
    await routed.route(service())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def ask() -> int:
            async with session.get(routed.url()) as answer:
                return answer.status

        waking = asyncio.create_task(routed.statistics(wait=30))
        asking = [asyncio.create_task(ask()) for _ in range(200)]
        assert (await waking).revisions[0].held
        await routed.until("r1", lambda found: found.held == 200)
        await routed.route(service(await routed.backend()))
        assert Counter(await asyncio.gather(*asking)) == {200: 200}
    assert (await routed.revision("r1")).held == 0


async def test_what_may_not_be_held_is_refused(routed: Routed) -> None:
    await routed.route(service(hold=HoldRules(seconds=0)))
    assert (await routed.get())[0] == 503
    await routed.route(service(hold=HoldRules(requests=2)))
    asking = [asyncio.create_task(routed.get()) for _ in range(3)]
    done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    assert [task.result()[0] for task in done] == [503]
    await routed.route(service(await routed.backend()))
    assert {(await task)[0] for task in waiting} == {200}
    assert (await routed.revision("r1")).errors == {"unavailable": 2}


async def test_requests_held_for_a_revision_that_goes_get_another(routed: Routed) -> None:
    await routed.route(split(revision("r1")))
    asking = asyncio.create_task(routed.get())
    await routed.until("r1", lambda found: found.held == 1)
    await routed.route(split(revision("r2", await routed.backend("two"))))
    assert await asking == (200, "two")


async def test_requests_of_a_service_that_goes_do_not_wait_for_it(routed: Routed) -> None:
    await routed.route(service())
    held = asyncio.create_task(routed.get())
    await routed.until("r1", lambda found: found.held == 1)
    await routed.route()
    async with asyncio.timeout(20):
        assert await held == (404, '{"error":"service digits is gone"}')


async def test_a_canary_without_a_backend_costs_no_request_and_gets_no_more_than_its_part(routed: Routed) -> None:
    one, two = await routed.backend("one"), await routed.backend("two")
    await routed.route(split(revision("r1", one, weight=9), revision("r2", gone(), weight=1)))
    assert Counter(await answers(routed, 30)) == {"one": 30}
    await routed.route(split(revision("r1", weight=9), revision("r2", two, weight=1)))
    asking = [asyncio.create_task(routed.get()) for _ in range(10)]
    await routed.until("r1", lambda found: found.held == 9)
    await routed.route(split(revision("r1", one, weight=9), revision("r2", two, weight=1)))
    assert Counter(text for _, text in await asyncio.gather(*asking)) == {"one": 9, "two": 1}


async def test_a_draining_backend_ends_what_it_has_and_gets_nothing_new(routed: Routed) -> None:
    release = asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        await release.wait()
        return web.Response(text="old")

    old, new = await routed.backend(slow), await routed.backend("new")
    await routed.route(service(old))
    under_way = asyncio.create_task(routed.get())
    await routed.until("r1", lambda found: found.under_way == 1)
    await routed.route(service(Backend(address=old.address, state=BackendState.DRAINING), new))
    assert set(await answers(routed, 10)) == {"new"}
    found = await routed.route(service(new))
    assert {each.address: each.under_way for each in found.revisions[0].backends} == {new.address: 0, old.address: 1}
    release.set()
    assert await under_way == (200, "old")
    await routed.until("r1", lambda found: len(found.backends) == 1)


async def test_a_table_that_makes_no_sense_changes_nothing(routed: Routed) -> None:
    await routed.route(service(await routed.backend()))
    routed.table.write_text("{")
    async with asyncio.timeout(30):
        while not (await routed.statistics()).problem:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await routed.get() == (200, "one")


async def test_a_new_file_is_noticed_without_being_told(routed: Routed) -> None:
    from gangline.model.routing import RoutingTable, encode_table

    backend = await routed.backend()
    draft = routed.table.with_suffix(".new")
    draft.write_bytes(encode_table(RoutingTable(version=9, services=(service(backend),))))
    draft.replace(routed.table)
    async with asyncio.timeout(30):
        while (await routed.statistics()).version != 9:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await routed.get() == (200, "one")


async def test_metrics_say_what_statistics_say(routed: Routed) -> None:
    await routed.route(service(await routed.backend()))
    await answers(routed, 3)
    text = await routed.metrics()
    assert 'gangline_router_requests_total{service="digits",revision="r1"} 3\n' in text
    assert 'gangline_router_answers_total{service="digits",revision="r1",status="2xx"} 3\n' in text
    assert 'gangline_router_request_seconds_bucket{service="digits",revision="r1",le="+Inf"} 3\n' in text
