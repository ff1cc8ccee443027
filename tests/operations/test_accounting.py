"""Who may ask for what was used, and what the answer is made of."""

from pathlib import Path

import pytest

from gangline import operations
from gangline.errors import InvalidInputError, PermissionDeniedError
from gangline.model import JobId, Tenant, Timestamp
from gangline.model.accounting import Group, Period
from gangline.testing.builders import make_spec
from tests.operations.fakes import Office

OWN = Tenant("vision")


async def test_use_is_told_by_the_user_who_submitted(tmp_path: Path) -> None:
    office = Office(tmp_path)
    for who in ("alice", "bob"):
        await operations.submit(office.context(who), JobId(f"j-{who}"), make_spec(name=who, tenant=OWN))
    office.clock.advance(3600)
    found = await operations.usage_report(office.context(), OWN, by=(Group.USER,))
    assert [(row.user, row.tenant, row.jobs, row.waiting_hours) for row in found.rows] == [
        ("alice", "", 1, 1.0),
        ("bob", "", 1, 1.0),
    ]
    together = await operations.usage_report(office.context(), None)
    assert [(row.tenant, row.jobs) for row in together.rows] == [(OWN, 2)]


async def test_only_operators_see_all_tenants(tmp_path: Path) -> None:
    office = Office(tmp_path)
    member = office.context("m", tenants=frozenset({OWN}))
    assert (await operations.usage_report(member, OWN)).rows == ()
    for tenant in (None, Tenant("speech")):
        with pytest.raises(PermissionDeniedError):
            await operations.usage_report(member, tenant)


async def test_a_time_without_length_and_too_many_periods_are_refused(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.clock.advance(10_000_000)
    now = office.clock.now()
    with pytest.raises(InvalidInputError, match="no length"):
        await operations.usage_report(office.context(), OWN, since=now)
    with pytest.raises(InvalidInputError, match="too many periods"):
        await operations.usage_report(office.context(), OWN, since=Timestamp(0), every=Period.HOUR)
