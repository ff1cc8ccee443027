"""The description of the interface is whole, and what the service answers fits it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from gangline import operations
from gangline.api.rest.application import PREFIX, all_operations
from gangline.api.rest.manual import manual
from gangline.api.rest.openapi import openapi
from gangline.kinds.store import STORE
from gangline.model import JobId
from gangline.model.kinds.data_store import DataStore
from gangline.model.record import RecordId
from gangline.model.team.access import Role
from gangline.testing.builders import make_spec
from tests.api.team import OWN, TeamOffice, bearer, served


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi(all_operations(), PREFIX)


def references(found: object) -> set[str]:
    if isinstance(found, dict):
        return {value for key, value in found.items() if key == "$ref"}.union(*map(references, found.values()))
    return set().union(*map(references, found)) if isinstance(found, list) else set()


def test_every_operation_is_described_once_with_its_right(document: dict[str, Any]) -> None:
    described = [row for rows in document["paths"].values() for row in rows.values()]
    assert len(described) == len(all_operations())
    assert len({row["operationId"] for row in described}) == len(described)
    assert all(row["x-right"] and row["summary"] for row in described)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references(document) <= known


async def test_what_is_answered_fits_what_is_described(document: dict[str, Any], tmp_path: Path) -> None:
    office = TeamOffice(tmp_path)
    token = await office.token("chief", Role.OPERATOR, None)
    context = office.context()
    await operations.submit(context, JobId("j1"), make_spec(name="one", tenant=OWN))
    store = DataStore(name="one", tenant=OWN, address="s3://one")
    await operations.create_record(context, STORE, RecordId("s1"), store)
    checked = 0
    async with served(office.app(), tmp_path) as session:
        for path, rows in document["paths"].items():
            if "get" not in rows:
                continue
            asked = re.sub(r"\{\w+\}", "one", path.replace("{tenant}", OWN))
            async with session.get(asked, headers=bearer(token)) as answer:
                kind, body = answer.content_type, await answer.read()
                assert answer.status != 500
                described = rows["get"]["responses"].get(str(answer.status), rows["get"]["responses"]["default"])
                assert kind in described["content"], (asked, kind)
                if kind in ("application/json", "application/problem+json"):
                    schema = {**described["content"][kind]["schema"], "components": document["components"]}
                    Draft202012Validator(schema).validate(json.loads(body))
                    checked += 1
    assert checked > 30


def test_the_page_for_people_has_every_operation_and_every_link_leads_somewhere(document: dict[str, Any]) -> None:
    page = manual(document)
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in page
    links = set(re.findall(r'href="#([^"]+)"', page))
    assert links
    assert links <= set(re.findall(r'id="([^"]+)"', page))
    assert "<script" not in page


async def test_the_page_needs_no_login(tmp_path: Path) -> None:
    async with served(TeamOffice(tmp_path).app(), tmp_path) as session, session.get(f"{PREFIX}/manual") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
