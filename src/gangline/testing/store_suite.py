"""The contract of a store as tests.

A store proves itself with a subclass of ``StoreSuite`` whose fixture ``store`` yields a new, empty store for each
test. Nothing here knows how a store keeps what it keeps.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import ClassVar

import pytest

from gangline.errors import ConflictError, InvalidInputError, NotFoundError, StaleVersionError
from gangline.model import (
    DataMove,
    Framework,
    Job,
    JobId,
    JournalRecord,
    Match,
    Metric,
    NodeRequirement,
    NodeRule,
    Phase,
    PhaseEntry,
    PlacementRule,
    Policy,
    Prefer,
    Processes,
    QueueName,
    ReplicaId,
    Resources,
    Retry,
    RoleName,
    Tenant,
    Timestamp,
    Toleration,
)
from gangline.model.jobs.transfer import DataVersion, TransferProgress
from gangline.storage.interface import JobQuery, Store
from gangline.storage.metrics import order_of
from gangline.testing.builders import START, make_job, make_role, make_running_job, make_spec

WORKER_0 = ReplicaId(RoleName("worker"), 0)


class StoreSuite:
    """What every store must do."""

    many: ClassVar[int] = 1203
    """More jobs than the store reads at once."""

    @pytest.fixture
    def store(self) -> Store | AsyncIterator[Store]:
        """Yield a new, empty store and close it afterwards; every subclass says how."""
        raise NotImplementedError

    # Jobs

    async def test_created_job_is_returned_as_it_was(self, store: Store) -> None:
        """Every kind of value that a job is made of survives."""
        job = make_rich_job()
        created = await store.create(job)
        assert created == job
        assert created.version > 0
        kept = await store.get(job.id)
        assert kept == job
        assert kept.version == created.version

    async def test_unknown_id_is_not_found(self, store: Store) -> None:
        """The error names what was asked for."""
        with pytest.raises(NotFoundError, match="job-7"):
            await store.get(JobId("job-7"))

    async def test_second_job_of_the_same_id_is_refused(self, store: Store) -> None:
        """And changes nothing."""
        first = await store.create(make_job(name="first"))
        with pytest.raises(ConflictError, match="job-1"):
            await store.create(make_job(name="second"), [make_record()])
        assert await store.get(first.id) == first
        assert await store.journal(first.id) == ()

    async def test_name_is_unique_within_its_tenant(self, store: Store) -> None:
        """Another tenant may use it."""
        await store.create(make_job(job_id="a", tenant=Tenant("red")))
        with pytest.raises(ConflictError, match="mnist"):
            await store.create(make_job(job_id="b", tenant=Tenant("red")))
        await store.create(make_job(job_id="c", tenant=Tenant("blue")))

    async def test_name_is_free_while_its_job_is_being_deleted(self, store: Store) -> None:
        """Several jobs that are being deleted may share a name with the one that is not."""
        for number in range(3):
            job = await store.create(make_job(job_id=f"old-{number}"))
            await store.save(replace(job, deleting=True))
        await store.create(make_job(job_id="new"))
        assert (await store.find(Tenant("default"), "mnist")).id == "new"

    async def test_of_two_simultaneous_creations_one_wins(self, store: Store) -> None:
        """However they interleave."""
        attempts = [store.create(make_job(job_id=f"job-{number}")) for number in range(8)]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        assert sum(isinstance(outcome, Job) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, ConflictError) for outcome in outcomes) == 7

    # Guarded writes

    async def test_save_replaces_job_and_moves_version_on(self, store: Store) -> None:
        """The returned job can be saved again."""
        job = await store.create(make_job())
        first = await store.save(replace(job, failures=1))
        second = await store.save(replace(first, failures=2))
        assert job.version < first.version < second.version
        kept = await store.get(job.id)
        assert (kept.failures, kept.version) == (2, second.version)

    async def test_save_with_an_old_version_is_refused_and_leaves_no_trace(self, store: Store) -> None:
        """Neither in the job nor in its journal."""
        job = await store.create(make_job())
        moved = await store.save(replace(job, failures=1))
        with pytest.raises(StaleVersionError) as caught:
            await store.save(replace(job, failures=5), [make_record()])
        assert (caught.value.expected, caught.value.found) == (job.version, moved.version)
        assert (await store.get(job.id)).failures == 1
        assert await store.journal(job.id) == ()

    async def test_save_of_a_job_that_is_gone_is_not_found(self, store: Store) -> None:
        """It is not made again."""
        job = await store.create(make_job())
        await store.remove(job.id)
        with pytest.raises(NotFoundError):
            await store.save(job)
        with pytest.raises(NotFoundError):
            await store.get(job.id)

    async def test_of_simultaneous_saves_one_wins(self, store: Store) -> None:
        """And exactly one journal entry is kept."""
        job = await store.create(make_job())
        saves = [store.save(replace(job, failures=number), [make_record()]) for number in range(8)]
        outcomes = await asyncio.gather(*saves, return_exceptions=True)
        assert sum(isinstance(outcome, Job) for outcome in outcomes) == 1
        assert sum(isinstance(outcome, StaleVersionError) for outcome in outcomes) == 7
        assert len(await store.journal(job.id)) == 1

    async def test_saved_labels_are_the_ones_found(self, store: Store) -> None:
        """Old labels are forgotten."""
        job = await store.create(make_job(labels={"team": "vision", "kept": "yes"}))
        await store.save(replace(job, spec=replace(job.spec, labels={"team": "speech", "kept": "yes"})))
        assert await listed(store, labels=(("team", "vision"),)) == []
        assert await listed(store, labels=(("team", "speech"), ("kept", "yes"))) == ["job-1"]

    # Finding by name

    async def test_find_looks_within_the_tenant(self, store: Store) -> None:
        """Each tenant finds its own."""
        await store.create(make_job(job_id="a", tenant=Tenant("red")))
        await store.create(make_job(job_id="b", tenant=Tenant("blue")))
        assert (await store.find(Tenant("blue"), "mnist")).id == "b"

    async def test_find_returns_a_job_that_is_being_deleted_if_no_other_bears_the_name(self, store: Store) -> None:
        """So that a user can watch it go."""
        for number in range(2):
            job = await store.create(make_job(job_id=f"job-{number}", at=START + number))
            await store.save(replace(job, deleting=True))
        assert (await store.find(Tenant("default"), "mnist")).id == "job-1"

    @pytest.mark.parametrize(
        ("name", "want_hint"),
        [
            pytest.param("mnits", "did you mean 'mnist'?", id="a slip of the finger"),
            pytest.param("imagenet", None, id="nothing like it"),
            pytest.param("private", None, id="another tenant's name is not told"),
        ],
    )
    async def test_unknown_name_hints_at_the_nearest(self, store: Store, name: str, want_hint: str | None) -> None:
        """Within the tenant only."""
        await store.create(make_job(job_id="a", name="mnist"))
        await store.create(make_job(job_id="b", name="private", tenant=Tenant("other")))
        with pytest.raises(NotFoundError) as caught:
            await store.find(Tenant("default"), name)
        assert caught.value.hint == want_hint

    # Lists

    @pytest.mark.parametrize(
        ("query", "want_ids"),
        [
            pytest.param(JobQuery(), ["d", "c", "b", "a"], id="all, newest first"),
            pytest.param(JobQuery(tenant=Tenant("red")), ["b", "a"], id="tenant"),
            pytest.param(JobQuery(queue=QueueName("fast")), ["c", "b"], id="queue"),
            pytest.param(JobQuery(phases=frozenset({Phase.QUEUED})), ["d", "a"], id="one phase"),
            pytest.param(
                JobQuery(phases=frozenset({Phase.FAILED, Phase.COMPLETED})), ["c", "b"], id="two phases, newest first"
            ),
            pytest.param(JobQuery(phases=frozenset()), [], id="no phase at all"),
            pytest.param(JobQuery(labels=(("team", "vision"),)), ["d", "a"], id="label"),
            pytest.param(JobQuery(labels=(("team", "vision"), ("size", "big"))), ["d"], id="two labels"),
            pytest.param(JobQuery(labels=(("team", "vis"),)), [], id="a label's value is compared whole"),
            pytest.param(JobQuery(text="train"), ["b", "a"], id="text"),
            pytest.param(JobQuery(text="TRAIN"), ["b", "a"], id="text in capitals"),
            pytest.param(JobQuery(text="t%n"), [], id="text has no wildcards"),
            pytest.param(JobQuery(text="t_ain"), [], id="not even for one letter"),
            pytest.param(JobQuery(created_since=Timestamp(20.0)), ["d", "c", "b"], id="created since"),
            pytest.param(JobQuery(finished_before=Timestamp(95.0)), ["b"], id="finished before"),
            pytest.param(
                JobQuery(
                    tenant=Tenant("red"),
                    phases=frozenset({Phase.QUEUED, Phase.FAILED}),
                    labels=(("team", "vision"),),
                    text="a",
                ),
                ["a"],
                id="all conditions must hold",
            ),
        ],
    )
    async def test_list_filters(self, store: Store, query: JobQuery, want_ids: list[str]) -> None:
        """Every condition, alone and together."""
        red, fast = Tenant("red"), QueueName("fast")
        await store.create(make_job(job_id="a", name="train-a", at=10, tenant=red, labels={"team": "vision"}))
        await store.create(finished(make_job(job_id="b", name="train-b", at=20, tenant=red, queue=fast), 90))
        await store.create(finished(make_job(job_id="c", name="serve-c", at=30, queue=fast), 95, Phase.FAILED))
        await store.create(make_job(job_id="d", name="d", at=40, labels={"team": "vision", "size": "big"}))
        page = await store.list(query)
        assert [job.id for job in page.jobs] == want_ids
        assert page.next is None

    @pytest.mark.parametrize(
        "query",
        [
            pytest.param(JobQuery(), id="no condition"),
            pytest.param(JobQuery(labels=(("team", "vision"),)), id="label"),
            pytest.param(JobQuery(phases=frozenset({Phase.QUEUED, Phase.COMPLETED})), id="two phases"),
            pytest.param(JobQuery(tenant=Tenant("default"), text="job"), id="tenant and text"),
        ],
    )
    async def test_pages_join_without_gap_or_overlap(self, store: Store, query: JobQuery) -> None:
        """Even among jobs of the same instant, and while jobs are added and removed."""
        for number in range(10):
            job = make_job(job_id=f"id-{number}", name=f"job-{number}", at=number // 4, labels={"team": "vision"})
            await store.create(finished(job, 50) if number % 2 else job)
        first = await store.list(replace(query, limit=4))
        assert [job.id for job in first.jobs] == ["id-9", "id-8", "id-7", "id-6"]
        await store.create(make_job(job_id="new", name="job-new", at=99, labels={"team": "vision"}))
        await store.remove(JobId("id-6"))
        second = await store.list(replace(query, limit=4, after=first.next))
        assert [job.id for job in second.jobs] == ["id-5", "id-4", "id-3", "id-2"]
        third = await store.list(replace(query, limit=4, after=second.next))
        assert ([job.id for job in third.jobs], third.next) == (["id-1", "id-0"], None)

    async def test_foreign_cursor_is_refused(self, store: Store) -> None:
        """As wrong input, for a user may have typed it."""
        with pytest.raises(InvalidInputError, match="cursor"):
            await store.list(JobQuery(after="yesterday"))

    async def test_unfinished_returns_every_job_a_controller_must_know(self, store: Store) -> None:
        """And no other."""
        await store.create(make_job(job_id="queued", name="a"))
        await store.create(make_running_job(job_id="running", name="b"))
        await store.create(finished(make_job(job_id="done", name="c")))
        await store.create(finished(make_job(job_id="ttl", name="d", policy=Policy(ttl_seconds=60))))
        await store.create(replace(finished(make_job(job_id="holding", name="e")), holding=True))
        await store.create(replace(finished(make_job(job_id="deleting", name="f")), deleting=True))
        ended = await store.create(make_job(job_id="ended", name="g"))
        await store.save(finished(ended))
        assert {job.id async for job in store.unfinished()} == {"queued", "running", "ttl", "holding", "deleting"}

    async def test_unfinished_streams_more_than_a_few_jobs(self, store: Store) -> None:
        """Each of them once, while the reader changes them."""
        want_ids = {f"job-{number}" for number in range(self.many)}
        await asyncio.gather(*(store.create(make_job(job_id=job_id, name=job_id)) for job_id in want_ids))
        seen = []
        async for job in store.unfinished():
            seen.append(job.id)
            if len(seen) < 20:
                await store.save(finished(job))
        assert len(seen) == len(want_ids)
        assert set(seen) == want_ids

    # Journal

    async def test_journal_keeps_records_in_order(self, store: Store) -> None:
        """With rising numbers, whatever they were called before."""
        job = await store.create(make_job(), [make_record(message="first")])
        job = await store.save(job, [make_record(message="second", replica=WORKER_0), make_record(message="third")])
        records = await store.journal(job.id)
        assert [record.message for record in records] == ["first", "second", "third"]
        assert 0 < records[0].number < records[1].number < records[2].number
        assert replace(records[1], number=0) == make_record(message="second", replica=WORKER_0)

    async def test_journal_goes_on_after_a_number(self, store: Store) -> None:
        """In parts of the size asked for."""
        job = await store.create(make_job(), [make_record(message=f"{number}") for number in range(5)])
        first = await store.journal(job.id, limit=2)
        rest = await store.journal(job.id, after=first[-1].number)
        assert [record.message for record in (*first, *rest)] == ["0", "1", "2", "3", "4"]

    async def test_journal_shows_its_newest_records(self, store: Store) -> None:
        """Whoever looks at a long story wants its end."""
        job = await store.create(make_job(), [make_record(message=f"{number}") for number in range(5)])
        assert [each.message for each in await store.journal(job.id, limit=2, newest=True)] == ["3", "4"]
        assert len(await store.journal(job.id, limit=9, newest=True)) == 5

    async def test_journal_keeps_any_text(self, store: Store) -> None:
        """Messages come from programs, which print anything."""
        job = await store.create(make_job(), [make_record(message="a\0b\n'\"%s?\N{DOG}")])
        assert (await store.journal(job.id))[0].message == "a\0b\n'\"%s?\N{DOG}"

    async def test_removed_job_takes_everything_with_it(self, store: Store) -> None:
        """A new job of the same id and name starts afresh; removing twice is not an error."""
        job = await store.create(make_job(labels={"team": "vision"}), [make_record()])
        await store.add_metrics([make_metric()])
        await store.remove(job.id)
        await store.remove(job.id)
        assert await listed(store, labels=(("team", "vision"),)) == []
        await store.create(make_job())
        assert await store.journal(job.id) == ()
        assert await store.metrics(job.id) == ()
        assert await store.latest_metrics([job.id]) == ()

    # Metrics

    async def test_metrics_come_back_oldest_first(self, store: Store) -> None:
        """Whatever the order of arrival."""
        await store.create(make_job())
        metrics = [make_metric(step=step, at=step) for step in range(4)]
        await store.add_metrics(metrics[2:])
        await store.add_metrics(metrics[:2])
        assert await store.metrics(JobId("job-1")) == tuple(metrics)

    async def test_metrics_are_chosen_by_name_time_and_number(self, store: Store) -> None:
        """The newest ones win when there are too many."""
        await store.create(make_job())
        losses = [make_metric(step=step, at=step) for step in range(6)]
        await store.add_metrics([*losses, make_metric(name="accuracy", at=9)])
        assert await store.metrics(JobId("job-1"), name="loss") == tuple(losses)
        assert await store.metrics(JobId("job-1"), name="loss", limit=2) == tuple(losses[:2])
        assert await store.metrics(JobId("job-1"), name="loss", since=Timestamp(3)) == tuple(losses[3:])
        assert [metric.name for metric in await store.metrics(JobId("job-1"), since=Timestamp(5))] == [
            "loss",
            "accuracy",
        ]

    async def test_metrics_are_read_page_by_page_in_one_order(self, store: Store) -> None:
        """A page goes on behind the last metric of the one before, however many share its time."""
        await store.create(make_job(job_id="job-1"))
        metrics = [
            make_metric(name=name, replica=ReplicaId(RoleName(role), index), step=step, at=at)
            for at in (1, 2)
            for name in ("accuracy", "loss")
            for role, index in (("chief", 0), ("worker", 2), ("worker", 10))
            for step in (None, 0, 1)
        ]
        await store.add_metrics(metrics[::-1])
        found: list[Metric] = []
        while page := await store.metrics(JobId("job-1"), after=order_of(found[-1]) if found else None, limit=5):
            found += page
        assert found == metrics
        assert await store.has_all_metrics(JobId("job-1"))

    async def test_repeated_metric_is_kept_once(self, store: Store) -> None:
        """With a step and without; within a batch and across batches."""
        await store.create(make_job())
        metrics = [make_metric(step=1), make_metric(step=None)]
        await store.add_metrics([*metrics, *metrics])
        await store.add_metrics(metrics)
        assert sorted(await store.metrics(JobId("job-1")), key=lambda metric: metric.step or 0) == metrics[::-1]

    @pytest.mark.parametrize("value", [0.0, -1e-300, 1e300, math.inf, -math.inf, math.nan])
    async def test_any_number_is_kept(self, store: Store, value: float) -> None:
        """Training diverges; the store must not."""
        await store.create(make_job())
        await store.add_metrics([make_metric(value=value)])
        for kept in (*await store.metrics(JobId("job-1")), *await store.latest_metrics([JobId("job-1")])):
            assert kept.value == value or (math.isnan(kept.value) and math.isnan(value))

    async def test_latest_metrics_are_the_newest_of_each_replica_and_name(self, store: Store) -> None:
        """An old value that arrives late does not replace a newer one; at one moment the later step is the newer."""
        await store.create(make_job(job_id="job-1", name="a"))
        await store.create(make_job(job_id="job-2", name="b"))
        await store.create(make_job(job_id="job-3", name="c"))
        other = ReplicaId(RoleName("worker"), 1)
        want = [
            make_metric(name="accuracy", at=3),
            make_metric(at=7, step=9),
            make_metric(replica=other, at=2),
            make_metric(job_id="job-2", at=1, step=None),
        ]
        await store.add_metrics([make_metric(at=7, step=7)])
        await store.add_metrics([*want, make_metric(at=7, step=8), make_metric(at=5, step=10)])
        await store.add_metrics([make_metric(at=6, step=11), make_metric(job_id="job-3")])
        found = await store.latest_metrics([JobId("job-2"), JobId("job-1"), JobId("no-such-job")])
        assert found == tuple(want)

    async def test_metrics_of_a_job_that_is_gone_are_dropped(self, store: Store) -> None:
        """Late news is not an error, and the rest of the batch is kept."""
        await store.create(make_job())
        await store.add_metrics([make_metric(job_id="gone"), make_metric()])
        assert await store.metrics(JobId("gone")) == ()
        assert await store.metrics(JobId("job-1")) == (make_metric(),)


def make_rich_job() -> Job:
    """Return a job with something in every field."""
    near = NodeRule(
        node_selector={"pool": "a"},
        node_affinity=(
            (
                NodeRequirement(key="zone", values=("a", "b")),
                NodeRequirement(key="cores", operator=Match.ABOVE, values=("8",)),
            ),
        ),
        tolerations=(Toleration(key="spot", operator="Exists"),),
    )
    roles = (
        make_role(
            "chief",
            retry=Retry.ALWAYS,
            placement=near,
            env={"GREETING": "h\u00e9llo \0 \N{DOG}"},
            resources=Resources(extended={"a/b": 1}),
        ),
        make_role(replicas=2, minimum=1, maximum=4, command=("python", "train.py"), pod_template_json='{"a": 1}'),
    )
    spec = make_spec(
        "rich",
        roles=roles,
        tenant=Tenant("red"),
        labels={"team": "vision"},
        framework=Framework.PYTORCH,
        processes=Processes.GPU,
        inputs=(DataMove("s3://bucket/data", "$DATA_DIR"),),
        policy=Policy(deadline_seconds=7200, ttl_seconds=0.5),
        placement=PlacementRule(prefer=Prefer.SPREAD, gpu_types=("h200",), tolerations=(Toleration(key="gpu"),)),
    )
    running = make_running_job(spec, at=START + 0.1)
    return replace(
        running,
        scale=((RoleName("worker"), 3),),
        exit_code=143,
        retry_at=Timestamp(START + 1 / 3),
        checkpoint_at=Timestamp(START + 1 / 7),
        transfer=TransferProgress(moved_bytes=2**40 + 1, total_bytes=2**41, bytes_per_second=1 / 3, move=1, moves=2),
        inputs=(DataVersion("s3://bucket/data", "sha256:00"),),
        outputs=(DataVersion("model://mnist"),),
        replicas=tuple(replace(status, gpu_slot=1) for status in running.replicas),
    )


def make_record(message: str = "it began", replica: ReplicaId | None = None) -> JournalRecord:
    """Return a record of the job ``job-1``."""
    return JournalRecord(
        job_id=JobId("job-1"), at=START, reason="Began", message=message, phase=Phase.QUEUED, replica=replica
    )


def make_metric(
    *,
    job_id: str = "job-1",
    replica: ReplicaId = WORKER_0,
    name: str = "loss",
    value: float = 0.25,
    step: int | None = 1,
    at: float = 1.0,
) -> Metric:
    """Return one value."""
    return Metric(job_id=JobId(job_id), replica=replica, name=name, value=value, step=step, at=Timestamp(at))


def finished(job: Job, at: float = 50.0, phase: Phase = Phase.COMPLETED) -> Job:
    """Return the job as it would be after its end."""
    ending = PhaseEntry(phase=phase, at=Timestamp(at), reason="Test")
    return replace(job, history=(*job.history, ending), finished_at=Timestamp(at))


async def listed(store: Store, *, labels: tuple[tuple[str, str], ...]) -> list[str]:
    """Return the ids of the jobs with these labels."""
    return [job.id for job in (await store.list(JobQuery(labels=labels))).jobs]
