"""The kind Pipeline: a graph of steps, each of them a job."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gangline.dialects.document import compact_json, plain
from gangline.dialects.native import API_VERSION
from gangline.dialects.pipeline import each_job, is_native, read_graph, with_files
from gangline.dialects.quantities import seconds, seconds_text
from gangline.dialects.value import Value
from gangline.errors import InvalidInputError
from gangline.kinds.derived import Form, add_form
from gangline.kinds.kind import Column, FileFormat, Kind, NewJob, Owned, Plain, Plan, Reader, Verb
from gangline.kinds.model import MODEL
from gangline.model import DEFAULT_QUEUE, DEFAULT_TENANT, JobSpec, QueueName, Resources, Tenant, Timestamp
from gangline.model.kinds.pipeline import PipelineRun, PipelineSpec, PipelineState, PipelineStatus
from gangline.pipelines.caching import lacks, missing_artifacts
from gangline.pipelines.checking import check_new
from gangline.pipelines.evaluation import ENDED, Instance, State, evaluate, with_defaults
from gangline.pipelines.graph import ArtifactDefinition, Claim, Container, Graph, JobTemplate, ModelLookup, Stop
from gangline.pipelines.jobs import workspace_claim
from gangline.pipelines.placeholders import RunInfo
from gangline.pipelines.plan import Surroundings, deadline_of, instances, plan_run
from gangline.pipelines.values import MisfitError

_LONGEST_NAME = 45
_LONGEST_SUMMARY = 256
_STEPS = ("inputs", "steps", "outputs")
_SOURCE = ("documents", *_STEPS, "arguments")
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
_ABOUT = {
    "display_name": "What its user calls it.",
    "description": "What it is for.",
    "experiment": "The experiment that it is grouped with.",
    "template": "The template and the version that it was made from.",
    "schedule": "The schedule that made it.",
    "scheduled_at": "The time that the schedule made it for, in seconds since 1970.",
}
_SCHEMA = {
    "type": "object",
    "description": "Steps, or a compiled pipeline, and arguments.",
    "properties": {
        "inputs": {"description": "The inputs of the steps: a default, or a type.", "type": "object", **_ANYTHING},
        "steps": {"description": "Jobs and groups of them, by name.", "type": "object", **_ANYTHING},
        "outputs": {"description": "Outputs of steps that are the pipeline's.", "type": "object", **_ANYTHING},
        "documents": {
            "description": "The documents of a file that the kfp package compiled, instead of steps.",
            "type": "array",
            "items": {"type": "object", **_ANYTHING},
        },
        "arguments": {"description": "Values for the inputs of the pipeline.", "type": "object", **_ANYTHING},
        "source": {"description": "All of the above as one text, in JSON: 3.0 stays 3.0.", "type": "string"},
        "cache": {"description": "Whether outputs of earlier runs may be reused.", "type": "boolean"},
        "reuse": {"description": "How old outputs may be that are reused.", "type": "string"},
        "root": {"description": "Where artefacts are stored, as an address.", "type": "string"},
        "queue": {"description": "The queue of all steps.", "type": "string"},
        **{
            name: {"description": text, "type": "number" if name == "scheduled_at" else "string"}
            for name, text in _ABOUT.items()
        },
    },
}


_TOO_LARGE = (
    "what its steps reported is too large to be kept with the run; make large values artefacts, or loop over less"
)


@lru_cache(maxsize=64)
def graph_of(documents_json: str) -> Graph:
    """Return the graph of a compiled pipeline; raises InvalidInputError for one that cannot run."""
    return read_graph([plain(document) for document in json.loads(documents_json)])


def is_native_file(value: Value) -> bool:
    """Whether a document is a file of this kind, and not what somebody else's compiler wrote."""
    return isinstance(value.data, Mapping) and value.data.get("kind") == "Pipeline" and "spec" in value.data


def makes_artifacts(graph: Graph) -> bool:
    """Whether a step gives an artefact to another."""
    steps = [each for each in graph.components.values() if isinstance(each.body, Container | JobTemplate)]
    return any(isinstance(kind, ArtifactDefinition) for each in steps for kind in each.outputs.values())


