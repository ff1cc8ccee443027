"""Taking sweeps in, looking at them, and asking for their end."""

import asyncio
from dataclasses import replace

import pytest

from gangline import operations
from gangline.errors import ConflictError, InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.kinds.sweep import SWEEP
from gangline.model import DEFAULT_TENANT, Metric, QueueName, ReplicaId, RoleName, Tenant
from gangline.model.record import Page, RecordId
from gangline.model.search.parameter import Parameter
from gangline.storage.interface import JobQuery
from gangline.sweeps import plan, trial_to_job
from gangline.testing.builders import START, make_spec, make_sweep
from tests.operations.fakes import Office, at

SPEC = make_sweep().spec
SWEEP_ID = RecordId("sweep-1")


async def begin(office: Office, number: int = 0) -> str:
    """Let a trial begin as the driver would; return its job's id."""
    (sweep,) = (await office.store.records(SWEEP).list()).items
    job_id = sweep.job_id(number)
    await operations.submit(office.context(), job_id, trial_to_job(sweep.spec, plan(sweep, [], START).start[number]))
    return job_id


async def test_a_sweep_is_recorded_and_its_driver_told(office: Office) -> None:
    report = await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    assert (report.state, report.trials) == ("running", ())
    assert office.record_link.told == 1
    assert [sweep.id for sweep in (await office.store.records(SWEEP).list()).items] == [report.id]


async def test_a_repeated_submission_is_the_same_sweep(office: Office) -> None:
    first = await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    office.clock.advance(5)
    assert await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC) == first


@pytest.mark.parametrize("sweep_id", ["sweep-2", "sweep-1"])
async def test_another_sweep_of_the_same_name_is_refused(office: Office, sweep_id: str) -> None:
    await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    other = make_sweep(parallelism=7).spec
    with pytest.raises(ConflictError, match="gangline sweep delete grid"):
        await operations.create_record(office.context(), SWEEP, RecordId(sweep_id), other)


async def test_an_id_that_belongs_to_another_sweep_is_refused(office: Office) -> None:
    await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    with pytest.raises(ConflictError):
        await operations.create_record(office.context(), SWEEP, SWEEP_ID, make_sweep("other").spec)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(make_sweep(template=make_spec("grid", queue=QueueName("defualt"))).spec, "no queue", id="queue"),
        pytest.param(make_sweep(template=make_spec("grid", code="here")).spec, "not a code archive", id="code"),
        pytest.param(
            make_sweep(parameters=(Parameter("a", ("1",)),), template=make_spec("x", env={"A": "$(b)"})).spec,
            r"\$\(b\)",
            id="reference",
        ),
    ],
)
async def test_what_no_trial_could_run_is_refused_at_once(office: Office, spec: object, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        await operations.create_record(office.context(), SWEEP, SWEEP_ID, spec)
    assert (await office.store.records(SWEEP).list()).items == ()


async def test_a_report_holds_trials_and_what_they_reported(office: Office) -> None:
    await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    job_id = await begin(office)
    replica = ReplicaId(RoleName("worker"), 0)
    await office.store.add_metrics(
        [Metric(job_id=job_id, replica=replica, name="accuracy", value=0.97, step=1, at=START)]
    )
    report = await operations.get_record(office.context(), SWEEP, DEFAULT_TENANT, "grid")
    assert [(trial.job, trial.result) for trial in report.trials] == [("grid-0", 0.97)]
    assert await operations.list_records(office.context(), SWEEP, DEFAULT_TENANT, limit=9) == Page(items=(report,))


async def test_stopping_and_deleting_are_recorded_once(office: Office) -> None:
    await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    for _ in range(2):
        assert (await operations.do_verb(office.context(), SWEEP, DEFAULT_TENANT, "grid", "stop")).state == "stopping"
    for _ in range(2):
        assert (await operations.delete_record(office.context(), SWEEP, DEFAULT_TENANT, "grid")).state == "deleting"
    (sweep,) = (await office.store.records(SWEEP).list()).items
    assert (sweep.status.stopped, sweep.deleting, office.record_link.told) == (True, True, 5)


async def test_a_finished_sweep_stays_finished_when_it_is_stopped(office: Office) -> None:
    await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    (sweep,) = (await office.store.records(SWEEP).list()).items
    await office.store.records(SWEEP).save(replace(sweep, status=replace(sweep.status, finished_at=START)))
    assert (await operations.do_verb(office.context(), SWEEP, DEFAULT_TENANT, "grid", "stop")).state == "finished"


async def test_an_unknown_sweep_is_not_found_and_the_nearest_is_named(office: Office) -> None:
    await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    with pytest.raises(NotFoundError, match="did you mean 'grid'"):
        await operations.get_record(office.context(), SWEEP, DEFAULT_TENANT, "gird")


async def test_another_tenants_sweeps_are_out_of_reach(office: Office) -> None:
    context = office.context("eve", tenants=frozenset({Tenant("red")}))
    for operation in (operations.get_record, operations.delete_record):
        with pytest.raises(PermissionDeniedError):
            await operation(context, SWEEP, DEFAULT_TENANT, "grid")
    with pytest.raises(PermissionDeniedError):
        await operations.do_verb(context, SWEEP, DEFAULT_TENANT, "grid", "stop")
    with pytest.raises(PermissionDeniedError):
        await operations.create_record(context, SWEEP, SWEEP_ID, SPEC)
    with pytest.raises(PermissionDeniedError):
        await operations.list_records(context, SWEEP, DEFAULT_TENANT, limit=9)


async def test_a_watch_tells_of_changes_and_ends_with_the_sweep(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gangline.operations.records._LOOK_SECONDS", 0.01)
    await operations.create_record(office.context(), SWEEP, SWEEP_ID, SPEC)
    reports = operations.watch_record(office.context(), SWEEP, DEFAULT_TENANT, "grid")
    async with asyncio.timeout(60):
        assert (await anext(reports)).trials == ()
        await begin(office)
        assert [trial.job for trial in (await anext(reports)).trials] == ["grid-0"]
        await office.store.records(SWEEP).remove(make_sweep())
        assert [report async for report in reports] == []


async def test_code_that_only_a_sweep_needs_is_not_forgotten(office: Office) -> None:
    office.code_directory.mkdir()
    kept, lost = office.code_directory / f"{'a' * 64}.tar.gz", office.code_directory / f"{'b' * 64}.tar.gz"
    for archive in (kept, lost):
        archive.touch()
    template = make_spec("grid", code=f"sha256:{'a' * 64}")
    await operations.create_record(office.context(), SWEEP, SWEEP_ID, make_sweep(template=template).spec)
    office.clock.advance(10_000_000_000)
    await operations.prune(office.context(), DEFAULT_TENANT, finished_before=at())
    assert (kept.exists(), lost.exists()) == (True, False)
    assert (await office.store.list(JobQuery())).jobs == ()
