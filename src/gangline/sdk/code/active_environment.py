"""The Python environment that the user works in: jobs on the same machine run in it, whoever submits them, and how."""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gangline.model import JobSpec

_NAMES = ("VIRTUAL_ENV", "CONDA_PREFIX")


def active_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the environment that the user has activated or runs us in, with its PATH; or nothing.

    The service has its own, from whenever it was started; ``python`` should mean what it means to the user now.
    """
    path = environment.get("PATH", "")
    active = {name: environment[name] for name in _NAMES if environment.get(name)}
    if not active and sys.prefix != sys.base_prefix and not _is_tool(path):
        # Called by its path, .venv/bin/python or .venv/bin/gangline: that environment is meant, though not activated.
        active, path = {"VIRTUAL_ENV": sys.prefix}, f"{sys.prefix}/bin:{path}"
    return {"PATH": path, **active} if active else {}


def in_active_environment(job: JobSpec, environment: Mapping[str, str]) -> JobSpec:
    """Let a job see the user's Python environment, unless it has a PATH of its own."""
    active = active_environment(environment)
    return job if not active or "PATH" in job.env else replace(job, env={**active, **job.env})


def _is_tool(path: str) -> bool:
    """Whether we run in the environment of a tool on the PATH (pipx), which has nothing to do with the job."""
    found = shutil.which("gangline", path=path)
    return found is not None and Path(found).resolve().is_relative_to(Path(sys.prefix).resolve())
