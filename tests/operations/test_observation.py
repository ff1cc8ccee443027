"""Journals, output, metrics and reasons."""

import asyncio

import pytest

from gangline import operations
from gangline.errors import ConflictError, InvalidInputError
from gangline.lifecycle.events import CancelRequested, GangPlaced, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import (
    DEFAULT_QUEUE,
    DEFAULT_TENANT,
    Ahead,
    Job,
    JobId,
    Metric,
    PlaceInLine,
    Policy,
    QueueName,
    ReplicaId,
    RoleName,
    Tenant,
)
from gangline.operations import LogFilter
from gangline.scheduling import Constraint, Explanation
from gangline.testing.builders import make_placement, make_role, make_spec
from tests.operations.fakes import Office, at

JOB = JobId("job-1")
WORKER = ReplicaId(RoleName("worker"), 0)


async def _placed(office: Office, seconds: float = 0.0) -> Job:
    spec = (await office.store.get(JOB)).spec
    placed = GangPlaced(job_id=JOB, at=at(seconds), placement=make_placement(spec))
    attempt = (await office.store.get(JOB)).attempt + 1
    return await office.happen(JOB, placed, ReplicaStarted(job_id=JOB, at=at(seconds), attempt=attempt, replica=WORKER))


async def test_following_waits_for_the_first_attempt_and_goes_on_through_restarts(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec(policy=Policy(max_attempts=2, backoff_seconds=0)))
    lines = operations.logs(office.context(), DEFAULT_TENANT, "mnist", LogFilter(), follow=True)
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    job = await _placed(office)
    office.engine.write(job, "first try")
    assert (await waiting).text == "first try"
    failed = ReplicaExited(job_id=JOB, at=at(1), attempt=1, replica=WORKER, exit_code=1)
    await office.happen(JOB, failed, GangStopped(job_id=JOB, at=at(1), attempt=1))
    office.engine.write(job, "second try", attempt=2)
    await _placed(office, 2)
    assert (await anext(lines)).text == "second try"
    await office.happen(JOB, CancelRequested(job_id=JOB, at=at(3)))
    assert [line.text async for line in lines] == []


async def test_following_that_comes_before_the_start_misses_nothing(office: Office) -> None:
    job = await operations.submit(office.context(), JOB, make_spec())
    await office.happen(JOB, GangPlaced(job_id=JOB, at=at(0), placement=make_placement(job.spec)))
    lines = operations.logs(office.context(), DEFAULT_TENANT, "mnist", LogFilter(), follow=True)
    waiting = asyncio.ensure_future(anext(lines))
    # The record says that it starts; the engine has nothing yet.
    while not office.engine.queries:  # noqa: ASYNC110  # the fake tells nobody
        await asyncio.sleep(0)
    office.engine.write(job, "hello")
    await office.happen(JOB, ReplicaStarted(job_id=JOB, at=at(1), attempt=1, replica=WORKER))
    assert (await asyncio.wait_for(waiting, 60)).text == "hello"
    await lines.aclose()


async def test_output_of_a_finished_job_is_read_once(office: Office) -> None:
    job = await operations.submit(office.context(), JOB, make_spec())
    office.engine.write(job, "hello")
    wanted = LogFilter(role=RoleName("worker"), index=0, since=at(-1), tail=5)
    lines = [line.text async for line in operations.logs(office.context(), DEFAULT_TENANT, "mnist", wanted)]
    assert lines == ["hello"]
    (query,) = office.engine.queries
    assert (query.role, query.index, query.since, query.tail, query.follow) == ("worker", 0, at(-1), 5, False)


async def test_a_role_the_job_has_not_is_refused(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    lines = operations.logs(office.context(), DEFAULT_TENANT, "mnist", LogFilter(role=RoleName("chief")))
    with pytest.raises(InvalidInputError, match="one of worker"):
        await anext(lines)


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(LogFilter(index=2), "has no replica 2.*0 to 1", id="index"),
        pytest.param(
            LogFilter(index=1, role=RoleName("chief")), "has no replica 1 of 'chief'.*0", id="index of a role"
        ),
        pytest.param(LogFilter(index=-1), "has no replica -1", id="negative"),
        pytest.param(LogFilter(attempt=2), "has no attempt 2.*expected 1", id="attempt"),
        pytest.param(LogFilter(attempt=0), "has no attempt 0", id="attempt zero"),
    ],
)
async def test_output_that_there_cannot_be_is_refused(office: Office, wanted: LogFilter, want: str) -> None:
    roles = (make_role(name="chief"), make_role(name="worker", replicas=2))
    await operations.submit(office.context(), JOB, make_spec(roles=roles))
    await _placed(office)
    with pytest.raises(InvalidInputError, match=want):
        await anext(operations.logs(office.context(), DEFAULT_TENANT, "mnist", wanted))


