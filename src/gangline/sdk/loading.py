"""Reading job files, in whichever dialect they are written, and sweep files from disk."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from gangline.dialects import Translation, document, read
from gangline.dialects.value import Value
from gangline.errors import InvalidInputError
from gangline.model import JobSpec, Resources
from gangline.model.kinds.sweep import SweepSpec
from gangline.model.record import RecordSpec
from gangline.sdk.values import CODE_PREFIX

if TYPE_CHECKING:
    from gangline.kinds import Kind

Spec = TypeVar("Spec", bound=RecordSpec)
_DOWNLOAD_SECONDS = 30
_MOST_BYTES = 10 << 20


def load(path: str | Path, *, sizes: Mapping[str, Resources] | None = None) -> JobSpec:
    """Read a file that holds one job. Relative paths in it are taken from where the file lies."""
    jobs = load_all(path, sizes=sizes)
    if len(jobs) > 1:
        raise InvalidInputError(f"the file holds {len(jobs)} jobs", file=str(path), expected="one job")
    return jobs[0].spec


def load_all(path: str | Path, *, sizes: Mapping[str, Resources] | None = None) -> tuple[Translation, ...]:
    """Read every job of a file, with what its dialect could not express."""
    path = Path(path)
    return parse(file_text(path), file=str(path), directory=path.parent, sizes=sizes)


def load_sweep(path: str | Path, *, sizes: Mapping[str, Resources] | None = None) -> SweepSpec:
    """Read a file that holds one sweep. The template's relative ``code`` is taken from where the file lies."""
    path = Path(path)
    return parse_sweep(file_text(path), file=str(path), directory=path.parent, sizes=sizes)


def parse_sweep(
    text: str, *, file: str | None, directory: Path, sizes: Mapping[str, Resources] | None = None
) -> SweepSpec:
    """Read a sweep from a text whose relative ``code`` directory starts at ``directory``."""
    from gangline.kinds.sweep import SWEEP

    sweeps = parse_records(SWEEP, text, file=file, directory=directory, sizes=sizes)
    if len(sweeps) > 1:
        raise InvalidInputError(f"the file holds {len(sweeps)} documents", file=file, expected="one sweep")
    return sweeps[0]


def load_records(
    kind: "Kind[Spec, Any, Any]", path: str | Path, *, sizes: Mapping[str, Resources] | None = None
) -> "tuple[Spec, ...]":
    """Read a file that holds records of one kind. Relative paths in it are taken from where the file lies."""
    path = Path(path)
    return parse_records(kind, file_text(path), file=str(path), directory=path.parent, sizes=sizes)


def parse_records(
    kind: "Kind[Spec, Any, Any]",
    text: str,
    *,
    file: str | None,
    directory: Path,
    sizes: Mapping[str, Resources] | None = None,
) -> "tuple[Spec, ...]":
    """Read every record of a text; the paths of jobs that they describe start at ``directory``."""
    values = document.parse(text, file=file)
    specs = tuple(kind.format.read(with_files(kind, value, directory), sizes or {}) for value in values)
    if kind.each_template is None:
        return specs
    located = kind.each_template
    return tuple(located(spec, lambda job: _located(job, directory)) for spec in specs)


def parse(
    text: str, *, file: str | None, directory: Path, sizes: Mapping[str, Resources] | None = None
) -> tuple[Translation, ...]:
    """Read every job of a text whose relative paths start at ``directory``."""
    found = read(text, file=file, sizes=sizes or {}, command_of=_command_of)
    return tuple(replace(job, spec=_located(_ours(job, file), directory)) for job in found)


def _command_of(group: str, kind: str) -> str | None:
    from gangline.kinds.registry import create_command  # loads every kind: only who gave the wrong file waits for it

    return create_command(group, kind)


def with_files(kind: "Kind[Spec, Any, Any]", value: Value, directory: Path) -> Value:
    """Put the files that a document names in their place, if its kind has such."""
    embed = kind.format.embed
    return value if embed is None else embed(value, lambda name: _one_document(directory / name))


def with_components(value: Value, file: str) -> Value:
    """Put the components that a graph names by an address in their place, seen from the file that it is in."""
    from gangline.dialects.kfp import with_references  # all of pipelines: only their commands need it

    here = Path.cwd() / "-" if file == "-" else Path(file).absolute()
    return with_references(value, here.as_uri(), _text_at)


def _text_at(address: str) -> str:
    """Return the text of a component: a file of this machine, or one that is downloaded."""
    if address.startswith("file:"):
        return file_text(Path(unquote(urlsplit(address).path)))
    if not address.startswith(("http://", "https://")):
        raise InvalidInputError("the component cannot be read", file=address, expected="a path or an https:// address")
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen  # takes as long to import as some commands to run

    try:
        with urlopen(address, timeout=_DOWNLOAD_SECONDS) as answer:
            data: bytes = answer.read(_MOST_BYTES)
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, HTTPError):
            error.close()
        reason = error.reason if isinstance(error, URLError) and not isinstance(error, HTTPError) else error
        raise InvalidInputError(f"the component cannot be downloaded: {reason}", file=address) from error


def file_text(path: Path) -> str:
    """Return what a file says; raises InvalidInputError for what is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError("the file is not UTF-8 text", file=str(path), expected="YAML or JSON") from error
    except OSError as error:
        raise InvalidInputError(f"the file cannot be read: {error.strerror}", file=str(path)) from error


def _one_document(path: Path) -> Value:
    documents = document.parse(file_text(path), file=str(path))
    if len(documents) > 1:
        raise InvalidInputError(f"the file holds {len(documents)} documents", file=str(path), expected="one job")
    return documents[0]


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
