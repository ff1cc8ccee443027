"""One person's requests do not take the service from the others."""

import asyncio
from pathlib import Path

import pytest

from gangline.api.limits import Limiter, Limits
from gangline.errors import TooManyRequestsError
from gangline.model.team.access import Role
from tests.api.team import OTHER, OWN, TeamOffice, bearer, served


def test_a_bucket_fills_by_and_by() -> None:
    limiter = Limiter(Limits(per_second=2, burst=3, at_once=9))
    for _ in range(3):
        limiter.enter("a", 0.0)
    with pytest.raises(TooManyRequestsError, match="a second"):
        limiter.enter("a", 0.4)
    limiter.enter("b", 0.4)
    limiter.enter("a", 0.6)
    with pytest.raises(TooManyRequestsError):
        limiter.enter("a", 0.6)


def test_what_is_under_way_counts_until_it_ends() -> None:
    limiter = Limiter(Limits(at_once=1))
    limiter.enter("a", 0.0)
    with pytest.raises(TooManyRequestsError, match="under way"):
        limiter.enter("a", 9.0)
    limiter.leave("a")
    limiter.enter("a", 9.0)


async def test_whoever_asks_too_much_is_told_when_to_come_back_and_others_are_served(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    mine, theirs = await office.token("a", Role.MEMBER, OWN), await office.token("b", Role.MEMBER, OTHER)
    async with served(office.app(limits=Limits(per_second=0.001, burst=2)), tmp_path) as session:

        async def ask(token: str, path: str) -> tuple[int, str]:
            async with session.get(path, headers=bearer(token)) as answer:
                return answer.status, answer.headers.get("Retry-After", "")

        path = f"/api/v1/tenants/{OWN}/jobs"
        answers = [await ask(mine, path) for _ in range(2)]
        answers.append(await ask(mine, f"/kubernetes/api/v1/namespaces/{OWN}/pods"))
        assert [status for status, _ in answers] == [200, 200, 429]
        assert await ask(mine, path) == (429, "1")
        assert (await ask(theirs, f"/api/v1/tenants/{OTHER}/jobs"))[0] == 200


async def test_a_token_of_the_same_name_elsewhere_uses_up_nothing(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    async with served(office.app(limits=Limits(per_second=0.001, burst=1)), tmp_path) as session:
        for tenant in (OWN, OTHER):
            token = await office.token("ci", Role.MEMBER, tenant)
            async with session.get(f"/api/v1/tenants/{tenant}/jobs", headers=bearer(token)) as answer:
                assert answer.status == 200


async def test_a_watch_counts_while_it_lasts(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("a", Role.MEMBER, OWN)
    path = f"/api/v1/tenants/{OWN}/jobs"
    async with served(office.app(limits=Limits(at_once=1)), tmp_path) as session:
        watching = await session.get(f"{path}?watch=true", headers=bearer(token))
        async with session.get(path, headers=bearer(token)) as answer:
            assert answer.status == 429
        watching.close()
        for _ in range(1000):
            async with session.get(path, headers=bearer(token)) as answer:
                if answer.status == 200:
                    return
            await asyncio.sleep(0.01)
    raise AssertionError("a watch whose client left is still counted")


async def test_large_documents_are_compressed_for_whoever_accepts_that(tmp_path: Path) -> None:
    found = {}
    async with served(TeamOffice(tmp_path).app(), tmp_path) as session:
        for accepted in ("gzip", "identity"):
            headers = {"Accept-Encoding": accepted}
            async with session.get("/api/v1/openapi.json", headers=headers) as answer:
                found[accepted] = (answer.headers.get("Content-Encoding"), (await answer.json())["openapi"])
        async with session.get("/api/v1/login", headers={"Accept-Encoding": "gzip"}) as answer:
            assert "Content-Encoding" not in answer.headers
    assert found == {"gzip": ("gzip", "3.1.0"), "identity": (None, "3.1.0")}


async def test_errors_are_problem_documents_that_name_field_and_fix(tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("a", Role.MEMBER, OWN)
    async with served(office.app(), tmp_path) as session:
        async with session.get(f"/api/v1/tenants/{OWN}/jobs?limt=3", headers=bearer(token)) as answer:
            problem = await answer.json(content_type="application/problem+json")
            assert (answer.status, problem["status"], problem["title"]) == (400, 400, "Bad Request")
            assert (problem["field"], problem["suggestion"]) == ("limt", "limit")
            assert problem["request_id"] == answer.headers["X-Request-Id"]
        async with session.get(f"/api/v1/tenants/{OWN}/jobs") as answer:
            assert answer.headers["WWW-Authenticate"] == "Bearer"
