"""When a GPU is free: for the scheduler and for the engine at the same moment, whatever else its gang is doing.

``GANGLINE_REAL_GPUS=1`` runs these tests with the GPUs of this machine instead of eight that are only told of; where
there is only one, replicas share it.
"""

import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from gangline.engines.local.nodes.devices import find_devices
from gangline.lifecycle.events import GangEvent, GangFailed, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import Gang, GangReplica, Policy, ReplicaId, Resources
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import eventually, place, with_replicas
from tests.engines.local.machinery import LocalSubject
from tests.engines.local.nodes.test_machine import install_nvidia_smi

REAL = os.environ.get("GANGLINE_REAL_GPUS") == "1"
FIRST_ENDS = '[ "$GANGLINE_INDEX" = 0 ] && exit 0; exec sleep 1000'
STAYS = 'trap : TERM; echo >> "$READY_FILE"; while true; do sleep 1000 & wait; done'
FIRST_ENDS_WHEN_ASKED = f"""[ "$GANGLINE_INDEX" = 0 ] && {{ echo >> "$READY_FILE"; exec sleep 1000; }}
{STAYS}"""
ENDS_SLOWLY = STAYS.replace("trap :", "trap 'sleep 1; exit 0'")


@pytest.fixture
async def subject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalSubject]:
    if not REAL:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        rows = "".join(f"{number}, NVIDIA H200, 143771, 0, 0\\n" for number in range(8))
        install_nvidia_smi(tmp_path, f"printf '{rows}'", monkeypatch)
    async with LocalSubject.over(tmp_path) as subject:
        yield subject


async def gang_on_all(subject: LocalSubject, script: str, job_id: str = "job-1") -> Gang:
    """One replica per GPU; two halves where there is only one GPU."""
    count = len(find_devices())
    if not count:
        pytest.skip("there is no GPU here")
    millis = 1000 if count > 1 else 500
    role = make_role(
        command=("bash", "-c", script),
        replicas=max(count, 2),
        resources=Resources(cpu_millis=10, gpu_millis=millis),
        env={"READY_FILE": str(subject.root / "ready")},
    )
    spec = make_spec(roles=(role,), policy=Policy(grace_seconds=30.0))
    gang = place(spec, await subject.node(), job_id=job_id)
    return with_replicas(gang, [slotted(each, millis) for each in gang.replicas])


def slotted(replica: GangReplica, millis: int) -> GangReplica:
    slot = 0 if millis < 1000 else None
    return GangReplica(id=replica.id, node=replica.node, incarnation=replica.incarnation, gpu_slot=slot)


async def one_more(subject: LocalSubject, script: str = "exec sleep 1000", count: int = 1) -> Gang:
    gang = await gang_on_all(subject, script, job_id="job-2")
    return with_replicas(gang, gang.replicas[:count])


async def gpus_of(subject: LocalSubject, job_id: str) -> list[str]:
    usage = await subject.engine.usage()
    return sorted(gpu for each in usage.replicas if each.job_id == job_id for gpu in each.gpus)


async def all_ready(subject: LocalSubject, gang: Gang) -> None:
    """Wait until every replica has said what it does when it is asked to end."""
    ready = subject.root / "ready"

    async def said() -> bool:
        return ready.exists() and len(ready.read_text().splitlines()) == len(gang.replicas)

    await eventually(said)


async def has_started(subject: LocalSubject, gang: Gang) -> None:
    """Wait until every replica of a gang runs; nothing may have failed before."""
    job_id = gang.id.job_id
    news = await subject.news.wait_for(GangEvent, count=len(gang.replicas), where=lambda event: event.job_id == job_id)
    assert [type(event) for event in news] == [ReplicaStarted] * len(gang.replicas), news


async def test_the_gpu_of_a_replica_that_has_ended_is_free_though_its_gang_lives_on(subject: LocalSubject) -> None:
    first = await gang_on_all(subject, FIRST_ENDS)
    await subject.engine.run(first)
    await subject.news.wait_for(ReplicaExited)
    second = await one_more(subject)
    await subject.engine.run(second)
    await has_started(subject, second)
    assert len(await gpus_of(subject, "job-2")) == 1


