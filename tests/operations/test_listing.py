"""Listing jobs and hearing of their changes."""

from dataclasses import replace

from gangline import operations
from gangline.model import DEFAULT_TENANT, JobId, Phase, Tenant
from gangline.operations import Caller
from gangline.storage.interface import JobQuery
from gangline.testing.builders import make_spec
from tests.operations.fakes import Office


async def _submit(office: Office, number: int, **fields: object) -> None:
    await operations.submit(office.context(), JobId(f"job-{number}"), make_spec(f"train-{number}", **fields))
    office.clock.advance(1)


async def test_a_list_holds_the_tenants_own_jobs_newest_first(office: Office) -> None:
    await _submit(office, 1)
    await _submit(office, 2, tenant=Tenant("vision"))
    await _submit(office, 3)
    page = await operations.list_jobs(office.context(), DEFAULT_TENANT, JobQuery(tenant=Tenant("vision")))
    assert [job.name for job in page.jobs] == ["train-3", "train-1"]


async def test_everything_unfinished_is_told_as_far_as_the_caller_may_see(office: Office) -> None:
    await _submit(office, 1)
    await _submit(office, 2, tenant=Tenant("vision"))
    await _submit(office, 3)
    await operations.cancel(office.context(), DEFAULT_TENANT, "train-3")
    assert {job.name for job in await operations.unfinished_jobs(office.context())} == {"train-1", "train-2"}
    restricted = replace(office.context(), caller=Caller(name="eve", tenants=frozenset({Tenant("vision")})))
    assert [job.name for job in await operations.unfinished_jobs(restricted)] == ["train-2"]


async def test_a_watched_job_is_told_at_once_and_after_every_change_until_it_is_gone(office: Office) -> None:
    await _submit(office, 1)
    changes = operations.watch_job(office.context(), DEFAULT_TENANT, "train-1")
    first = await anext(changes)
    assert first.job is not None
    await operations.halt(office.context(), DEFAULT_TENANT, "train-1")
    second = await anext(changes)
    assert second.job is not None
    assert second.job.phase is Phase.HALTED
    await _submit(office, 2)  # another job's news is none of this watcher's
    await office.store.remove(JobId("job-1"))
    office.link.changed(JobId("job-1"))
    assert [change.job async for change in changes] == [None]


async def test_watching_all_begins_with_what_there_is_and_goes_on_with_what_matches(office: Office) -> None:
    await _submit(office, 1)
    await _submit(office, 2)
    query = JobQuery(phases=frozenset({Phase.QUEUED}))
    changes = operations.watch_jobs(office.context(), DEFAULT_TENANT, query)
    assert [(await anext(changes)).job_id for _ in range(2)] == ["job-1", "job-2"]
    await _submit(office, 3, tenant=Tenant("vision"))
    await _submit(office, 4)
    assert (await anext(changes)).job_id == "job-4"
    await operations.cancel(office.context(), DEFAULT_TENANT, "train-1")
    left = await anext(changes)
    assert left.job is not None
    assert left.job.phase is Phase.CANCELLED
    await changes.aclose()


async def test_watching_the_whole_begins_with_every_page(office: Office) -> None:
    for number in range(1, 6):
        await _submit(office, number)
    changes = operations.watch_jobs(office.context(), DEFAULT_TENANT, JobQuery(limit=2), whole=True)
    assert [(await anext(changes)).job_id for _ in range(5)] == [f"job-{number}" for number in range(1, 6)]
    await changes.aclose()
