"""What every operation of the REST interface understands: dry runs, versions, keys, and events that can be resumed."""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gangline import operations
from gangline.api.request_ids import RequestIdFilter
from gangline.api.rest.change_log import ChangeLog, TooOldError
from gangline.errors import PreconditionFailedError
from gangline.kinds import all_kinds
from gangline.model import JobId
from gangline.model.team.access import Role
from gangline.operations.tokens import TOKEN
from gangline.storage.answers import KeptAnswer, KeptAnswers, MemoryAnswers
from gangline.storage.guarded import guarded
from gangline.storage.interface import JobQuery
from gangline.storage.sql import open_postgres, open_sqlite
from gangline.testing.builders import make_spec
from tests.api.team import OTHER, OWN, TeamOffice, bearer, served
from tests.api.test_escape_matrix import OWN_NAME, furnish, rows, target
from tools.postgres import postgres_server

JOBS = f"/api/v1/tenants/{OWN}/jobs"
STORES = f"/api/v1/tenants/{OWN}/stores"
JOB = {"metadata": {"name": "tour", "tenant": OWN}, "spec": {"command": ["true"]}}
DEADLINE = 60


@pytest.fixture
async def office(tmp_path: Path) -> TeamOffice:
    office = TeamOffice(tmp_path)
    await furnish(office)
    return office


