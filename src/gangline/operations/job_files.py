"""The files of a job, while it runs and after: listed, read, and put beside those that it has.

They lie in a directory of this machine, or elsewhere, where the engine reaches them.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from functools import partial
from pathlib import Path

from gangline.data.job_folders import FileFact, JobFolder, NoSuchFileError
from gangline.data.moving import remove
from gangline.data.unpacking import PermanentError
from gangline.engines.interface import JobFolders, RemoteFiles
from gangline.errors import EngineError, InvalidInputError, NotFoundError
from gangline.model import Job, Tenant, Timestamp
from gangline.model.jobs.job_file import JobFile
from gangline.operations.context import OperationContext
from gangline.operations.listing import get_job
from gangline.operations.tar_streams import full_disk_told, receive_stream, tar_chunks


async def list_files(context: OperationContext, tenant: Tenant, reference: str, path: str) -> tuple[JobFile, ...]:
    """Return every file at or below a path."""
    job = await get_job(context, tenant, reference)
    if isinstance(context.engine, RemoteFiles):
        return tuple(map(_job_file, await context.engine.list_files(job, path)))
    folder = _folder(context, job)
    with _refusals(reference):
        return await context.among_files(tenant, lambda: tuple(map(_job_file, folder.listed(path))))


async def read_files(context: OperationContext, tenant: Tenant, reference: str, path: str) -> AsyncGenerator[bytes]:
    """Return a file or a directory as a stream; what is wrong is told before it begins."""
    job = await get_job(context, tenant, reference)
    if isinstance(context.engine, RemoteFiles):
        return context.engine.read_files(job, path)
    folder = _folder(context, job)
    with _refusals(reference):
        packed = await context.among_files(tenant, partial(folder.packed, path))
        return tar_chunks(packed, context.rights_of(tenant))


async def write_files(
    context: OperationContext, tenant: Tenant, reference: str, path: str, stream: AsyncIterator[bytes]
) -> JobFile:
    """Put a stream among the files of a job, whole or not at all; return where it is."""
    job = await get_job(context, tenant, reference)
    if isinstance(context.engine, RemoteFiles):
        if context.rehearsal:
            raise InvalidInputError("files for a cluster cannot be tried", field="dryRun", expected="no dry run")
        return _job_file(await context.engine.write_files(job, path, stream))
    folder = _folder(context, job)
    with _refusals(reference):
        draft = await context.among_files(tenant, partial(folder.draft, path))
    try:
        with _refusals(reference), full_disk_told():
            arrived = await receive_stream(stream, draft, context.rights_of(tenant))
            if context.rehearsal:
                size = (await context.among_files(tenant, arrived.stat)).st_size
                return JobFile(path=path, size_bytes=size, changed_at=context.clock.now())
            return _job_file(await context.among_files(tenant, partial(folder.put, path, arrived)))
    finally:
        await context.among_files(tenant, partial(_discard, draft))


def _folder(context: OperationContext, job: Job) -> JobFolder:
    if not isinstance(context.engine, JobFolders):
        raise EngineError("the files of a job cannot be reached here")
    return JobFolder(context.engine.folder_of(job).resolve())


@contextlib.contextmanager
def _refusals(reference: str) -> Iterator[None]:
    try:
        yield
    except NoSuchFileError as error:
        raise NotFoundError("file", f"{reference}:{error}", hint="'gangline results' lists them") from error
    except (PermanentError, PermissionError) as error:
        raise InvalidInputError(str(error), field="path") from error


def _job_file(fact: FileFact) -> JobFile:
    return JobFile(path=fact.path, size_bytes=fact.size_bytes, changed_at=Timestamp(fact.changed_at))


def _discard(draft: Path) -> None:
    with contextlib.suppress(OSError):
        remove(draft)
