"""The same job once more, with a few fields changed. Pure."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gangline.dialects.native import job_from_plain, job_to_plain
from gangline.errors import InvalidInputError
from gangline.model import Job, JobSpec
from gangline.model.jobs.source import Source
from gangline.model.kinds.registered_model import Model, model_reference


def repeated(job: Job, name: str, changes: Mapping[str, object], models: Sequence[Model]) -> JobSpec:
    """Return what is submitted to repeat a job: the same code, and the versions of models that it read.

    ``changes`` are new values by their path in the job file: ``policy.max_attempts``, ``roles.worker.replicas``.
    """
    plain: Any = copy.deepcopy(job_to_plain(_pinned(job, models)))
    plain["metadata"]["name"] = name
    for path, value in changes.items():
        _set(plain, path, value)
    spec = job_from_plain(plain)
    if spec.code != job.spec.code:
        return replace(spec, source=None)
    return replace(spec, source=replace(spec.source or Source(), rerun_of=job.name))


def free_name(name: str, taken: Sequence[str]) -> str:
    """Return the first of NAME-2, NAME-3 and so on that no job has."""
    return next(found for number in range(2, len(taken) + 3) if (found := f"{name}-{number}") not in taken)


def _pinned(job: Job, models: Sequence[Model]) -> JobSpec:
    """Name the versions that addresses of models stood for, so that the same are read again."""
    versions = {
        (model.name, f"sha256:{version.digest}"): version.number
        for model in models
        for version in model.status.versions
    }
    inputs = list(job.spec.inputs)
    for place, found in enumerate(job.inputs[: len(inputs)]):
        reference = model_reference(inputs[place].source)
        if reference is not None and (number := versions.get((reference.name, found.digest))) is not None:
            inputs[place] = replace(inputs[place], source=f"model://{reference.name}:{number}")
    return replace(job.spec, inputs=tuple(inputs))


def _set(document: dict[str, Any], path: str, value: object) -> None:
    """Put a value where a path leads: from the top of the file, or from ``spec``."""
    words = path.split(".")
    if words[0] not in ("metadata", "spec"):
        words.insert(0, "spec")
    place: Any = document
    for depth, word in enumerate(words[:-1]):
        key = _key(place, word, path)
        if isinstance(place, dict) and not isinstance(place.get(key), (dict, list)):
            # What is written with its default is left out of a file, so the way there may have to be made.
            place[key] = {}
        place = place[key]
        if not isinstance(place, (dict, list)):
            raise InvalidInputError(f"{'.'.join(words[: depth + 1])} has no fields", field=path)
    place[_key(place, words[-1], path)] = value


def _key(place: Any, word: str, path: str) -> Any:
    if not isinstance(place, list):
        return word
    if not word.isdigit() or int(word) >= len(place):
        raise InvalidInputError(f"'{word}' is not one of {len(place)} entries", field=path, expected="a number from 0")
    return int(word)
