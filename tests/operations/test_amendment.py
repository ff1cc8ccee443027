"""Changing what a job says of itself."""

from dataclasses import replace

import pytest

from gangline import operations
from gangline.errors import ConflictError, InvalidInputError, NotFoundError
from gangline.kinds.queue import QUEUE
from gangline.model import DEFAULT_TENANT, JobId, Queue, QueueName, Tenant
from gangline.testing.builders import make_queue, make_role, make_running_job, make_spec
from tests.operations.fakes import Office

JOB = JobId("job-1")


async def test_a_job_that_has_not_run_may_become_another(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    wanted = make_spec(roles=(make_role(replicas=3, command=("false",)),))
    assert (await operations.amend(office.context("bob"), DEFAULT_TENANT, "mnist", wanted)).spec == wanted
    last = (await office.store.journal(JOB))[-1]
    assert (last.reason, last.message) == ("Amended", "by bob")
    assert office.link.told == [JOB, JOB]


async def test_labels_change_at_any_time_and_what_runs_does_not(office: Office) -> None:
    job = await office.store.create(make_running_job())
    labelled = replace(job.spec, labels={"tier": "gold"}, manifest_json="{}")
    assert (await operations.amend(office.context(), DEFAULT_TENANT, "mnist", labelled)).spec == labelled
    with pytest.raises(ConflictError, match="has been started"):
        await operations.amend(office.context(), DEFAULT_TENANT, "mnist", make_spec(priority=75))


async def test_the_same_again_changes_nothing(office: Office) -> None:
    job = await office.store.create(make_running_job())
    assert await operations.amend(office.context(), DEFAULT_TENANT, "mnist", job.spec) == job
    assert office.link.told == []


async def test_name_and_queue_are_checked(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    with pytest.raises(InvalidInputError, match="keeps its name"):
        await operations.amend(office.context(), DEFAULT_TENANT, "mnist", make_spec("other"))
    with pytest.raises(InvalidInputError, match="no queue 'research'"):
        await operations.amend(office.context(), DEFAULT_TENANT, "mnist", make_spec(queue=QueueName("research")))


async def test_what_could_not_be_submitted_cannot_be_made_of_a_job_either(office: Office) -> None:
    theirs = make_queue(Queue(name=QueueName("theirs"), tenants=(Tenant("somebody"),)))
    await office.store.records(QUEUE).create(theirs)
    confined = office.context(tenants=frozenset({DEFAULT_TENANT}))
    await operations.submit(confined, JOB, make_spec(), halted=True)
    for name in ("theirs", "nowhere"):
        with pytest.raises(InvalidInputError, match=f"no queue '{name}'; expected one of default$"):
            await operations.amend(confined, DEFAULT_TENANT, "mnist", make_spec(queue=QueueName(name)))
    with pytest.raises(NotFoundError, match="code archive"):
        await operations.amend(confined, DEFAULT_TENANT, "mnist", replace(make_spec(), code="sha256:" + "0" * 64))
