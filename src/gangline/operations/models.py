"""Versions of models: registered by jobs and by people, resolved, promoted and deleted, with guarded writes."""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gangline.data.model_files import KeptModel, ModelFiles
from gangline.data.moving import remove
from gangline.data.tars import DIRECTORY, Packed
from gangline.data.trees import Entry
from gangline.data.unpacking import PermanentError
from gangline.engines.interface import RemoteFiles
from gangline.errors import ConflictError, InvalidInputError, NotFoundError, StaleVersionError, StorageError
from gangline.kinds.model import MODEL, readers_of
from gangline.kinds.service import SERVICE
from gangline.model import Clock, Job, JobId, Tenant
from gangline.model.kinds.registered_model import (
    Model,
    ModelReference,
    ModelSpec,
    ModelStatus,
    ModelVersion,
    find_version,
    with_alias,
    with_version,
    without_alias,
    without_version,
)
from gangline.model.kinds.service import Service
from gangline.model.record import Record, RecordId
from gangline.operations.context import OperationContext
from gangline.operations.tar_streams import full_disk_told, receive_stream, tar_chunks
from gangline.storage.interface import Store
from gangline.storage.owned import all_records, find_record

_TRIES = 50
"""How often a write is tried again: as many jobs may register one model at one moment."""


@dataclass(frozen=True, slots=True)
class ModelRecords:
    """The records of models, wherever their files are."""

    store: Store
    clock: Clock

    async def find(self, tenant: str, reference: ModelReference) -> ModelVersion:
        """Return the version that is meant; raises NotFoundError."""
        model = await find_record(self.store, MODEL, Tenant(tenant), reference.name)
        if model is None:
            raise NotFoundError("model", reference.name)
        return find_version(model, reference.number, reference.alias)

    async def register_output(self, job_id: str, output: int, name: str, kept: KeptModel, at: str = "") -> ModelVersion:
        """Register what a job left, with all that its record tells of it; again is the same version."""
        job = await self.store.get(JobId(job_id))
        spec = job.spec
        metrics = await self.store.latest_metrics([job.id])
        lead = [each for each in metrics if each.replica.role == spec.lead_role and each.replica.index == 0]
        version = _version(kept, self.clock)
        version = replace(
            version,
            origin=f"{job.id}/{output}",
            at=at,
            job=spec.name,
            job_id=job.id,
            code=spec.code or "",
            commit=spec.source.described_commit if spec.source else "",
            framework=str(spec.framework),
            inputs=job.inputs,
            metrics={each.name: each.value for each in lead or metrics},
        )
        return await self.register(spec.tenant, name, version)

    async def register(self, tenant: Tenant, name: str, version: ModelVersion) -> ModelVersion:
        """Add a version to a model, which is made if there is none; as many as wish may do so at once."""
        for _ in range(_TRIES):
            model = await find_record(self.store, MODEL, tenant, name)
            fresh = model is None
            if model is None:
                spec = ModelSpec(name=name, tenant=tenant)
                record_id = RecordId(f"m{hashlib.sha256(f'{tenant}/{name}'.encode()).hexdigest()[:14]}")
                model = Record(id=record_id, spec=spec, status=ModelStatus(), created_at=self.clock.now())
            status, added = with_version(model.status, version)
            if not fresh and status == model.status:
                return added
            try:
                records = self.store.records(MODEL)
                changed = replace(model, status=status)
                await (records.create(changed) if fresh else records.save(changed))
            except (StaleVersionError, ConflictError):
                continue  # another has registered meanwhile
            return added
        raise ConflictError(f"model '{name}' changes faster than a version can be registered; try again")

    async def used(self, tenant: Tenant) -> set[str]:
        """Return the digests of all versions that a tenant has."""
        models = await all_records(self.store, MODEL, tenant)
        return {version.digest for model in models for version in model.status.versions}


@dataclass(frozen=True, slots=True)
class RecordedModels(ModelRecords):
    """The models of one service; ``folder`` keeps their files by tenant."""

    folder: Path
    rights_of: Callable[[Tenant], AbstractContextManager[None]] = lambda _: nullcontext()

    def folder_of(self, tenant: str) -> Path:
        """Return where a tenant's files are."""
        return self.folder / tenant

    def files(self, tenant: str) -> ModelFiles:
        """Return a tenant's files."""
        return ModelFiles.in_directory(self.folder_of(tenant))

    async def forget_unused(self, tenant: Tenant) -> None:
        """Remove files that no version of the tenant needs any more."""
        used = await self.used(tenant)
        now = self.clock.now()

        def forget() -> None:
            with self.rights_of(tenant):
                self.files(tenant).forget_all_but(used, now=now)

        await asyncio.to_thread(forget)


def models_of(context: OperationContext) -> RecordedModels:
    """Return the models of a service that keeps their files."""
    if context.model_directory is None:
        raise NotFoundError("path", "models", hint="files of models are kept by the local service only")
    return RecordedModels(context.store, context.clock, context.model_directory, context.rights_of)


