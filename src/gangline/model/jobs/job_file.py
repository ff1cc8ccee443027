"""Files that a job has, and the checkpoints among them. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gangline.model.clock import Timestamp

_CHECKPOINT = re.compile(r"(?P<path>checkpoints/(?:[^/.][^/]*/)*step-(?P<step>\d+))/(?P<file>.+)")
_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """One file by its path below the job's directory, for example ``results/model/weights``."""

    path: str
    size_bytes: int
    changed_at: Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCheckpoint:
    """One checkpoint as ``gangline.runtime.Checkpoints`` saves it: a directory with a manifest."""

    step: int
    path: str
    files: int
    size_bytes: int
    saved_at: Timestamp


def checkpoints_of(files: Iterable[JobFile]) -> tuple[SavedCheckpoint, ...]:
    """Find the checkpoints among a job's files, newest first; one without a manifest is not whole."""
    found: dict[str, list[JobFile]] = {}
    steps: dict[str, int] = {}
    manifests: dict[str, JobFile] = {}
    for file in files:
        match = _CHECKPOINT.fullmatch(file.path)
        if match is None:
            continue
        steps[match["path"]] = int(match["step"])
        if match["file"] == _MANIFEST:
            manifests[match["path"]] = file
        else:
            found.setdefault(match["path"], []).append(file)
    whole = [
        SavedCheckpoint(
            step=steps[path],
            path=path,
            files=len(found.get(path, ())),
            size_bytes=sum(file.size_bytes for file in found.get(path, ())),
            saved_at=manifest.changed_at,
        )
        for path, manifest in manifests.items()
    ]
    return tuple(sorted(whole, key=lambda each: (-each.step, each.path)))
