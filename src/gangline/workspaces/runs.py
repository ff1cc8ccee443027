"""What a run of a workspace is: a job of one replica whose program answers HTTP and whose files outlive it."""

import json
from dataclasses import replace
from functools import cache
from importlib.resources import files

from gangline.model import JobSpec, Policy, RoleName
from gangline.model.jobs.spec import RoleSpec
from gangline.model.kinds.service import HOST, PORT
from gangline.model.kinds.workspace import (
    DIRECTORY_VARIABLE,
    TOKEN_VARIABLE,
    WORKSPACE_LABEL,
    Tool,
    Workspace,
    WorkspaceSpec,
)

_PORT = 8888
_ROLE = RoleName("workspace")
_DIRECTORY = "/workspace"
_GRACE_SECONDS = 10.0
_TTL_SECONDS = 86400.0
"""How long the record and the output of a run that has ended can be looked at."""
_PROGRAMS = {Tool.NOTEBOOK: "notebook.py", Tool.TENSORBOARD: "tensorboard.py"}
_SHELL = 'cp -Rn . "$GANGLINE_WORKSPACE"/ 2>/dev/null; cd "$GANGLINE_WORKSPACE" && exec "$@"'
"""How a program of a user's own gets its code and its files, as those of ours do by themselves."""


def template(spec: WorkspaceSpec) -> JobSpec:
    """Return the job that every run is."""
    volumes = {spec.claim: _DIRECTORY, **spec.volumes}
    role = RoleSpec(
        name=_ROLE,
        command=_command(spec),
        resources=spec.resources,
        port=_PORT,
        env={PORT: str(_PORT), HOST: "0.0.0.0"},
        pod_template_json=_template(volumes, spec),
    )
    return JobSpec(
        name=spec.name,
        tenant=spec.tenant,
        queue=spec.queue,
        priority=spec.priority,
        roles=(role,),
        image=spec.image or None,
        code=spec.code or None,
        env=spec.env,
        policy=Policy(preemptible=spec.preemptible, grace_seconds=_GRACE_SECONDS, ttl_seconds=_TTL_SECONDS),
    )


def run_job(workspace: Workspace) -> JobSpec:
    """Return the job of the present run."""
    spec = template(workspace.spec)
    labels = {**spec.labels, WORKSPACE_LABEL: workspace.name}
    return replace(spec, name=f"{workspace.name}-{workspace.status.run}", labels=labels)


def _command(spec: WorkspaceSpec) -> tuple[str, ...]:
    if spec.tool is Tool.PROGRAM:
        return ("sh", "-c", _SHELL, "sh", *spec.command)
    # As text: the user's Python, which has the tool, need not have Gangline.
    return ("python3", "-c", _program(_PROGRAMS[spec.tool]))


@cache
def _program(name: str) -> str:
    return files("gangline.runtime.workspaces").joinpath(name).read_text(encoding="utf-8")


def _template(volumes: dict[str, str], spec: WorkspaceSpec) -> str:
    secret = {"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": {"name": spec.claim, "key": "token"}}}
    directories = {DIRECTORY_VARIABLE: _DIRECTORY, "GANGLINE_WORKSPACE_LOGS": json.dumps(spec.logs)}
    variables = [secret, *({"name": name, "value": value} for name, value in directories.items())]
    container = {
        "env": variables,
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in volumes.items()],
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in volumes],
    }
    return json.dumps({"spec": pod}, separators=(",", ":"))
