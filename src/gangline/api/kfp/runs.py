"""Handlers for runs: make, list and retry them, and how they are written."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from aiohttp import web

from gangline import operations
from gangline.api.kfp import experiments, templates
from gangline.api.kfp.answers import ABORTED, CANCELLED, UNKNOWN, Plain, PreconditionError, answer, given, time_text
from gangline.api.kfp.listing import Fields, read_request
from gangline.api.kfp.records import doing, found, page_answer
from gangline.api.kfp.requests import (
    ROOT,
    context_of,
    documents_of,
    group_of,
    id_of,
    object_of,
    part_in,
    public_id,
    text_in,
)
from gangline.dialects.document import compact_json
from gangline.errors import InvalidInputError
from gangline.kinds.pipeline import PIPELINE, check_arguments, graph_of, makes_artifacts, run_name, run_tree
from gangline.model import DEFAULT_TENANT
from gangline.model.kinds.pipeline import ROOTS, PipelineRun, PipelineSpec, PipelineState, StepStatus
from gangline.model.record import RecordId, Summary
from gangline.pipelines import Artifact, Instance, State
from gangline.pipelines.jobs import path_text
from gangline.pipelines.placeholders import each_of
from gangline.pipelines.values import whole

_STATES = {
    PipelineState.RUNNING: "RUNNING",
    PipelineState.STOPPING: "CANCELING",
    # Clients wait for SUCCEEDED, FAILED or SKIPPED: one that is told CANCELED would wait until its time is up.
    PipelineState.STOPPED: "FAILED",
    PipelineState.SUCCEEDED: "SUCCEEDED",
    PipelineState.FAILED: "FAILED",
}
_TASK_STATES = {
    State.WAITING: "PENDING",
    State.DUE: "PENDING",
    State.RUNNING: "RUNNING",
    State.SUCCEEDED: "SUCCEEDED",
    State.FAILED: "FAILED",
    State.SKIPPED: "SKIPPED",
    State.NOT_TRIGGERED: "SKIPPED",
    State.CANCELLED: "CANCELED",
}


def title(run: PipelineRun) -> str:
    """Return what its user calls it."""
    return run.spec.display_name or run.name


FIELDS: Fields[Summary] = {
    "id": lambda found: found.name,
    "run_id": lambda found: found.name,
    "name": lambda found: found.fields.get("display_name") or found.name,
    "display_name": lambda found: found.fields.get("display_name") or found.name,
    "description": lambda found: found.fields.get("description", ""),
    "created_at": lambda found: float(found.created_at),
    "scheduled_at": lambda found: found.fields.get("scheduled_at") or float(found.created_at),
    "finished_at": lambda found: found.fields.get("finished_at"),
    "state": lambda found: _STATES[PipelineState(str(found.fields["state"]))],
    "status": lambda found: _STATES[PipelineState(str(found.fields["state"]))],
    "storage_state": lambda found: experiments.STORAGE[bool(found.fields.get("archived"))],
    "experiment_id": lambda found: found.fields.get("experiment", ""),
    "pipeline_id": lambda found: str(found.fields.get("template", "")).partition("/")[0],
    "pipeline_version_id": lambda found: str(found.fields.get("template", "")).partition("/")[2],
    "recurring_run_id": lambda found: found.fields.get("schedule", ""),
}


async def wanted_run(request: web.Request, body: Mapping[str, Any]) -> PipelineSpec:
    """Read what is to be run: whose, which pipeline, with which arguments and in which experiment."""
    experiment = await experiments.chosen(request, body)
    template = ""
    if body.get("pipeline_spec"):
        documents = documents_of(body["pipeline_spec"])
    else:
        reference = part_in(body, "pipeline_version_reference") or {
            "pipeline_version_id": text_in(body, "pipeline_version_id")
        }
        version = await templates.referred(request, reference)
        documents, template = version.spec.documents_json, f"{version.spec.template}/{version.name}"
    config = part_in(body, "runtime_config")
    arguments = whole(part_in(config, "parameters", "runtime_config."))
    graph = graph_of(documents)
    check_arguments(graph, arguments)
    root = _root(request, text_in(config, "pipeline_root", "runtime_config."))
    if root == "" and makes_artifacts(graph):
        raise InvalidInputError(
            "the steps make artefacts, and pods take theirs with them",
            field="runtime_config.pipeline_root",
            expected=f"an address to store them, which begins with {', '.join(ROOTS)}",
        )
    return PipelineSpec(
        name=run_name(graph, uuid4().hex[:5]),
        tenant=experiment.tenant or DEFAULT_TENANT,
        documents_json=documents,
        arguments_json=compact_json(arguments),
        display_name=text_in(body, "display_name"),
        description=text_in(body, "description"),
        experiment=experiment.name,
        template=template,
        root=root or "",
    )


def _root(request: web.Request, wanted: str) -> str | None:
    """Return where artefacts are stored: where the run says, if that is a store, else where the interface says."""
    return wanted if wanted.startswith(ROOTS) else request.app[ROOT]


async def create(request: web.Request) -> web.Response:
    """Make a run."""
    spec = await wanted_run(request, await object_of(request))
    made = await operations.create_record(context_of(request), PIPELINE, RecordId(f"r{uuid4().hex[:14]}"), spec)
    return answer(plain(request, made, details=True))


async def listing(request: web.Request) -> web.Response:
    """Return a page of runs, of one experiment if it is named."""
    wanted = read_request(request.query, FIELDS)
    tenant, experiment = group_of(request)
    context = context_of(request)
    summaries = await operations.summarize_records(context, PIPELINE, tenant)
    known = [each for each in summaries if experiment in ("", each.fields.get("experiment", ""))]
    page, token, total = wanted.page(known, lambda each: each.name)
    runs = await operations.get_records(context, PIPELINE, tenant, [each.name for each in page])
    return page_answer("runs", [plain(request, run) for run in runs], token, total)


async def retry(request: web.Request) -> web.StreamResponse:
    """Begin what has failed anew."""
    run = await found(request, PIPELINE)
    if run.status.state not in (PipelineState.FAILED, PipelineState.STOPPED):
        raise PreconditionError(f"the run '{title(run)}' is {run.state}; only one that has failed can be retried")
    return await doing(PIPELINE, "retry")(request)


def detailed(request: web.Request, run: PipelineRun) -> Plain:
    """Write a run with its tasks."""
    return plain(request, run, details=True)


def plain(request: web.Request, run: PipelineRun, *, details: bool = False) -> Plain:
    """Write a run; ``details`` has its tasks."""
    spec, status, tenant = run.spec, run.status, run.tenant or DEFAULT_TENANT
    return given(
        {
            "run_id": id_of(request, run),
            "display_name": title(run),
            "experiment_id": public_id(request, tenant, spec.experiment),
            "storage_state": experiments.STORAGE[status.archived],
            "description": spec.description,
            **source_plain(request, spec),
            "created_at": time_text(run.created_at),
            "scheduled_at": time_text(spec.scheduled_at or run.created_at),
            "finished_at": time_text(status.finished_at),
            "state": _STATES[status.state],
            "error": _error(run),
            "recurring_run_id": public_id(request, tenant, spec.schedule),
            "state_history": _history(run),
            "run_details": {"task_details": _tasks(request, run)} if details else None,
        }
    )


def source_plain(request: web.Request, spec: PipelineSpec) -> Plain:
    """Write what is run: the version that it was made from, or the pipeline itself, and the arguments."""
    found: Plain = {"runtime_config": {"parameters": json.loads(spec.arguments_json)}}
    if spec.template:
        template, _, version = spec.template.partition("/")
        reference = {
            "pipeline_id": public_id(request, spec.tenant, template),
            "pipeline_version_id": public_id(request, spec.tenant, version),
        }
        return {**found, "pipeline_version_reference": reference}
    return {**found, "pipeline_spec": templates.spec_plain(spec.documents_json)}


def _error(run: PipelineRun) -> Plain | None:
    if run.status.state is PipelineState.STOPPED:
        return {"code": CANCELLED, "message": "the run was stopped"}
    return {"code": ABORTED, "message": run.status.failure} if run.status.failure else None


def _history(run: PipelineRun) -> list[Plain]:
    """Write where the run was and is; when it was asked to stop is not on record."""
    found = [{"update_time": time_text(run.created_at), "state": "RUNNING"}]
    if run.status.stopped:
        found.append({"update_time": time_text(run.status.finished_at), "state": "CANCELING"})
    if run.status.finished_at is not None:
        found.append({"update_time": time_text(run.status.finished_at), "state": _STATES[run.status.state]})
    return [given(each) for each in found]


def _tasks(request: web.Request, run: PipelineRun) -> list[Plain]:
    steps = {step.path: step for step in run.status.steps}
    return [_task(request, run, each, steps.get(path_text(each.path))) for each in run_tree(run).walk()]


def _task(request: web.Request, run: PipelineRun, found: Instance, step: StepStatus | None) -> Plain:
    path = path_text(found.path)
    job = None if step is None or step.reused_from else str(run.job_id(step.number))
    failed = found.state in (State.FAILED, State.CANCELLED)
    return given(
        {
            "run_id": id_of(request, run),
            "task_id": _task_id(path),
            "display_name": found.path[-1] if found.path else "root",
            "create_time": time_text(run.created_at if step is None else step.began_at),
            "start_time": time_text(step.began_at if step else None),
            "end_time": time_text(step.ended_at if step else run.status.finished_at if not path else None),
            "executor_detail": {"main_job": job} if job else None,
            "state": _TASK_STATES[found.state],
            "error": {"code": UNKNOWN, "message": found.message} if failed and found.message else None,
            "inputs": _artifacts(found.inputs),
            "outputs": _artifacts(found.outputs),
            "parent_task_id": _task_id(path_text(found.path[:-1])) if found.path else None,
            "pod_name": job,
            "child_tasks": [{"task_id": _task_id(path_text(child.path))} for child in found.children] or None,
        }
    )


def _task_id(path: str) -> str:
    return path or "root"


def _artifacts(flows: Mapping[str, Any]) -> Plain | None:
    """Write artefacts by name; their ids are their addresses."""
    found = {name: [each for each in each_of(flow) if isinstance(each, Artifact)] for name, flow in flows.items()}
    return {name: {"artifact_ids": [each.uri for each in many]} for name, many in found.items() if many} or None
