"""Files of jobs and models that somebody copies by hand, while a job runs and after."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.data.tars import packed
from gangline.engines.interface import LogQuery
from gangline.engines.kubernetes.files.reaching import FileReach
from gangline.errors import EngineError, InvalidInputError, NotFoundError
from gangline.kinds.model import MODEL
from gangline.kube import PODS
from gangline.lifecycle.events import HaltRequested, ResumeRequested
from gangline.model import DataMove, Job, Phase, Tenant
from gangline.model.jobs.job_file import JobFile, checkpoints_of
from gangline.model.jobs.spec import CheckpointRule
from gangline.operations.cluster_data import ClusterRecords
from gangline.operations.tar_streams import tar_chunks
from gangline.testing.builders import make_role
from tests.integration.kubernetes.object_store import ClusterS3
from tests.integration.kubernetes.test_data import VOLUMES, make_disk
from tests.integration.kubernetes.test_object_stores import SAVE, claim_on, lake, s3, world
from tests.integration.kubernetes.world import OBEDIENT, World, eventually, shell

__all__ = ["lake", "s3", "world"]

WRITTEN = {"directory/a": "one\n", "directory/deep/b": "two\n"}
WRITES = 'mkdir "$RESULT_DIR/deep"; echo one > "$RESULT_DIR/a"; echo two > "$RESULT_DIR/deep/b"'


@pytest.fixture
def reach(world: World) -> FileReach:
    return FileReach(world.client, ClusterRecords(world.store, world.clock), world.namespace)


async def content(chunks: AsyncIterator[bytes]) -> dict[str, str]:
    """What a stream of files holds, by name."""
    whole = io.BytesIO(b"".join([chunk async for chunk in chunks]))
    found = {}
    with tarfile.open(fileobj=whole) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                found[member.name] = file.read().decode()
    return found


async def owned(world: World, job: Job) -> tuple[Job, object]:
    return job, await world.store.owner_of(job.id)


@pytest.mark.parametrize("stores", [False, True], ids=["without a mover", "with a mover"])
async def test_files_of_a_job_that_runs_are_listed_read_and_added(
    world: World, reach: FileReach, lake: ClusterS3, tmp_path: Path, stores: bool
) -> None:
    outputs = (DataMove("$RESULT_DIR", "s3://bucket/out"),) if stores else ()
    follows = 'while [ ! -f "$DATA_DIR/more/new" ]; do sleep 0.2; done; cat "$DATA_DIR/more/new"; '
    job_id = await world.submit(shell(f"{WRITES}; echo ready; {follows} {OBEDIENT}"), outputs=outputs)
    job, owner = await owned(world, await world.phase(job_id, Phase.PROCESSING))
    while len(listed := await reach.list_files(job, owner, "results/")) < 2:
        pass
    assert sorted(file.path for file in listed) == ["results/a", "results/deep/b"]
    assert await content(reach.read_files(job, owner, "results/deep/")) == {"directory/b": "two\n"}
    (tmp_path / "new").write_text("by hand\n")
    placed = await reach.write_files(job, owner, "data/more/", tar_chunks(packed(tmp_path / "new")))
    assert placed.path == "data/more/new"
    with pytest.raises(NotFoundError, match="results/nothing"):
        await reach.list_files(job, owner, "results/nothing")
    with pytest.raises(InvalidInputError, match="is not in the job"):
        await reach.list_files(job, owner, "../etc")


async def test_results_are_there_after_the_end_where_they_were_stored(
    world: World, reach: FileReach, lake: ClusterS3
) -> None:
    job_id = await world.submit(shell(WRITES), outputs=(DataMove("$RESULT_DIR", "s3://bucket/out/$JOB_NAME"),))
    await world.phase(job_id, Phase.COMPLETED)
    job, owner = await owned(world, await world.until(job_id, lambda job: not job.holding))
    assert await content(reach.read_files(job, owner, "results/")) == {
        "directory/a": "one\n",
        "directory/deep/b": "two\n",
    }
    assert (await world.client.list(PODS, namespace=world.namespace)).items == [], "nothing is left of looking"


async def test_a_job_that_kept_nothing_says_so(world: World, reach: FileReach) -> None:
    job_id = await world.submit(shell(WRITES))
    await world.phase(job_id, Phase.COMPLETED)
    job, owner = await owned(world, await world.until(job_id, lambda job: not job.holding))
    with pytest.raises(EngineError, match="kept no files: name an output"):
        await reach.list_files(job, owner, "results/")


async def test_a_halted_job_goes_on_from_a_checkpoint_that_is_chosen_at_its_address(
    world: World, reach: FileReach, lake: ClusterS3, kubernetes_gangline_image: str
) -> None:
    role = make_role(image=kubernetes_gangline_image, command=("python3", "-c", SAVE), replicas=1)
    rule = CheckpointRule(to="s3://bucket/runs/$JOB_NAME", keep=100)
    job_id = await world.submit(role, checkpoints=rule)
    third = lake.at("s3://bucket/runs/mnist/step-000000000003.1/commit.json")

    async def is_saved() -> bool:
        return await asyncio.to_thread(third.exists)

    await eventually(is_saved)
    await world.ask(HaltRequested, job_id)
    job, owner = await owned(world, await world.until(job_id, lambda job: job.phase is Phase.HALTED))
    listed = await reach.list_files(job, owner, "checkpoints")
    files = [JobFile(path=each.path, size_bytes=each.size_bytes, changed_at=each.changed_at) for each in listed]
    assert [each.step for each in checkpoints_of(files)][-3:] == [3, 2, 1]
    assert (await content(reach.read_files(job, owner, "checkpoints/step-000000000002")))[
        "directory/state"
    ] == "state 2"
    with pytest.raises(NotFoundError, match="checkpoints/step-9"):
        await reach.list_files(job, owner, "checkpoints/step-9")
    world.controller.hear(ResumeRequested(job_id=job_id, at=world.clock.now(), step=2))
    job, owner = await owned(world, await world.phase(job_id, Phase.COMPLETED))
    said = [line.text async for line in world.engine.logs(LogQuery(job_id=job_id))]
    assert said[-2:] == ["begins at 2", "state 2"]
    job, owner = await owned(world, await world.until(job_id, lambda job: not job.holding))
    listed = await reach.list_files(job, owner, "checkpoints")
    assert not any("step-000000000003" in each.path for each in listed), "its user chose to go on without it"


async def test_a_halted_job_goes_on_from_a_checkpoint_that_is_chosen_on_its_volume(
    world: World, reach: FileReach, tmp_path: Path
) -> None:
    disk = await asyncio.to_thread(make_disk, tmp_path)
    await claim_on(world.client, world.namespace, "disk", disk)
    save = 'mkdir -p "$CHECKPOINT_DIR/step-7"; echo "{}" > "$CHECKPOINT_DIR/step-7/manifest.json"'
    role = shell(f'echo "from $GANGLINE_RESUME_FROM"; {save}; {OBEDIENT}')
    job_id = await world.submit(role, labels={"gangline.dev/volume": "disk"})
    await world.phase(job_id, Phase.PROCESSING)
    await world.ask(HaltRequested, job_id)
    job, owner = await owned(world, await world.phase(job_id, Phase.HALTED))
    listed = await reach.list_files(job, owner, "checkpoints")
    assert [file.path for file in listed] == ["checkpoints/step-7/manifest.json"]
    world.controller.hear(ResumeRequested(job_id=job_id, at=world.clock.now(), step=7))
    await world.phase(job_id, Phase.PROCESSING)

    async def is_told() -> bool:
        lines = [line.text async for line in world.engine.logs(LogQuery(job_id=job_id))]
        return lines[-1:] == ["from 7.2"]

    await eventually(is_told)
    await world.client.delete(VOLUMES, f"{world.namespace}-disk")


async def test_models_are_kept_and_taken_by_hand(
    world: World, reach: FileReach, lake: ClusterS3, tmp_path: Path
) -> None:
    await world.phase(
        await world.submit(shell(WRITES), outputs=(DataMove("$RESULT_DIR", "model://m"),)), Phase.COMPLETED
    )
    model = await world.store.records(MODEL).find(Tenant(world.namespace), "m")
    assert model is not None
    (version,) = model.status.versions
    taken = reach.model_files(world.namespace, version.at, version.digest)
    assert await content(taken) == WRITTEN
    (tmp_path / "weights").write_text("mine")
    at, kept = await reach.keep_model(world.namespace, tar_chunks(packed(tmp_path / "weights")))
    assert (at, kept.files, kept.size_bytes) == (version.at, 1, 4)
    await reach.forget_models(world.namespace, at, {version.digest})
    assert await content(reach.model_files(world.namespace, at, kept.digest)) == {"directory/weights": "mine"}, (
        "too young"
    )
