"""Lists and watches joined into one sequence of changes."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from gangline.kube import (
    PODS,
    AnswerError,
    Applied,
    Deleted,
    ForbiddenError,
    GoneError,
    KubeClient,
    NotFoundError,
    Synced,
)
from gangline.kube.watching import Reflection, lines, log_lines

from .scripted_server import ScriptedServer, pod, pod_list

ALL = "/api/v1/pods"
BOOKMARK: dict[str, Any] = {"kind": "Pod", "metadata": {"resourceVersion": "77"}}
EXPIRED: dict[str, Any] = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


def told(change: object) -> str:
    match change:
        case Applied(item):
            return f"+{item.metadata.name}@{item.metadata.resource_version}"
        case Deleted(item):
            return f"-{item.metadata.name}"
        case _:
            return "synced"


async def take(client: KubeClient, count: int) -> list[str]:
    seen: list[str] = []
    async with asyncio.timeout(60), aclosing(client.reflect(PODS)) as changes:
        async for change in changes:
            seen.append(told(change))
            if len(seen) == count:
                break
    return seen


def reflection(*pods: dict[str, Any], version: int = 10) -> Reflection[Any]:
    made = Reflection(PODS)
    made.listed(PODS.decode_list(json.dumps(pod_list(*pods, version=version)).encode()))
    return made


def relist(of: Reflection[Any], *pods: dict[str, Any]) -> list[str]:
    return [told(change) for change in of.listed(PODS.decode_list(json.dumps(pod_list(*pods, version=99)).encode()))]


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param([], [pod("a")], ["+a@1", "synced"], id="new"),
        pytest.param([pod("a")], [pod("a")], ["synced"], id="unchanged"),
        pytest.param([pod("a")], [pod("a", version=2)], ["+a@2", "synced"], id="changed"),
        pytest.param([pod("a"), pod("b")], [pod("b")], ["-a", "synced"], id="deleted meanwhile"),
        pytest.param(
            [pod("a", uid="one")], [pod("a", uid="two", version=5)], ["-a", "+a@5", "synced"], id="replaced meanwhile"
        ),
    ],
)
def test_a_list_after_a_gap_tells_what_was_missed(
    before: list[dict[str, Any]], after: list[dict[str, Any]], want: list[str]
) -> None:
    assert relist(reflection(*before), *after) == want


def test_what_was_watched_counts_as_known() -> None:
    made = reflection(pod("a"))
    made.changed(json.dumps({"type": "ADDED", "object": pod("b", version=11)}).encode())
    made.changed(json.dumps({"type": "DELETED", "object": pod("a", version=12)}).encode())
    assert made.resource_version == "12"
    assert relist(made) == ["-b", "synced"]


def test_a_bookmark_moves_the_point_of_resumption_only() -> None:
    made = reflection(pod("a"))
    assert made.changed(json.dumps({"type": "BOOKMARK", "object": BOOKMARK}).encode()) is None
    assert made.resource_version == "77"
    assert relist(made, pod("a")) == ["synced"]


def test_an_error_line_is_raised() -> None:
    with pytest.raises(GoneError, match="too old"):
        reflection().changed(json.dumps({"type": "ERROR", "object": EXPIRED}).encode())


async def test_list_then_watch(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list(pod("a")))
    script.watch(ALL, ("ADDED", pod("b", version=11)), ("DELETED", pod("a", version=12)))
    assert await take(client, 4) == ["+a@1", "synced", "+b@11", "-a"]
    assert script.requests[1].query["resourceVersion"] == "10"
    assert script.requests[1].query["allowWatchBookmarks"] == "true"


async def test_a_watch_that_ends_goes_on_where_it_stopped(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list())
    script.watch(ALL, ("ADDED", pod("a", version=11)))
    script.watch(ALL, ("BOOKMARK", BOOKMARK))
    script.watch(ALL, ("ADDED", pod("b", version=78)))
    assert await take(client, 3) == ["synced", "+a@11", "+b@78"]
    assert [request.query.get("resourceVersion") for request in script.requests] == [None, "10", "11", "77"]


async def test_a_watch_whose_point_is_gone_lists_again(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list(pod("a"), pod("b")))
    script.watch(ALL, ("ERROR", EXPIRED))
    script.answer("GET", ALL, pod_list(pod("b"), pod("c"), version=50))
    script.watch(ALL, ("ADDED", pod("d", version=51)))
    assert await take(client, 7) == ["+a@1", "+b@1", "synced", "-a", "+c@1", "synced", "+d@51"]


async def test_a_refused_resumption_lists_again(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list(pod("a")))
    script.refuse("WATCH", ALL, status=410, reason="Gone")
    script.watch(ALL, ("ADDED", pod("b", version=51)))
    script.answer("GET", ALL, pod_list(version=50))
    assert await take(client, 5) == ["+a@1", "synced", "-a", "synced", "+b@51"]


async def test_interruptions_are_waited_out(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list())
    script.cut("WATCH", ALL)
    script.refuse("WATCH", ALL, status=403, reason="Forbidden")
    script.handle("WATCH", ALL, _half_a_line)
    script.watch(ALL, ("ADDED", pod("a", version=11)))
    assert await take(client, 2) == ["synced", "+a@11"]


@pytest.mark.parametrize(("status", "want"), [(403, ForbiddenError), (404, NotFoundError)])
async def test_what_may_not_be_listed_is_raised(
    script: ScriptedServer, client: KubeClient, status: int, want: type[Exception]
) -> None:
    script.refuse("GET", ALL, status=status, reason="")
    with pytest.raises(want):
        await anext(client.reflect(PODS))


async def test_following_begins_anew_after_a_failure_and_loses_no_deletion(
    script: ScriptedServer, client: KubeClient
) -> None:
    script.answer("GET", ALL, pod_list(pod("a"), pod("b")))
    script.watch(ALL, ("ADDED", {"metadata": {"name": ["no name"]}}))
    script.answer("GET", ALL, pod_list(pod("b"), version=50))
    script.watch(ALL, ("ADDED", pod("c", version=51)))
    seen: list[str] = []
    failures: list[int] = []
    done = asyncio.Event()

    async def note(change: object) -> None:
        seen.append(told(change))
        if len(seen) == 7:
            done.set()

    def goes_on() -> bool:
        failures.append(len(seen))
        return True

    following = asyncio.create_task(client.follow(PODS, note, goes_on=goes_on, pause_seconds=0))
    async with asyncio.timeout(60):
        await done.wait()
    following.cancel()
    assert seen == ["+a@1", "+b@1", "synced", "-a", "+b@1", "synced", "+c@51"]
    assert failures == [3]


async def test_following_ends_where_nobody_wants_it_any_more(script: ScriptedServer, client: KubeClient) -> None:
    script.refuse("GET", ALL, status=404, reason="")
    async with asyncio.timeout(60):
        await client.follow(PODS, lambda _: None, goes_on=lambda: False)


async def test_synced_comes_even_when_there_is_nothing(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list())
    changes = client.reflect(PODS)
    assert isinstance(await anext(changes), Synced)
    await changes.aclose()


async def test_lines_of_any_length() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"a", b"b\n\nc\nd", b"", b"e\n", b"f"):
            yield chunk

    assert [line async for line in lines(chunks())] == [b"ab", b"", b"c", b"de", b"f"]


@pytest.mark.parametrize(
    ("written", "stamped", "want"),
    [
        pytest.param(b"T1 ab\nT2 c\n\nT3 d", True, [b"T1 ab", b"T2 c", b"", b"T3 d"], id="as lines"),
        pytest.param(b"T1 abcdefgh\nT2 i", True, [b"T1 abcde", b"T1 fgh", b"T2 i"], id="long ones in pieces"),
        pytest.param("T1 aaaaé\n".encode(), True, [b"T1 aaaa", "T1 é".encode()], id="no character torn apart"),
        pytest.param(b"T1 " + b"\x80" * 7, True, [b"T1 " + b"\x80" * 5, b"T1 \x80\x80"], id="what is not text"),
        pytest.param(b"abcdefghij", False, [b"abcdefgh", b"ij"], id="without times"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 100], ids=lambda size: f"{size} at a time")
async def test_log_lines_are_cut_where_they_are_too_long(
    written: bytes, stamped: bool, want: list[bytes], size: int
) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(written), size):
            yield written[start : start + size]

    assert [line async for line in log_lines(chunks(), stamped=stamped, longest=8)] == want


async def test_an_object_that_cannot_be_read_is_raised(script: ScriptedServer, client: KubeClient) -> None:
    script.answer("GET", ALL, pod_list())
    script.watch(ALL, ("ADDED", {"metadata": {"name": ["no", "name"]}}))
    with pytest.raises(AnswerError, match="cannot be read"):
        await take(client, 2)


async def _half_a_line(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"type": "ADD')
    return response