async def test_the_first_attempt_is_none_before_it_starts(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    with pytest.raises(InvalidInputError, match="it has not started yet"):
        await anext(operations.logs(office.context(), DEFAULT_TENANT, "mnist", LogFilter(attempt=1)))


async def test_metrics_are_those_of_the_job(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    told = [
        Metric(job_id=JOB, replica=WORKER, name="loss", value=1 / step, step=step, at=at(step)) for step in (1, 2, 4)
    ]
    await office.store.add_metrics(told)
    page = await operations.metrics(office.context(), DEFAULT_TENANT, "mnist", name="loss")
    assert (list(page.metrics), page.next, page.complete) == (told, None, True)
    assert list((await operations.latest_metrics(office.context(), DEFAULT_TENANT, "mnist")).metrics) == told[-1:]


async def test_the_journal_goes_on_after_what_was_read(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    (first,) = await operations.journal(office.context(), DEFAULT_TENANT, "mnist")
    await operations.cancel(office.context(), DEFAULT_TENANT, "mnist")
    later = await operations.journal(office.context(), DEFAULT_TENANT, "mnist", after=first.number)
    assert [record.reason for record in later] == ["CancelRequested"]


async def test_an_explanation_calls_other_jobs_by_name_and_foreign_ones_by_tenant(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    await operations.submit(office.context(), JobId("job-2"), make_spec("holder"))
    await operations.submit(office.context(), JobId("job-3"), make_spec("secret", tenant=Tenant("vision")))
    office.link.explanations[JOB] = Explanation(
        constraint=Constraint.RESOURCES, role="worker", wanted=2, holders=(JobId("job-2"), JobId("job-3"))
    )
    reason = await operations.explain(office.context(), DEFAULT_TENANT, "mnist")
    assert "Held by: holder, a job of tenant vision." in reason.sentences


async def test_a_place_in_line_names_those_ahead_as_the_one_who_asks_knows_them(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    await operations.submit(office.context(), JobId("job-2"), make_spec("first"))
    await operations.submit(office.context(), JobId("job-3"), make_spec("secret", tenant=Tenant("vision")))
    ahead = [
        Ahead(job_id=JobId(name), queue=DEFAULT_QUEUE, replicas=2, gpu_millis=gpus, reason="it was submitted earlier")
        for name, gpus in (("job-2", 4000), ("job-3", 0))
    ]
    line = PlaceInLine(
        queue=DEFAULT_QUEUE, place=5, waiting=9, place_in_queue=5, waiting_in_queue=9, ahead=tuple(ahead)
    )
    office.link.explanations[JOB] = Explanation(constraint=Constraint.RESOURCES, role="worker", wanted=2, line=line)
    reason = await operations.explain(office.context(), DEFAULT_TENANT, "mnist")
    assert reason.sentences[1:] == (
        "It is number 5 of 9 in queue 'default'.",
        "Ahead of it: first (2 replicas with 4 GPU), because it was submitted earlier.",
        "Ahead of it: a job of tenant vision (2 replicas), because it was submitted earlier.",
        "2 more are ahead of it.",
    )
    assert reason.line == line


async def test_an_id_that_is_part_of_a_word_leaves_the_word_alone(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    await operations.submit(office.context(), JobId("a"), make_spec("resnet"))
    office.link.explanations[JOB] = Explanation(
        constraint=Constraint.RESERVATION, missing={"cpu_millis": 1000}, holders=(JobId("a"),), behind=JobId("a")
    )
    reason = await operations.explain(office.context(), DEFAULT_TENANT, "mnist")
    assert reason.sentences == (
        "It would delay 'resnet', which is first in line.",
        "Missing: 1 CPU.",
        "Held by: resnet.",
    )
    assert (reason.holders, reason.behind) == (("a",), "a")


async def test_a_closed_queue_and_none_look_the_same_to_whoever_may_not_know(office: Office) -> None:
    """A step of a pipeline or of a schedule may name any queue; only its job finds out."""
    await operations.submit(office.context(), JOB, make_spec())
    confined, found = office.context(tenants=frozenset({DEFAULT_TENANT})), []
    for why in (
        Explanation(constraint=Constraint.CLOSED_QUEUE, queue=QueueName("theirs")),
        Explanation(constraint=Constraint.UNKNOWN_QUEUE, queue=QueueName("theirs"), nearest=QueueName("theirs-too")),
    ):
        office.link.explanations[JOB] = why
        found.append(await operations.explain(confined, DEFAULT_TENANT, "mnist"))
    assert found[0] == found[1]
    assert found[0].sentences == ("There is no queue 'theirs'.",)


async def test_a_job_nobody_has_looked_at_yet_says_so(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    reason = await operations.explain(office.context(), DEFAULT_TENANT, "mnist")
    assert reason.constraint is None
    assert "has not looked" in reason.sentences[0]


async def test_a_job_that_does_not_wait_has_nothing_to_explain(office: Office) -> None:
    await operations.submit(office.context(), JOB, make_spec())
    await operations.cancel(office.context(), DEFAULT_TENANT, "mnist")
    with pytest.raises(ConflictError, match="CANCELLED"):
        await operations.explain(office.context(), DEFAULT_TENANT, "mnist")