async def register_model(
    context: OperationContext, tenant: Tenant, name: str, stream: AsyncIterator[bytes], *, framework: str = ""
) -> ModelVersion:
    """Register the files of a stream as a version; the same content again is the same version."""
    context.caller.check(tenant)
    ModelSpec(name=name, tenant=tenant)  # refuses a wrong name before anything is copied
    if isinstance(context.engine, RemoteFiles):
        if context.rehearsal:
            raise InvalidInputError("files for a cluster cannot be tried", field="dryRun", expected="no dry run")
        at, kept = await context.engine.keep_model(tenant, stream)
        version = replace(_version(kept, context.clock), framework=framework, at=at)
        return await ModelRecords(context.store, context.clock).register(tenant, name, version)
    models = models_of(context)
    draft = models.folder_of(tenant) / "incoming" / secrets.token_hex(8)
    try:
        files = ModelFiles.in_directory(draft / "rehearsed") if context.rehearsal else models.files(tenant)
        with full_disk_told():
            arrived = await receive_stream(stream, draft, context.rights_of(tenant))
            kept = await context.among_files(tenant, partial(files.keep, arrived))
    except PermanentError as error:
        raise InvalidInputError(str(error).replace(f"{draft}/{DIRECTORY}", "it"), field="model") from error
    finally:
        await context.among_files(tenant, partial(_discard, draft))
    return await models.register(tenant, name, replace(_version(kept, context.clock), framework=framework))


async def model_files(
    context: OperationContext, tenant: Tenant, name: str, number: int | None, alias: str
) -> AsyncGenerator[bytes]:
    """Return the files of a version as a stream."""
    context.caller.check(tenant)
    records = ModelRecords(context.store, context.clock)
    if isinstance(context.engine, RemoteFiles):
        version = await records.find(tenant, ModelReference(name, number, alias))
        return context.engine.model_files(tenant, version.at, version.digest)
    models = models_of(context)
    version = await models.find(tenant, ModelReference(name, number, alias))
    try:
        listed = await context.among_files(tenant, partial(models.files(tenant).files, version.digest))
    except PermanentError as error:
        raise StorageError(str(error)) from error
    folder = models.folder_of(tenant) / "content"
    entries = [Entry(file, folder / digest) for file, (digest, _) in listed.items()]
    return tar_chunks(Packed(DIRECTORY, entries), context.rights_of(tenant))


def _discard(draft: Path) -> None:
    with contextlib.suppress(OSError):
        remove(draft)


async def promote(context: OperationContext, tenant: Tenant, name: str, alias: str, number: int | None) -> Model:
    """Let an alias lead to a version; None takes the alias away."""
    if number is None:
        return await _change(context, tenant, name, lambda model: without_alias(model, alias))
    return await _change(context, tenant, name, lambda model: with_alias(model, alias, number))


async def delete_version(context: OperationContext, tenant: Tenant, name: str, number: int) -> Model:
    """Delete a version that nobody uses; its files go once no other version has them."""
    unfinished = [job async for job in context.store.unfinished() if not job.finished]
    services = await all_records(context.store, SERVICE, tenant)

    def change(model: Model) -> Model:
        _check_unread(model, number, unfinished)
        _check_unserved(model, number, services)
        return without_version(model, number)

    before = await find_record(context.store, MODEL, tenant, name)
    changed = await _change(context, tenant, name, change)
    places = {each.at for each in (before.status.versions if before else ()) if each.number == number}
    await _forget_unused(context, tenant, places)
    return changed


async def free_models(context: OperationContext, tenant: Tenant) -> None:
    """Remove the files that no version of the tenant needs any more, where files are kept at all."""
    if context.model_directory is not None and not context.rehearsal:
        await models_of(context).forget_unused(tenant)


async def _forget_unused(context: OperationContext, tenant: Tenant, places: set[str]) -> None:
    """Remove the files that no version of the tenant needs any more, where a version lay that is gone."""
    if context.rehearsal:
        return
    if not isinstance(context.engine, RemoteFiles):
        await models_of(context).forget_unused(tenant)
        return
    used = await ModelRecords(context.store, context.clock).used(tenant)
    for at in filter(None, places):
        await context.engine.forget_models(tenant, at, used)


def _check_unread(model: Model, number: int, jobs: Sequence[Job]) -> None:
    digest = f"sha256:{find_version(model, number).digest}"
    for each in jobs:
        # An alias may lead elsewhere since; what the job has read is on its record.
        if each.spec.tenant == model.tenant and any(found.digest == digest for found in each.inputs):
            raise ConflictError(f"version {number} of model '{model.name}' is in use: job '{each.name}' reads it")
    for job, reference in readers_of(model, jobs).items():
        try:
            meant = find_version(model, reference.number, reference.alias).number
        except NotFoundError:
            continue  # the job will be told so itself
        if meant == number:
            raise ConflictError(f"version {number} of model '{model.name}' is in use: job '{job}' reads it")


def _check_unserved(model: Model, number: int, services: Iterable[Service]) -> None:
    """Refuse what a service has a use for although no replica reads it now: it may be asleep, or be rolled back."""
    for service in services:
        status = service.status
        pointed = {status.current, status.previous, status.wanted, status.rollout.revision if status.rollout else 0}
        if any(each.number in pointed and each.model == f"{model.name}:{number}" for each in status.revisions):
            raise ConflictError(f"version {number} of model '{model.name}' is in use: service '{service.name}' has it")


async def _change(context: OperationContext, tenant: Tenant, name: str, change: Callable[[Model], Model]) -> Model:
    context.caller.check(tenant)
    for _ in range(_TRIES):
        model = await find_record(context.store, MODEL, tenant, name)
        if model is None:
            raise NotFoundError("model", name)
        wanted = change(model)
        try:
            saved = model if wanted == model else await context.store.records(MODEL).save(wanted)
        except StaleVersionError:
            continue
        context.record_link.changed(MODEL.name)  # a service may follow the alias
        return saved
    raise ConflictError(f"model '{name}' changes faster than this request can be recorded; try again")


def _version(kept: KeptModel, clock: Clock) -> ModelVersion:
    return ModelVersion(
        digest=kept.digest,
        size_bytes=kept.size_bytes,
        files=kept.files,
        signature=kept.signature,
        created_at=clock.now(),
    )
