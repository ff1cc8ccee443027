"""Sweeps over REST: paths, statuses and the shape of answers."""

import aiohttp
import pytest

from gangline.dialects.native import sweep_to_plain
from gangline.kinds.sweep import SWEEP
from gangline.testing.builders import make_running_job, make_sweep
from tests.operations.fakes import Office

SWEEPS = "/api/v1/tenants/default/sweeps"
BODY = sweep_to_plain(make_sweep().spec)
CONTRADICTION = {
    "a": ["u", "v"],
    "b": {"values": ["p", "q"], "when": {"a": "u"}},
    "rate": {"values": ["1", "2"], "when": {"a": "v", "b": "p"}},
}


def changed(**fields: object) -> dict[str, object]:
    """The body of a sweep with other fields."""
    return {**BODY, "spec": {**dict(BODY["spec"]), **fields}}  # type: ignore[call-overload]  # it is a mapping


async def test_a_sweep_lives_at_its_name(session: aiohttp.ClientSession) -> None:
    async with session.post(SWEEPS, params={"id": "s1"}, json=BODY) as answer:
        assert answer.status == 201
        made = await answer.json()
    assert (made["kind"], made["metadata"], made["spec"]) == ("Sweep", BODY["metadata"], BODY["spec"])
    assert made["status"]["state"] == "running"
    async with session.get(f"{SWEEPS}/grid") as answer:
        assert await answer.json() == made
    async with session.get(SWEEPS) as answer:
        assert await answer.json() == {"items": [made]}
    async with session.post(f"{SWEEPS}/grid/stop") as answer:
        assert (await answer.json())["status"]["state"] == "stopping"
    async with session.delete(f"{SWEEPS}/grid") as answer:
        assert (await answer.json())["status"]["state"] == "deleting"


async def test_a_watched_sweep_streams_until_it_is_gone(
    session: aiohttp.ClientSession, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gangline.operations.records._LOOK_SECONDS", 0.01)
    await office.store.records(SWEEP).create(make_sweep())
    async with session.get(f"{SWEEPS}/grid", params={"watch": "true"}) as answer:
        line = b""
        while not line.strip():  # an empty line only shows that the stream is alive
            line = await answer.content.readline()
        assert b'"state":"running"' in line
        await office.store.records(SWEEP).remove(make_sweep())
        rest = [line async for line in answer.content if line.strip()]
    assert rest == []


@pytest.mark.parametrize(
    ("query", "body", "want_status", "want"),
    [
        pytest.param({}, BODY, 400, "the sweep has no id", id="no id"),
        pytest.param({"id": "S 1"}, BODY, 400, "not a valid name", id="a bad id"),
        pytest.param({"id": "s1"}, {"metadata": {"name": "x"}}, 400, "spec", id="no spec"),
        pytest.param({"id": "s1"}, sweep_to_plain(make_sweep(tenant="red").spec), 400, "tenant 'red'", id="tenant"),
        pytest.param({"id": "s1"}, changed(parameters={}), 400, "nothing to vary", id="an empty space"),
        pytest.param({"id": "s1"}, changed(parameters={"x": {"min": 2, "max": 1}}), 400, "is empty", id="no number"),
        pytest.param({"id": "s1"}, changed(budget={"trials": 0}), 400, "a budget of 0 tries nothing", id="no budget"),
        pytest.param({"id": "s1"}, changed(parameters=CONTRADICTION), 400, "contradict each other", id="conditions"),
    ],
)
async def test_wrong_submissions_are_refused(
    session: aiohttp.ClientSession, query: dict[str, str], body: object, want_status: int, want: str
) -> None:
    async with session.post(SWEEPS, params=query, json=body) as answer:
        assert answer.status == want_status
        assert want in (await answer.json())["error"]["message"]


async def test_an_unknown_sweep_is_404(session: aiohttp.ClientSession) -> None:
    async with session.get(f"{SWEEPS}/none") as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("query", "want_status", "want"),
    [
        pytest.param({}, 400, "no replica is given", id="no replica"),
        pytest.param({"replica": "worker"}, 400, "is not a replica", id="no index"),
        pytest.param({"replica": "worker-0"}, 502, "cannot kill", id="an engine without the power"),
    ],
)
async def test_kills_are_refused_with_a_reason(
    session: aiohttp.ClientSession, office: Office, query: dict[str, str], want_status: int, want: str
) -> None:
    await office.store.create(make_running_job())
    async with session.post("/api/v1/tenants/default/jobs/mnist/kill", params=query) as answer:
        assert answer.status == want_status
        assert want in (await answer.json())["error"]["message"]
