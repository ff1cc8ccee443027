"""Clients that are careful, sloppy or hostile: nothing is changed that was only tried, and nothing odd is a defect."""

from typing import Any

import aiohttp
import pytest

from gangline.model import JobId
from tests.api.kubernetes.test_interface import JOBS, MERGE, PODS, asked, created, start, tfjob
from tests.operations.fakes import Office

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TRIAL = {"dryRun": "All"}


async def answered(session: aiohttp.ClientSession, method: str, path: str, status: int, **request: Any) -> str:
    async with session.request(method, path, **request) as answer:
        text = await answer.text()
        assert answer.status == status, text
        return text


async def test_a_change_that_is_only_tried_changes_nothing(session: aiohttp.ClientSession) -> None:
    made = await created(session)
    change = {"spec": {"runPolicy": {"suspend": True}}}
    told = await answered(session, "PATCH", f"{JOBS}/mnist", 400, json=change, headers=MERGE, params=TRIAL)
    assert "nothing was changed" in told
    await answered(session, "DELETE", f"{JOBS}/mnist", 200, params=TRIAL)
    await answered(session, "DELETE", f"{JOBS}/mnist", 200, json={"dryRun": ["All"]})
    assert await asked(session, f"{JOBS}/mnist") == made


async def test_objects_that_are_only_tried_are_not_kept(session: aiohttp.ClientSession) -> None:
    document = {"metadata": {"name": "words"}, "data": {"a": "1"}}
    await answered(session, "POST", CONFIG_MAPS, 201, json=document, params=TRIAL)
    await asked(session, f"{CONFIG_MAPS}/words", 404)
    await answered(session, "POST", CONFIG_MAPS, 201, json=document)
    kept = await asked(session, f"{CONFIG_MAPS}/words")
    await answered(session, "PATCH", f"{CONFIG_MAPS}/words", 200, json={"data": {"a": "2"}}, params=TRIAL)
    await answered(session, "DELETE", f"{CONFIG_MAPS}/words", 200, params=TRIAL)
    assert await asked(session, f"{CONFIG_MAPS}/words") == kept


@pytest.mark.parametrize(
    "precondition", [{"uid": "another"}, {"resourceVersion": "99"}], ids=["another object", "another version"]
)
async def test_only_the_object_that_was_meant_is_deleted(session: aiohttp.ClientSession, precondition: object) -> None:
    made = await created(session)
    await answered(session, "POST", CONFIG_MAPS, 201, json={"metadata": {"name": "words"}})
    for path in (f"{JOBS}/mnist", f"{CONFIG_MAPS}/words"):
        told = await answered(session, "DELETE", path, 409, json={"preconditions": precondition})
        assert '"Conflict"' in told
        found = await asked(session, path)
        meant = {"preconditions": {"uid": found["metadata"]["uid"]}, "propagationPolicy": "Foreground"}
        await answered(session, "DELETE", path, 200, json=meant)
        await asked(session, path, 404)
    assert made["metadata"]["name"] == "mnist"


async def test_an_object_that_moved_on_is_not_overwritten(session: aiohttp.ClientSession) -> None:
    await answered(session, "POST", CONFIG_MAPS, 201, json={"metadata": {"name": "words"}, "data": {"a": "1"}})
    read = await asked(session, f"{CONFIG_MAPS}/words")
    await answered(session, "PUT", f"{CONFIG_MAPS}/words", 200, json={**read, "data": {"a": "2"}})
    await answered(session, "PUT", f"{CONFIG_MAPS}/words", 409, json={**read, "data": {"a": "3"}})
    assert (await asked(session, f"{CONFIG_MAPS}/words"))["data"] == {"a": "2"}


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("metadata.name=first", ["first"]),
        ("metadata.name!=first", ["second"]),
        ("metadata.namespace=default,metadata.name!=second", ["first"]),
        ("metadata.namespace=elsewhere", []),
    ],
)
async def test_jobs_are_listed_by_field(session: aiohttp.ClientSession, selector: str, want: list[str]) -> None:
    for name in ("first", "second"):
        await created(session, tfjob(name))
    found = await asked(session, JOBS, fieldSelector=selector)
    assert [item["metadata"]["name"] for item in found["items"]] == want


@pytest.mark.parametrize(
    ("path", "parameters", "want"),
    [
        pytest.param(JOBS, {"fieldSelector": "status.phase=Running"}, "'status.phase' cannot", id="field of jobs"),
        pytest.param(PODS, {"fieldSelector": "spec.image=x"}, "'spec.image' cannot", id="field of pods"),
        pytest.param(JOBS, {"labelSelector": "age>3"}, "'age>3' is not understood", id="operator"),
        pytest.param(JOBS, {"watch": "1", "timeoutSeconds": "9" * 400}, "timeoutSeconds", id="endless time"),
        pytest.param(JOBS, {"watch": "1", "sendInitialEvents": "true"}, "sendInitialEvents", id="initial events"),
        pytest.param(f"{PODS}/mnist-worker-0/log", {"sinceSeconds": "9" * 5000}, "sinceSeconds", id="large number"),
    ],
)
async def test_what_is_not_understood_is_refused_never_ignored(
    session: aiohttp.ClientSession, office: Office, path: str, parameters: dict[str, str], want: str
) -> None:
    made = await created(session)
    await start(office, made["metadata"]["uid"])
    assert want in (await asked(session, path, 422, **parameters))["message"]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(b"[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(b'{"metadata": {"name": "x"}, "spec": NaN}', "NaN is not a number", id="not a number"),
        pytest.param(b'{"metadata": {"name": "x", "namespace": "red"}}', "not the one in the path", id="namespace"),
    ],
)
async def test_a_body_that_no_cluster_takes_is_refused(session: aiohttp.ClientSession, body: bytes, want: str) -> None:
    assert want in await answered(session, "POST", JOBS, 422, data=body)


async def test_a_pod_of_an_unlikely_number_is_not_there(session: aiohttp.ClientSession) -> None:
    await asked(session, f"{PODS}/mnist-worker-{'9' * 5000}", 404)


async def test_a_token_that_is_no_text_is_refused(address: str) -> None:
    async with aiohttp.ClientSession(address, headers={"Authorization": "Bearer \udcff"}) as stranger:
        await asked(stranger, JOBS, 401)


async def test_a_long_prefix_still_makes_a_name(session: aiohttp.ClientSession) -> None:
    document = tfjob()
    document["metadata"] = {"generateName": "long-" * 20}
    made = await created(session, document)
    assert len(made["metadata"]["name"]) == 63


async def test_a_watch_whose_time_is_zero_goes_on(session: aiohttp.ClientSession) -> None:
    await created(session)
    async with session.get(JOBS, params={"watch": "1", "timeoutSeconds": "0"}) as answer:
        assert b"ADDED" in await answer.content.readline()


@pytest.mark.parametrize(("most", "want"), [("7", "first l"), ("11", "first line\n"), ("99", "first line\nsecond\n")])
async def test_logs_end_where_the_client_says(
    session: aiohttp.ClientSession, office: Office, most: str, want: str
) -> None:
    made = await created(session)
    await start(office, made["metadata"]["uid"])
    job = await office.store.get(JobId(made["metadata"]["uid"]))
    for line in ("first line", "second"):
        office.engine.write(job, line)
    assert await answered(session, "GET", f"{PODS}/mnist-worker-0/log", 200, params={"limitBytes": most}) == want
