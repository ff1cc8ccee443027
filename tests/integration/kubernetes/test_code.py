"""Code shipped with a job, its numbers, and its logs after the pods are gone."""

import asyncio
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from gangline.engines.interface import LogQuery
from gangline.model import Phase
from gangline.testing.builders import make_role
from tests.integration.kubernetes.subject import SMALL
from tests.integration.kubernetes.world import World, eventually

pytestmark = pytest.mark.parametrize("world", ["kubernetes"], indirect=True)

PROGRAM = """
import gangline.runtime as runtime
replica = runtime.current()
print("I am", replica.name, "of", replica.job)
(replica.result_directory / "done").write_text("yes")
for step in range(3):
    runtime.report(step=step, loss=1.0 / (step + 1))
"""


def ship(folder: Path, text: str) -> str:
    """Put a program into an archive as a submission would, and return the name a job knows it by."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("train.py")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text.encode()))
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    (folder / f"{digest}.tar.gz").write_bytes(buffer.getvalue())
    return f"sha256:{digest}"


async def test_shipped_code_runs_and_reports(world: World, kubernetes_python_image: str) -> None:
    assert world.code_directory is not None
    code = await asyncio.to_thread(ship, world.code_directory, PROGRAM)
    role = make_role(command=("python3", "train.py"), image=kubernetes_python_image, resources=SMALL)
    job_id = await world.submit(role, code=code)
    job = await world.phase(job_id, Phase.COMPLETED)
    await world.until(job_id, lambda job: not job.holding)
    lines = [line.text async for line in world.engine.logs(LogQuery(job_id=job_id))]
    assert lines == [f"I am worker-0 of {job.name}"]

    async def all_numbers_came() -> bool:
        return len(await world.store.metrics(job_id)) == 3

    await eventually(all_numbers_came)
    metrics = await world.store.metrics(job_id)
    assert [(metric.name, metric.step) for metric in metrics] == [("loss", 0), ("loss", 1), ("loss", 2)]


async def test_code_that_nobody_sent_is_missed_before_anything_starts(world: World) -> None:
    role = make_role(command=("true",), image="gangline.local/busybox:1", resources=SMALL)
    job_id = await world.submit(role, code="sha256:" + "0" * 64)
    job = await world.phase(job_id, Phase.FAILED)
    assert job.reason == "CodeMissing"