def run_name(graph: Graph, suffix: str) -> str:
    """Return a name for a run: that of its pipeline, as far as names allow, and a suffix that makes it unique."""
    words = re.sub(r"[^a-z0-9]+", "-", graph.name.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return f"{words or 'pipeline'}-{suffix}"


def pipeline_name(run: PipelineRun) -> str:
    """Return what the file calls itself, without reading the whole graph."""
    first = json.loads(run.spec.documents_json)[0]
    return str((first.get("pipelineInfo") or first).get("name") or "-")


def run_tree(run: PipelineRun) -> Instance:
    """Return a run with all its tasks and steps as they stand."""
    return instances(run, graph_of(run.spec.documents_json))


def plan_pipeline(run: PipelineRun, owned: Owned, now: Timestamp) -> Plan[PipelineStatus]:
    """Say which steps begin and end now. What an earlier version began and this one refuses has failed."""
    try:
        graph = graph_of(run.spec.documents_json)
    except InvalidInputError as error:
        status = replace(run.status, finished_at=now, failure=f"this version of Gangline cannot run it: {error}")
        return Plan(status=status, cancel=tuple(job.id for job in owned.jobs if not job.finished))
    wanted = plan_run(
        run,
        graph,
        owned.jobs,
        Surroundings(now=now, runs=owned.others, models=owned.related),
    )
    status = replace(run.status, steps=wanted.steps)
    if wanted.over and status.finished_at is None:
        failed = wanted.root.state is not State.SUCCEEDED and not status.stopped
        reason = f"it took longer than {graph.deadline_seconds:g} s" if wanted.expired else wanted.root.message
        status = replace(status, finished_at=now, failure=(reason or "failed") if failed else "")
    create = tuple(NewJob(run.job_id(number), job) for number, job in wanted.start)
    again_at = None if wanted.over or wanted.expired else deadline_of(run, graph)
    return Plan(status=status, create=create, cancel=wanted.cancel, again_at=again_at)


def give_up_pipeline(status: PipelineStatus, now: Timestamp) -> PipelineStatus:
    """End a run that has grown too large for its store: what has ended stays, and what runs is not kept."""
    ended = tuple(step for step in status.steps if State(step.state) in ENDED)
    unfinished = tuple(step.number for step in status.steps if step not in ended)
    return replace(status, steps=ended, given_up=(*status.given_up, *unfinished), finished_at=now, failure=_TOO_LARGE)


def claims_of(spec: PipelineSpec) -> tuple[Plain, ...]:
    """Return the volumes that a run makes: that of all its steps, and those that its tasks ask for by name.

    Of a pipeline that an earlier version began and this one refuses nobody knows them any more.
    """
    try:
        graph = graph_of(spec.documents_json)
    except InvalidInputError:
        return ()
    given = {} if graph.workspace is None else {workspace_claim(spec.name): dict(graph.workspace)}
    root = evaluate(graph, json.loads(spec.arguments_json), {}, RunInfo(name=spec.name))
    for each in root.walk():
        if each.component.body is Claim.CREATE and "name" in each.outputs:
            given[each.outputs["name"]] = _claim(each.inputs)
    return tuple(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": claim}
        for name, claim in given.items()
    )


def _claim(inputs: Mapping[str, Any]) -> Plain:
    size = {"requests": {"storage": inputs.get("size") or "1Gi"}}
    claim: Plain = {"accessModes": inputs.get("access_modes") or ["ReadWriteOnce"], "resources": size}
    named = {"storage_class_name": "storageClassName", "volume_name": "volumeName", "data_source": "dataSource"}
    return claim | {name: inputs[each] for each, name in named.items() if inputs.get(each)}


def stop_pipeline(run: PipelineRun) -> PipelineRun:
    """Start no further step and cancel those that run; a finished run stays finished."""
    return run if run.status.settled else replace(run, status=replace(run.status, stopped=True))


def retry_pipeline(run: PipelineRun) -> PipelineRun:
    """Begin anew the steps that have not succeeded or whose artefacts are gone; what runs or has succeeded stays."""
    status = run.status
    if not status.settled or status.state is PipelineState.SUCCEEDED:
        return run
    missing = missing_artifacts(status)
    kept = tuple(step for step in status.steps if step.state == State.SUCCEEDED and not lacks(step, missing))
    again = tuple(step.number for step in status.steps if step not in kept)
    fresh = PipelineStatus(
        steps=kept,
        archived=status.archived,
        given_up=(*status.given_up, *again),
        missing=tuple(sorted(missing)),
    )
    return replace(run, status=fresh)


def archive_pipeline(run: PipelineRun) -> PipelineRun:
    """Set it aside."""
    return replace(run, status=replace(run.status, archived=True))


def unarchive_pipeline(run: PipelineRun) -> PipelineRun:
    """Show it again."""
    return replace(run, status=replace(run.status, archived=False))


def check_arguments(graph: Graph, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that the pipeline does not take, that do not fit, or that are missing.

    What is certain before the first step is refused as well: a task whose inputs do not fit, a loop that is too long.
    """
    check_new(graph)
    for name in arguments:
        if name not in graph.root.inputs:
            known = ", ".join(sorted(graph.root.inputs))
            raise InvalidInputError(
                "the pipeline has no such input",
                field=f"arguments.{name}",
                expected=f"one of {known}" if known else None,
            )
    if (odd := _not_finite(arguments)) is not None:
        raise InvalidInputError(
            "is not a finite number", field=f"arguments.{odd}", expected="a number that JSON can write"
        )
    try:
        with_defaults(graph.root, arguments)
    except MisfitError as error:
        raise InvalidInputError(
            str(error), field="arguments", expected="a value for every input, of its type"
        ) from None
    for each in evaluate(graph, arguments, {}).walk():
        if each.state is State.FAILED and not each.children and not isinstance(each.component.body, Stop):
            raise InvalidInputError(each.message, field=f"the step {'/'.join(each.path)}")


def _not_finite(arguments: Mapping[str, Any]) -> str | None:
    """Return the first argument that JSON cannot write: a number that is infinite, or none at all."""
    for name, value in arguments.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            return name
    return None


async def _check(before: PipelineRun | None, after: PipelineRun | None, reader: Reader) -> None:
    if before is None and after is not None:
        check_arguments(graph_of(after.spec.documents_json), json.loads(after.spec.arguments_json))


def _read(value: Value, sizes: Mapping[str, Resources]) -> PipelineSpec:
    top = value.fields(("apiVersion", "kind", "metadata", "spec", "status"))
    if "spec" not in top or "metadata" not in top:
        raise value.missing("metadata" if "spec" in top else "spec", "a mapping")
    if "kind" in top:
        top["kind"].one_of(("Pipeline",))
    metadata = top["metadata"].fields(("name", "tenant", "namespace", "labels"))
    name = top["metadata"].need("name", "it has no default")
    tenant = Tenant(metadata["tenant"].text()) if "tenant" in metadata else DEFAULT_TENANT
    return _read_spec(top["spec"], name.text(), tenant)


def _read_spec(value: Value, name: str = "pipeline", tenant: Tenant = DEFAULT_TENANT) -> PipelineSpec:
    spec = _whole(value).fields((*_SOURCE, "queue", "cache", "reuse", "root", *_ABOUT))
    documents = _documents(name, value, spec)
    about: dict[str, Any] = {each: spec[each].text() for each in _ABOUT if each in spec and each != "scheduled_at"}
    if "scheduled_at" in spec:
        about["scheduled_at"] = spec["scheduled_at"].converted(float, "a number")
    with value.located():
        return PipelineSpec(
            name=name,
            tenant=tenant,
            queue=QueueName(spec["queue"].text()) if "queue" in spec else DEFAULT_QUEUE,
            cache=spec["cache"].boolean() if "cache" in spec else True,
            reuse_seconds=spec["reuse"].converted(seconds, "a duration, for example 7d") if "reuse" in spec else None,
            root=spec["root"].text() if "root" in spec else "",
            documents_json=compact_json(documents),
            arguments_json=compact_json(spec["arguments"].data if "arguments" in spec else {}),
            **about,
        )


def _whole(value: Value) -> Value:
    """Put what a custom resource has as one text in its place."""
    text = value.fields().get("source")
    if text is None:
        return value
    try:
        found = json.loads(text.text())
    except ValueError as error:
        raise text.wrong(f"this is not JSON: {error}", expected="what the kind Pipeline has, in JSON") from None
    if not isinstance(found, dict) or not found.keys() <= set(_SOURCE):
        raise text.wrong("this is not a pipeline", expected=f"a mapping with {', '.join(_SOURCE)}")
    rest = {name: each.data for name, each in value.fields().items() if name != "source"}
    return replace(value, data={**rest, **found})


def _write_object(spec: PipelineSpec) -> dict[str, Any]:
    """Write a custom resource: what has numbers as one text, because those of Kubernetes lose their point."""
    return {**_write(spec), "spec": object_spec(spec)}


def object_spec(spec: PipelineSpec) -> dict[str, Any]:
    """Write what is to be run as a custom resource has it."""
    found = _write_spec(spec)
    source = {name: found.pop(name) for name in _SOURCE if name in found}
    return {**found, "source": compact_json(source)}


def _documents(name: str, where: Value, spec: Mapping[str, Value]) -> list[Any]:
    """Return what a run keeps of its pipeline: what the kfp package compiled, or our own steps."""
    if ("documents" in spec) is ("steps" in spec):
        raise where.wrong("it is not clear what to run", expected="either steps, or documents of a compiled file")
    if "documents" in spec:
        documents = [each.data for each in spec["documents"].items()]
        with spec["documents"].located():
            graph_of(compact_json(documents))
        return documents
    own = {"name": name, **{part: spec[part].data for part in _STEPS if part in spec}}
    read_graph([replace(where, data=own)])
    return [own]


def each_template(spec: PipelineSpec, change: Callable[[JobSpec], JobSpec]) -> PipelineSpec:
    """Put every job that steps of our own describe through a function."""
    documents = json.loads(spec.documents_json)
    if not is_native(plain(documents[0])):
        return spec
    return replace(spec, documents_json=compact_json([each_job(documents[0], change)]))


def _embed(value: Value, read: Callable[[str], Value]) -> Value:
    if not isinstance(value.data, Mapping) or not isinstance(value.data.get("spec"), Mapping):
        return value
    steps = value.fields()["spec"]
    return replace(value, data={**value.data, "spec": with_files(steps, read).data})


def _write(spec: PipelineSpec) -> dict[str, Any]:
    metadata = {"name": spec.name, **({"tenant": spec.tenant} if spec.tenant != DEFAULT_TENANT else {})}
    return {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": metadata, "spec": _write_spec(spec)}


def _write_spec(spec: PipelineSpec) -> dict[str, Any]:
    documents = json.loads(spec.documents_json)
    native = is_native(plain(documents[0]))
    body = {name: documents[0][name] for name in _STEPS if name in documents[0]} if native else {"documents": documents}
    body["arguments"] = json.loads(spec.arguments_json)
    if not spec.cache:
        body["cache"] = False
    if spec.reuse_seconds is not None:
        body["reuse"] = seconds_text(spec.reuse_seconds)
    if spec.root:
        body["root"] = spec.root
    if spec.queue != DEFAULT_QUEUE:
        body["queue"] = spec.queue
    return body | {name: value for name in _ABOUT if (value := getattr(spec, name))}


add_form(PipelineSpec, Form(_read_spec, _write_spec, _SCHEMA))


def _looked_up(spec: PipelineSpec) -> tuple[Kind[Any, Any, Any], ...]:
    try:
        bodies = [each.body for each in graph_of(spec.documents_json).components.values()]
    except InvalidInputError:
        return ()  # the plan says so
    return (MODEL,) if any(isinstance(body, ModelLookup) for body in bodies) else ()


def _progress(run: PipelineRun) -> str:
    return f"{sum(State(step.state) in ENDED for step in run.status.steps)}/{len(run.status.steps)}"


def _summary(run: PipelineRun) -> dict[str, str | float | None]:
    spec, status = run.spec, run.status
    about = {
        name: getattr(spec, name) for name in ("display_name", "description", "experiment", "template", "schedule")
    }
    return {
        **{name: text[:_LONGEST_SUMMARY] for name, text in about.items() if text},
        "state": str(status.state),
        "archived": float(status.archived),
        "finished_at": status.finished_at,
        "scheduled_at": spec.scheduled_at,
    }


PIPELINE: Kind[PipelineSpec, PipelineStatus, PipelineRun] = Kind(
    name="pipeline",
    plural="pipelines",
    summary="Run a graph of steps.",
    queues=lambda spec: (spec.queue,),
    description="A pipeline that runs: each step of its graph is a job of its own.",
    spec=PipelineSpec,
    status=PipelineStatus,
    answer=PipelineRun,
    format=FileFormat(read=_read, write=_write, write_object=_write_object, schema=_SCHEMA, embed=_embed),
    columns=(
        Column("STATE", lambda run: run.state),
        Column("STEPS", _progress),
        Column("PIPELINE", pipeline_name),
        Column("FAILURE", lambda run: run.status.failure or None, last=True),
    ),
    verbs=(
        Verb("stop", "Start no further step and cancel those that run; results are kept.", stop_pipeline),
        Verb("retry", "Go on from the steps that have failed; what succeeded is kept.", retry_pipeline),
        Verb("archive", "Set a run aside.", archive_pipeline, makes_it="archived"),
        Verb("unarchive", "Show an archived run again.", unarchive_pipeline, makes_it="no longer archived"),
    ),
    summarize=_summary,
    plan=plan_pipeline,
    given_up=give_up_pipeline,
    reads_others=lambda spec: spec.cache,
    related=_looked_up,
    each_template=each_template,
    check=_check,
    claims=claims_of,
)
