"""The record driver with a kind whose plan says as little as it can."""

from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from gangline.controller import Controller, RecordDriver
from gangline.errors import NotFoundError, RecordTooLargeError, StorageError
from gangline.kinds import Kind, NewJob, Owned, Plan, derived_format
from gangline.model import JobId, Phase, Tenant, Timestamp
from gangline.model.record import Record, RecordId
from gangline.storage.memory import MemoryStore
from gangline.storage.owned import read_owned
from gangline.testing.builders import START, FakeClock, make_spec
from tests.controller.scripted_engine import ScriptedEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class OnceSpec:
    name: str
    tenant: Tenant


@dataclass(frozen=True, slots=True)
class OnceStatus:
    state: str = "running"
    settled: bool = False


def plan_once(once: Record[OnceSpec, OnceStatus], owned: Owned, now: Timestamp) -> Plan[OnceStatus]:
    """One job, for as long as none is seen; it says neither whose it is nor what it belongs to."""
    create = () if owned.jobs else (NewJob(once.job_id(0), make_spec("forgetful")),)
    return Plan(status=once.status, create=create)


ONCE: Kind[OnceSpec, OnceStatus, Record[OnceSpec, OnceStatus]] = Kind(
    name="once",
    plural="onces",
    summary="Once.",
    description="Once.",
    spec=OnceSpec,
    status=OnceStatus,
    answer=Record,
    format=derived_format(OnceSpec, "Once", "Once."),
    plan=plan_once,
)


async def test_what_a_plan_creates_belongs_to_its_record_and_its_tenant() -> None:
    store = MemoryStore()
    controller = Controller(store=store, engine=ScriptedEngine(), clock=FakeClock())
    driver = RecordDriver([ONCE], store=store, link=controller, clock=FakeClock())
    spec = OnceSpec(name="mine", tenant=Tenant("vision"))
    kept = await store.records(ONCE).create(
        Record(id=RecordId("once-1"), spec=spec, status=OnceStatus(), created_at=START)
    )
    await driver.settle()
    (job,) = (await read_owned(store, ONCE, kept)).jobs
    assert (job.spec.tenant, job.spec.labels[ONCE.label]) == ("vision", "mine")

    await store.records(ONCE).save(replace(kept, deleting=True))
    for _ in range(3):
        driver.look_at_all()
        await driver.settle()
        await controller.settle()
        await controller.lanes.drain()
    assert await store.records(ONCE).find(spec.tenant, spec.name) is None
    with suppress(NotFoundError):
        assert (await store.get(JobId("once-1-0"))).deleting


def plan_to_end(once: Record[OnceSpec, OnceStatus], owned: Owned, now: Timestamp) -> Plan[OnceStatus]:
    """Nothing to do: it is over."""
    return Plan(status=OnceStatus(state="done", settled=True))


ENDING = replace(ONCE, name="ending", plural="endings", plan=plan_to_end)


async def test_a_record_that_the_store_refuses_waits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = MemoryStore(), FakeClock()
    controller = Controller(store=store, engine=ScriptedEngine(), clock=clock)
    driver = RecordDriver([ENDING], store=store, link=controller, clock=clock)
    records = store.records(ENDING)
    for number in range(3):
        spec = OnceSpec(name=f"number-{number}", tenant=Tenant("vision"))
        await records.create(
            Record(id=RecordId(f"once-{number}"), spec=spec, status=OnceStatus(), created_at=Timestamp(START + number))
        )
    save, tries = records.save, []

    async def picky(record: Record[OnceSpec, OnceStatus]) -> Record[OnceSpec, OnceStatus]:
        tries.append(record.name)
        if record.name == "number-2" and tries.count("number-2") < 3:
            raise StorageError("it is too large")
        return await save(record)

    monkeypatch.setattr(records, "save", picky)
    await driver.settle()
    assert tries == ["number-2", "number-1", "number-0"], "the newest first, and all of them"
    for wait_seconds, want_tries in ((0.5, 1), (0.6, 2), (1.5, 2), (0.6, 3), (30.0, 3)):
        clock.advance(wait_seconds)
        driver.look_at_all()
        await driver.settle()
        assert tries.count("number-2") == want_tries
    assert [record.name for record in await records.unsettled() if not record.settled] == []


def plan_to_grow(once: Record[OnceSpec, OnceStatus], owned: Owned, now: Timestamp) -> Plan[OnceStatus]:
    """One job that goes on, and a status that becomes longer with every turn."""
    create = () if owned.jobs else (NewJob(once.job_id(0), make_spec("long")),)
    return Plan(status=replace(once.status, state=f"{once.status.state}!"), create=create)


async def test_a_record_too_large_for_its_store_ends_with_what_runs_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = replace(
        ONCE, name="growing", plan=plan_to_grow, given_up=lambda status, now: replace(status, state="", settled=True)
    )
    store, clock = MemoryStore(), FakeClock()
    controller = Controller(store=store, engine=ScriptedEngine(), clock=clock)
    driver = RecordDriver([kind], store=store, link=controller, clock=clock)
    records = store.records(kind)
    save = records.save

    async def small(record: Record[OnceSpec, OnceStatus]) -> Record[OnceSpec, OnceStatus]:
        if len(record.status.state) > len("running!!"):
            raise RecordTooLargeError("it is too large")
        return await save(record)

    monkeypatch.setattr(records, "save", small)
    spec = OnceSpec(name="mine", tenant=Tenant("vision"))
    kept = await records.create(Record(id=RecordId("once-1"), spec=spec, status=OnceStatus(), created_at=START))
    for want_settled in (False, False, True):
        driver.look_at_all()
        await driver.settle()
        found = await records.find(spec.tenant, spec.name)
        assert found is not None
        assert found.settled is want_settled
    await controller.settle()
    (job,) = (await read_owned(store, kind, kept)).jobs
    assert job.phase is Phase.CANCELLED
