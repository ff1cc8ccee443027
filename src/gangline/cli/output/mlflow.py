"""Jobs as runs in MLflow's file format: what ``mlflow ui --backend-store-uri DIRECTORY`` shows. Needs no MLflow.

A tenant is an experiment, a job a run. Their ids follow from their names, so that a job that is written again replaces
what was there.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from gangline.model import Job, Metric, Phase, Timestamp

_STATUS = {Phase.COMPLETED: 3, Phase.FAILED: 4, Phase.CANCELLED: 5, Phase.HALTED: 5, Phase.QUEUED: 2, Phase.RESUMED: 2}
_RUNNING = 1
_LOCAL_SOURCE = 4
_REFUSED = re.compile(r"[^\w. :-]")


def write_run(directory: Path, job: Job, metrics: Sequence[Metric]) -> Path:
    """Write one job and what it has reported; return the folder of the run."""
    experiment = directory / str(int(hashlib.sha256(job.spec.tenant.encode()).hexdigest()[:14], 16))
    run = experiment / hashlib.sha256(job.id.encode()).hexdigest()[:32]
    shutil.rmtree(run, ignore_errors=True)
    for folder in ("metrics", "params", "tags", "artifacts"):
        (run / folder).mkdir(parents=True)
    if not (experiment / "meta.yaml").exists():
        _write_meta(experiment, _experiment(experiment, job))
    for name, reported in _by_file(metrics).items():
        lines = [f"{_millis(each.at)} {each.value!r} {each.step or 0}\n" for each in reported]
        _write(run / "metrics" / name, "".join(lines))
    parameters = {"framework": job.spec.framework.value}
    parameters |= {f"{role.name}.replicas": str(role.replicas) for role in job.spec.roles}
    tags = {"mlflow.runName": job.name, "gangline.phase": job.phase.value, "gangline.reason": job.reason}
    for folder, texts in (("params", parameters), ("tags", {**_named(job.spec.labels), **tags})):
        for name, text in texts.items():
            _write(run / folder / name, text)
    _write_meta(run, _run(run, job))
    return run


def _experiment(folder: Path, job: Job) -> dict[str, object]:
    at = _millis(job.created_at)
    return {
        "artifact_location": folder.absolute().as_uri(),
        "creation_time": at,
        "experiment_id": folder.name,
        "last_update_time": at,
        "lifecycle_stage": "active",
        "name": f"gangline {job.spec.tenant}",
    }


def _run(folder: Path, job: Job) -> dict[str, object]:
    return {
        "artifact_uri": (folder.absolute() / "artifacts").as_uri(),
        "end_time": None if job.finished_at is None else _millis(job.finished_at),
        "entry_point_name": "",
        "experiment_id": folder.parent.name,
        "lifecycle_stage": "active",
        "run_id": folder.name,
        "run_name": job.name,
        "run_uuid": folder.name,
        "source_name": "",
        "source_type": _LOCAL_SOURCE,
        "source_version": "",
        "start_time": _millis(job.started_at or job.created_at),
        "status": _STATUS.get(job.phase, _RUNNING),
        "tags": [],
        "user_id": "",
    }


def _by_file(metrics: Iterable[Metric]) -> dict[str, list[Metric]]:
    """Sort numbers into files by their names; of several replicas, each has a folder."""
    found = list(metrics)
    several = len({each.replica for each in found}) > 1
    files: dict[str, list[Metric]] = {}
    for each in found:
        files.setdefault(_file(f"{each.replica}/{each.name}" if several else each.name), []).append(each)
    # A file cannot be a folder besides: what lies below another metric gets a flat name.
    above = {name for name in files for other in files if PurePosixPath(name) in PurePosixPath(other).parents}
    flat = {
        name: name.replace("/", ".") if above & {str(part) for part in PurePosixPath(name).parents} else name
        for name in files
    }
    return {flat[name]: reported for name, reported in files.items()}


def _named(texts: Mapping[str, str]) -> dict[str, str]:
    return {_file(name): text for name, text in texts.items()}


def _file(name: str) -> str:
    """Make a name that MLflow takes, and that stays below its folder."""
    parts = [_REFUSED.sub("_", part) for part in name.split("/")]
    return "/".join(part for part in parts if part.strip(". ")) or "_"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _write_meta(folder: Path, fields: Mapping[str, object]) -> None:
    # JSON is YAML, and writes every text so that it is read as one.
    _write(folder / "meta.yaml", json.dumps(fields, indent=1))


def _millis(at: Timestamp) -> int:
    return int(at * 1000)
