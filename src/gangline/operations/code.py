"""Code archives: the working directory a user ships with a job, kept once per content.

An archive lies at ``code_directory/<digest>.tar.gz``, where the digest is the SHA-256 of the file; engines read it
there. It appears under that name only when it is whole and its content matches.
"""

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from gangline.data.unpacking import Limits, PermanentError, members
from gangline.errors import InvalidInputError, NotFoundError
from gangline.kinds import all_kinds, unloadable
from gangline.model import CodeLimits, Tenant
from gangline.operations.context import OperationContext
from gangline.operations.listing import get_job
from gangline.storage.interface import JobQuery
from gangline.storage.listing import every

CODE_PREFIX = "sha256:"
_PAGE = 1000
_GRACE_SECONDS = 3600.0
_MOST_PACKAGES_BYTES = 2**20
_DIGEST = re.compile(r"[0-9a-f]{64}")


def code_path(context: OperationContext, digest: str) -> Path:
    """Where the archive of that digest lies or would lie; refuses what is not a digest."""
    if not _DIGEST.fullmatch(digest):
        raise InvalidInputError(f"'{digest}' is not a SHA-256 digest", field="code", expected="64 hexadecimal digits")
    return context.code_directory / f"{digest}.tar.gz"


def packages_path(context: OperationContext, digest: str) -> Path:
    """Where the list of packages of that digest lies or would lie."""
    return code_path(context, digest).with_name(f"{digest}.packages")


async def put_packages(context: OperationContext, digest: str, chunks: AsyncIterator[bytes]) -> None:
    """Keep a list of packages, which jobs name by its digest."""
    with _incoming(packages_path(context, digest), keep=not context.rehearsal) as file:
        if await _receive(file, chunks, _MOST_PACKAGES_BYTES) != digest:
            raise InvalidInputError("the list that arrived has another digest", field="packages")
    if not context.rehearsal:
        _note_sender(context, packages_path(context, digest))


async def packages_of(context: OperationContext, tenant: Tenant, reference: str) -> tuple[str, ...]:
    """Return the packages that a job noted, as ``name==version``; none if it noted none."""
    source = (await get_job(context, tenant, reference)).spec.source
    if source is None or not source.packages:
        return ()
    file = packages_path(context, source.packages.removeprefix(CODE_PREFIX))
    try:
        return tuple((await asyncio.to_thread(file.read_text, "utf-8")).splitlines())
    except FileNotFoundError:
        raise NotFoundError("list of packages", source.packages) from None


async def code_of(context: OperationContext, tenant: Tenant, reference: str) -> Path:
    """Return the archive of a job's code."""
    job = await get_job(context, tenant, reference)
    if job.spec.code is None:
        raise NotFoundError("code", job.name, hint="the job ships none")
    path = code_path(context, job.spec.code.removeprefix(CODE_PREFIX))
    if not path.is_file():
        raise NotFoundError("code archive", job.spec.code, hint="it is not kept here")
    return path


def has_code(context: OperationContext, digest: str) -> bool:
    """Whether the archive of that digest is here, whole, and was sent by somebody of the caller's tenants."""
    return _is_theirs(context, code_path(context, digest))


def has_packages(context: OperationContext, digest: str) -> bool:
    """The same for a list of packages."""
    return _is_theirs(context, packages_path(context, digest))


def _is_theirs(context: OperationContext, path: Path) -> bool:
    """Whoever knows a digest need not have the content: a tenant uses what it has sent itself."""
    tenants = context.caller.tenants
    return path.is_file() and (tenants is None or any(_note(path, tenant).exists() for tenant in tenants))


def _note_sender(context: OperationContext, path: Path) -> None:
    for tenant in context.caller.tenants or ():
        _note(path, tenant).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _note(path, tenant).touch()


def _note(path: Path, tenant: Tenant) -> Path:
    return path.parent / "senders" / tenant / path.name


async def forget_unused_code(context: OperationContext) -> None:
    """Remove every archive that no job or record names any more, unless it is so new that its job may be on its way.

    While a kind cannot be loaded its records cannot be read either, and any archive may be theirs: all are kept.
    """
    if unloadable() or context.rehearsal:
        return
    records = [(kind, record) for kind in all_kinds() for record in (await context.store.records(kind).list()).items]
    specs = [template for kind, record in records for template in kind.templates(record.spec)]
    whole = (context.whole or context).store
    specs += [job.spec async for job in every(whole, JobQuery(limit=_PAGE)) if not job.deleting]
    used = {spec.code for spec in specs if spec.code} | {spec.source.packages for spec in specs if spec.source}
    _remove_archives(context, {digest.removeprefix(CODE_PREFIX) for digest in used})


def _remove_archives(context: OperationContext, used: Collection[str]) -> None:
    for file in context.code_directory.glob("[!.]*.*"):
        age = context.clock.now() - file.stat().st_mtime
        if file.name.partition(".")[0] not in used and age > _GRACE_SECONDS:
            file.unlink(missing_ok=True)
            for note in context.code_directory.glob(f"senders/*/{file.name}"):
                note.unlink(missing_ok=True)


async def put_code(context: OperationContext, digest: str, chunks: AsyncIterator[bytes], *, limits: CodeLimits) -> None:
    """Keep an archive. Sending one that is here already changes nothing; one with any fault is not kept."""
    path = code_path(context, digest)
    with _incoming(path, keep=not context.rehearsal) as file:
        found = await _receive(file, chunks, limits.packed_bytes)
        if found != digest:
            raise InvalidInputError(
                f"the archive that arrived has the digest {found}", field="code", expected=f"the digest {digest}"
            )
        await asyncio.to_thread(_check_content, file, limits)
    if not context.rehearsal:
        _note_sender(context, path)


@contextmanager
def _incoming(path: Path, *, keep: bool) -> Iterator[IO[bytes]]:
    """Open a file that becomes ``path`` if all goes well and it is to be kept, and nothing otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".incoming-", delete=False) as file:
        partial = Path(file.name)
        try:
            yield file
            file.flush()
            if keep:
                partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _check_content(file: IO[bytes], limits: CodeLimits) -> None:
    """Refuse what would not be unpacked, before a job waits for it."""
    file.seek(0)
    try:
        for _ in members(cast(BinaryIO, file), Limits(limits.unpacked_bytes, limits.files)):
            pass
    except PermanentError as error:
        size = f"{limits.unpacked_bytes / 2**20:g} MiB (setting code_unpacked_mib)"
        expected = f"an archive of at most {size} and {limits.files} files (setting code_files)"
        raise InvalidInputError(str(error), field="code", expected=expected) from error


async def _receive(file: IO[bytes], chunks: AsyncIterator[bytes], limit_bytes: int) -> str:
    """Write the chunks and return their digest; disk work stays off the event loop."""
    digest, size = hashlib.sha256(), 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit_bytes:
            raise InvalidInputError(
                "the code archive is too large",
                field="code",
                expected=f"at most {limit_bytes / 2**20:g} MiB; leave files out with .ganglineignore",
            )
        await asyncio.to_thread(file.write, chunk)
        digest.update(chunk)
    return digest.hexdigest()
