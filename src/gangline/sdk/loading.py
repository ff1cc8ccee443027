"""Reading job files, in whichever dialect they are written, and sweep files from disk."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gangline.dialects import Translation, read
from gangline.dialects.native import read_sweep
from gangline.errors import InvalidInputError
from gangline.model import JobSpec, Resources
from gangline.model.sweep import SweepSpec
from gangline.sdk.values import CODE_PREFIX


def load(path: str | Path, *, sizes: Mapping[str, Resources] | None = None) -> JobSpec:
    """Read a file that holds one job. Relative paths in it are taken from where the file lies."""
    jobs = load_all(path, sizes=sizes)
    if len(jobs) > 1:
        raise InvalidInputError(f"the file holds {len(jobs)} jobs", file=str(path), expected="one job")
    return jobs[0].spec


def load_all(path: str | Path, *, sizes: Mapping[str, Resources] | None = None) -> tuple[Translation, ...]:
    """Read every job of a file, with what its dialect could not express."""
    path = Path(path)
    return parse(_text(path), file=str(path), directory=path.parent, sizes=sizes)


def load_sweep(path: str | Path, *, sizes: Mapping[str, Resources] | None = None) -> SweepSpec:
    """Read a file that holds one sweep. The template's relative ``code`` is taken from where the file lies."""
    path = Path(path)
    return parse_sweep(_text(path), file=str(path), directory=path.parent, sizes=sizes)


def parse_sweep(
    text: str, *, file: str | None, directory: Path, sizes: Mapping[str, Resources] | None = None
) -> SweepSpec:
    """Read a sweep from a text whose relative ``code`` directory starts at ``directory``."""
    spec = read_sweep(text, file=file, sizes=sizes or {})
    return replace(spec, template=_located(spec.template, directory))


def parse(
    text: str, *, file: str | None, directory: Path, sizes: Mapping[str, Resources] | None = None
) -> tuple[Translation, ...]:
    """Read every job of a text whose relative paths start at ``directory``."""
    return tuple(
        replace(job, spec=_located(_ours(job, file), directory)) for job in read(text, file=file, sizes=sizes or {})
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError("the file is not UTF-8 text", file=str(path), expected="YAML or JSON") from error
    except OSError as error:
        raise InvalidInputError(f"the file cannot be read: {error.strerror}", file=str(path)) from error


def _ours(job: Translation, file: str | None) -> JobSpec:
    if job.managed_by is not None:
        raise InvalidInputError(
            f"job '{job.spec.name}' belongs to the controller '{job.managed_by}'",
            file=file,
            expected="a job without managedBy",
        )
    return job.spec


def _located(job: JobSpec, directory: Path) -> JobSpec:
    """Make the paths of this machine absolute: the code to ship, the inputs to fetch, where outputs go."""
    code = job.code
    if code is not None and not code.startswith(CODE_PREFIX):
        code = str(directory / Path(code).expanduser())
    return replace(
        job,
        code=code,
        inputs=tuple(replace(move, source=_absolute(move.source, directory)) for move in job.inputs),
        outputs=tuple(replace(move, target=_absolute(move.target, directory)) for move in job.outputs),
    )


def _absolute(place: str, directory: Path) -> str:
    """Leave addresses and ``$VARIABLE`` paths alone; anything else is a path of this machine."""
    if ":" in place.split("/", 1)[0] or place.startswith("$"):
        return place
    return str((directory / Path(place).expanduser()).absolute())
