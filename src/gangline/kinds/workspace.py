"""The kind Workspace: a notebook, a TensorBoard or another program that people open in a browser."""

from collections.abc import Callable
from dataclasses import replace

from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind, NewJob, Owned, Plan, Verb
from gangline.kinds.volume import volume_to_claims
from gangline.model import JobSpec, Timestamp
from gangline.model.kinds.volume import Volume
from gangline.model.kinds.workspace import Workspace, WorkspaceSpec, WorkspaceStatus
from gangline.workspaces import WorkspaceSight, plan, run_job, started, stopped, template


def plan_workspace(workspace: Workspace, owned: Owned, now: Timestamp) -> Plan[WorkspaceStatus]:
    """Say whether a run begins or ends now. Until somebody has looked at it, nothing is decided."""
    sight = owned.sight
    if not isinstance(sight, WorkspaceSight):
        return Plan(status=replace(workspace.status, problem="nobody here looks after workspaces"))
    wanted = plan(workspace, owned.jobs, sight, now)
    made = replace(workspace, status=wanted.status)
    return Plan(
        status=wanted.status,
        create=() if wanted.start is None else (NewJob(workspace.job_id(wanted.start), run_job(made)),),
        cancel=tuple(workspace.job_id(number) for number in wanted.stop),
        again_at=wanted.again_at,
    )


def _each_template(spec: WorkspaceSpec, change: Callable[[JobSpec], JobSpec]) -> WorkspaceSpec:
    job = change(template(spec))
    return replace(spec, code=job.code or "", env=job.env)


def _last(workspace: Workspace) -> str | None:
    status = workspace.status
    if status.problem or status.notice:
        return status.problem or status.notice
    return status.events[-1].message if status.events else None


WORKSPACE: Kind[WorkspaceSpec, WorkspaceStatus, Workspace] = Kind(
    name="workspace",
    plural="workspaces",
    summary="Notebooks, TensorBoards and other programs in a browser.",
    description="A program that people open in a browser, with files of its own; each run of it is a job.",
    spec=WorkspaceSpec,
    status=WorkspaceStatus,
    answer=Workspace,
    format=derived_format(WorkspaceSpec, "Workspace", "What runs in it, on what, and when it is stopped."),
    columns=(
        Column("STATE", lambda workspace: workspace.state),
        Column("TOOL", lambda workspace: workspace.spec.tool),
        Column("QUEUE", lambda workspace: workspace.spec.queue, wide=True),
        Column("RUN", lambda workspace: workspace.status.run, wide=True),
        Column("LAST", _last, last=True),
    ),
    verbs=(
        Verb("start", "Run it again, with its files.", started),
        Verb("stop", "End its run; its files are kept.", stopped),
    ),
    plan=plan_workspace,
    each_template=_each_template,
    secrets=lambda spec: (spec.claim,),
    claims=lambda spec: volume_to_claims(Volume(name=spec.claim, tenant=spec.tenant, size=spec.size)),
)
