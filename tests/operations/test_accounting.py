"""Who may ask for what was used, and what the answer is made of."""

from dataclasses import replace
from pathlib import Path

import pytest

from gangline import operations
from gangline.errors import InvalidInputError, PermissionDeniedError
from gangline.model import JobId, JobSpec, Phase, Resources, Tenant, Timestamp
from gangline.model.jobs.job import PhaseEntry
from gangline.model.team.accounting import Group, Period
from gangline.storage.interface import Store
from gangline.storage.sql import open_sqlite
from gangline.testing.builders import make_role, make_spec
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


async def test_deleting_a_job_takes_nothing_off_the_bill(tmp_path: Path) -> None:
    office, store = Office(tmp_path), await open_sqlite(tmp_path / "jobs.db")
    try:
        for name, tenant in (("kept", OWN), ("gone", OWN), ("elsewhere", Tenant("speech"))):
            await operations.submit(
                replace(office.context("alice"), store=store), JobId(f"j-{name}"), made(name, tenant)
            )
            await run_for_an_hour(store, JobId(f"j-{name}"), office)
        context = replace(office.context(), store=store, past_use=store.past_use)
        before = await operations.usage_report(context, OWN, by=(Group.USER, Group.QUEUE))
        await store.remove(JobId("j-gone"))
        await store.remove(JobId("j-elsewhere"))
        after = await operations.usage_report(context, OWN, by=(Group.USER, Group.QUEUE))
        assert [(row.user, row.jobs, row.cpu_hours) for row in after.rows] == [("alice", 2, 4.0)]
        assert before.rows == after.rows
        assert [row.tenant for row in (await operations.usage_report(context, None)).rows] == ["speech", "vision"]
    finally:
        await store.close()


def made(name: str, tenant: Tenant) -> JobSpec:
    return make_spec(name=name, tenant=tenant, roles=(make_role(replicas=1, resources=Resources(cpu_millis=2000)),))


async def run_for_an_hour(store: Store, job_id: JobId, office: Office) -> None:
    job = await store.get(job_id)
    began = office.clock.now()
    office.clock.advance(3600)
    ended = office.clock.now()
    phases = ((Phase.PROCESSING, began), (Phase.COMPLETED, ended))
    history = (*job.history, *(PhaseEntry(phase=phase, at=at, reason="Because") for phase, at in phases))
    await store.save(replace(job, history=history, finished_at=ended))
