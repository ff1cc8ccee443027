"""Every operation of every interface, asked by everybody who should not be able to: generated from the table itself.

The other tenant's things all have the word ``zebra`` in them, which must not occur in any answer.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from gangline import operations
from gangline.api.operation import OPERATIONS, Operation, add_operations
from gangline.api.operation import get as row_get
from gangline.kinds.queue import QUEUE
from gangline.kinds.store import STORE
from gangline.kinds.volume import VOLUME
from gangline.model import JobId, Queue, QueueName
from gangline.model.kinds.data_store import DataStore
from gangline.model.kinds.volume import Volume
from gangline.model.record import RecordId
from gangline.model.team.access import RIGHTS_OF, Right, Role
from gangline.operations import ObjectKind
from gangline.testing.builders import make_spec
from tests.api.team import OTHER, OWN, TeamOffice, bearer, served

SECRET = "zebra"
NAME = f"{SECRET}-plan"
OWN_NAME = "ours"
_TENANT = re.compile(r"\{(tenant|namespace)\}")
_OWN_REQUESTS = re.compile(r'"who":"token:somebody".*?"path":"[^"]*"|<td>token:somebody</td>.*?</tr>')
_PLACES = {
    "digest": "ab" * 32,
    "version": "v1",
    "group": "kubeflow.org",
    "plural": "pytorchjobs",
    "number": "1",
    "alias": "best",
    "verb": "stop",
    "token": "nobody",
}


async def furnish(office: TeamOffice) -> None:
    """Give both tenants one of everything; what the other has can be told by its name."""
    context = office.context("root")
    for tenant, name in ((OWN, OWN_NAME), (OTHER, NAME)):
        spec = replace(make_spec(), name=name, tenant=tenant, labels={"plan": name})
        await operations.submit(context, JobId(f"j-{name}"), spec)
        store = DataStore(name=name, tenant=tenant, address=f"s3://{name}")
        await operations.create_record(context, STORE, RecordId(f"s-{name}"), store)
        volume = Volume(name=name, tenant=tenant, size="1Gi")
        await operations.create_record(context, VOLUME, RecordId(f"v-{name}"), volume)
        for kind in ObjectKind:
            operations.put_object(context, tenant, kind, name, json.dumps({"metadata": {"name": name}}), new=True)
    hidden = Queue(name=QueueName(NAME), tenants=(OTHER,))
    await operations.create_record(context, QUEUE, RecordId(NAME), hidden)


def rows(app: web.Application, prefix: str = "") -> Iterator[tuple[str, Operation]]:
    """Every operation that the application serves, those of interfaces within it included, with its whole path."""
    for route, operation in app[OPERATIONS].items():
        if route.method == operation.method:
            assert route.resource is not None
            yield route.resource.canonical, operation
    for resource in app.router.resources():
        if isinstance(resource, web.PrefixedSubAppResource):
            yield from rows(resource._app)


def target(path: str, tenant: str, name: str) -> str:
    places = _PLACES | ({"plural": "experiments"} if "v1beta1" in path else {})
    return re.sub(r"\{(\w+)\}", lambda match: places.get(match[1], name), _TENANT.sub(tenant, path))


@pytest.fixture
async def office(tmp_path: Path) -> TeamOffice:
    office = TeamOffice(tmp_path)
    await furnish(office)
    return office


async def ask(session: aiohttp.ClientSession, method: str, path: str, token: str | None) -> tuple[int, str]:
    headers = {} if token is None else bearer(token)
    body = {} if method in ("GET", "HEAD") else {"data": b"{}"}
    async with session.request(method, path, headers=headers, **body) as answer:
        return answer.status, await answer.text()


def test_there_is_an_operation_for_every_interface(office: TeamOffice) -> None:
    paths = {path for path, _ in rows(office.app())}
    assert {
        "/api/v1/tenants/{tenant}/jobs",
        "/api/v1/queues",
        "/kubernetes/api/v1/namespaces/{namespace}/secrets",
        "/kubernetes/apis/v2beta1/runs",
    } <= paths
    assert len(paths) > 100


async def test_nobody_gets_in_without_a_valid_token(office: TeamOffice, tmp_path: Path) -> None:
    expired = await office.token("old", Role.ADMIN, OWN, seconds=1)
    revoked = await office.token("lost", Role.ADMIN, OWN)
    await operations.revoke_token(office.context("root"), OWN, "lost")
    valid = await office.token("good", Role.ADMIN, OWN)
    office.clock.advance(2)
    wrong = valid[:-4] + ("aaaa" if not valid.endswith("aaaa") else "bbbb")
    app = office.app()
    escaped = []
    async with served(app, tmp_path) as session:
        answers = set()
        for path, operation in rows(app):
            for token in (None, "", wrong, expired, revoked, "gangline", "gangline__", f"x{valid}", "é" * 10):
                if operation.right is Right.ANYONE:
                    continue
                status, text = await ask(session, operation.method, target(path, OWN, OWN_NAME), token)
                if status != 401 or SECRET in text:
                    escaped.append((operation.method, path, token, status))
                if token in (wrong, expired, revoked) and path.startswith("/api/"):
                    answers.add(re.sub(r'"(request_id|instance)":"[^"]*"', "", text))
    assert not escaped
    assert len(answers - {""}) == 1, "a wrong, an expired and a revoked token are told apart"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER, Role.ADMIN])
async def test_a_role_can_do_what_its_row_says_in_its_own_tenant_and_nothing_elsewhere(
    office: TeamOffice, tmp_path: Path, role: Role
) -> None:
    token = await office.token("somebody", role, OWN)
    app, wrong = office.app(), []
    async with served(app, tmp_path) as session:
        for path, operation in rows(app):
            allowed = operation.right in RIGHTS_OF[role]
            for tenant, name in ((OTHER, NAME), (OWN, NAME), (OWN, f"j-{NAME}")):
                asked = target(path, tenant, name)
                mine = allowed and (tenant == OWN or operation.right is Right.ANYONE or not _TENANT.search(path))
                status, text = await ask(session, operation.method, asked, token)
                text = _OWN_REQUESTS.sub("", text)  # the audit record has what they asked for themselves
                if (status >= 500 and "is not offered" not in text) or status == 401:
                    wrong.append(("failed", operation.method, asked, status, text))
                if (status == 403) == mine:
                    wrong.append(("decided", operation.method, asked, status, text))
                if SECRET in text.replace(asked, "").replace(name, "") or (status < 300 and SECRET in text):
                    wrong.append(("leaked", operation.method, asked, status, text))
    assert not wrong, "\n".join(map(str, wrong))


async def test_members_reach_their_own_things(office: TeamOffice, tmp_path: Path) -> None:
    token = await office.token("somebody", Role.MEMBER, OWN)
    async with served(office.app(), tmp_path) as session:
        for path in ("jobs/ours", "stores/ours", "volumes/ours", "jobs"):
            status, text = await ask(session, "GET", f"/api/v1/tenants/{OWN}/{path}", token)
            assert (status, OWN_NAME in text) == (200, True)


async def test_the_operator_reaches_everything(office: TeamOffice, tmp_path: Path) -> None:
    token = await office.token("chief", Role.OPERATOR, None)
    app = office.app()
    async with served(app, tmp_path) as session:
        for path, operation in rows(app):
            if not operation.changes:
                status, _ = await ask(session, operation.method, target(path, OTHER, NAME), token)
                assert status not in (401, 403)
        assert SECRET in (await ask(session, "GET", "/api/v1/queues", token))[1]


async def test_viewers_see_no_secrets(office: TeamOffice, tmp_path: Path) -> None:
    viewer, member = await office.token("v", Role.VIEWER, OWN), await office.token("m", Role.MEMBER, OWN)
    path = f"/kubernetes/api/v1/namespaces/{OWN}/secrets/{OWN_NAME}"
    async with served(office.app(), tmp_path) as session:
        assert (await ask(session, "GET", path, viewer))[0] == 403
        assert (await ask(session, "GET", path, member))[0] == 200


async def test_a_service_without_walls_serves_one_tenant(office: TeamOffice, tmp_path: Path) -> None:
    mine, theirs = await office.token("a", Role.ADMIN, OWN), await office.token("b", Role.ADMIN, OTHER)
    async with served(office.app(only=OWN), tmp_path) as session:
        assert (await ask(session, "GET", f"/api/v1/tenants/{OWN}/jobs", mine))[0] == 200
        assert (await ask(session, "GET", f"/api/v1/tenants/{OTHER}/jobs", theirs))[0] == 403


async def test_an_operation_without_a_row_does_not_start(office: TeamOffice) -> None:
    app = office.app()

    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    app.router.add_get("/api/v1/backdoor", handler)
    with pytest.raises(RuntimeError, match="backdoor"):
        await web.AppRunner(app).setup()


async def test_nor_does_one_of_an_interface_within(office: TeamOffice) -> None:
    app = office.app()

    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    inner = web.Application()
    add_operations(inner, [row_get(Right.READ, "/fine", handler)])
    inner.router.add_get("/backdoor", handler)
    app.add_subapp("/inner", inner)
    with pytest.raises(RuntimeError, match="backdoor"):
        await web.AppRunner(app).setup()


async def test_a_digest_is_no_key_to_the_code_of_others(office: TeamOffice, tmp_path: Path) -> None:
    mine, theirs = await office.token("m", Role.MEMBER, OWN), await office.token("t", Role.MEMBER, OTHER)
    content = b"numpy==2.0\n"
    digest = hashlib.sha256(content).hexdigest()
    path = f"/api/v1/packages/{digest}"
    async with served(office.app(), tmp_path) as session:
        async with session.put(path, data=content, headers=bearer(theirs)) as answer:
            assert answer.status == 204
        assert (await ask(session, "HEAD", path, theirs))[0] == 200
        assert (await ask(session, "HEAD", path, mine))[0] == 404


async def test_a_taken_id_names_no_job_of_another_tenant(office: TeamOffice, tmp_path: Path) -> None:
    token = await office.token("m", Role.MEMBER, OWN)
    body = {"metadata": {"name": "mine", "tenant": OWN}, "spec": {"command": ["true"]}}
    async with served(office.app(), tmp_path) as session:
        asked = session.post(f"/api/v1/tenants/{OWN}/jobs?id=j-{NAME}", json=body, headers=bearer(token))
        async with asked as answer:
            text = await answer.text()
            assert (answer.status, text.replace(f"j-{NAME}", "").count(SECRET)) == (409, 0)


async def test_both_tenants_have_an_experiment_of_one_name(office: TeamOffice, tmp_path: Path) -> None:
    async with served(office.app(), tmp_path) as session:
        for tenant in (OWN, OTHER):
            token = await office.token("m", Role.MEMBER, tenant)
            path = "/kubernetes/apis/v2beta1/experiments"
            async with session.post(path, json={"display_name": "Default"}, headers=bearer(token)) as answer:
                assert (answer.status, (await answer.json())["namespace"]) == (200, tenant)
