"""Keeping code archives."""

import hashlib
import os
from collections.abc import AsyncIterator

import pytest

from gangline import operations
from gangline.errors import InvalidInputError
from gangline.model import DEFAULT_TENANT, JobId
from gangline.testing.builders import START, make_spec
from tests.operations.fakes import Office, at

CONTENT = (b"some ", b"code")
DIGEST = hashlib.sha256(b"some code").hexdigest()


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def test_an_archive_is_kept_under_its_digest(office: Office) -> None:
    desk = office.desk()
    assert not operations.has_code(desk, DIGEST)
    await operations.put_code(desk, DIGEST, chunks(*CONTENT), limit_bytes=100)
    assert operations.has_code(desk, DIGEST)
    assert (office.code_directory / f"{DIGEST}.tar.gz").read_bytes() == b"some code"


@pytest.mark.parametrize(
    ("digest", "limit", "want_problem"),
    [
        pytest.param("0" * 64, 100, "the archive that arrived", id="other content"),
        pytest.param(DIGEST, 6, "too large", id="too large"),
        pytest.param("../../etc/passwd", 100, "no SHA-256 digest", id="no digest at all"),
    ],
)
async def test_a_wrong_archive_leaves_nothing_behind(
    office: Office, digest: str, limit: int, want_problem: str
) -> None:
    with pytest.raises(InvalidInputError, match=want_problem):
        await operations.put_code(office.desk(), digest, chunks(*CONTENT), limit_bytes=limit)
    assert not office.code_directory.exists() or list(office.code_directory.iterdir()) == []


async def test_pruning_forgets_code_that_no_job_names_unless_it_is_new(office: Office) -> None:
    desk = office.desk()
    for word in (b"used", b"unused", b"new"):
        digest = hashlib.sha256(word).hexdigest()
        await operations.put_code(desk, digest, chunks(word), limit_bytes=100)
        written = START - 10 if word == b"new" else START - 10_000
        os.utime(office.code_directory / f"{digest}.tar.gz", (written, written))
    used = hashlib.sha256(b"used").hexdigest()
    await operations.submit(desk, JobId("job-1"), make_spec(code=f"sha256:{used}"))
    await operations.prune(desk, DEFAULT_TENANT, finished_before=at())
    kept = {path.read_bytes() for path in office.code_directory.iterdir()}
    assert kept == {b"used", b"new"}
