"""The REST interface over a real socket."""

import asyncio
import hashlib
import json

import aiohttp
import pytest

from gangline import __version__
from gangline.dialects.native import job_to_plain
from gangline.lifecycle.events import CancelRequested
from gangline.model import JobId, Metric, ReplicaId, RoleName
from gangline.scheduling import Constraint, Explanation
from gangline.testing.builders import make_spec
from tests.operations.fakes import Office, at, make_archive

JOBS = "/api/v1/tenants/default/jobs"


async def submit(session: aiohttp.ClientSession, name: str = "mnist", job_id: str = "job-1") -> dict[str, object]:
    async with session.post(JOBS, params={"id": job_id}, json=job_to_plain(make_spec(name))) as answer:
        assert answer.status == 201, await answer.text()
        found: dict[str, object] = await answer.json()
        return found


async def test_a_job_comes_back_as_its_own_file_with_a_status(session: aiohttp.ClientSession) -> None:
    job = await submit(session)
    plain = job_to_plain(make_spec())
    assert {name: job[name] for name in plain} == plain
    status = job["status"]
    assert isinstance(status, dict)
    assert (status["phase"], status["created_at"]) == ("QUEUED", "1970-01-12T13:46:40Z")
    async with session.get(f"{JOBS}/mnist") as answer:
        assert await answer.json() == job
        assert answer.headers["Gangline-Version"] == __version__


async def test_a_foreign_job_is_taken_in_its_own_dialect(session: aiohttp.ClientSession) -> None:
    container = {"name": "tensorflow", "image": "mnist:1", "command": ["python", "train.py"]}
    body = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "mnist"},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}},
    }
    async with session.post(JOBS, params={"id": "job-1"}, json=body) as answer:
        job = await answer.json()
    assert (answer.status, job["spec"]["framework"]) == (201, "tensorflow")
    async with session.post(JOBS, params={"id": "x"}, json={"kind": "List", "items": []}) as answer:
        assert "holds 0 jobs" in (await answer.json())["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("jobs", {"command": ["true"]}),
        ("stores", {"address": "s3://digits"}),
        (
            "sweeps",
            {
                "objective": {"metric": "loss", "goal": "minimize"},
                "parameters": {"rate": [1, 2]},
                "template": {"spec": {"command": ["train", "$(rate)"]}},
            },
        ),
    ],
)
async def test_what_names_no_tenant_is_of_the_one_in_the_path_and_what_names_another_is_refused(
    session: aiohttp.ClientSession, kind: str, spec: dict[str, object]
) -> None:
    body: dict[str, dict[str, object]] = {"metadata": {"name": "digits"}, "spec": spec}
    async with session.post(f"/api/v1/tenants/vision/{kind}", params={"id": "x"}, json=body) as answer:
        assert answer.status == 201, await answer.text()
    async with session.get(f"/api/v1/tenants/vision/{kind}/digits") as answer:
        assert answer.status == 200
    if kind != "sweeps":  # whose tenant is that of its job
        body["metadata"]["tenant"] = "default"
        async with session.post(f"/api/v1/tenants/vision/{kind}", params={"id": "y"}, json=body) as answer:
            assert (answer.status, (await answer.json())["field"]) == (400, "metadata.tenant")


async def test_pages_follow_each_other(session: aiohttp.ClientSession, office: Office) -> None:
    for number in range(3):
        await submit(session, f"train-{number}", f"job-{number}")
        office.clock.advance(1)
    async with session.get(JOBS, params={"limit": 2}) as answer:
        first = await answer.json()
    async with session.get(JOBS, params={"limit": 2, "after": first["next"]}) as answer:
        second = await answer.json()
    names = [job["metadata"]["name"] for job in first["jobs"] + second["jobs"]]
    assert names == ["train-2", "train-1", "train-0"]
    assert "next" not in second


@pytest.mark.parametrize("verb", ["halt", "cancel"])
async def test_requests_change_a_job(session: aiohttp.ClientSession, verb: str) -> None:
    await submit(session)
    async with session.post(f"{JOBS}/mnist/{verb}") as answer:
        assert (await answer.json())["status"]["reason"] == f"{verb.capitalize()}Requested"


