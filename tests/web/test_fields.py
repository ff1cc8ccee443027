"""Submitting by field: the same file, and the same refusals, as in the editor."""

import re

import pytest

from gangline import operations
from gangline.kinds.queue import QUEUE
from gangline.model import Tenant
from gangline.storage.interface import JobQuery
from gangline.web.pages.fields import kinds_by_field
from tests.operations.fakes import Office
from tests.web.conftest import Visitor

FIELDS = "/dashboard/tenants/default/submit/fields"
JOB = {"command": "echo 'hello there'", "workers": "2", "cpu": "500m", "env": "A=1 B='two words'"}


async def test_fields_become_a_job(office: Office, owner: Visitor) -> None:
    status, where = await owner.post(FIELDS, {**JOB, "name": "made", "csrf": await owner.csrf()})
    assert (status, where) == (303, "/dashboard/tenants/default/jobs/made")
    (job,) = (await operations.list_jobs(office.context(), Tenant("default"), JobQuery(limit=9))).jobs
    assert job.spec.roles[0].command == ("echo", "hello there")
    assert (job.spec.roles[0].replicas, job.spec.roles[0].resources.cpu_millis) == (2, 500)
    assert job.spec.env == {"A": "1", "B": "two words"}


@pytest.mark.parametrize(
    ("fields", "want_field"),
    [
        ({"cpu": "much"}, "cpu"),
        ({"workers": "many"}, "workers"),
        ({"command": "echo 'open"}, "command"),
        ({"command": ""}, "command"),
        ({"env": "A"}, "env"),
        ({"name": "No Name"}, "name"),
    ],
)
async def test_a_wrong_field_is_marked_and_nothing_is_made(
    office: Office, owner: Visitor, fields: dict[str, str], want_field: str
) -> None:
    status, text = await owner.post(FIELDS, {**JOB, **fields, "csrf": await owner.csrf()})
    assert status == 422
    marked = re.findall(r'<input id="field-(\w+)"[^>]*aria-invalid="true"', text)
    assert marked == [want_field]
    assert not (await operations.list_jobs(office.context(), Tenant("default"), JobQuery(limit=9))).jobs


async def test_fields_can_be_seen_as_a_file_first(owner: Visitor) -> None:
    status, text = await owner.post(FIELDS, {**JOB, "name": "seen", "as": "file", "csrf": await owner.csrf()})
    assert status == 200
    assert "name: seen" in text
    assert 'name="file"' in text


async def test_a_kind_is_made_from_its_own_fields(office: Office, owner: Visitor) -> None:
    csrf = await owner.csrf()
    assert (await owner.post(f"{FIELDS}?kind=queue", {"name": "research", "weight": "3", "csrf": csrf}))[0] == 303
    made = await office.store.records(QUEUE).find(None, "research")
    assert made is not None
    assert made.spec.weight == 3
    wrong = {"name": "nb", "idle_seconds": "soon", "csrf": csrf}
    status, text = await owner.post(f"{FIELDS}?kind=workspace", wrong)
    assert status == 422
    assert re.findall(r'<input id="field-(\w+)"[^>]*aria-invalid="true"', text) == ["idle_seconds"]


async def test_every_kind_with_options_has_a_form(owner: Visitor) -> None:
    for kind in kinds_by_field():
        assert (await owner.get(f"{FIELDS}?kind={kind.name}"))[0] == 200
    assert (await owner.get(f"{FIELDS}?kind=nothing"))[0] == 404
