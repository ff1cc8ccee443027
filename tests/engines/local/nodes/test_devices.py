"""GPUs of a machine: found while the engine runs, given to one replica each, and left alone while they are sick."""

import json
from pathlib import Path

import pytest

from gangline.engines.interface import NodesChanged
from gangline.lifecycle.events import GangFailed, GangStopped, ReplicaExited, ReplicaStarted
from gangline.model import Gang, JobId, Resources
from gangline.testing.engine_suite import eventually, with_replicas
from tests.engines.local.machinery import LocalSubject, shell_gang
from tests.engines.local.nodes.test_machine import install_nvidia_smi


async def test_gpus_are_handed_out_exclusively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    rows = "".join(f"{number}, NVIDIA H200, 143771, 100, {number}0\\n" for number in range(3))
    install_nvidia_smi(tmp_path, f"printf '{rows}'", monkeypatch)
    async with LocalSubject.over(tmp_path) as subject:
        (node,) = await subject.engine.nodes()
        assert (node.capacity.gpu_millis, node.gpu_type) == (3000, "h200")
        script = "echo $CUDA_VISIBLE_DEVICES; sleep 1000"
        first = await shell_gang(subject, script, replicas=2, resources=Resources(gpu_millis=1000))
        await subject.engine.run(first)
        await subject.news.wait_for(ReplicaStarted, count=2)
        usage = await subject.engine.usage()
        assert {each.gpus for each in usage.replicas} == {("0",), ("1",)}
        assert usage.nodes[0].gpu_percent == {"0": 0, "1": 10, "2": 20}
        assert usage.nodes[0].gpu_memory_mib == {"0": 100, "1": 100, "2": 100}
        await subject.restart()
        second = Gang(id=first.id._replace(job_id=JobId("job-2")), spec=first.spec, replicas=first.replicas)
        await subject.engine.run(second)
        (failed,) = await subject.news.wait_for(GangFailed)
        assert "2 free GPUs are needed" in failed.message or "1 free GPUs are needed" in failed.message
        await subject.engine.stop(second.id, 1.0)
        await subject.engine.run(
            with_replicas(Gang(id=second.id._replace(attempt=2), spec=first.spec, replicas=()), first.replicas[:1])
        )

        async def third_device_is_given() -> bool:
            return [line.text for line in await subject.lines(job_id="job-2")] == ["2"]

        await eventually(third_device_is_given)


async def test_gpus_that_appear_later_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    async with LocalSubject.over(tmp_path, device_seconds=0.02) as subject:
        (node,) = await subject.engine.nodes()
        assert node.capacity.gpu_millis == 0
        install_nvidia_smi(tools, "echo 0, NVIDIA H200, 143771, 512, 40", monkeypatch)
        await subject.news.wait_for(NodesChanged)
        (node,) = await subject.engine.nodes()
        assert (node.capacity.gpu_millis, node.gpu_type) == (1000, "h200")


HEALTH = """case "$1" in
*ecc*) cat {health} ;;
*) printf '0, NVIDIA H200, 143771, 0, 0\\n1, NVIDIA H200, 143771, 0, 0\\n' ;;
esac"""


async def test_nothing_starts_on_a_gpu_with_errors_until_it_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    health = tmp_path / "health"
    health.write_text("0, 0, No\n1, 0, No\n")
    install_nvidia_smi(tmp_path, HEALTH.format(health=health), monkeypatch)
    async with LocalSubject.over(tmp_path, device_seconds=0.02) as subject:
        (node,) = await subject.engine.nodes()
        assert node.closed_gpus == {}
        (tmp_path / "sick").write_text("0, 1, No\n1, 0, No\n")
        (tmp_path / "sick").replace(health)
        await subject.news.wait_for(NodesChanged)
        (node,) = await subject.engine.nodes()
        assert node.closed_gpus == {"0": "uncorrected ECC errors: 1"}
        gang = await shell_gang(subject, "echo gpu $CUDA_VISIBLE_DEVICES", resources=Resources(gpu_millis=1000))
        await subject.engine.run(gang)
        await subject.news.wait_for(ReplicaExited)
        order = json.loads((subject.attempt() / "order.json").read_text())
        assert [list(each["gpu_millis"]) for each in order["replicas"]] == [["1"]]
        (tmp_path / "well").write_text("0, 0, No\n1, 0, No\n")
        (tmp_path / "well").replace(health)
        await subject.news.wait_for(NodesChanged, count=2)
        (node,) = await subject.engine.nodes()
        assert node.closed_gpus == {}


async def test_gpus_are_free_the_moment_a_gang_is_reported_as_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    install_nvidia_smi(tmp_path, "printf '0, NVIDIA H200, 143771, 100, 0\\n'", monkeypatch)
    async with LocalSubject.over(tmp_path) as subject:
        for attempt in range(1, 4):
            gang = await shell_gang(subject, "true", resources=Resources(gpu_millis=1000))
            gang = Gang(id=gang.id._replace(attempt=attempt), spec=gang.spec, replicas=gang.replicas)
            await subject.engine.run(gang)
            (exited,) = (await subject.news.wait_for(ReplicaExited, count=attempt))[-1:]
            assert exited.exit_code == 0
            await subject.engine.stop(gang.id, 1.0)
            await subject.news.wait_for(GangStopped, count=attempt)
