"""Taking in jobs."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from gangline import operations
from gangline.errors import ConflictError, EngineError, InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.kinds.queue import QUEUE
from gangline.model import DEFAULT_QUEUE, DEFAULT_TENANT, JobId, JobSpec, Phase, Queue, QueueName, Tenant
from gangline.testing.builders import make_queue, make_spec
from tests.operations.fakes import Office

JOB = JobId("job-1")


async def test_a_submitted_job_is_recorded_and_the_controller_is_told(office: Office) -> None:
    job = await operations.submit(office.context(), JOB, make_spec())
    assert (await office.store.get(JOB)).phase is Phase.QUEUED
    assert office.link.told == [job.id]
    (record,) = await office.store.journal(JOB)
    assert (record.reason, record.message) == ("Submitted", "by alice")


async def test_the_same_submission_again_returns_the_same_job(office: Office) -> None:
    first = await operations.submit(office.context(), JOB, make_spec())
    assert await operations.submit(office.context(), JOB, make_spec()) == first
    assert office.link.told == [JOB]


async def test_the_same_submission_twice_at_once_makes_one_job(office: Office) -> None:
    jobs = await asyncio.gather(*(operations.submit(office.context(), JOB, make_spec()) for _ in range(5)))
    assert {job.id for job in jobs} == {JOB}


async def test_an_id_that_belongs_to_another_job_is_a_conflict(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    with pytest.raises(ConflictError, match="belongs to another job, 'mnist'"):
        await operations.submit(office.context(), JOB, make_spec("other"))


async def test_a_name_that_is_taken_says_how_to_go_on(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    with pytest.raises(ConflictError, match="gangline delete mnist"):
        await operations.submit(office.context(), JobId("job-2"), make_spec())


async def test_two_tenants_may_use_the_same_name(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    other = await operations.submit(office.context(), JobId("job-2"), make_spec(tenant=Tenant("vision")))
    assert other.name == "mnist"


async def test_a_stranger_to_the_tenant_is_refused(office: Office) -> None:
    context = office.context("mallory", tenants=frozenset({Tenant("vision")}))
    with pytest.raises(PermissionDeniedError, match="mallory may not act for tenant 'default'"):
        await operations.submit(context, JOB, make_spec())


async def test_a_halted_submission_waits_for_its_user(office: Office) -> None:
    job = await operations.submit(office.context(), JOB, make_spec(), halted=True)
    assert job.phase is Phase.HALTED


async def test_an_unknown_queue_is_refused_with_the_nearest(office: Office) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        await operations.submit(office.context(), JOB, make_spec(queue=QueueName("defualt")))
    assert (refusal.value.field, refusal.value.suggestion) == ("metadata.queue", "default")


async def test_a_queue_below_one_for_other_tenants_is_refused(office: Office) -> None:
    await office.store.records(QUEUE).create(make_queue(Queue(name=QueueName("theirs"), tenants=(Tenant("somebody"),))))
    await office.store.records(QUEUE).create(make_queue(Queue(name=QueueName("below"), parent=QueueName("theirs"))))
    with pytest.raises(PermissionDeniedError, match="'theirs' admits somebody"):
        await operations.submit(office.context(), JOB, make_spec(queue=QueueName("below")))


async def test_whoever_may_not_know_of_a_queue_cannot_stand_below_it(office: Office) -> None:
    await office.store.records(QUEUE).create(make_queue(Queue(name=QueueName("theirs"), tenants=(Tenant("somebody"),))))
    await office.store.records(QUEUE).create(make_queue(Queue(name=QueueName("below"), parent=QueueName("theirs"))))
    confined = office.context(tenants=frozenset({DEFAULT_TENANT}))
    with pytest.raises(InvalidInputError, match="no queue 'below'") as refusal:
        await operations.submit(confined, JOB, make_spec(queue=QueueName("below")))
    assert "theirs" not in str(refusal.value)


async def test_a_queue_that_groups_others_takes_no_jobs(office: Office) -> None:
    await office.store.records(QUEUE).create(make_queue(Queue(name=QueueName("research"), parent=DEFAULT_QUEUE)))
    with pytest.raises(InvalidInputError, match=r"only groups others.*research"):
        await operations.submit(office.context(), JOB, make_spec())


@pytest.mark.parametrize(
    ("code", "want_error"),
    [
        pytest.param("/home/alice/project", InvalidInputError, id="a directory of the client"),
        pytest.param("sha256:nonsense", InvalidInputError, id="no digest"),
        pytest.param("sha256:" + "0" * 64, NotFoundError, id="never sent"),
    ],
)
async def test_code_must_have_been_sent_before(office: Office, code: str, want_error: type[Exception]) -> None:
    with pytest.raises(want_error):
        await operations.submit(office.context(), JOB, make_spec(code=code))


@pytest.mark.parametrize("job_id", ["", "../escape", "A b"])
async def test_an_id_that_is_no_name_is_refused(office: Office, job_id: str) -> None:
    with pytest.raises(InvalidInputError):
        await operations.submit(office.context(), JobId(job_id), make_spec())


class Van:
    """A courier that remembers, or that breaks down."""

    def __init__(self, problem: str = "") -> None:
        self.sent: list[tuple[JobId, str]] = []
        self.objects: list[tuple[Tenant, Mapping[str, object]]] = []
        self.problem = problem

    async def send_object(self, tenant: Tenant, document: Mapping[str, object]) -> None:
        self.objects.append((tenant, document))

    async def send_code(self, job_id: JobId, spec: JobSpec) -> None:
        if self.problem:
            raise EngineError(self.problem)
        self.sent.append((job_id, spec.name))


async def test_what_a_job_needs_is_sent_once_it_is_on_record(office: Office) -> None:
    van = Van()
    context = replace(office.context(), uploader=van)
    await operations.submit(context, JOB, make_spec())
    await operations.submit(context, JOB, make_spec())
    assert van.sent == [(JOB, "mnist")]


async def test_a_job_whose_things_cannot_be_sent_was_never_submitted(office: Office) -> None:
    with pytest.raises(EngineError, match="too large"):
        await operations.submit(replace(office.context(), uploader=Van("too large")), JOB, make_spec())
    with pytest.raises(NotFoundError):
        await office.store.get(JOB)
    assert office.link.told == []
