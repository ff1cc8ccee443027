"""Files for ``gangline submit -f`` that hold Experiments of Katib, which are records and not jobs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gangline.dialects import document
from gangline.dialects.document import compact_json
from gangline.dialects.value import Value

if TYPE_CHECKING:
    from gangline.model.kinds.experiment import ExperimentSpec

_KIND, _GROUP = "Experiment", "kubeflow.org/"
_BESIDE = ("ConfigMap", "Secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentFile:
    """What a file holds: Experiments, and the objects that they refer to, as JSON with their namespaces."""

    specs: "tuple[ExperimentSpec, ...]"
    objects: tuple[tuple[str | None, str], ...]


def experiments_in(file: str) -> ExperimentFile | None:
    """Read a file; None if it holds no Experiment. What stands beside one must be a ConfigMap or a Secret."""
    if file == "-":
        return None  # it can be read only once, and jobs are what is meant
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # told by whoever reads jobs
    if _KIND not in text:
        return None
    values = document.parse(text, file=file)
    if not any(_is_experiment(value) for value in values):
        return None
    from gangline.kinds.experiment import read_file

    for value in values:
        if not _is_experiment(value) and _field(value, "kind") not in _BESIDE:
            raise value.wrong(
                f"a {_field(value, 'kind') or 'document without a kind'} beside an Experiment",
                expected=f"Experiments, {' and '.join(_BESIDE)} in one file",
                below=".kind",
            )
    return ExperimentFile(
        specs=tuple(read_file(value, {}) for value in values if _is_experiment(value)),
        objects=tuple((_namespace(value), compact_json(value.data)) for value in values if not _is_experiment(value)),
    )


def _is_experiment(value: Value) -> bool:
    return _field(value, "kind") == _KIND and _field(value, "apiVersion").startswith(_GROUP)


def _field(value: Value, name: str) -> str:
    found = value.data.get(name) if isinstance(value.data, dict) else None
    return found if isinstance(found, str) else ""


def _namespace(value: Value) -> str | None:
    metadata = value.data.get("metadata") if isinstance(value.data, dict) else None
    found = metadata.get("namespace") if isinstance(metadata, dict) else None
    return found if isinstance(found, str) else None
