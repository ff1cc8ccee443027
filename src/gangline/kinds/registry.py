"""Where the kinds are. A kind of somebody's own package joins by the entry point ``gangline.kinds``."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gangline.kinds.kind import AnyKind

ENTRY_POINTS = "gangline.kinds"

_OURS: Mapping[str, str] = {
    "clustertrainingruntime": "gangline.kinds.train_job:CLUSTER_TRAINING_RUNTIME",
    "experiment": "gangline.kinds.experiment:EXPERIMENT",
    "inferenceservice": "gangline.kinds.inference_service:INFERENCE_SERVICE",
    "model": "gangline.kinds.model:MODEL",
    "notification": "gangline.kinds.notification:NOTIFICATION",
    "pipeline": "gangline.kinds.pipeline:PIPELINE",
    "queue": "gangline.kinds.queue:QUEUE",
    "runexperiment": "gangline.kinds.template:RUN_EXPERIMENT",
    "schedule": "gangline.kinds.schedule:SCHEDULE",
    "secret": "gangline.kinds.secret:SECRET",
    "service": "gangline.kinds.service:SERVICE",
    "store": "gangline.kinds.store:STORE",
    "sweep": "gangline.kinds.sweep:SWEEP",
    "template": "gangline.kinds.template:TEMPLATE",
    "templateversion": "gangline.kinds.template:TEMPLATE_VERSION",
    "trainingruntime": "gangline.kinds.train_job:TRAINING_RUNTIME",
    "trainjob": "gangline.kinds.train_job:TRAIN_JOBS",
    "volume": "gangline.kinds.volume:VOLUME",
    "workspace": "gangline.kinds.workspace:WORKSPACE",
}
"""The name of each kind, and where its registration is: most commands need none of them and import none."""


@cache
def registered() -> Mapping[str, str]:
    """Return every kind by name with the place of its registration; ours cannot be replaced."""
    if not _some_package_has_kinds():
        return _OURS
    from importlib import metadata  # a tenth of what ``gangline --help`` may take

    return {point.name: point.value for point in metadata.entry_points(group=ENTRY_POINTS)} | dict(_OURS)


def _some_package_has_kinds() -> bool:
    """Whether it is worth asking for entry points."""
    wanted = f"[{ENTRY_POINTS}]"
    files = (file for folder in sys.path for file in Path(folder).glob("*.dist-info/entry_points.txt"))
    return any(wanted in file.read_text(encoding="utf-8", errors="replace") for file in files)


def kind_named(name: str) -> "AnyKind":
    """Return a kind by its name; raises KeyError for one that nobody registered.

    Raises InvalidInputError for one of another package that cannot be loaded.
    """
    kind, reason = _loaded(name)
    if kind is None:
        from gangline.errors import InvalidInputError  # ``gangline --help`` imports this module and needs no errors

        problem = f"the kind '{name}' of {registered()[name]} cannot be loaded: {reason}"
        raise InvalidInputError(problem, expected="its package to be repaired or removed")
    return kind


@cache
def _loaded(name: str) -> "tuple[AnyKind | None, str]":
    """Return a kind, or None and why it cannot be loaded; ours always can."""
    place = registered()[name]
    if name in _OURS:
        return _found(place), ""
    try:
        found = _found(place)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a module of somebody else, which must not end all of us
        return None, f"{type(error).__name__}: {error}"
    wrong = _problem_of(name, found)
    return (None, wrong) if wrong else (found, "")


def _found(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def _problem_of(name: str, found: Any) -> str:
    """Say what is wrong with a kind, if anything: records, paths and commands are found by its names."""
    from gangline.kinds.kind import Kind

    if not isinstance(found, Kind):
        return "it is not a Kind"
    if found.name != name:
        return f"it calls itself '{found.name}'"
    taken = {"jobs": "job"} | {kind_named(each).plural: each for each in _OURS}
    return f"its plural '{found.plural}' is that of '{taken[found.plural]}'" if found.plural in taken else ""


def all_kinds() -> "tuple[AnyKind, ...]":
    """Return every kind that can be loaded, by name."""
    found = (_loaded(name)[0] for name in sorted(registered()))
    return tuple(kind for kind in found if kind is not None)


def unloadable() -> Mapping[str, str]:
    """Return the kinds of other packages that are registered but cannot be loaded, each with the reason."""
    found = {name: _loaded(name) for name in sorted(registered()) if name not in _OURS}
    return {name: reason for name, (kind, reason) in found.items() if kind is None}


def kind_of_spec(spec: Any) -> "AnyKind | None":
    """Return the kind whose records have specs of this type."""
    return next((kind for kind in all_kinds() if kind.spec is spec), None)


def create_command(group: str, kind_word: str) -> str | None:
    """Return the command that makes a record of the kind that a file names; None if it is not a record."""
    found = (kind for kind in all_kinds() if kind.object_kind == kind_word)
    commands = (f"gangline {kind.command or kind.name} {kind.made_by}" for kind in found if kind.group == group)
    return next(commands, None)
