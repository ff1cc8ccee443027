"""Values as plain data for ``-o json`` and ``-o yaml``: times in ISO 8601, replicas as ROLE-INDEX, jobs as files."""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum

from gangline.dialects.native import job_to_plain
from gangline.model import Job, ReplicaId


def plain(value: object, name: str = "") -> object:
    """Turn a value of the model or the SDK into plain data; empty and missing fields are left out of jobs only."""
    if isinstance(value, Job):
        return job_document(value)
    if isinstance(value, ReplicaId):
        return str(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, float) and (name == "at" or name.endswith("_at")):
        return datetime.fromtimestamp(value, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name), item.name) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def job_document(job: Job) -> dict[str, object]:
    """Write a job: the file that would submit it again, and its status."""
    status: dict[str, object] = {"phase": job.phase.value, "reason": job.reason, "message": job.message}
    for item in fields(job):
        if item.name not in ("spec", "scale"):
            status[item.name] = plain(getattr(job, item.name), item.name)
    status["scale"] = dict(job.scale)
    return {
        **job_to_plain(job.spec),
        "status": {key: item for key, item in status.items() if item not in (None, "", [], {})},
    }


def json_text(value: object) -> str:
    """Write a value as JSON."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False)


def yaml_text(value: object) -> str:
    """Write a value as YAML."""
    import yaml

    return str(yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True)).rstrip("\n")
