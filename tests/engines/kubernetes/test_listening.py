"""Replicas are heard to the end, and no longer than a few seconds."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from gangline.engines.kubernetes.errands import Errands
from gangline.engines.kubernetes.listening import Listener
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.kube import KubeError, Pod
from gangline.kube.objects import Metadata
from gangline.model import GangId, JobId, Metric, ReplicaId, RoleName

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
        self.reads = 0

    async def logs(self, _: str, *, follow: bool, **__: object) -> AsyncGenerator[bytes, None]:
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

    def __init__(self, kubelet: Kubelet, errands: Errands) -> None:
        self.steps: list[int | None] = []
        self.heard = asyncio.Event()
        self.listener = Listener(
            kubelet,
            errands,
            report=self.hear,
            concurrency=4,
            begin_seconds=0.0,
            patience_seconds=0.05,
        )

    def hear(self, metric: Metric) -> None:
        self.steps.append(metric.step)
        self.heard.set()

    async def hear_out(self) -> None:
        async with asyncio.timeout(60):
            await self.listener.hear_out(KEY, POD)


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
async def ear(kubelet: Kubelet) -> AsyncIterator[Ear]:
    errands = Errands()
    yield Ear(kubelet, errands)
    await errands.close()


async def listened_to(ear: Ear, kubelet: Kubelet) -> None:
    """Begin to listen, and wait until the first number is heard."""
    ear.listener.begin(KEY, POD)
    kubelet.written.put_nowait(line(0))
    async with asyncio.timeout(60):
        await ear.heard.wait()


async def test_a_replica_nobody_listened_to_is_read_when_it_ends(ear: Ear, kubelet: Kubelet) -> None:
    kubelet.whole = [line(0), b"2026-01-01T00:00:00.0Z words", line(1)]
    await ear.hear_out()
    assert ear.steps == [0, 1]


async def test_a_replica_that_was_listened_to_is_heard_to_its_last_word_and_not_read_again(
    ear: Ear, kubelet: Kubelet
) -> None:
    await listened_to(ear, kubelet)
    kubelet.written.put_nowait(line(1))
    kubelet.written.put_nowait(None)
    await ear.hear_out()
    assert (ear.steps, kubelet.reads) == ([0, 1], 0)


async def test_what_a_broken_stream_missed_is_read(ear: Ear, kubelet: Kubelet) -> None:
    await listened_to(ear, kubelet)
    kubelet.written.put_nowait(KubeError("gone"))
    kubelet.whole = [line(0), line(1)]
    await ear.hear_out()
    assert ear.steps == [0, 0, 1]


async def test_a_node_that_does_not_answer_is_not_waited_for(ear: Ear, kubelet: Kubelet) -> None:
    kubelet.answers = False
    await ear.hear_out()
    assert ear.steps == []


async def test_a_replica_that_is_lost_is_forgotten(ear: Ear, kubelet: Kubelet) -> None:
    await listened_to(ear, kubelet)
    ear.listener.forget(KEY)
    kubelet.whole = [line(2)]
    await ear.hear_out()
    assert ear.steps == [0, 2]
