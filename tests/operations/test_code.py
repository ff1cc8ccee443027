"""Keeping code archives."""

import hashlib
import os
from collections.abc import AsyncIterator

import pytest

from gangline import operations
from gangline.errors import InvalidInputError
from gangline.model import DEFAULT_TENANT, CodeLimits, JobId
from gangline.testing.builders import START, make_spec
from tests.operations.fakes import Office, at, make_archive

ARCHIVE = make_archive(b"some code")
CONTENT = (ARCHIVE[:50], ARCHIVE[50:])
DIGEST = hashlib.sha256(ARCHIVE).hexdigest()
LIMITS = CodeLimits()


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_an_archive_is_kept_under_its_digest(office: Office) -> None:
    context = office.context()
    assert not operations.has_code(context, DIGEST)
    await operations.put_code(context, DIGEST, chunks(*CONTENT), limits=LIMITS)
    assert operations.has_code(context, DIGEST)
    assert (office.code_directory / f"{DIGEST}.tar.gz").read_bytes() == ARCHIVE


@pytest.mark.parametrize(
    ("digest", "limit", "want_problem"),
    [
        pytest.param("0" * 64, LIMITS, "the archive that arrived", id="other content"),
        pytest.param(DIGEST, CodeLimits(packed_bytes=6), "too large", id="too large"),
        pytest.param(DIGEST, CodeLimits(unpacked_bytes=6), "setting code_unpacked_mib", id="too large unpacked"),
        pytest.param(DIGEST, CodeLimits(files=0), "setting code_files", id="too many files"),
        pytest.param("../../etc/passwd", LIMITS, "not a SHA-256 digest", id="no digest at all"),
    ],
)
async def test_a_wrong_archive_leaves_nothing_behind(
    office: Office, digest: str, limit: CodeLimits, want_problem: str
) -> None:
    with pytest.raises(InvalidInputError, match=want_problem):
        await operations.put_code(office.context(), digest, chunks(*CONTENT), limits=limit)
    assert not office.code_directory.exists() or list(office.code_directory.iterdir()) == []


async def test_what_is_no_archive_is_refused(office: Office) -> None:
    with pytest.raises(InvalidInputError, match="the archive is damaged"):
        await operations.put_code(office.context(), hashlib.sha256(b"text").hexdigest(), chunks(b"text"), limits=LIMITS)


async def test_pruning_forgets_code_that_no_job_names_unless_it_is_new(office: Office) -> None:
    context = office.context()
    archives = {word: make_archive(word) for word in (b"used", b"unused", b"new")}
    for word, archive in archives.items():
        digest = hashlib.sha256(archive).hexdigest()
        await operations.put_code(context, digest, chunks(archive), limits=LIMITS)
        written = START - 10 if word == b"new" else START - 10_000
        os.utime(office.code_directory / f"{digest}.tar.gz", (written, written))
    used = hashlib.sha256(archives[b"used"]).hexdigest()
    await operations.submit(context, JobId("job-1"), make_spec(code=f"sha256:{used}"))
    await operations.prune(context, DEFAULT_TENANT, finished_before=at())
    kept = {path.read_bytes() for path in office.code_directory.iterdir()}
    assert kept == {archives[b"used"], archives[b"new"]}
