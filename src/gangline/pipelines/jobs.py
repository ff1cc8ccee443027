"""A step as a job: a command in one replica, or a whole job with what the step takes put in.

Within a job artefacts are files: those that lie in a store are fetched below the directory of data, and what the step
makes lies below that of results. If the run has a root, that is stored there, and others take it from there.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from gangline.model import DataMove, Framework, JobSpec, Policy, Resources, RoleName, RoleSpec, Timestamp
from gangline.model.explanation import amount_text
from gangline.model.kinds.pipeline import STEP_VARIABLE, PipelineRun
from gangline.pipelines.caching import Earlier, step_key
from gangline.pipelines.evaluation import Instance, Path
from gangline.pipelines.graph import ArtifactDefinition, Container, Graph, JobTemplate, Retries
from gangline.pipelines.placeholders import (
    DATA,
    WORKSPACE,
    Flow,
    RunInfo,
    artifact_place,
    artifact_plain,
    command_words,
    each_of,
    inputs_as_files,
    is_remote,
    output_artifact,
    output_place,
)
from gangline.pipelines.settings import settings_of
from gangline.pipelines.values import Artifact, Json, ParameterType, text_of

LAUNCHER = ("sh", "-c", 'exec "${GANGLINE_PYTHON:-python3}" -m gangline.runtime.step "$@"', "step")
"""What runs a step's command, which follows it."""
REPLICAS = "gangline.dev/replicas"
FRAMEWORK = "gangline.dev/framework"
"""Annotations of a step's pod by which a component says that it is trained by several replicas."""
REGISTER = "gangline.dev/register"
"""The annotation that registers an output: ``OUTPUT=MODEL``."""


_BOUNDED = "bounded"
"""Whether what a step asks for is a wish: files that were compiled for a cluster run on smaller machines too."""


def path_text(path: Path) -> str:
    """Write where a step is, as users name it."""
    return "/".join(path)


def run_info(run: PipelineRun) -> RunInfo:
    """Return what a run tells its steps of itself."""
    return RunInfo(
        name=run.name,
        id=str(run.id),
        root=run.spec.root or RunInfo(name="").root,
        created=_time(run.created_at),
        scheduled=_time(run.spec.scheduled_at or run.created_at),
    )


def _time(at: Timestamp) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def workspace_claim(run_name: str) -> str:
    """Return the name of the volume that all steps of a run share."""
    return f"{run_name}-workspace"


def step_to_job(run: PipelineRun, graph: Graph, step: Instance, number: int, earlier: Earlier) -> JobSpec:
    """Return the job of a step."""
    fetched, inputs = _fetched(step.inputs)
    here = replace(step, inputs=inputs)
    body = step.component.body
    job = _of_template(run, here, body) if isinstance(body, JobTemplate) else _of_command(run, graph, here)
    key = step_key(step, run.name)
    stored = f"{run.spec.root.rstrip('/')}/{run.name}/{number}" if run.spec.root and step.component.outputs else ""
    order = {
        "path": path_text(step.path),
        "lead": job.lead_role,
        "key": key,
        "reason": earlier.why_not(step, key, allowed=run.spec.cache),
        **_places(here),
        **({"stored": stored} if stored else {}),
        **({_BOUNDED: True} if isinstance(body, Container) else {}),
    }
    outputs = (*job.outputs, *((DataMove("$RESULT_DIR/outputs", f"{stored}/"),) if stored else ()))
    return replace(
        job,
        name=f"{run.name}-{number}",
        tenant=run.spec.tenant,
        queue=run.spec.queue,
        labels={**job.labels, "gangline.dev/pipeline": run.name},
        env={**job.env, STEP_VARIABLE: json.dumps(order, ensure_ascii=False)},
        inputs=(*job.inputs, *fetched),
        outputs=outputs,
    )


def bounded_by(job: JobSpec, machine: Resources) -> JobSpec:
    """Let the step of a compiled pipeline have no more than the only machine there is; its log says so."""
    order = json.loads(job.env.get(STEP_VARIABLE) or "{}")
    limits = machine.amounts()
    asked = {name: each for role in job.roles for name, each in role.resources.amounts().items()}
    lacking = [name for name, amount in asked.items() if amount > limits.get(name, 0)]
    if not order.get(_BOUNDED) or not lacking:
        return job
    shown = ", ".join(amount_text(name, asked[name]) for name in lacking)
    order["lacking"] = f"the step asks for {shown}, which this machine does not have; it runs without"

    def bounded(role: RoleSpec) -> RoleSpec:
        has = role.resources
        least = replace(
            has,
            cpu_millis=min(has.cpu_millis, machine.cpu_millis),
            memory_mib=min(has.memory_mib, machine.memory_mib),
            gpu_millis=min(has.gpu_millis, machine.gpu_millis),
            extended={name: amount for name, amount in has.extended.items() if name not in lacking},
        )
        return replace(role, resources=least)

    return replace(
        job,
        roles=tuple(map(bounded, job.roles)),
        env={**job.env, STEP_VARIABLE: json.dumps(order, ensure_ascii=False)},
    )


def _places(step: Instance) -> dict[str, Json]:
    """Say what the launcher of a step makes before it, and looks for after it."""
    outputs = step.component.outputs.items()
    command = step.component.body.command if isinstance(step.component.body, Container) else ()
    left_at = step.component.body.left_at if isinstance(step.component.body, Container) else {}
    return {
        "inputs": inputs_as_files(command, step.inputs),
        "needs": _needed(step.inputs),
        "left_at": {_place(step, name): place for name, place in left_at.items()},
        "parameters": {name: output_place(name) for name, kind in outputs if not isinstance(kind, ArtifactDefinition)},
        "artifacts": {
            name: artifact_plain(output_artifact(name, kind))
            for name, kind in outputs
            if isinstance(kind, ArtifactDefinition)
        },
    }


