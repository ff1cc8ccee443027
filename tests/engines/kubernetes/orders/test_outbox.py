"""News of a gang keeps its order, whatever an exit has to wait for."""

import asyncio

from gangline.engines.kubernetes.orders.outbox import Outbox
from gangline.lifecycle.events import GangFailed, ReplicaExited
from gangline.model import JobId, Metric, ReplicaId, RoleName, Timestamp

NOW = Timestamp(1.0)
CHIEF = ReplicaId(RoleName("chief"), 0)


def exit_of(job: str) -> ReplicaExited:
    return ReplicaExited(job_id=JobId(job), at=NOW, attempt=1, replica=CHIEF, incarnation=0, exit_code=0)


def failure_of(job: str) -> GangFailed:
    return GangFailed(job_id=JobId(job), at=NOW, attempt=1, reason="Any", message="")


async def take_all(outbox: Outbox, count: int) -> list[object]:
    async with asyncio.timeout(60):
        return [await outbox.take() for _ in range(count)]


async def test_an_exit_waits_for_its_numbers_and_what_follows_in_its_gang_waits_behind_it() -> None:
    outbox, reading = Outbox(), asyncio.get_running_loop().create_future()
    metric = Metric(job_id=JobId("one"), replica=CHIEF, name="loss", value=0.5, step=1, at=NOW)
    outbox.tell_after(exit_of("one"), reading)
    outbox.tell(failure_of("one"))
    outbox.tell(failure_of("two"))
    outbox.tell(metric)
    assert await take_all(outbox, 2) == [failure_of("two"), metric]
    reading.set_result(None)
    assert await take_all(outbox, 2) == [exit_of("one"), failure_of("one")]


async def test_exits_are_told_in_the_order_they_happened_in() -> None:
    outbox, loop = Outbox(), asyncio.get_running_loop()
    slow, fast = loop.create_future(), loop.create_future()
    outbox.tell_after(exit_of("one"), slow)
    outbox.tell_after(failure_of("one"), fast)
    fast.set_result(None)
    outbox.tell_after(exit_of("two"), fast)
    assert await take_all(outbox, 1) == [exit_of("two")]
    slow.set_result(None)
    assert await take_all(outbox, 2) == [exit_of("one"), failure_of("one")]


async def test_a_gang_whose_news_was_held_is_told_at_once_again_afterwards() -> None:
    outbox, reading = Outbox(), asyncio.get_running_loop().create_future()
    outbox.tell_after(exit_of("one"), reading)
    reading.cancel()
    assert await take_all(outbox, 1) == [exit_of("one")]
    outbox.tell(failure_of("one"))
    assert await take_all(outbox, 1) == [failure_of("one")]


async def test_changed_nodes_are_told_once_until_somebody_heard_it() -> None:
    outbox = Outbox()
    outbox.nodes_changed()
    outbox.nodes_changed()
    await take_all(outbox, 1)
    outbox.nodes_changed()
    await take_all(outbox, 1)
    outbox.tell(failure_of("one"))
    assert await take_all(outbox, 1) == [failure_of("one")]
