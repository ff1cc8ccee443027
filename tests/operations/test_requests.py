"""Asking for changes of jobs."""

from collections.abc import Awaitable, Callable

import pytest

from gangline import operations
from gangline.errors import ConflictError, InvalidInputError, InvalidTransitionError, NotFoundError, StaleVersionError
from gangline.lifecycle.events import HaltRequested
from gangline.model import DEFAULT_TENANT, Job, JobId, JobPage, Phase, RoleName, Tenant
from gangline.operations import OperationContext
from gangline.storage.interface import JobQuery
from gangline.testing.builders import make_role, make_running_job, make_spec
from tests.operations.fakes import Office, at

JOB = JobId("job-1")


@pytest.mark.parametrize(
    ("verb", "want_phase", "want_reason"),
    [
        pytest.param(operations.halt, Phase.HALTED, "HaltRequested", id="halt"),
        pytest.param(operations.cancel, Phase.CANCELLED, "CancelRequested", id="cancel"),
        pytest.param(operations.delete, Phase.CANCELLED, "DeleteRequested", id="delete"),
    ],
)
async def test_a_request_is_recorded_with_its_author(
    office: Office, verb: Callable[[OperationContext, Tenant, str], Awaitable[Job]], want_phase: Phase, want_reason: str
) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    job = await verb(office.context("bob"), DEFAULT_TENANT, "mnist")
    assert job.phase is want_phase
    assert office.link.told == [JOB, JOB]
    last = (await office.store.journal(JOB))[-1]
    assert last.reason == want_reason
    assert last.message.endswith("by bob)")


async def test_resume_lets_a_halted_job_go_on(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec(), halted=True)
    assert (await operations.resume(office.context(), DEFAULT_TENANT, "mnist")).phase is Phase.RESUMED


async def test_a_request_that_does_not_apply_names_job_and_phase(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    with pytest.raises(InvalidTransitionError) as refusal:
        await operations.resume(office.context(), DEFAULT_TENANT, "mnist")
    assert (refusal.value.job, refusal.value.phase) == ("mnist", "QUEUED")


async def test_scale_is_remembered(office: Office) -> None:
    spec = make_spec(roles=(make_role(replicas=2, minimum=1, maximum=4),))
    await office.store.create(make_running_job(spec))
    job = await operations.scale(office.context(), DEFAULT_TENANT, "mnist", {RoleName("worker"): 4})
    assert job.scale == (("worker", 4),)
    with pytest.raises(InvalidInputError, match="1 to 4"):
        await operations.scale(office.context(), DEFAULT_TENANT, "mnist", {RoleName("worker"): 9})


async def test_a_request_that_races_is_repeated_on_the_newest_record(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    save, races = office.store.save, 2

    async def racing_save(job: Job, records: object = ()) -> Job:
        nonlocal races
        if races:
            races -= 1
            await save(await office.store.get(job.id))
        return await save(job, records)

    monkeypatch.setattr(office.store, "save", racing_save)
    assert (await operations.halt(office.context(), DEFAULT_TENANT, "mnist")).phase is Phase.HALTED


async def test_a_request_that_never_wins_gives_up(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    await operations.submit(office.context(), JOB, make_spec())

    async def losing_save(job: Job, records: object = ()) -> Job:
        raise StaleVersionError("job", job.id, expected=1, found=2)

    monkeypatch.setattr(office.store, "save", losing_save)
    with pytest.raises(ConflictError, match="try again"):
        await operations.halt(office.context(), DEFAULT_TENANT, "mnist")


async def test_jobs_are_found_by_id_within_their_tenant_only(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    assert (await operations.get_job(office.context(), DEFAULT_TENANT, JOB)).name == "mnist"
    with pytest.raises(NotFoundError):
        await operations.get_job(office.context(), Tenant("vision"), JOB)


async def test_a_name_that_is_nearly_right_is_suggested(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    with pytest.raises(NotFoundError, match="mnist"):
        await operations.get_job(office.context(), DEFAULT_TENANT, "mnits")


async def test_prune_deletes_what_finished_long_ago_and_nothing_else(office: Office) -> None:
    for number in range(3):
        await operations.submit(office.context(), JobId(f"job-{number}"), make_spec(f"old-{number}"))
        await operations.cancel(office.context(), DEFAULT_TENANT, f"old-{number}")
    office.clock.advance(100)
    await operations.submit(office.context(), JobId("job-8"), make_spec("new"))
    await operations.cancel(office.context(), DEFAULT_TENANT, "new")
    await operations.submit(office.context(), JobId("job-9"), make_spec("waiting"))
    pruned = await operations.prune(office.context(), DEFAULT_TENANT, finished_before=at(50))
    assert {job.name for job in pruned} == {"old-0", "old-1", "old-2"}
    assert all(job.deleting for job in pruned)
    again = await operations.prune(office.context(), DEFAULT_TENANT, finished_before=at(50))
    assert again == ()


async def test_prune_goes_on_when_a_job_is_gone_meanwhile(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        await operations.submit(office.context(), JobId(f"job-{number}"), make_spec(f"old-{number}"))
        await operations.cancel(office.context(), DEFAULT_TENANT, f"old-{number}")
    listed = office.store.list

    async def list_and_lose_one(query: JobQuery) -> JobPage:
        page = await listed(query)
        await office.store.remove(JobId("job-1"))
        return page

    monkeypatch.setattr(office.store, "list", list_and_lose_one)
    pruned = await operations.prune(office.context(), DEFAULT_TENANT, finished_before=at(50))
    assert {job.name for job in pruned} == {"old-0", "old-2"}


async def test_prune_reads_every_page(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangline.operations.requests._PRUNE_PAGE", 2)
    for number in range(5):
        await operations.submit(office.context(), JobId(f"job-{number}"), make_spec(f"old-{number}"))
        await operations.cancel(office.context(), DEFAULT_TENANT, f"old-{number}")
    assert len(await operations.prune(office.context(), DEFAULT_TENANT, finished_before=at(50))) == 5


async def test_halting_twice_is_no_mistake(office: Office) -> None:
    job = make_running_job()
    await office.store.create(job)
    await operations.halt(office.context(), DEFAULT_TENANT, "mnist")
    again = await operations.halt(office.context(), DEFAULT_TENANT, "mnist")
    assert again.phase is Phase.HALTING
    assert HaltRequested.__name__ in {record.reason for record in await office.store.journal(JOB)}
