"""Replicas are heard to the end, and no longer than a few seconds."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from gangline.engines.kubernetes.background_tasks import BackgroundTasks
from gangline.engines.kubernetes.logs.metric_reader import MetricReader
from gangline.engines.kubernetes.manifests.collector import COLLECTOR_CONTAINER
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.kube import KubeError, Pod
from gangline.kube.objects import (
    ContainerRunning,
    ContainerState,
    ContainerStatus,
    ContainerTerminated,
    Metadata,
    PodStatus,
)
from gangline.model import GangId, JobId, Metric, ReplicaId, RoleName
from gangline.model.kinds.experiment import COLLECTOR_ANNOTATION

RUNNING = ContainerState(running=ContainerRunning())
KEY = ReplicaKey(GangId(JobId("job-1"), 1), ReplicaId(RoleName("chief"), 0), 0)
POD = Pod(metadata=Metadata(name="chief", namespace="default"))


def line(step: int) -> bytes:
    return f'2026-01-01T00:00:00.000000000Z {{"at":1.0,"name":"loss","value":0.5,"step":{step}}}'.encode()


class Kubelet:
    """Hands out a log: the whole at once, or as it is written to whoever follows it."""

    def __init__(self) -> None:
        self.whole: list[bytes] = []
        self.answers = True
        self.written: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.collected: asyncio.Queue[bytes | None] = asyncio.Queue()
        """What the collector finds."""
        self.reads = 0

    async def logs(self, _: str, *, follow: bool, container: str = "main", **__: object) -> AsyncGenerator[bytes, None]:
        if container != "main":
            while (found := await self.collected.get()) is not None:
                yield found
            return
        if not self.answers:
            await asyncio.Event().wait()
        if not follow:
            self.reads += 1
            for raw in self.whole:
                yield raw
            return
        while (raw := await self.written.get()) is not None:
            if isinstance(raw, Exception):
                raise raw
            yield raw


class Ear:
    """A listener and what it heard."""

    def __init__(self, kubelet: Kubelet, background: BackgroundTasks, patience_seconds: float = 0.05) -> None:
        self.steps: list[int | None] = []
        self.heard = asyncio.Event()
        self.listener = MetricReader(
            kubelet,
            background,
            report=self.hear,
            concurrency=4,
            begin_seconds=0.0,
            patience_seconds=patience_seconds,
            again_seconds=0.0,
            collect_seconds=0.05,
        )

    def hear(self, metric: Metric) -> None:
        self.steps.append(metric.step)
        self.heard.set()

    async def read_to_end(self, pod: Pod = POD) -> None:
        async with asyncio.timeout(60):
            await self.listener.read_to_end(KEY, pod)


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
async def ear(kubelet: Kubelet) -> AsyncIterator[Ear]:
    background = BackgroundTasks()
    yield Ear(kubelet, background)
    await background.close()


@pytest.fixture
async def patient_ear(kubelet: Kubelet) -> AsyncIterator[Ear]:
    background = BackgroundTasks()
    yield Ear(kubelet, background, patience_seconds=60)
    await background.close()


def collected_pod(*others: ContainerStatus) -> Pod:
    """A pod whose program has ended and whose files a collector reads."""
    ended = ContainerStatus(name="main", state=ContainerState(terminated=ContainerTerminated(exit_code=0)))
    collector = ContainerStatus(name=COLLECTOR_CONTAINER, state=RUNNING)
    annotations = {COLLECTOR_ANNOTATION: '{"kind": "Sources"}'}
    return Pod(
        metadata=Metadata(name="chief", namespace="default", annotations=annotations),
        status=PodStatus(container_statuses=[ended, *others], init_container_statuses=[collector]),
    )


async def listened_to(ear: Ear, kubelet: Kubelet) -> None:
    """Begin to listen, and wait until the first number is heard."""
    ear.listener.begin(KEY, POD)
    kubelet.written.put_nowait(line(0))
    async with asyncio.timeout(60):
        await ear.heard.wait()


async def test_a_replica_nobody_listened_to_is_read_when_it_ends(ear: Ear, kubelet: Kubelet) -> None:
    kubelet.whole = [line(0), b"2026-01-01T00:00:00.0Z words", line(1)]
    await ear.read_to_end()
    assert ear.steps == [0, 1]


async def test_a_replica_that_was_listened_to_is_heard_to_its_last_word_and_not_read_again(
    ear: Ear, kubelet: Kubelet
) -> None:
    await listened_to(ear, kubelet)
    kubelet.written.put_nowait(line(1))
    kubelet.written.put_nowait(None)
    await ear.read_to_end()
    assert (ear.steps, kubelet.reads) == ([0, 1], 0)


async def test_what_a_broken_stream_missed_is_read(ear: Ear, kubelet: Kubelet) -> None:
    await listened_to(ear, kubelet)
    kubelet.written.put_nowait(KubeError("gone"))
    kubelet.whole = [line(0), line(1)]
    await ear.read_to_end()
    assert ear.steps == [0, 0, 1]


async def test_a_node_that_does_not_answer_is_not_waited_for(ear: Ear, kubelet: Kubelet) -> None:
    kubelet.answers = False
    await ear.read_to_end()
    assert ear.steps == []


async def test_a_collector_is_heard_to_its_end_beside_the_program(ear: Ear, kubelet: Kubelet) -> None:
    for raw in (line(0), None):
        kubelet.written.put_nowait(raw)
    for raw in (line(1), line(2), None):
        kubelet.collected.put_nowait(raw)
    await ear.read_to_end(collected_pod())
    assert sorted(ear.steps) == [0, 1, 2]


async def test_a_collector_that_goes_on_is_heard_after_the_exit_was_told(ear: Ear, kubelet: Kubelet) -> None:
    kubelet.written.put_nowait(None)
    await ear.read_to_end(collected_pod(ContainerStatus(name="gangline-outputs", state=RUNNING)))
    kubelet.collected.put_nowait(line(3))
    async with asyncio.timeout(60):
        await ear.heard.wait()
    assert ear.steps == [3]


async def test_who_has_outputs_stored_waits_for_a_collector_that_went_on(patient_ear: Ear, kubelet: Kubelet) -> None:
    ear = patient_ear
    kubelet.written.put_nowait(None)
    await ear.read_to_end(collected_pod(ContainerStatus(name="gangline-outputs", state=RUNNING)))
    waiting = asyncio.ensure_future(ear.listener.collected(KEY.gang_id))
    await ear.listener.collected(GangId(KEY.gang_id.job_id, 2))
    assert not waiting.done()
    for raw in (line(3), None):
        kubelet.collected.put_nowait(raw)
    async with asyncio.timeout(60):
        await waiting
    assert ear.steps == [3]


async def test_a_collector_that_never_ends_is_not_waited_for(ear: Ear, kubelet: Kubelet) -> None:
    kubelet.written.put_nowait(None)
    await ear.read_to_end(collected_pod(ContainerStatus(name="gangline-outputs", state=RUNNING)))
    async with asyncio.timeout(60):
        await ear.listener.collected(KEY.gang_id)
    assert ear.steps == []


async def test_a_collector_that_was_killed_is_heard_again_while_the_program_goes_on(ear: Ear, kubelet: Kubelet) -> None:
    ear.listener.begin(KEY, collected_pod())
    for raw in (line(1), None, None, line(2)):
        kubelet.collected.put_nowait(raw)
    async with asyncio.timeout(60):
        while len(ear.steps) < 2:
            ear.heard.clear()
            await ear.heard.wait()
    kubelet.written.put_nowait(None)
    kubelet.collected.put_nowait(None)
    await ear.read_to_end(collected_pod())
    assert ear.steps == [1, 2]


async def test_a_replica_that_is_lost_is_forgotten(ear: Ear, kubelet: Kubelet) -> None:
    await listened_to(ear, kubelet)
    ear.listener.forget(KEY)
    kubelet.whole = [line(2)]
    await ear.read_to_end()
    assert ear.steps == [0, 2]