async def test_the_gpu_of_a_replica_that_has_ended_is_free_though_its_gang_is_still_being_stopped(
    subject: LocalSubject,
) -> None:
    first = await gang_on_all(subject, FIRST_ENDS_WHEN_ASKED)
    await subject.engine.run(first)
    await all_ready(subject, first)
    await subject.engine.stop(first.id, 1000.0)
    (exited,) = await subject.news.wait_for(ReplicaExited)
    assert exited.replica == ReplicaId.parse("worker-0")
    second = await one_more(subject)
    await subject.engine.run(second)
    await has_started(subject, second)
    assert not subject.news.of(GangStopped), "the first gang is still there"


@pytest.mark.parametrize("count", [1, 2])
async def test_a_gang_waits_for_gpus_that_others_are_giving_up(subject: LocalSubject, count: int) -> None:
    first = await gang_on_all(subject, ENDS_SLOWLY)
    await subject.engine.run(first)
    await all_ready(subject, first)
    await subject.engine.run(with_replicas(first, first.replicas[:-count]))
    second = await one_more(subject, count=count)
    await subject.engine.run(second)
    assert not subject.news.of(GangFailed)
    await has_started(subject, second)


async def test_a_gang_that_waits_for_gpus_can_be_stopped(subject: LocalSubject) -> None:
    first = await gang_on_all(subject, STAYS)
    await subject.engine.run(first)
    await all_ready(subject, first)
    await subject.engine.stop(first.id, 1000.0)
    second = await one_more(subject)
    await subject.engine.run(second)
    await subject.engine.stop(second.id, 1.0)
    (stopped,) = await subject.news.wait_for(GangStopped)
    assert stopped.job_id == "job-2"
    assert not subject.news.of(GangFailed)


def incarnate(replicas: Sequence[GangReplica], index: int) -> list[GangReplica]:
    """The same replicas, one of them in its next incarnation."""
    return [
        GangReplica(
            id=each.id,
            node=each.node,
            gpu_slot=each.gpu_slot,
            incarnation=int(number == index),
            started=number != index,
        )
        for number, each in enumerate(replicas)
    ]


async def test_a_replica_that_starts_again_leaves_its_old_gpu_to_whoever_has_it_by_now(subject: LocalSubject) -> None:
    if len(find_devices()) < 2:
        pytest.skip("three replicas need more than one GPU")
    first = await gang_on_all(
        subject, '[ "$GANGLINE_INCARNATION" = 0 ] && [ "$GANGLINE_INDEX" != 1 ] && exit 3; exec sleep 1000'
    )
    await subject.engine.run(first)
    await subject.news.wait_for(ReplicaExited, count=len(first.replicas) - 1)
    second = await one_more(subject)
    await subject.engine.run(second)
    await has_started(subject, second)
    await subject.engine.run(with_replicas(first, incarnate(first.replicas, 0)))
    await subject.news.wait_for(ReplicaStarted, count=len(first.replicas) + 2)
    given = [*await gpus_of(subject, "job-1"), *await gpus_of(subject, "job-2")]
    assert len(set(given)) == 3, "three replicas run, each on a GPU of its own"


async def test_replicas_that_ask_for_memory_share_a_gpu_that_has_it(subject: LocalSubject) -> None:
    devices = find_devices()
    if not devices:
        pytest.skip("there is no GPU here")
    node = next(each for each in await subject.engine.nodes() if each.capacity.gpu_millis)
    assert node.gpu_memory_mib == min(device.memory_mib for device in devices)
    quarter = node.gpu_memory_mib // 4
    role = make_role(command=("sleep", "1000"), replicas=3, resources=Resources(cpu_millis=10, gpu_memory_mib=quarter))
    gang = place(make_spec(roles=(role,)), await subject.node())
    gang = with_replicas(gang, [slotted(each, 250) for each in gang.replicas])
    await subject.engine.run(gang)
    await has_started(subject, gang)
    assert len(set(await gpus_of(subject, "job-1"))) == 1
    assert len(await gpus_of(subject, "job-1")) == 3
