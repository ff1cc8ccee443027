"""What every store that keeps records must do, whatever their kind; a companion of ``store_suite`` with its fixture."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from gangline.errors import ConflictError, InvalidInputError, NotFoundError, StaleVersionError, UnreadableRecordError
from gangline.kinds import AnyKind
from gangline.kinds.pipeline import PIPELINE
from gangline.kinds.queue import QUEUE
from gangline.kinds.sweep import SWEEP
from gangline.model import JobId, NamedAmounts, Queue, QueueName, Resources, Tenant, Timestamp
from gangline.model.kinds.pipeline import PipelineStatus, StepStatus
from gangline.model.kinds.sweep import SweepProgress
from gangline.model.record import Record
from gangline.storage.interface import Store
from gangline.storage.owned import read_queues
from gangline.testing.builders import make_job, make_queue, make_run, make_search, make_sweep

RED = Tenant("red")

RESEARCH = Queue(
    name=QueueName("research"),
    parent=QueueName("default"),
    weight=3,
    guarantee=Resources(gpu_millis=4000),
    limit=NamedAmounts({"cpu_millis": 1000, "example.com/fpga": 2}),
    may_borrow=False,
    tenants=(Tenant("alpha"), Tenant("beta")),
)
FULL = [
    pytest.param(SWEEP, make_search(), id="search"),
    pytest.param(SWEEP, make_sweep(begun=3, stopped=True, finished_at=Timestamp(7.5), parallelism=2), id="sweep"),
    pytest.param(QUEUE, make_queue(RESEARCH), id="queue"),
]
"""A record of each kind with something in every field."""


class RecordStoreSuite:
    """Records are kept by name within their tenant and written with a guard."""

    reads_back = True
    """Whether the store keeps records as text; one that keeps the values themselves can read all of them."""

    @pytest.fixture
    def store(self) -> Store | AsyncIterator[Store]:
        """Yield a new, empty store and close it afterwards; every subclass says how."""
        raise NotImplementedError

    @pytest.mark.parametrize(("kind", "record"), FULL)
    async def test_a_record_is_returned_as_it_was(self, store: Store, kind: AnyKind, record: Record[Any, Any]) -> None:
        """What its file says and how far it has come."""
        created = await store.records(kind).create(record)
        assert (created.id, created.spec, created.status) == (record.id, record.spec, record.status)
        assert await store.records(kind).find(record.tenant, record.name) == created
        (listed,) = (await store.records(kind).list()).items
        assert (listed, listed.version) == (created, created.version)

    async def test_a_name_is_unique_within_its_tenant(self, store: Store) -> None:
        """And so is an id, everywhere; another kind has names and ids of its own."""
        sweeps = store.records(SWEEP)
        await sweeps.create(make_sweep(sweep_id="a"))
        with pytest.raises(ConflictError, match="grid"):
            await sweeps.create(make_sweep(sweep_id="b"))
        await sweeps.create(make_sweep(sweep_id="c", tenant=RED))
        with pytest.raises(ConflictError, match="'c'"):
            await sweeps.create(make_sweep("other", sweep_id="c"))
        await store.records(QUEUE).create(make_queue(Queue(name=QueueName("grid")), record_id="c"))

    async def test_records_are_listed_newest_first(self, store: Store) -> None:
        """Of one tenant or of all, at once or page by page."""
        sweeps = store.records(SWEEP)
        for number, name in enumerate(("a", "b", "c")):
            tenant = RED if name == "b" else Tenant("default")
            await sweeps.create(make_sweep(name, sweep_id=f"id-{name}", at=number, tenant=tenant))
        assert [sweep.name for sweep in (await sweeps.list()).items] == ["c", "b", "a"]
        assert [sweep.name for sweep in (await sweeps.list(RED)).items] == ["b"]
        first = await sweeps.list(limit=2)
        assert [sweep.name for sweep in first.items] == ["c", "b"]
        last = await sweeps.list(limit=2, after=first.next)
        assert ([sweep.name for sweep in last.items], last.next) == (["a"], None)
        with pytest.raises(InvalidInputError, match="cursor"):
            await sweeps.list(after="nonsense")

    async def test_a_record_that_cannot_be_read_hides_no_other(self, store: Store) -> None:
        """It is named where it would be, also if nothing else is on its page."""
        runs = store.records(PIPELINE)
        for number, name in enumerate(("a", "b", "c")):
            step = StepStatus(path="p", number=0, state="running")
            if name == "b":
                object.__setattr__(step, "state", "unheard of")  # as a later version may have written it
            run = make_run(name, at=number)
            with suppress(UnreadableRecordError):
                await runs.create(replace(run, status=replace(run.status, steps=(step,))))
        found: list[str] = []
        unreadable: list[str] = []
        after: str | None = None
        for _ in range(3):
            page = await runs.list(Tenant("default"), limit=1, after=after)
            found, unreadable, after = (
                [*found, *(run.name for run in page.items)],
                [*unreadable, *page.unreadable],
                page.next,
            )
            if after is None:
                break
        assert after is None
        assert (found, unreadable) == ((["c", "a"], ["b"]) if self.reads_back else (["c", "b", "a"], []))
        assert [run.name for run in await runs.find_all(Tenant("default"), ["c", "a"])] == ["c", "a"]
        assert {run.name for run in await runs.unsettled()} >= {"a", "c"}
        if self.reads_back:
            with pytest.raises(UnreadableRecordError, match="unheard of"):
                await runs.find(Tenant("default"), "b")

    async def test_only_records_with_work_left_are_unsettled(self, store: Store) -> None:
        """Newest first; one that is being deleted has work left, too."""
        sweeps = store.records(SWEEP)
        for number, name in enumerate(("a", "b", "c", "d")):
            ended = Timestamp(9.0) if name in ("b", "c") else None
            await sweeps.create(make_sweep(name, sweep_id=f"id-{name}", at=number, finished_at=ended))
        assert [sweep.name for sweep in await sweeps.unsettled()] == ["d", "a"]
        for name, change in (("a", {"status": SweepProgress(finished_at=Timestamp(9.5))}), ("c", {"deleting": True})):
            known = await sweeps.find(Tenant("default"), name)
            assert known is not None
            await sweeps.save(replace(known, **change))
        assert [sweep.name for sweep in await sweeps.unsettled()] == ["d", "c"]

    async def test_summaries_are_those_of_the_records_as_they_are(self, store: Store) -> None:
        """Of one tenant, without those that are being deleted."""
        runs = store.records(PIPELINE)
        made = [await runs.create(make_run(name, at=number)) for number, name in enumerate(("a", "b", "c"))]
        await runs.create(make_run("d", tenant=RED))
        await runs.save(replace(made[0], status=PipelineStatus(finished_at=Timestamp(3.0), archived=True)))
        await runs.save(replace(made[1], deleting=True))
        found = {each.name: each for each in await runs.summaries(Tenant("default"))}
        assert {name: each.fields["state"] for name, each in found.items()} == {"a": "succeeded", "c": "running"}
        assert (found["a"].fields["archived"], found["a"].fields["finished_at"]) == (1.0, 3.0)
        assert found["c"].created_at == made[2].created_at
        await runs.save(replace(made[2], status=PipelineStatus(finished_at=Timestamp(4.0), failure="no")))
        await runs.remove((await runs.find(Tenant("default"), "a")) or made[0])
        again = await store.records(PIPELINE).summaries(Tenant("default"))
        assert [(each.name, each.fields["state"]) for each in again] == [("c", "failed")]
        assert [each.name for each in await runs.summaries(RED)] == ["d"]
        await runs.remove((await runs.find(Tenant("default"), "c")) or made[2])
        assert await runs.summaries(Tenant("default")) in ((), [])

    async def test_a_record_is_found_by_tenant_and_name(self, store: Store) -> None:
        """And nothing is, where there is none."""
        sweeps = store.records(SWEEP)
        await sweeps.create(make_sweep(tenant=RED))
        assert (await sweeps.find(RED, "grid")) == make_sweep(tenant=RED)
        assert await sweeps.find(Tenant("default"), "grid") is None
        assert await sweeps.find(RED, "other") is None

    async def test_a_saved_record_moves_its_version_on(self, store: Store) -> None:
        """An old version is refused and changes nothing."""
        sweeps = store.records(SWEEP)
        sweep = await sweeps.create(make_sweep())
        moved = await sweeps.save(replace(sweep, status=SweepProgress(begun=1)))
        with pytest.raises(StaleVersionError) as caught:
            await sweeps.save(replace(sweep, status=SweepProgress(begun=9)))
        assert (caught.value.expected, caught.value.found) == (sweep.version, moved.version)
        assert (await sweeps.list()).items[0].status.begun == 1

    async def test_what_a_file_says_may_be_replaced(self, store: Store) -> None:
        """Down to amounts that are not named any more."""
        queues = store.records(QUEUE)
        queue = await queues.create(make_queue(RESEARCH))
        changed = replace(RESEARCH, weight=5, limit=NamedAmounts({"cpu_millis": 2000}), tenants=())
        await queues.save(replace(queue, spec=changed))
        found = await queues.find(None, "research")
        assert found is not None
        assert found.spec == changed

    async def test_of_simultaneous_saves_of_a_record_one_wins(self, store: Store) -> None:
        """However they interleave."""
        sweeps = store.records(SWEEP)
        sweep = await sweeps.create(make_sweep())
        saves = [sweeps.save(replace(sweep, status=SweepProgress(begun=number))) for number in range(6)]
        outcomes = await asyncio.gather(*saves, return_exceptions=True)
        assert sum(isinstance(outcome, Record) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, StaleVersionError) for outcome in outcomes) == 5

    async def test_a_removed_record_leaves_its_jobs_and_frees_its_name(self, store: Store) -> None:
        """Removing twice is not an error; saving what is gone is."""
        sweeps = store.records(SWEEP)
        sweep = await sweeps.create(make_sweep())
        await store.create(make_job(job_id="sweep-1-0"))
        await sweeps.remove(sweep)
        await sweeps.remove(sweep)
        assert (await sweeps.list()).items == ()
        assert await store.get(JobId("sweep-1-0"))
        with pytest.raises(NotFoundError, match="grid"):
            await sweeps.save(sweep)
        await sweeps.create(make_sweep(sweep_id="sweep-2"))

    async def test_new_store_has_the_default_queue(self, store: Store) -> None:
        """So that a job can be submitted at once; it can be changed like any other."""
        assert await read_queues(store) == (Queue(name=QueueName("default")),)
        await store.records(QUEUE).create(make_queue(Queue(name=QueueName("archive"))))
        await store.records(QUEUE).create(make_queue(Queue(name=QueueName("default"), weight=2)))
        assert [(queue.name, queue.weight) for queue in await read_queues(store)] == [("archive", 1), ("default", 2)]
