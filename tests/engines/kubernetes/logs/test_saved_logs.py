"""What is kept of a replica's output when its pod goes, whatever stands in the log."""

import asyncio
import base64

import msgspec
import pytest

from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes import KubernetesEngine, background_tasks
from gangline.engines.kubernetes.logs.saved_logs import SavedLog, joined, pack, unpack
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.kube import ConfigMap, KubeError
from gangline.lifecycle.events import GangStopped
from gangline.model import Backoff
from gangline.testing.engine_suite import NewsReader
from tests.engines.kubernetes.fake_cluster import FakeCluster
from tests.engines.kubernetes.test_engine import make_gang, settled


async def kept_texts(cluster: FakeCluster, engine: KubernetesEngine) -> list[str]:
    """Run a gang, stop it, and read what was kept of its first replica."""
    news = NewsReader(engine)
    gang = make_gang()
    await engine.run(gang)
    await settled()
    await engine.stop(gang.id, 0)
    await news.wait_for(GangStopped)
    await news.close()
    query = LogQuery(job_id=gang.id.job_id, index=0)
    return [line.text async for line in engine.logs(query)][1:]


async def test_a_kubelet_that_speaks_inside_a_log_holds_nothing_up(
    cluster: FakeCluster, engine: KubernetesEngine
) -> None:
    cluster.says = [
        b"2026-01-01T00:00:01.5Z step 1",
        b"rpc error: code = NotFound desc = an error occurred when try to find container",
        b"unable to retrieve container logs for containerd://0123",
        b"",
        b"2026-01-01T00:00:02Z step 2",
    ]
    assert await kept_texts(cluster, engine) == ["step 1", "step 2"]


async def test_a_progress_bar_is_kept_as_it_was_drawn_last(cluster: FakeCluster, engine: KubernetesEngine) -> None:
    cluster.says = [b"2026-01-01T00:00:01.000000001Z 10%\r20%\r", b"2026-01-01T00:00:02Z ", b"2026-01-01T00:00:03Z x"]
    assert await kept_texts(cluster, engine) == ["20%", "", "x"]


async def test_what_must_be_done_is_tried_until_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_tasks, "_BACKOFF", Backoff(0.001, 0.001))
    failures: list[Exception] = [KubeError("busy"), ValueError("a fault"), KubeError("busy")]

    async def act() -> None:
        if failures:
            raise failures.pop()

    async with asyncio.timeout(60):
        await background_tasks.retry_until_done(act)
    assert not failures


@pytest.mark.parametrize(
    ("known", "rest", "want"),
    [
        pytest.param([b"T1 a", b"T2 b"], [b"T1 a", b"T2 b", b"T3 c"], [b"T1 a", b"T2 b", b"T3 c"], id="more lines"),
        pytest.param([b"T1 a", b"T2 b"], [b"T1 a", b"T2 bar"], [b"T1 a", b"T2 bar"], id="the last line went on"),
        pytest.param([b"T1 a", b"T2 b"], [], [b"T1 a", b"T2 b"], id="the second broke off at once"),
        pytest.param([b"T1 a", b"T2 b"], [b"T3 c"], [b"T1 a", b"T2 b", b"T3 c"], id="much was written meanwhile"),
        pytest.param([], [b"T1 a"], [b"T1 a"], id="nothing before"),
    ],
)
def test_two_readings_of_a_log_are_one(known: list[bytes], rest: list[bytes], want: list[bytes]) -> None:
    assert joined(known, rest) == want


def test_what_is_left_of_a_damaged_pack_is_read() -> None:
    gang = make_gang()
    key = ReplicaKey(gang.id, gang.replicas[0].id, 0)
    (body,) = pack(
        gang.id, [SavedLog(key=key, text=b"T1 a")], name="x", namespace="y", controller="gangline", owner=None
    )
    damaged = {"worker-1.0": "H4sI", "worker-2.0": base64.b64encode(b"no gzip").decode(), "else": ""}
    pack_read = msgspec.convert({**body, "binaryData": body["binaryData"] | damaged}, ConfigMap)
    assert [log.key for log in unpack(pack_read)] == [key]
