"""Starts of one gang are told together, and nothing overtakes them."""

import asyncio

from gangline.engines.kubernetes.launching.gang_state import GangState
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.orders.batched_starts import BatchedStarts
from gangline.lifecycle.events import ReplicaStarted
from gangline.model import GangId
from gangline.testing.builders import START, make_role, make_running_job, make_spec

JOB = make_running_job(make_spec(roles=(make_role(replicas=2),)))


def start(state: GangState, number: int) -> ReplicaStarted:
    replica = JOB.replicas[number].id
    state.first(ReplicaKey(JOB.gang_id, replica, 0), "started")
    return ReplicaStarted(job_id=JOB.id, at=START, attempt=1, replica=replica)


async def test_a_gang_is_told_as_soon_as_it_is_complete() -> None:
    told: list[ReplicaStarted] = []
    starts, state = BatchedStarts(told.append), GangState(JOB.gang_id, gang=JOB.gang())
    starts.note(state, start(state, 0))
    assert told == []
    starts.note(state, start(state, 1))
    assert [event.replica.index for event in told] == [0, 1]


async def test_a_start_that_stays_alone_is_told_after_a_moment() -> None:
    told: asyncio.Queue[ReplicaStarted] = asyncio.Queue()
    starts, state = BatchedStarts(told.put_nowait), GangState(JOB.gang_id, gang=JOB.gang())
    starts.note(state, start(state, 1))
    assert (await asyncio.wait_for(told.get(), 10)).replica.index == 1


async def test_a_gang_nobody_has_ordered_is_told_at_once() -> None:
    told: list[ReplicaStarted] = []
    state = GangState(GangId(JOB.id, 1))
    BatchedStarts(told.append).note(state, start(state, 0))
    assert len(told) == 1