@pytest.fixture
async def session(office: TeamOffice, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    token = await office.token("alice", Role.OPERATOR, None)
    async with served(office.app(), tmp_path) as session:
        session.headers.update(bearer(token))
        yield session


async def ask(session: aiohttp.ClientSession, method: str, path: str, **more: Any) -> tuple[int, Any, Any]:
    async with session.request(method, path, **more) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if text else None, answer.headers


def contents(home: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in home.rglob("*") if file.is_file()}


async def everything(office: TeamOffice, home: Path) -> object:
    """All that is kept: records, jobs with their journals, files, and whether anybody was told of something."""
    jobs = (await office.store.list(JobQuery(limit=1000))).jobs
    journals = [await office.store.journal(job.id) for job in jobs]
    records = [(await office.store.records(kind).list()).items for kind in (*all_kinds(), TOKEN)]
    files = contents(home)
    return (
        jobs,
        [job.version for job in jobs],
        journals,
        records,
        files,
        list(office.link.told),
        office.record_link.told,
    )


async def test_a_dry_run_of_any_operation_changes_nothing(
    office: TeamOffice, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    bodies = {
        "jobs": JOB,
        "stores": {"kind": "Store", "metadata": {"name": OWN_NAME, "tenant": OWN}, "spec": {"address": "s3://x"}},
        "volumes": {"kind": "Volume", "metadata": {"name": "fresh", "tenant": OWN}, "spec": {"size": "1Gi"}},
        "queues": {"kind": "Queue", "metadata": {"name": "fresh"}},
        "objects": {"kind": "Secret", "metadata": {"name": "fresh"}},
        "tokens": {"name": "fresh", "role": "member", "seconds": 60},
        "label": {"a": "b"},
    }
    before, statuses = await everything(office, tmp_path), []
    for path, operation in rows(office.app()):
        if operation.changes and path.startswith("/api/v1"):
            last = next((each for each in reversed(path.split("/")) if not each.startswith("{")), "")
            asked = target(path, OWN, OWN_NAME)
            query = "&id=fresh&finished_before=2100-01-01T00:00:00Z" if "POST" in operation.method else ""
            known = "&".join(each for each in query.split("&") if each.partition("=")[0] in operation.query)
            data = json.dumps(bodies.get(last, {}))
            status, _, _ = await ask(session, operation.method, f"{asked}?dryRun=All&{known}", data=data)
            statuses.append((status, operation.method, path))
    assert await everything(office, tmp_path) == before
    assert not [each for each in statuses if each[0] == 500]
    assert len([each for each in statuses if each[0] < 300]) > 10, statuses


async def test_a_dry_run_is_refused_for_the_reasons_of_the_real_one(session: aiohttp.ClientSession) -> None:
    status, made, _ = await ask(session, "POST", f"{JOBS}?id=x1&dryRun=true", json=JOB)
    assert (status, made["metadata"]["name"]) == (201, "tour")
    assert (await ask(session, "GET", f"{JOBS}/tour"))[0] == 404
    taken = {**JOB, "metadata": {"name": OWN_NAME, "tenant": OWN}}
    assert (await ask(session, "POST", f"{JOBS}?id=x1&dryRun=All", json=taken))[0] == 409
    status, problem, _ = await ask(session, "POST", f"{JOBS}?id=x1&dryRun=maybe", json=JOB)
    assert (status, problem["field"]) == (400, "dryRun")
    assert (await ask(session, "POST", "/api/v1/dashboard?dryRun=All"))[0] == 400
    assert (await ask(session, "GET", f"{JOBS}?dryRun=All"))[0] == 400


async def test_what_was_tried_is_in_the_audit_record_as_tried(
    office: TeamOffice, session: aiohttp.ClientSession
) -> None:
    await ask(session, "POST", f"{JOBS}/{OWN_NAME}/cancel?dryRun=All")
    (entry,) = await office.audit.read(None, before=None, limit=1)
    assert entry.path == f"{JOBS}/{OWN_NAME}/cancel?dryRun=All"


async def test_a_change_is_made_only_in_the_version_that_was_read(session: aiohttp.ClientSession) -> None:
    for one, change in ((f"{JOBS}/{OWN_NAME}", "label"), (f"{STORES}/{OWN_NAME}", "")):
        _, _, headers = await ask(session, "GET", one)
        old = headers["ETag"]
        body = {"a": "b"} if change else {"kind": "Store", "metadata": {"name": OWN_NAME, "tenant": OWN}}
        body = body if change else {**body, "spec": {"address": "s3://elsewhere"}}
        method, path = ("POST", f"{one}/{change}") if change else ("PUT", one)
        status, _, headers = await ask(session, method, path, json=body, headers={"If-Match": old})
        assert (status, headers["ETag"] != old) == (200, True)
        status, problem, _ = await ask(session, "DELETE", one, headers={"If-Match": old})
        assert (status, "read it again" in problem["detail"]) == (412, True)
        assert (await ask(session, "DELETE", one, headers={"If-Match": f'"other", {headers["ETag"]}'}))[0] == 200
    assert (await ask(session, "DELETE", f"{JOBS}/nobody", headers={"If-Match": '"x"'}))[0] == 404
    assert (await ask(session, "POST", f"{JOBS}?id=x", json=JOB, headers={"If-Match": '"x"'}))[0] == 400


async def test_nobody_comes_between_the_check_of_a_version_and_the_change(office: TeamOffice) -> None:
    context, job_id = office.context(), JobId(f"j-{OWN_NAME}")
    job = await office.store.get(job_id)
    late = replace(context, store=guarded(office.store, job.id, job.version))
    await operations.label(context, OWN, OWN_NAME, {"quicker": "yes"})
    with pytest.raises(PreconditionFailedError):
        await operations.cancel(late, OWN, OWN_NAME)
    assert (await office.store.get(job_id)).phase == "QUEUED"


async def test_a_request_with_a_key_is_done_once(office: TeamOffice, session: aiohttp.ClientSession) -> None:
    key = {"Idempotency-Key": "first"}
    status, made, headers = await ask(session, "POST", JOBS, json=JOB, headers=key)
    assert (status, "Idempotency-Replayed" in headers) == (201, False)
    status, again, headers = await ask(session, "POST", JOBS, json=JOB, headers=key)
    assert (status, again, headers["Idempotency-Replayed"]) == (201, made, "true")
    other = {**JOB, "metadata": {"name": "other", "tenant": OWN}}
    assert (await ask(session, "POST", JOBS, json=other, headers=key))[0] == 422
    assert (await ask(session, "POST", f"{JOBS}/tour/cancel", headers=key))[0] == 422
    entries = await office.audit.read(None, before=None, limit=3)
    assert (entries[-1].status, bool(entries[-1].after)) == (201, False)


async def test_keys_of_others_are_other_keys(office: TeamOffice, session: aiohttp.ClientSession) -> None:
    key = {"Idempotency-Key": "first"}
    await ask(session, "POST", JOBS, json=JOB, headers=key)
    other = await office.token("alice", Role.MEMBER, OTHER)
    body = {**JOB, "metadata": {"name": "tour", "tenant": OTHER}}
    asked = session.post(f"/api/v1/tenants/{OTHER}/jobs", json=body, headers={**key, **bearer(other)})
    async with asked as answer:
        assert (answer.status, "Idempotency-Replayed" in answer.headers) == (201, False)


async def test_what_failed_may_be_sent_again_with_its_key(session: aiohttp.ClientSession) -> None:
    key = {"Idempotency-Key": "first"}
    queued = {**JOB, "metadata": {"name": "tour", "tenant": OWN, "queue": "fresh"}}
    assert (await ask(session, "POST", JOBS, json=queued, headers=key))[0] == 400
    queue = {"kind": "Queue", "metadata": {"name": "fresh"}}
    assert (await ask(session, "POST", "/api/v1/queues?id=q1", json=queue))[0] == 201
    assert (await ask(session, "POST", JOBS, json=queued, headers=key))[0] == 201


async def test_a_stream_with_a_key_is_compared_to_its_last_byte(session: aiohttp.ClientSession) -> None:
    key, content = {"Idempotency-Key": "first"}, b"numpy==2.0\n"
    path = f"/api/v1/packages/{hashlib.sha256(content).hexdigest()}"
    assert (await ask(session, "PUT", path, data=content, headers=key))[0] == 204
    status, _, headers = await ask(session, "PUT", path, data=content, headers=key)
    assert (status, headers["Idempotency-Replayed"]) == (204, "true")
    assert (await ask(session, "PUT", path, data=b"other", headers=key))[0] == 422


async def test_the_text_of_a_token_is_not_kept_with_its_key(session: aiohttp.ClientSession) -> None:
    key, body = {"Idempotency-Key": "first"}, {"name": "ci", "role": "member", "seconds": 60}
    path = f"/api/v1/tenants/{OWN}/tokens"
    assert (await ask(session, "POST", path, json=body, headers=key))[0] == 201
    status, problem, _ = await ask(session, "POST", path, json=body, headers=key)
    assert (status, "not kept" in problem["detail"]) == (409, True)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def answers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KeptAnswers]:
    if request.param == "memory":
        yield MemoryAnswers()
        return
    opening = open_sqlite(tmp_path / "a.db") if request.param == "sqlite" else None
    store = await (opening or open_postgres(postgres_server().create_database()))
    yield store.answers
    await store.close()


async def test_a_key_is_taken_by_one_and_taken_over_when_its_time_is_over(answers: KeptAnswers) -> None:
    def wanted(at: float, digest: str = "d") -> KeptAnswer:
        return KeptAnswer(who="w", key="k", at=at, until=at + 15, digest=digest)

    async def begin(at: float, digest: str = "d") -> KeptAnswer | None:
        return await answers.begin(wanted(at, digest), since=at - 100)

    first, second = await asyncio.gather(begin(0), begin(0))
    assert {first, second} == {None, wanted(0)}
    assert await begin(14.9) == wanted(0)
    assert await begin(15, "other") == wanted(0)
    assert await begin(15) is None
    done = replace(wanted(15), status=201, body="{}", content_type="application/json")
    await answers.finish(done)
    assert await begin(100) == done
    await answers.give_up("w", "k")
    assert await begin(101) is None
    assert await begin(202) is None, "older than a day, so to say"


async def test_keys_survive_a_restart_of_the_service(tmp_path: Path) -> None:
    wanted = KeptAnswer(who="w", key="k", at=0, until=15, digest="d", status=201, body="{}")
    store = await open_sqlite(tmp_path / "a.db")
    await store.answers.begin(wanted, since=-1)
    await store.close()
    store = await open_sqlite(tmp_path / "a.db")
    assert await store.answers.begin(replace(wanted, at=1), since=-1) == wanted
    await store.close()


async def test_a_key_whose_request_is_under_way_is_told_to_wait(
    office: TeamOffice, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()
    create = office.store.create

    async def slow(*arguments: Any) -> Any:
        entered.set()
        await go_on.wait()
        return await create(*arguments)

    monkeypatch.setattr(office.store, "create", slow)
    key = {"Idempotency-Key": "first"}
    first = asyncio.create_task(ask(session, "POST", JOBS, json=JOB, headers=key))
    await asyncio.wait_for(entered.wait(), DEADLINE)
    status, _, headers = await ask(session, "POST", JOBS, json=JOB, headers=key)
    assert (status, headers["Retry-After"]) == (409, "1")
    go_on.set()
    assert (await first)[0] == 201


async def next_event(answer: aiohttp.ClientResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    async with asyncio.timeout(DEADLINE):
        while True:
            line = (await answer.content.readline()).decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if line == "" and found:
                return found
            if name and value:
                found[name] = value


EVENTS = {"Accept": "text/event-stream"}


async def test_a_list_is_watched_as_events_and_resumed_where_it_was_cut(
    office: TeamOffice, session: aiohttp.ClientSession
) -> None:
    context = office.context("root")
    async with session.get(f"{JOBS}?watch=true", headers=EVENTS) as answer:
        assert answer.content_type == "text/event-stream"
        assert OWN_NAME in (await next_event(answer))["data"]
        bookmark = await next_event(answer)
        assert bookmark["event"] == "bookmark"
        await operations.submit(context, JobId("n1"), make_spec(name="one", tenant=OWN))
        first = await next_event(answer)
        assert (first["event"], json.loads(first["data"])["job_id"]) == ("change", "n1")
    await operations.submit(context, JobId("n2"), make_spec(name="two", tenant=OWN))
    await operations.submit(context, JobId("n3"), make_spec(name="zebra", tenant=OTHER))
    # The log listens by itself, whether or not anybody watches.
    resumed = {**EVENTS, "Last-Event-ID": first["id"]}
    async with session.get(f"{JOBS}?watch=true", headers=resumed) as answer:
        missed = await next_event(answer)
        assert json.loads(missed["data"])["job_id"] == "n2"
        assert (await next_event(answer))["event"] == "bookmark"
    async with session.get(f"{JOBS}?watch=true", headers={**EVENTS, "Last-Event-ID": "elsewhere.7"}) as answer:
        assert (await next_event(answer))["event"] == "reset"
        assert json.loads((await next_event(answer))["data"])["job_id"] == f"j-{OWN_NAME}"


async def test_a_job_that_is_gone_makes_a_resumed_watch_begin_anew(
    office: TeamOffice, session: aiohttp.ClientSession
) -> None:
    async with session.get(f"{JOBS}?watch=true", headers=EVENTS) as answer:
        await next_event(answer)
        bookmark = await next_event(answer)
    await office.store.remove(JobId(f"j-{OWN_NAME}"))
    office.link.changed(JobId(f"j-{OWN_NAME}"))
    async with session.get(f"{JOBS}?watch=true", headers={**EVENTS, "Last-Event-ID": bookmark["id"]}) as answer:
        assert (await next_event(answer))["event"] == "reset"
        assert (await next_event(answer))["event"] == "bookmark"


@pytest.mark.parametrize("one", [f"{JOBS}/{OWN_NAME}", f"{STORES}/{OWN_NAME}"])
async def test_one_thing_is_not_told_again_to_who_has_it(
    office: TeamOffice, session: aiohttp.ClientSession, one: str
) -> None:
    async with session.get(f"{one}?watch=true", headers=EVENTS) as answer:
        first = await next_event(answer)
    body = {"kind": "Store", "metadata": {"name": OWN_NAME, "tenant": OWN}, "spec": {"address": "s3://new"}}
    async with session.get(f"{one}?watch=true", headers={**EVENTS, "Last-Event-ID": first["id"]}) as answer:
        if "stores" in one:
            assert (await ask(session, "PUT", one, json=body))[0] == 200
        else:
            assert (await ask(session, "POST", f"{one}/label", json={"new": "yes"}))[0] == 200
        second = await next_event(answer)
        assert "new" in second["data"]
        assert second["id"] != first["id"]


def test_changes_are_known_as_long_as_there_is_room() -> None:
    log = ChangeLog(most=3)
    for number in range(5):
        log.note(JobId(f"j{number}"))
    assert log.since(3) == ("j3", "j4")
    assert log.since(log.position_of(log.id_of(2))) == ("j2", "j3", "j4")
    for old in (log.id_of(6), "other.3", f"{log.id_of(1)}x", ""):
        with pytest.raises(TooOldError):
            log.position_of(old)
    with pytest.raises(TooOldError):
        log.since(1)


async def test_a_request_keeps_the_id_that_its_client_gave_it(
    office: TeamOffice, session: aiohttp.ClientSession
) -> None:
    _, problem, headers = await ask(session, "POST", f"{JOBS}/x/cancel", headers={"X-Request-Id": "trace-17"})
    assert (headers["X-Request-Id"], problem["request_id"]) == ("trace-17", "trace-17")
    (entry,) = await office.audit.read(None, before=None, limit=1)
    assert entry.request == "trace-17"
    for unfit in ("has a space", "é", "x" * 129):
        _, _, headers = await ask(session, "GET", JOBS, headers={"X-Request-Id": unfit})
        assert len(headers["X-Request-Id"]) == 16


async def test_the_log_has_the_id_of_the_request_it_speaks_of(
    office: TeamOffice, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Listening()
    handler.addFilter(RequestIdFilter())
    handler.setFormatter(logging.Formatter("%(name)s%(request)s: %(message)s"))
    logging.getLogger("gangline").addHandler(handler)
    try:

        async def broken(*_: Any) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr(office.store, "find", broken)
        assert (await ask(session, "GET", f"{JOBS}/x", headers={"X-Request-Id": "trace-18"}))[0] == 500
    finally:
        logging.getLogger("gangline").removeHandler(handler)
    assert any("[trace-18]" in line for line in lines)
