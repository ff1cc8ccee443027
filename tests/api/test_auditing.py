"""Every change that is asked for is written down."""

from pathlib import Path

from gangline.model.team.access import Role
from gangline.model.team.audit import difference
from gangline.model.team.token import split
from tests.api.team import OTHER, OWN, TeamOffice, bearer, served

JOB = {"metadata": {"name": "tour", "tenant": OWN}, "spec": {"command": ["true"], "env": {"A": "1"}}}


async def test_changes_are_recorded_with_who_what_before_and_after(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("alice", Role.ADMIN, OWN)
    async with served(office.app(), tmp_path) as session:
        jobs = f"/api/v1/tenants/{OWN}/jobs"
        async with session.post(f"{jobs}?id=j1", json=JOB, headers=bearer(token)) as answer:
            assert answer.status == 201
        async with session.post(f"{jobs}/tour/cancel", headers=bearer(token)) as answer:
            request_id = answer.headers["X-Request-Id"]
        async with session.get(jobs, headers=bearer(token)) as answer:
            assert answer.status == 200
        async with session.get(f"/api/v1/tenants/{OWN}/audit", headers=bearer(token)) as answer:
            page = await answer.json()
    cancelled, submitted = page["entries"]  # newest first, and looking is no change
    assert (cancelled["who"], cancelled["method"], cancelled["path"]) == ("token:alice", "POST", f"{jobs}/tour/cancel")
    assert (cancelled["request"], cancelled["status"], cancelled["tenant"]) == (request_id, 200, OWN)
    assert cancelled["before"]["status.phase"] == "QUEUED"
    assert cancelled["after"]["status.phase"] == "CANCELLED"
    assert submitted["after"]["metadata.name"] == "tour"


async def test_refusals_are_recorded_and_only_where_their_sender_belongs(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("eve", Role.VIEWER, OWN)
    async with served(office.app(), tmp_path) as session:
        for tenant in (OWN, OTHER):
            async with session.post(f"/api/v1/tenants/{tenant}/jobs/x/cancel", headers=bearer(token)) as answer:
                assert answer.status == 403
        async with session.post(f"/api/v1/tenants/{OWN}/jobs/x/cancel") as answer:
            assert answer.status == 401
        async with session.post(
            f"/kubernetes/api/v1/namespaces/{OWN}/secrets", json={}, headers=bearer(token)
        ) as answer:
            assert answer.status == 403
    entries = await office.audit.read(None, before=None, limit=10)
    assert [(each.who, each.status) for each in reversed(entries)] == [
        ("token:eve", 403),
        ("token:eve", 403),
        ("nobody", 401),
        ("token:eve", 403),
    ]
    assert await office.audit.read(OTHER, before=None, limit=10) == []


async def test_the_status_is_the_one_that_was_answered(tmp_path: Path) -> None:
    """Kubernetes has 422 for what is 400 everywhere else."""
    office = TeamOffice(tmp_path)
    token = await office.token("alice", Role.MEMBER, OWN)
    asked = (f"/kubernetes/api/v1/namespaces/{OWN}/secrets", f"/api/v1/tenants/{OWN}/jobs?id=Bad%20id")
    answered = []
    async with served(office.app(), tmp_path) as session:
        for path in asked:
            async with session.post(path, json={"metadata": {"name": "Not A Name"}}, headers=bearer(token)) as answer:
                answered.append(answer.status)
    entries = await office.audit.read(None, before=None, limit=10)
    assert [each.status for each in reversed(entries)] == answered == [422, 400]


async def test_strangers_cannot_fill_the_record(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("eve", Role.VIEWER, OWN)
    path = f"/api/v1/tenants/{OWN}/jobs/x/cancel"
    async with served(office.app(), tmp_path) as session:
        for _ in range(120):
            async with session.post(path) as answer:
                assert answer.status == 401
        async with session.post(path, headers=bearer(token)) as answer:
            assert answer.status == 403
    entries = await office.audit.read(None, before=None, limit=200)
    assert [each.who for each in entries] == ["token:eve", *["nobody"] * 100]


async def test_the_text_of_a_new_token_is_not_in_it(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("alice", Role.ADMIN, OWN)
    async with served(office.app(), tmp_path) as session:
        body = {"name": "ci", "role": "member", "seconds": 60}
        async with session.post(f"/api/v1/tenants/{OWN}/tokens", json=body, headers=bearer(token)) as answer:
            text = (await answer.json())["text"]
    (entry,) = await office.audit.read(OWN, before=None, limit=10)
    _, secret = split(text)
    assert secret not in str(entry)


def test_only_what_differs_is_told() -> None:
    before, after = {"a": {"b": 1, "c": 2}, "d": None}, {"a": {"b": 1, "c": 3}, "e": [1]}
    assert difference(before, after) == ({"a.c": 2}, {"a.c": 3, "e": [1]})
    assert difference(None, {str(number): number for number in range(9)}, most=2)[1] == {"0": 0, "1": 1, "...": 7}
