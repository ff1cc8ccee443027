"""Reading job files from disk."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gangline.dialects.native import read_jobs
from gangline.errors import InvalidInputError
from gangline.model import JobSpec, Resources
from gangline.sdk.packing import CODE_PREFIX


def load(path: str | Path, *, sizes: Mapping[str, Resources] | None = None) -> JobSpec:
    """Read a file that holds one job. A relative ``code`` directory is taken from where the file lies."""
    jobs = load_all(path, sizes=sizes)
    if len(jobs) > 1:
        raise InvalidInputError(f"the file holds {len(jobs)} jobs", file=str(path), expected="one job")
    return jobs[0]


def load_all(path: str | Path, *, sizes: Mapping[str, Resources] | None = None) -> tuple[JobSpec, ...]:
    """Read every job of a file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError("the file is not UTF-8 text", file=str(path), expected="YAML or JSON") from error
    except OSError as error:
        raise InvalidInputError(f"the file cannot be read: {error.strerror}", file=str(path)) from error
    return parse(text, file=str(path), directory=path.parent, sizes=sizes)


def parse(
    text: str, *, file: str | None, directory: Path, sizes: Mapping[str, Resources] | None = None
) -> tuple[JobSpec, ...]:
    """Read every job of a text whose relative ``code`` directories start at ``directory``."""
    return tuple(_located(job, directory) for job in read_jobs(text, file=file, sizes=sizes or {}))


def _located(job: JobSpec, directory: Path) -> JobSpec:
    if job.code is None or job.code.startswith(CODE_PREFIX):
        return job
    return replace(job, code=str(directory / Path(job.code).expanduser()))
