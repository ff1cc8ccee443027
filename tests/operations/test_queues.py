"""Queues are made, changed and deleted, and nothing that stands in one loses it."""

import asyncio
import json
from dataclasses import replace

import pytest

from gangline import operations
from gangline.errors import ConflictError, GanglineError, InvalidInputError, NotFoundError, StaleVersionError
from gangline.kinds.pipeline import PIPELINE
from gangline.kinds.queue import QUEUE
from gangline.kinds.schedule import SCHEDULE
from gangline.kinds.service import SERVICE
from gangline.kinds.sweep import SWEEP
from gangline.model import DEFAULT_TENANT, JobId, Queue, QueueName, Tenant
from gangline.model.kinds.pipeline import PipelineSpec
from gangline.model.kinds.schedule import ScheduleSpec
from gangline.model.kinds.service import ServiceSpec
from gangline.model.record import RecordId
from gangline.storage.owned import read_queues
from gangline.testing.builders import START, make_spec, make_sweep
from tests.operations.fakes import Office


async def make(office: Office, name: str, parent: str | None = None, **fields: object) -> None:
    queue = Queue(name=QueueName(name), parent=None if parent is None else QueueName(parent), **fields)  # type: ignore[arg-type]
    await operations.create_record(office.context(), QUEUE, RecordId(f"id-{name}"), queue)


async def names(office: Office) -> list[str]:
    return [queue.name for queue in await read_queues(office.store)]


async def test_a_queue_is_made_changed_and_deleted(office: Office) -> None:
    await make(office, "research", weight=2)
    assert await names(office) == ["default", "research"]
    changed = await operations.edit_record(office.context(), QUEUE, Queue(name=QueueName("research"), weight=5))
    assert changed.spec.weight == 5
    await operations.delete_record(office.context(), QUEUE, None, "research")
    assert await names(office) == ["default"]
    assert office.record_link.told == 3


async def test_a_job_may_use_it_at_once(office: Office) -> None:
    await make(office, "research")
    await operations.submit(office.context(), JobId("job-1"), make_spec(queue=QueueName("research")))


async def test_the_default_queue_can_be_changed_and_stays(office: Office) -> None:
    for weight in (3, 4):
        await operations.edit_record(office.context(), QUEUE, Queue(name=QueueName("default"), weight=weight))
    assert [(queue.name, queue.weight) for queue in await read_queues(office.store)] == [("default", 4)]
    with pytest.raises(ConflictError, match="cannot be deleted"):
        await operations.delete_record(office.context(), QUEUE, None, "default")


@pytest.mark.parametrize(
    ("name", "parent", "want_error", "want"),
    [
        ("a", "nowhere", NotFoundError, "no queue named 'nowhere'"),
        ("a", "a", InvalidInputError, "its own ancestor"),
        ("research", None, ConflictError, "gangline queue edit research"),
    ],
)
async def test_a_queue_that_cannot_be_is_refused(
    office: Office, name: str, parent: str | None, want_error: type[GanglineError], want: str
) -> None:
    await make(office, "research", weight=2)
    with pytest.raises(want_error, match=want):
        await make(office, name, parent)


async def test_parents_in_a_circle_are_refused(office: Office) -> None:
    await make(office, "a")
    await make(office, "b", "a")
    await make(office, "c", "b")
    with pytest.raises(InvalidInputError, match="its own ancestor"):
        await operations.edit_record(office.context(), QUEUE, Queue(name=QueueName("a"), parent=QueueName("c")))


async def test_a_queue_with_others_below_it_is_not_deleted(office: Office) -> None:
    await make(office, "a")
    await make(office, "b", "a")
    with pytest.raises(ConflictError, match="others below it: b"):
        await operations.delete_record(office.context(), QUEUE, None, "a")


async def test_a_queue_with_unfinished_jobs_is_neither_deleted_nor_divided(office: Office) -> None:
    await make(office, "a")
    await operations.submit(office.context(), JobId("job-1"), make_spec(queue=QueueName("a")))
    with pytest.raises(ConflictError, match="1 unfinished job"):
        await operations.delete_record(office.context(), QUEUE, None, "a")
    with pytest.raises(ConflictError, match="1 unfinished job, and only"):
        await make(office, "b", "a")


async def test_what_a_kind_has_no_word_for_is_refused(office: Office) -> None:
    with pytest.raises(NotFoundError, match="no verbs of its own"):
        await operations.do_verb(office.context(), QUEUE, None, "default", "stop")


async def test_a_change_of_what_somebody_else_has_changed_is_refused(office: Office) -> None:
    await make(office, "research", weight=2)
    read = await operations.get_record(office.context(), QUEUE, None, "research")
    await operations.edit_record(office.context(), QUEUE, replace(read.spec, weight=5), version=read.version)
    with pytest.raises(StaleVersionError, match="somebody else changed queue 'research' meanwhile"):
        await operations.edit_record(office.context(), QUEUE, replace(read.spec, weight=7), version=read.version)
    assert [queue.weight for queue in await read_queues(office.store)] == [1, 5]


async def test_a_change_that_is_repeated_is_made_once(office: Office) -> None:
    await make(office, "research", weight=2)
    read = await operations.get_record(office.context(), QUEUE, None, "research")
    for _ in range(2):
        await operations.edit_record(office.context(), QUEUE, replace(read.spec, weight=5), version=read.version)
    assert (await operations.get_record(office.context(), QUEUE, None, "research")).version == read.version + 1


