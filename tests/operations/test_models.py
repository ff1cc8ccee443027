"""Models: versions that are numbered once, aliases, and what may not be deleted."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gangline import operations
from gangline.data.model_files import KeptModel
from gangline.data.tars import packed
from gangline.errors import ConflictError, InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.kinds.model import MODEL
from gangline.kinds.service import SERVICE
from gangline.model import DEFAULT_TENANT, DataMove, JobId, Metric, ReplicaId, RoleName, Tenant
from gangline.model.jobs.transfer import DataVersion
from gangline.model.kinds.registered_model import ModelReference, ModelVersion
from gangline.model.kinds.service import Revision, ServiceSpec, ServiceStatus
from gangline.model.record import Record, RecordId
from gangline.operations.models import RecordedModels
from gangline.operations.tar_streams import tar_chunks
from gangline.testing.builders import START, make_spec
from tests.operations.fakes import Office, at

OTHER = Tenant("other")


@pytest.fixture
def models(office: Office, tmp_path: Path) -> RecordedModels:
    office.model_directory = tmp_path / "models"
    return RecordedModels(office.store, office.clock, office.model_directory)


def version(digest: str = "d", **fields: str) -> ModelVersion:
    return ModelVersion(digest=digest, created_at=at(), **fields)


def files(place: Path, text: str) -> Path:
    place.mkdir(exist_ok=True)
    (place / "weights").write_text(text)
    return place


async def numbers(office: Office, name: str = "mnist", tenant: Tenant = DEFAULT_TENANT) -> list[int]:
    model = await operations.get_record(office.context(), MODEL, tenant, name)
    return [each.number for each in model.status.versions]


def sent(source: Path) -> AsyncIterator[bytes]:
    """Files as a client sends them."""
    return tar_chunks(packed(source))


async def test_versions_are_numbered_and_the_same_content_is_the_same_version(
    office: Office, models: RecordedModels, tmp_path: Path
) -> None:
    for text, want in (("1", 1), ("2", 2), ("1", 1)):
        made = await operations.register_model(
            office.context(), DEFAULT_TENANT, "mnist", sent(files(tmp_path / "m", text)), framework="torch"
        )
        assert (made.number, made.framework, made.files, made.size_bytes) == (want, "torch", 1, 1)
    assert await numbers(office) == [1, 2]
    assert (await models.find(DEFAULT_TENANT, ModelReference("mnist"))).number == 2


async def test_a_number_is_never_given_twice(office: Office, models: RecordedModels) -> None:
    for digest in ("a", "b"):
        await models.register(DEFAULT_TENANT, "mnist", version(digest))
    await operations.delete_version(office.context(), DEFAULT_TENANT, "mnist", 2)
    assert (await models.register(DEFAULT_TENANT, "mnist", version("b"))).number == 3


async def test_many_at_once_each_get_a_number_of_their_own(office: Office, models: RecordedModels) -> None:
    made = await asyncio.gather(
        *(models.register(DEFAULT_TENANT, "mnist", version(f"d{number}")) for number in range(20))
    )
    assert sorted(each.number for each in made) == list(range(1, 21))
    assert await numbers(office) == list(range(1, 21))


async def test_what_a_job_left_is_registered_once_with_where_it_came_from(
    office: Office, models: RecordedModels
) -> None:
    spec = make_spec(inputs=(DataMove("s3://bucket/set", "$DATA_DIR"), DataMove("model://base", "$DATA_DIR/base")))
    job = await operations.submit(office.context(), JobId("job-1"), spec)
    fetched = (DataVersion("s3://bucket/set", "tags:1"), DataVersion("model://base", "sha256:2"))
    await office.store.save(replace(job, inputs=fetched), ())
    lead = ReplicaId(RoleName(spec.lead_role), 0)
    metric = Metric(job_id=JobId("job-1"), replica=lead, name="accuracy", value=0.9, step=3, at=START)
    await office.store.add_metrics([metric])
    kept = KeptModel("the-digest", 10, 2, '{"inputs": []}')
    first = await models.register_output("job-1", 0, "mnist", kept)
    assert await models.register_output("job-1", 0, "mnist", kept) == first
    assert (await models.register_output("job-1", 1, "mnist", kept)).number == 2
    assert (first.job, first.job_id, first.framework) == ("mnist", "job-1", str(spec.framework))
    assert first.inputs == fetched
    assert (first.metrics, first.signature) == ({"accuracy": 0.9}, '{"inputs": []}')


async def test_an_alias_leads_to_a_version_and_protects_it(office: Office, models: RecordedModels) -> None:
    for digest in ("a", "b"):
        await models.register(DEFAULT_TENANT, "mnist", version(digest))
    context = office.context()
    await operations.promote(context, DEFAULT_TENANT, "mnist", "production", 1)
    assert (await models.find(DEFAULT_TENANT, ModelReference("mnist", alias="production"))).digest == "a"
    with pytest.raises(ConflictError, match="in use: @production leads to it"):
        await operations.delete_version(context, DEFAULT_TENANT, "mnist", 1)
    with pytest.raises(ConflictError, match="promote mnist --remove production"):
        await operations.delete_record(context, MODEL, DEFAULT_TENANT, "mnist")
    await operations.promote(context, DEFAULT_TENANT, "mnist", "production", 2)
    await operations.delete_version(context, DEFAULT_TENANT, "mnist", 1)
    await operations.promote(context, DEFAULT_TENANT, "mnist", "production", None)
    await operations.delete_record(context, MODEL, DEFAULT_TENANT, "mnist")


@pytest.mark.parametrize(
    ("source", "want"), [("model://mnist", 2), ("model://mnist:1", 1), ("model://mnist@old", 1)], ids=str
)
async def test_what_an_unfinished_job_reads_is_not_deleted(
    office: Office, models: RecordedModels, source: str, want: int
) -> None:
    for tenant in (DEFAULT_TENANT, OTHER):
        for digest in ("a", "b"):
            await models.register(tenant, "mnist", version(digest))
    context = office.context()
    await operations.promote(context, DEFAULT_TENANT, "mnist", "old", 1)
    await operations.submit(context, JobId("job-1"), make_spec(inputs=(DataMove(source, "$DATA_DIR"),)))
    with pytest.raises(ConflictError, match="in use"):
        await operations.delete_version(context, DEFAULT_TENANT, "mnist", want)
    await operations.delete_version(context, OTHER, "mnist", want)
    await operations.promote(context, DEFAULT_TENANT, "mnist", "old", None)
    with pytest.raises(ConflictError, match="job 'mnist' reads it"):
        await operations.delete_record(context, MODEL, DEFAULT_TENANT, "mnist")


async def test_what_a_service_serves_or_goes_back_to_is_not_deleted_though_nothing_reads_it_now(
    office: Office, models: RecordedModels
) -> None:
    for digest in ("a", "b", "c"):
        await models.register(DEFAULT_TENANT, "mnist", version(digest))
    revisions = tuple(
        Revision(number=number, job=make_spec(), model=f"mnist:{number}", created_at=at()) for number in (1, 2, 3)
    )
    status = ServiceStatus(revisions=revisions, last_number=3, current=3, previous=2, wanted=3, scale=0)
    spec = ServiceSpec(name="digits", model="model://mnist:3")
    asleep = Record(id=RecordId("service-1"), spec=spec, status=status, created_at=at())
    await office.store.records(SERVICE).create(asleep)
    context = office.context()
    for number in (2, 3):
        with pytest.raises(ConflictError, match="in use: service 'digits' has it"):
            await operations.delete_version(context, DEFAULT_TENANT, "mnist", number)
    await operations.delete_version(context, DEFAULT_TENANT, "mnist", 1)
    assert await numbers(office) == [2, 3]
    with pytest.raises(ConflictError, match="in use: service 'digits' serves it"):
        await operations.delete_record(context, MODEL, DEFAULT_TENANT, "mnist")
    await models.register(OTHER, "mnist", version("a"))
    await operations.delete_record(context, MODEL, OTHER, "mnist")


@pytest.mark.parametrize(
    ("reference", "want"),
    [
        (ModelReference("mnist", 7), "mnist:7"),
        (ModelReference("mnist", alias="production"), "mnist@production"),
        (ModelReference("nothing"), "nothing"),
    ],
    ids=str,
)
async def test_what_does_not_exist_is_named(models: RecordedModels, reference: ModelReference, want: str) -> None:
    await models.register(DEFAULT_TENANT, "mnist", version())
    with pytest.raises(NotFoundError, match=want):
        await models.find(DEFAULT_TENANT, reference)


async def test_another_tenant_sees_neither_model_nor_files(
    office: Office, models: RecordedModels, tmp_path: Path
) -> None:
    await operations.register_model(office.context(), DEFAULT_TENANT, "mnist", sent(files(tmp_path / "m", "1")))
    with pytest.raises(NotFoundError):
        await models.find(OTHER, ModelReference("mnist"))
    stranger = office.context(tenants=frozenset({OTHER}))
    with pytest.raises(PermissionDeniedError):
        await operations.model_files(stranger, DEFAULT_TENANT, "mnist", None, "")
    with pytest.raises(PermissionDeniedError):
        await operations.promote(stranger, DEFAULT_TENANT, "mnist", "production", 1)
    with pytest.raises(PermissionDeniedError):
        await operations.register_model(stranger, DEFAULT_TENANT, "mnist", sent(tmp_path / "m"))


@pytest.mark.usefixtures("models")
async def test_what_is_not_a_model_is_refused_before_anything_is_recorded(office: Office, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="has no files"):
        await operations.register_model(office.context(), DEFAULT_TENANT, "mnist", sent(tmp_path / "empty"))
    with pytest.raises(InvalidInputError, match=r"metadata\.name"):
        await operations.register_model(office.context(), DEFAULT_TENANT, "M", sent(tmp_path / "empty"))
    with pytest.raises(NotFoundError):
        await numbers(office)


async def test_the_description_may_change_and_versions_stay(office: Office, models: RecordedModels) -> None:
    await models.register(DEFAULT_TENANT, "mnist", version())
    model = await operations.get_record(office.context(), MODEL, DEFAULT_TENANT, "mnist")
    await operations.edit_record(office.context(), MODEL, replace(model.spec, description="digits"))
    assert await numbers(office) == [1]


async def test_what_a_job_has_read_is_not_deleted_when_the_alias_leads_elsewhere(
    office: Office, models: RecordedModels
) -> None:
    for digest in ("a", "b"):
        await models.register(DEFAULT_TENANT, "mnist", version(digest))
    context = office.context()
    spec = make_spec(inputs=(DataMove("model://mnist@production", "$DATA_DIR"),))
    job = await operations.submit(context, JobId("job-1"), spec)
    await office.store.save(replace(job, inputs=(DataVersion("model://mnist@production", "sha256:a"),)), ())
    await operations.promote(context, DEFAULT_TENANT, "mnist", "production", 2)
    with pytest.raises(ConflictError, match="job 'mnist' reads it"):
        await operations.delete_version(context, DEFAULT_TENANT, "mnist", 1)


async def test_pruning_frees_the_files_of_a_model_that_is_gone(
    office: Office, models: RecordedModels, tmp_path: Path
) -> None:
    context = office.context()
    await operations.register_model(context, DEFAULT_TENANT, "gone", sent(files(tmp_path / "a", "1")))
    await operations.register_model(context, DEFAULT_TENANT, "kept", sent(files(tmp_path / "b", "2")))
    content = models.folder_of(DEFAULT_TENANT) / "content"
    before = {path.name for path in content.iterdir()}
    record = await operations.get_record(context, MODEL, DEFAULT_TENANT, "gone")
    await office.store.records(MODEL).remove(record)
    for listed in models.folder_of(DEFAULT_TENANT).glob("versions/*"):
        os.utime(listed, (office.clock.now() - 4000, office.clock.now() - 4000))
    await operations.prune(context, DEFAULT_TENANT, finished_before=START)
    left = {path.name for path in content.iterdir()}
    assert left < before
    assert await operations.model_files(context, DEFAULT_TENANT, "kept", None, "")