def _needed(inputs: Mapping[str, Flow]) -> dict[str, str]:
    """Return the artefacts that are known to have been files, by place: without them there is no use in starting."""
    found = [(name, artifact) for name, flow in inputs.items() for artifact in each_of(flow)]
    return {artifact.uri: name for name, artifact in found if artifact.digest and "://" not in artifact.uri}


def _place(step: Instance, name: str) -> str:
    kind = step.component.outputs.get(name)
    return artifact_place(name) if isinstance(kind, ArtifactDefinition) else output_place(name)


def _fetched(inputs: Mapping[str, Flow]) -> tuple[list[DataMove], dict[str, Flow]]:
    """Return what must be fetched first, and the inputs as a program finds them then."""
    moves: list[DataMove] = []

    def local(artifact: Artifact) -> Artifact:
        if not is_remote(artifact.uri):
            return artifact
        folder, _, last = artifact.uri.rstrip("/").rpartition("/")
        place = f"inputs/{len(moves)}"
        if artifact.uri.startswith("model://"):
            moves.append(DataMove(artifact.uri, f"$DATA_DIR/{place}"))
            return replace(artifact, uri=f"{DATA}/{place}")
        if artifact.digest:  # a step of ours stored it, in a folder of its own: file or folder, that can be fetched
            moves.append(DataMove(folder, f"$DATA_DIR/{place}"))
        else:
            moves.append(DataMove(artifact.uri, f"$DATA_DIR/{place}/{last}"))
        return replace(artifact, uri=f"{DATA}/{place}/{last}")

    found: dict[str, Flow] = {}
    for name, flow in inputs.items():
        artifacts = tuple(map(local, each_of(flow)))
        found[name] = flow if not artifacts else artifacts if isinstance(flow, tuple) else artifacts[0]
    return moves, found


def _of_command(run: PipelineRun, graph: Graph, step: Instance) -> JobSpec:
    """Return the job of a command: one replica of its image, or as many as its pod says."""
    body, task = step.component.body, step.task
    assert isinstance(body, Container)
    assert task is not None
    info = run_info(run)
    settings = settings_of(replace(body, pod=_with_workspace(run, graph, body.pod)), step.inputs, info, task.name)
    told = [name for name, kind in step.component.inputs.items() if kind.type == ParameterType.CONFIG]
    inputs = {**step.inputs, **{name: dict(settings.told) for name in told}}
    command = command_words(body.command, step.component, inputs, info.texts(task.name))
    said = (settings.pod.get("metadata") or {}).get("annotations") or {}
    role = RoleSpec(
        name=RoleName("worker"),
        replicas=int(said[REPLICAS]) if str(said.get(REPLICAS, "")).isdigit() else 1,
        command=(*LAUNCHER, *command),
        pod_template_json=json.dumps(settings.pod, ensure_ascii=False) if settings.pod else None,
        resources=settings.resources,
    )
    return JobSpec(
        name=run.name,
        image=settings.image,
        env=settings.env,
        roles=(role,),
        framework=Framework(said[FRAMEWORK]) if said.get(FRAMEWORK) in set(Framework) else Framework.NONE,
        policy=_policy(task.retries, body.deadline_seconds),
        outputs=_registered(dict([each]) if (each := _pair(said.get(REGISTER))) else {}),
    )


def _pair(text: Json) -> tuple[str, str] | None:
    name, equals, model = str(text or "").partition("=")
    return (name, model) if equals else None


def _registered(outputs: Mapping[str, str]) -> tuple[DataMove, ...]:
    """Return what makes artefacts versions of models."""
    places = {f"$RESULT_DIR/outputs/{name}/{name}": model for name, model in outputs.items()}
    return tuple(DataMove(place, f"model://{model}") for place, model in places.items())


def _of_template(run: PipelineRun, step: Instance, body: JobTemplate) -> JobSpec:
    """Return a job with what the step takes put in. Its lead replica reports what the step makes."""
    assert step.task is not None
    fixed = run_info(run).texts(step.task.name)

    def put_in(text: str) -> str:
        return command_words([text], step.component, step.inputs, fixed, written=text_of)[0]

    job = body.job.with_texts(put_in)
    roles = tuple(replace(role, command=(*LAUNCHER, *role.command)) for role in job.roles)
    return replace(job, roles=roles, outputs=(*job.outputs, *_registered(body.registers)))


def _with_workspace(run: PipelineRun, graph: Graph, template: Mapping[str, Json]) -> Mapping[str, Json]:
    """Add the volume that all steps share to the template of a step's pod."""
    if graph.workspace is None:
        return template
    spec = template.get("spec") or {}
    main, *others = spec.get("containers") or [{}]
    claim = {"name": "workspace", "persistentVolumeClaim": {"claimName": workspace_claim(run.name)}}
    mount = {"name": "workspace", "mountPath": WORKSPACE}
    main = {**main, "volumeMounts": [*main.get("volumeMounts", ()), mount]}
    spec = {**spec, "volumes": [*spec.get("volumes", ()), claim], "containers": [main, *others]}
    return {**template, "spec": spec}


def _policy(retries: Retries, deadline_seconds: float | None) -> Policy:
    """A step is retried as any job is. No pause is longer than the time in which there are retries at all."""
    return Policy(
        max_attempts=retries.most + 1,
        backoff_seconds=retries.backoff_seconds,
        backoff_factor=retries.backoff_factor,
        backoff_limit_seconds=retries.within_seconds,
        retry_for_seconds=retries.within_seconds if retries.most else None,
        deadline_seconds=deadline_seconds,
    )