@pytest.mark.parametrize(
    ("method", "path", "want_status", "want_type", "want_words"),
    [
        pytest.param("GET", f"{JOBS}/nobody", 404, "NotFoundError", "no job named 'nobody'", id="no such job"),
        pytest.param("GET", f"{JOBS}?limt=3", 400, "InvalidInputError", "did you mean 'limit'?", id="parameter"),
        pytest.param("GET", f"{JOBS}?limit=0", 400, "InvalidInputError", "from 1 to 1000", id="number out of bounds"),
        pytest.param("GET", f"{JOBS}?limit=many", 400, "InvalidInputError", "'many'", id="no number"),
        pytest.param("GET", f"{JOBS}?phase=PROCESING", 400, "InvalidInputError", "'PROCESSING'?", id="phase"),
        pytest.param("GET", f"{JOBS}?created_since=soon", 400, "InvalidInputError", "a time such as", id="time"),
        pytest.param("GET", f"{JOBS}?watch=maybe", 400, "InvalidInputError", "true or false", id="switch"),
        pytest.param("GET", f"{JOBS}?label=x", 400, "InvalidInputError", "NAME=VALUE", id="label"),
        pytest.param("POST", JOBS, 400, "InvalidInputError", "the job has no id", id="no id"),
        pytest.param("POST", f"{JOBS}?id=x", 400, "InvalidInputError", "the body is not understood", id="no body"),
        pytest.param("GET", "/api/v1/tenants/Bad_Name/jobs", 400, "InvalidInputError", "not a valid name", id="tenant"),
        pytest.param("GET", "/api/v1/nowhere", 404, "NotFoundError", "no path named", id="no such path"),
        pytest.param("PATCH", JOBS, 405, "InvalidInputError", "Method Not Allowed", id="method"),
        pytest.param("GET", f"{JOBS}/nobody/logs", 404, "NotFoundError", "nobody", id="logs of nobody"),
        pytest.param("GET", f"{JOBS}/nobody?watch=true", 404, "NotFoundError", "nobody", id="watching nobody"),
    ],
)
async def test_refusals_have_a_status_a_class_and_a_message(
    session: aiohttp.ClientSession, method: str, path: str, want_status: int, want_type: str, want_words: str
) -> None:
    async with session.request(method, path) as answer:
        error = (await answer.json())["error"]
    assert (answer.status, error["type"]) == (want_status, want_type)
    assert want_words in error["message"]


async def test_an_unknown_field_is_refused_by_its_path(session: aiohttp.ClientSession) -> None:
    body = job_to_plain(make_spec())
    body["spec"]["rolse"] = {}
    async with session.post(JOBS, params={"id": "job-1"}, json=body) as answer:
        error = (await answer.json())["error"]
    assert error["facts"]["field"] == "spec.rolse"
    assert error["facts"]["suggestion"] == "roles"


async def test_a_body_without_bottom_is_refused(session: aiohttp.ClientSession) -> None:
    async with session.post(JOBS, params={"id": "job-1"}, data=b'{"a":' * 100_000) as answer:
        assert (answer.status, (await answer.json())["error"]["facts"]["problem"]) == (
            400,
            "the body is nested too deeply",
        )


