"""Outputs that become models: registered before anybody hears that they are stored, and once whatever happens."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gangline.data.model_files import KeptModel, ModelFiles
from gangline.errors import NotFoundError, StorageError
from gangline.lifecycle.events import GangFailed, GangStopped, OutputsStored, ReplicaExited
from gangline.model import DataMove, Gang, Policy, Timestamp
from gangline.model.kinds.registered_model import ModelReference, ModelVersion
from gangline.testing.builders import make_role, make_spec
from gangline.testing.engine_suite import place
from tests.engines.local.machinery import LocalSubject


class Registry:
    """Models in memory; the first ``failures`` registrations fail."""

    def __init__(self, folder: Path, failures: int = 0) -> None:
        self.folder = folder
        self.failures = failures
        self.registered: list[tuple[str, int, str, str]] = []
        self.asked = asyncio.Event()
        self.known: dict[ModelReference, str] = {}

    def folder_of(self, tenant: str) -> Path:
        return self.folder / tenant

    async def find(self, tenant: str, reference: ModelReference) -> ModelVersion:
        if reference not in self.known:
            raise NotFoundError("model", reference.name)
        return ModelVersion(digest=self.known[reference], created_at=Timestamp(0))

    async def register_output(self, job_id: str, output: int, name: str, kept: KeptModel, at: str = "") -> ModelVersion:
        self.asked.set()
        if self.failures:
            self.failures -= 1
            raise StorageError("the database is away")
        self.registered.append((job_id, output, name, kept.digest))
        return ModelVersion(digest=kept.digest, created_at=Timestamp(0))


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "models")


@pytest.fixture
async def subject(tmp_path: Path, registry: Registry) -> AsyncIterator[LocalSubject]:
    async with LocalSubject.over(tmp_path, models=registry) as subject:
        yield subject


async def gang_of(subject: LocalSubject, script: str, **fields: object) -> Gang:
    role = make_role(command=("sh", "-c", script))
    spec = make_spec(roles=(role,), policy=Policy(grace_seconds=1.0), **fields)
    return place(spec, await subject.node())


async def stored(subject: LocalSubject, gang: Gang) -> None:
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.finish(gang)
    await subject.news.wait_for(OutputsStored)


async def stop(subject: LocalSubject, gang: Gang) -> None:
    await subject.engine.stop(gang.id, 1.0)
    await subject.news.wait_for(GangStopped)


SAVE = 'mkdir "$RESULT_DIR/model"; echo 1 > "$RESULT_DIR/model/weights"'
MNIST = DataMove("$RESULT_DIR/model", "model://mnist")


@pytest.mark.parametrize("failures", [0, 2])
async def test_an_output_is_registered_before_it_is_told(
    subject: LocalSubject, registry: Registry, failures: int
) -> None:
    registry.failures = failures
    gang = await gang_of(subject, SAVE, outputs=(DataMove("$RESULT_DIR", str(subject.root / "copy")), MNIST))
    await stored(subject, gang)
    ((job_id, output, name, digest),) = registry.registered
    assert (job_id, output, name) == (gang.id.job_id, 1, "mnist")
    assert set(ModelFiles.in_directory(registry.folder_of("default")).files(digest)) == {"weights"}
    await stop(subject, gang)


async def test_an_engine_that_comes_back_registers_what_the_last_one_did_not(
    subject: LocalSubject, registry: Registry
) -> None:
    registry.failures = 1000
    gang = await gang_of(subject, SAVE, outputs=(MNIST,))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.finish(gang)
    await asyncio.wait_for(registry.asked.wait(), 30)
    await subject.restart()
    registry.failures = 0
    await subject.news.wait_for(OutputsStored)
    assert len(registry.registered) == 1
    await subject.restart()
    await subject.news.wait_for(OutputsStored)
    assert len(registry.registered) == 1, "what is done is not asked for again"
    await stop(subject, gang)


async def test_a_model_is_an_input_and_what_was_fetched_once_stays(subject: LocalSubject, registry: Registry) -> None:
    source = subject.root.parent / "source"
    source.mkdir()
    (source / "weights").write_text("from the model")
    files = ModelFiles.in_directory(registry.folder_of("default"))
    registry.known[ModelReference("base", alias="production")] = files.keep(source).digest
    move = DataMove("model://base@production", "$DATA_DIR/base")
    gang = await gang_of(subject, 'cat "$DATA_DIR/base/weights"', inputs=(move,))
    await stored(subject, gang)
    assert [line.text for line in await subject.lines()] == ["from the model"]
    await stop(subject, gang)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"inputs": (DataMove("model://nothing", "$DATA_DIR"),)}, "no model named 'nothing'"),
        ({"outputs": (DataMove("$RESULT_DIR", "model://mnist:3"),)}, "which become its next version"),
        ({"outputs": (DataMove("$RESULT_DIR", "model://mnist@production"),)}, "which become its next version"),
        ({"inputs": (DataMove("model://Base", "$DATA_DIR"),)}, "expected model://NAME"),
        ({"outputs": (DataMove("$RESULT_DIR", "model://mnist.v2"),)}, "'mnist.v2' is not a valid name"),
    ],
    ids=["missing", "numbered", "alias", "name", "target name"],
)
async def test_what_cannot_be_is_told_before_anything_runs(
    subject: LocalSubject, fields: dict[str, object], want: str
) -> None:
    await subject.engine.run(await gang_of(subject, "true", **fields))
    (failed,) = await subject.news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == ("CannotStart", True)
    assert want in failed.message


async def test_an_output_without_files_fails_the_job_and_registers_nothing(
    subject: LocalSubject, registry: Registry
) -> None:
    gang = await gang_of(subject, 'mkdir "$RESULT_DIR/model"', outputs=(MNIST,))
    await subject.engine.run(gang)
    await subject.news.wait_for(ReplicaExited)
    await subject.engine.finish(gang)
    (failed,) = await subject.news.wait_for(GangFailed)
    assert (failed.reason, failed.permanent) == ("OutputsFailed", True)
    assert "has no files" in failed.message
    assert registry.registered == []
