"""Notifications as the record driver drives them: nothing lost in a restart, nothing told twice without one."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from gangline.controller import RecordDriver
from gangline.controller.feed import ChangeFeed
from gangline.controller.notifications.observer import NotificationObserver
from gangline.controller.notifications.sending import Refusal
from gangline.kinds.kind import Owned
from gangline.kinds.notification import NOTIFICATION, enable
from gangline.kinds.notification.plan import BACKOFF, MOST_FAILURES, plan_notification
from gangline.lifecycle import Event
from gangline.model import Job, JobId, Phase, PhaseEntry, Tenant, Timestamp
from gangline.model.kinds.notification import Delivery, Notification, NotificationSpec, NotificationStatus
from gangline.model.record import Record, RecordId
from gangline.storage.memory import MemoryStore
from gangline.testing.builders import START, FakeClock, make_job

VISION, SPEECH = Tenant("vision"), Tenant("speech")


class FakeSender:
    """Keeps what it is given; ``answer`` says what becomes of it."""

    def __init__(self, answer: Callable[[str], Refusal | None] = lambda name: None) -> None:
        self.sent: list[tuple[str, str]] = []
        self.answer = answer
        self.hanging: set[str] = set()
        self.first = asyncio.Event()

    async def send(self, spec: NotificationSpec, delivery: Delivery) -> Refusal | None:
        if spec.name in self.hanging:
            await asyncio.Event().wait()
        self.sent.append((spec.name, delivery.id))
        self.first.set()
        return self.answer(spec.name)


class Link:
    """What the driver knows of the controller."""

    def __init__(self) -> None:
        self.feed = ChangeFeed()
        self.watch = self.feed.watch

    def changed(self, job_id: JobId) -> None:
        self.feed.publish(job_id)

    def queues_changed(self) -> None:
        pass

    def hear(self, event: Event) -> None:
        pass


class Service:
    """A driver and an observer on a store, until it is killed."""

    def __init__(self, store: MemoryStore, clock: FakeClock, sender: FakeSender) -> None:
        self.store, self.clock, self.sender, self.link = store, clock, sender, Link()
        self.driver = RecordDriver([NOTIFICATION], store=store, link=self.link, clock=clock)
        self.observer = NotificationObserver(store=store, sender=sender, clock=clock, wake=self.driver.wake)
        self.driver.observers[NOTIFICATION.name] = self.observer
        self.listening = asyncio.create_task(self.observer.run(self.link.watch()))

    async def work(self) -> None:
        """Let everything happen that is due."""
        for _ in range(20):
            await asyncio.sleep(0)
            self.driver.look_at_all()
            await self.driver.settle()
            await asyncio.sleep(0)

    async def kill(self) -> None:
        self.listening.cancel()
        await asyncio.gather(self.listening, return_exceptions=True)

    async def enter(self, job: Job, phase: Phase) -> Job:
        entry = PhaseEntry(phase=phase, at=self.clock.now(), reason="Because")
        job = await self.store.save(replace(job, history=(*job.history, entry)))
        self.link.changed(job.id)
        return job

    async def submit(self, job_id: str, tenant: Tenant = VISION) -> Job:
        job = await self.store.create(make_job(job_id=job_id, at=self.clock.now(), name=job_id, tenant=tenant))
        self.link.changed(job.id)
        return job


async def make(store: MemoryStore, name: str = "ops", tenant: Tenant = VISION) -> None:
    spec = NotificationSpec(name=name, tenant=tenant, url="https://hooks.example.org/", secret="ops")
    record: Notification = Record(id=RecordId(name), spec=spec, status=NotificationStatus(), created_at=START)
    await store.records(NOTIFICATION).create(record)


async def read(store: MemoryStore, name: str = "ops", tenant: Tenant = VISION) -> Notification:
    found = await store.records(NOTIFICATION).find(tenant, name)
    assert found is not None
    return found


async def test_the_end_of_a_job_is_sent_once() -> None:
    store, sender = MemoryStore(), FakeSender()
    await make(store)
    service = Service(store, FakeClock(), sender)
    await service.work()
    job = await service.submit("a")
    await service.work()
    job = await service.enter(job, Phase.COMPLETED)
    await service.work()
    await service.store.save(replace(job, holding=False))
    service.link.changed(job.id)
    await service.work()
    assert sender.sent == [("ops", "ops-a-1")]
    assert ((await read(store)).status.sent, (await read(store)).status.pending) == (1, ())
    await service.kill()


async def test_tenants_hear_of_their_own_jobs_alone() -> None:
    store, sender = MemoryStore(), FakeSender()
    await make(store, "mine", VISION)
    await make(store, "theirs", SPEECH)
    service = Service(store, FakeClock(), sender)
    await service.enter(await service.submit("a", VISION), Phase.FAILED)
    await service.enter(await service.submit("b", SPEECH), Phase.FAILED)
    await service.work()
    assert sorted(sender.sent) == [("mine", "mine-a-1"), ("theirs", "theirs-b-1")]
    assert "b" not in (await read(store, "mine", VISION)).status.following
    await service.kill()


async def test_what_ends_while_no_service_runs_is_sent_by_the_next_one() -> None:
    store, clock, sender = MemoryStore(), FakeClock(), FakeSender()
    await make(store)
    first = Service(store, clock, sender)
    old = await first.submit("old")
    told = await first.enter(await first.submit("told"), Phase.COMPLETED)
    await first.work()
    await first.kill()
    assert sender.sent == [("ops", "ops-told-1")]

    clock.advance(3600)
    silent = Service(store, clock, sender)  # it records what happened and dies before it can tell
    await silent.enter(old, Phase.COMPLETED)
    await silent.enter(await silent.submit("new"), Phase.FAILED)
    await silent.kill()
    assert (await store.get(told.id)).finished

    clock.advance(3600)
    second = Service(store, clock, sender)
    await second.work()
    assert sorted(sender.sent) == [("ops", "ops-new-1"), ("ops", "ops-old-1"), ("ops", "ops-told-1")]
    await second.kill()


async def test_what_was_sent_and_not_noted_before_a_death_is_sent_again_under_the_same_id() -> None:
    store, clock, sender = MemoryStore(), FakeClock(), FakeSender()
    await make(store)
    first = Service(store, clock, sender)
    await first.enter(await first.submit("a"), Phase.COMPLETED)
    await asyncio.sleep(0)
    await first.driver.settle()
    await sender.first.wait()
    await first.kill()  # before another turn
    second = Service(store, clock, sender)
    await second.work()
    assert sender.sent == [("ops", "ops-a-1"), ("ops", "ops-a-1")]
    assert (await read(store)).status.sent == 1
    await second.kill()


async def test_a_failing_receiver_is_tried_again_after_a_pause_also_by_the_next_service_and_then_disabled() -> None:
    store, clock = MemoryStore(), FakeClock()
    sender = FakeSender(lambda name: Refusal("HTTP 500"))
    await make(store)
    service = Service(store, clock, sender)
    await service.enter(await service.submit("a"), Phase.COMPLETED)
    for number in range(1, MOST_FAILURES + 1):
        await service.work()
        assert len(sender.sent) == number
        clock.advance(BACKOFF.pause(number) - 0.5)
        await service.work()
        assert len(sender.sent) == number
        await service.kill()
        service = Service(store, clock, sender)
        clock.advance(0.5)
    await service.work()
    record = await read(store)
    assert (record.state, record.status.problem, len(sender.sent)) == ("disabled", "HTTP 500", MOST_FAILURES)

    sender.answer = lambda name: None
    await store.records(NOTIFICATION).save(enable(record))
    await service.enter(await service.submit("b"), Phase.COMPLETED)
    await service.work()
    assert sender.sent[MOST_FAILURES:] == [("ops", "ops-b-1")]
    assert (await read(store)).state == "active"
    await service.kill()


async def test_a_receiver_that_hangs_holds_up_nobody_else_and_goes_with_its_notification() -> None:
    store, sender = MemoryStore(), FakeSender()
    sender.hanging.add("slow")
    await make(store, "slow")
    await make(store, "quick")
    service = Service(store, FakeClock(), sender)
    await service.enter(await service.submit("a"), Phase.COMPLETED)
    await service.work()
    assert sender.sent == [("quick", "quick-a-1")]
    await store.records(NOTIFICATION).save(replace(await read(store, "slow"), deleting=True))
    await service.work()
    assert await store.records(NOTIFICATION).find(VISION, "slow") is None
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "notification slow"]
    await service.kill()


async def test_a_change_that_was_not_kept_is_shown_again_and_one_that_was_is_not() -> None:
    store, clock = MemoryStore(), FakeClock()
    await make(store)
    service = Service(store, clock, FakeSender())
    await service.enter(await service.submit("a"), Phase.COMPLETED)
    record = await read(store)
    first = await service.observer.look(record, Owned())
    again = await service.observer.look(record, Owned())  # the write was refused: somebody else had changed it
    assert [job.id for job in first.jobs] == [job.id for job in again.jobs] == ["a"]
    kept = replace(record, status=plan_notification(record, Owned(sight=again), clock.now()).status)
    assert (await service.observer.look(kept, Owned())).jobs == ()
    await service.kill()


async def test_a_job_that_is_deleted_is_followed_no_more() -> None:
    store = MemoryStore()
    await make(store)
    service = Service(store, FakeClock(), FakeSender())
    job = await service.submit("a")
    await service.work()
    assert job.id in (await read(store)).status.following
    await store.remove(job.id)
    service.link.changed(job.id)
    await service.work()
    assert (await read(store)).status.following == {}
    await service.kill()


async def test_a_clock_that_stands_still_hides_no_attempt() -> None:
    store, clock = MemoryStore(), FakeClock(Timestamp(START))
    sender = FakeSender()
    await make(store)
    service = Service(store, clock, sender)
    for name in ("a", "b", "c"):
        await service.enter(await service.submit(name), Phase.COMPLETED)
        await service.work()
    assert sorted(sender.sent) == [("ops", f"ops-{name}-1") for name in "abc"]
    assert (await read(store)).status.sent == 3
    await service.kill()