async def test_a_defect_is_answered_without_its_details(
    session: aiohttp.ClientSession, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(kind: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(office.store, "records", broken)
    async with session.get("/api/v1/queues") as answer:
        text = await answer.text()
    assert answer.status == 500
    assert "secret" not in text


async def test_a_watch_streams_changes_until_the_job_is_gone(session: aiohttp.ClientSession, office: Office) -> None:
    await submit(session)
    async with session.get(f"{JOBS}/mnist", params={"watch": "true"}) as answer:
        lines = (json.loads(line) async for line in answer.content if line.strip())
        assert (await anext(lines))["job"]["status"]["phase"] == "QUEUED"
        await office.happen("job-1", CancelRequested(job_id=JobId("job-1"), at=at(1)))
        assert (await anext(lines))["job"]["status"]["phase"] == "CANCELLED"
        await office.store.remove(JobId("job-1"))
        office.link.changed(JobId("job-1"))
        assert (await anext(lines)) == {"job_id": "job-1"}
        with pytest.raises(StopAsyncIteration):
            await anext(lines)


async def test_a_silent_stream_is_kept_alive(session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangline.api.rest.answers.KEEP_ALIVE_SECONDS", 0.01)
    await submit(session)
    async with session.get(f"{JOBS}/mnist", params={"watch": "true"}) as answer:
        lines = [await answer.content.readline() for _ in range(5)]
    assert lines.count(b"\n") >= 3


async def test_output_is_streamed_line_by_line(session: aiohttp.ClientSession, office: Office) -> None:
    await submit(session)
    job = await office.store.get(JobId("job-1"))
    for number in range(2000):
        office.engine.write(job, f"line {number} é")
    async with session.get(f"{JOBS}/mnist/logs") as answer:
        lines = [json.loads(line) async for line in answer.content if line.strip()]
    assert [line["text"] for line in lines] == [f"line {number} é" for number in range(2000)]
    assert lines[0] == {
        "replica": "worker-0",
        "attempt": 1,
        "at": "1970-01-12T13:46:40Z",
        "stream": "stdout",
        "text": "line 0 é",
    }


async def test_an_error_in_a_stream_is_its_last_line(session: aiohttp.ClientSession) -> None:
    await submit(session)
    async with session.get(f"{JOBS}/mnist/logs", params={"role": "chief"}) as answer:
        lines = [json.loads(line) async for line in answer.content if line.strip()]
    assert [line["error"]["type"] for line in lines] == ["InvalidInputError"]


async def test_many_streams_end_when_the_service_stops(office: Office, tmp_path: object) -> None:
    from aiohttp import web

    from gangline.api.rest import make_app

    runner = web.AppRunner(make_app(lambda request: office.context()), shutdown_timeout=30.0)
    await runner.setup()
    path = f"{tmp_path}/stopping.sock"
    await web.UnixSite(runner, path).start()
    async with aiohttp.ClientSession("http://service", connector=aiohttp.UnixConnector(path)) as session:
        await submit(session)
        answers = [await session.get(f"{JOBS}/mnist", params={"watch": "true"}) for _ in range(10)]
        for answer in answers:
            while not (await answer.content.readline()).strip():
                pass
        await asyncio.wait_for(runner.cleanup(), 10)
        for answer in answers:
            answer.close()


async def test_events_metrics_and_reasons(session: aiohttp.ClientSession, office: Office) -> None:
    await submit(session)
    worker = ReplicaId(RoleName("worker"), 0)
    metric = Metric(job_id=JobId("job-1"), replica=worker, name="loss", value=float("nan"), step=7, at=at(1))
    await office.store.add_metrics([metric])
    office.link.explanations[JobId("job-1")] = Explanation(
        constraint=Constraint.RESOURCES, role="worker", wanted=1, missing={"cpu_millis": 500}
    )
    async with session.get(f"{JOBS}/mnist/events") as answer:
        assert [record["reason"] for record in await answer.json()] == ["Submitted"]
    async with session.get(f"{JOBS}/mnist/metrics", params={"latest": "true"}) as answer:
        (told,) = (await answer.json())["metrics"]
        assert (told["replica"], told["value"], told["step"]) == ("worker-0", "NaN", 7)
    async with session.get(f"{JOBS}/mnist/explanation") as answer:
        reason = await answer.json()
        assert reason["missing"] == {"cpu_millis": 500}
        assert "Missing: 0.5 CPU." in reason["sentences"]


async def test_metrics_come_page_by_page_or_thinned_out(session: aiohttp.ClientSession, office: Office) -> None:
    await submit(session)
    worker = ReplicaId(RoleName("worker"), 0)
    metrics = [
        Metric(job_id=JobId("job-1"), replica=worker, name="loss", value=1.0, step=step, at=at(step / 7))
        for step in range(25)
    ]
    await office.store.add_metrics(metrics)
    steps: list[int] = []
    query: dict[str, str] = {"limit": "10"}
    while True:
        async with session.get(f"{JOBS}/mnist/metrics", params=query) as answer:
            page = await answer.json()
        steps += [metric["step"] for metric in page["metrics"]]
        assert page["complete"]
        if page.get("next") is None:
            break
        query["after"] = page.get("next")
    assert steps == list(range(25))
    async with session.get(f"{JOBS}/mnist/metrics", params={"points": "10"}) as answer:
        page = await answer.json()
    assert (len(page["metrics"]) <= 10, page["total"], page.get("next")) == (True, 25, None)
    async with session.get(f"{JOBS}/mnist/metrics", params={"after": "there"}) as answer:
        assert answer.status == 400
        assert "the 'next' of the page before" in (await answer.json())["error"]["message"]


async def test_nodes_usage_queues_and_health(session: aiohttp.ClientSession) -> None:
    async with session.get("/api/v1/nodes") as answer:
        (node,) = await answer.json()
        assert (node["gpu_type"], node["capacity"]["gpu_millis"]) == ("h200", 2000)
    async with session.get("/api/v1/usage") as answer:
        assert (await answer.json())["nodes"][0]["gpu_percent"] == {"0": 93}
    async with session.get("/api/v1/queues") as answer:
        assert [queue["metadata"]["name"] for queue in (await answer.json())["items"]] == ["default"]
    async with session.get("/api/v1/health") as answer:
        assert await answer.json() == {"status": "ok"}
    async with session.get("/api/v1/version") as answer:
        assert await answer.json() == {"version": __version__}


async def test_code_is_asked_for_before_it_is_sent(session: aiohttp.ClientSession) -> None:
    content = make_archive(b"x" * 500)
    path = f"/api/v1/code/{hashlib.sha256(content).hexdigest()}"
    async with session.head(path) as answer:
        assert answer.status == 404
    async with session.put(path, data=content) as answer:
        assert answer.status == 204
    async with session.head(path) as answer:
        assert answer.status == 200


async def test_code_beyond_the_limit_is_refused(session: aiohttp.ClientSession) -> None:
    async with session.put("/api/v1/code/" + "0" * 64, data=b"x" * 2000) as answer:
        assert "at most" in (await answer.json())["error"]["message"]


async def test_prune_needs_a_time(session: aiohttp.ClientSession) -> None:
    async with session.post("/api/v1/tenants/default/prune") as answer:
        assert answer.status == 400
    async with session.post(
        "/api/v1/tenants/default/prune", params={"finished_before": "2030-01-01T00:00:00Z"}
    ) as answer:
        assert await answer.json() == {"names": []}