async def test_the_first_two_changes_of_the_default_queue_at_once_are_both_made(office: Office) -> None:
    changes = [Queue(name=QueueName("default"), weight=weight) for weight in (3, 4)]
    await asyncio.gather(*(operations.edit_record(office.context(), QUEUE, each) for each in changes))
    assert (await operations.get_record(office.context(), QUEUE, None, "default")).version == 2


async def test_nothing_is_put_below_the_default_queue(office: Office) -> None:
    with pytest.raises(ConflictError, match="jobs go to 'default' that name no queue"):
        await make(office, "a", "default")


def test_a_weight_has_an_end() -> None:
    with pytest.raises(InvalidInputError, match="1000001 is too large; expected 1 to 1000000"):
        Queue(name=QueueName("a"), weight=1_000_001)


async def test_queues_are_listed_page_by_page(office: Office) -> None:
    for name in ("c", "a", "e"):
        await make(office, name)
    first = await operations.list_records(office.context(), QUEUE, None, limit=2)
    second = await operations.list_records(office.context(), QUEUE, None, limit=2, after=first.next)
    assert [[queue.name for queue in page.items] for page in (first, second)] == [["a", "c"], ["default", "e"]]
    assert (first.next is None, second.next) == (False, None)


async def test_a_queue_that_a_sweep_will_use_is_neither_deleted_nor_divided(office: Office) -> None:
    await make(office, "a")
    sweep = make_sweep(template=make_spec(queue=QueueName("a")))
    kept = await office.store.records(SWEEP).create(sweep)
    with pytest.raises(ConflictError, match="queue 'a' has unfinished sweep grid; cancel"):
        await operations.delete_record(office.context(), QUEUE, None, "a")
    with pytest.raises(ConflictError, match="queue 'a' has unfinished sweep grid, and only"):
        await make(office, "b", "a")
    await office.store.records(SWEEP).save(replace(kept, status=replace(kept.status, finished_at=START)))
    await operations.delete_record(office.context(), QUEUE, None, "a")


@pytest.mark.parametrize("tenant", ["", "Bad Name"])
def test_the_tenants_of_a_queue_have_names(tenant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"tenants: '{tenant}' is not a valid name"):
        Queue(name=QueueName("a"), tenants=(Tenant("vision"), Tenant(tenant)))


@pytest.mark.parametrize("edited", [False, True])
async def test_jobs_of_a_record_stand_only_where_its_tenant_may(office: Office, edited: bool) -> None:
    """Whatever tenant a job in a record's file names, it will be the record's."""
    await make(office, "theirs", tenants=(Tenant("somebody"),))
    confined = office.context(tenants=frozenset({DEFAULT_TENANT}))
    spec = ServiceSpec(name="digits", job=make_spec())
    if edited:
        await operations.create_record(confined, SERVICE, RecordId("s"), spec)
    for tenant in (DEFAULT_TENANT, Tenant("somebody")):
        wanted = replace(spec, job=make_spec(queue=QueueName("theirs"), tenant=tenant))
        asked = (
            operations.edit_record(confined, SERVICE, wanted)
            if edited
            else operations.create_record(confined, SERVICE, RecordId("s"), wanted)
        )
        with pytest.raises(InvalidInputError, match="no queue 'theirs'"):
            await asked


@pytest.mark.parametrize("kind", ["pipeline", "schedule"])
async def test_the_queue_of_later_jobs_is_one_that_the_tenant_may_use(office: Office, kind: str) -> None:
    await make(office, "theirs", tenants=(Tenant("somebody"),))
    confined = office.context(tenants=frozenset({DEFAULT_TENANT}))
    steps = [{"name": "p", "steps": {"a": {"job": {"command": ["true"]}}}}]

    async def create(queue: str) -> None:
        run = PipelineSpec(name="p", documents_json=json.dumps(steps), queue=QueueName(queue))
        if kind == "pipeline":
            await operations.create_record(confined, PIPELINE, RecordId("p"), run)
        else:
            spec = ScheduleSpec(name="p", pipeline=run, every_seconds=60)
            await operations.create_record(confined, SCHEDULE, RecordId("p"), spec)

    for queue in ("theirs", "nowhere"):
        with pytest.raises(InvalidInputError, match=f"no queue '{queue}'; expected one of default$"):
            await create(queue)
    await create("default")


async def test_a_queue_below_a_closed_one_is_not_shown_nor_the_name_of_that(office: Office) -> None:
    await make(office, "closed", tenants=(Tenant("somebody"),))
    await make(office, "below", parent=QueueName("closed"))
    shown = {}
    for tenant in ("somebody", "stranger"):
        context = office.context(tenants=frozenset({Tenant(tenant)}))
        page = await operations.list_records(context, QUEUE, None, limit=10)
        shown[tenant] = {record.name for record in page.items}
    assert shown == {"somebody": {"below", "closed", "default"}, "stranger": {"default"}}
    with pytest.raises(NotFoundError) as refusal:
        await operations.get_record(context, QUEUE, None, "below")
    assert "closed" not in str(refusal.value)
