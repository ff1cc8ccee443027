"""What should happen to a run now: which steps begin as jobs, which are cancelled, whether it is over."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gangline.errors import InvalidInputError, NotFoundError
from gangline.model import Job, JobId, JobSpec, Phase, Timestamp
from gangline.model.kinds.pipeline import STEP_VARIABLE, PipelineRun, StepStatus
from gangline.model.kinds.registered_model import Model, find_version, model_reference
from gangline.pipelines.caching import Earlier, step_key
from gangline.pipelines.evaluation import ENDED, Instance, Outcome, Path, State, due, evaluate
from gangline.pipelines.graph import Graph, ModelLookup
from gangline.pipelines.jobs import path_text, run_info, step_to_job
from gangline.pipelines.reports import MISSING, missing_in, outputs_of
from gangline.pipelines.values import Artifact, Json, MisfitError

MOST_WAITING = 100
"""How many steps of a run may be unfinished at a time, so that nobody waits behind a loop of thousands."""

_STATES = {Phase.COMPLETED: State.SUCCEEDED, Phase.FAILED: State.FAILED, Phase.CANCELLED: State.CANCELLED}
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_GONE = "its job was deleted before it had ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What to do next. ``steps`` is everything that was started, those of ``start`` included."""

    root: Instance
    steps: tuple[StepStatus, ...]
    start: tuple[tuple[int, JobSpec], ...] = ()
    cancel: tuple[JobId, ...] = ()
    over: bool = False
    expired: bool = False
    """Whether it had not ended within the time that its pipeline allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a plan looks at besides its run: other runs, registered models, the time."""

    now: Timestamp
    runs: Sequence[PipelineRun] = ()
    models: Sequence[Model] = ()


def plan_run(run: PipelineRun, graph: Graph, jobs: Sequence[Job], around: Surroundings) -> RunPlan:
    """Decide what the run needs now. Asked again after its plan was carried out, it finds nothing more to do."""
    earlier = Earlier.of(around.runs, around.now, run.spec.reuse_seconds, run.status.missing)
    steps, root = _with_known(run, graph, _noted(run, jobs), earlier, around.models)
    running = [step for step in steps if State(step.state) not in ENDED]
    deadline = deadline_of(run, graph)
    unfinished = not root.ended or any(step.state == State.CANCELLED for step in steps)
    expired = deadline is not None and around.now >= deadline and unfinished
    if run.status.stopped or expired:
        cancel = tuple(job.id for job in jobs if not job.finished)
        return RunPlan(root=root, steps=steps, cancel=cancel, over=not running, expired=expired)
    number = _first_free(run, steps)
    begun = enumerate(due(root)[: max(0, MOST_WAITING - len(running))], number)
    made = [_begin(run, graph, step, each, earlier) for each, step in begun]
    start = tuple((status.number, job) for status, job in made if job is not None)
    return RunPlan(root=root, steps=(*steps, *(status for status, _ in made)), start=start, over=root.ended)


def _begin(
    run: PipelineRun, graph: Graph, step: Instance, number: int, earlier: Earlier
) -> tuple[StepStatus, JobSpec | None]:
    """Return a step that begins, with its job; one whose inputs make no job has failed, and the run goes on."""
    status = StepStatus(path=path_text(step.path), number=number, state=State.RUNNING)
    try:
        job = step_to_job(run, graph, step, number, earlier)
        job.with_texts(_given_to_programs)
    except (MisfitError, InvalidInputError) as error:
        return replace(status, state=State.FAILED, message=str(error)), None
    return status, job


def _given_to_programs(text: str) -> str:
    """Return a text of a job; raises MisfitError for one that no program can be given."""
    if "\0" in text:
        raise MisfitError("a text with a NUL character cannot be given to a program")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MisfitError(f"{text[error.start]!a} is half a character and cannot be given to a program") from None
    return text


def deadline_of(run: PipelineRun, graph: Graph) -> Timestamp | None:
    """Return when the run must have ended; one that was retried has all the time that it needs."""
    if graph.deadline_seconds is None or run.status.given_up:
        return None
    return Timestamp(run.created_at + graph.deadline_seconds)


def _first_free(run: PipelineRun, steps: Sequence[StepStatus]) -> int:
    """Return the first number that no job of the run has had."""
    return max((*run.status.given_up, *(step.number for step in steps)), default=-1) + 1


def _with_known(
    run: PipelineRun, graph: Graph, steps: tuple[StepStatus, ...], earlier: Earlier, models: Sequence[Model]
) -> tuple[tuple[StepStatus, ...], Instance]:
    """Add what need not run, until nothing more is found: what is known makes others due."""
    while True:
        root = instances(run, graph, steps)
        number = _first_free(run, steps)
        known = () if run.status.stopped else _known(run, root, earlier, models)
        if not known:
            return steps, root
        steps += tuple(replace(each, number=number + place) for place, each in enumerate(known))


def _known(run: PipelineRun, root: Instance, earlier: Earlier, models: Sequence[Model]) -> tuple[StepStatus, ...]:
    """Return the steps that are due and whose outputs are known: models, and what an earlier run has made.

    They are kept with the run, so that what becomes of model and earlier run changes nothing for it.
    """
    found: list[StepStatus] = []
    for step in due(root):
        done = StepStatus(path=path_text(step.path), number=0, state=State.SUCCEEDED)
        if isinstance(step.component.body, ModelLookup):
            found.append(replace(done, result=json.dumps(model_outputs(step.component.body.address, models))))
            continue
        key = step_key(step, run.name) if step.task is not None and step.task.cache and run.spec.cache else ""
        if key and (hit := earlier.find(key)) is not None:
            found.append(replace(done, result=hit.result, key=key, reused_from=hit.source))
    return tuple(found)


def model_outputs(address: str, models: Sequence[Model]) -> dict[str, Json]:
    """Say what is known of a model: whether it is there, its version and metrics, and where its files are."""
    reference = model_reference(address)
    model = next((each for each in models if reference is not None and each.name == reference.name), None)
    try:
        assert reference is not None
        version = None if model is None else find_version(model, reference.number, reference.alias)
    except NotFoundError:
        version = None
    if model is None or version is None:
        return {"parameters": {"exists": False, "version": 0, "metrics": {}}, "artifacts": {}}
    kind = {"schemaTitle": "system.Model", "schemaVersion": "0.0.1"}
    uri = f"model://{model.name}:{version.number}"
    made = {"name": model.name, "uri": uri, "type": kind, "metadata": dict(version.metrics), "digest": version.digest}
    parameters = {"exists": True, "version": version.number, "metrics": dict(version.metrics)}
    return {"parameters": parameters, "artifacts": {"model": [made]}}


def instances(run: PipelineRun, graph: Graph, steps: Sequence[StepStatus] | None = None) -> Instance:
    """Return the whole run as a tree."""
    known = run.status.steps if steps is None else steps
    outcomes = {_read(step.path): _outcome(step) for step in known}
    return evaluate(graph, json.loads(run.spec.arguments_json), outcomes, run_info(run))


def _noted(run: PipelineRun, jobs: Sequence[Job]) -> tuple[StepStatus, ...]:
    """Return every step that was ever started, with the newest that is known of it."""
    steps = {step.number: step for step in run.status.steps}
    seen: set[int] = set()
    given_up = frozenset(run.status.given_up)
    for job in jobs:
        number = _number_of(job)
        if number is None or number in given_up:
            continue
        seen.add(number)
        if number not in steps or State(steps[number].state) not in ENDED:
            steps[number] = _status(number, job)
    lost = {
        number: replace(step, state=State.FAILED, message=_GONE)
        for number, step in steps.items()
        if number not in seen and State(step.state) not in ENDED
    }
    known = steps | lost
    return tuple(known[number] for number in sorted(known))


def _number_of(job: Job) -> int | None:
    """Return which of the run's jobs it is; None for one that somebody else gave such an id."""
    number = job.id.rpartition("-")[2]
    return int(number) if _NUMBER.fullmatch(number) and STEP_VARIABLE in job.spec.env else None


def _status(number: int, job: Job) -> StepStatus:
    state = _STATES.get(job.phase, State.RUNNING)
    message = job.message if state in (State.FAILED, State.CANCELLED) else ""
    result = _result(job) if state is State.SUCCEEDED else _missing(job) if state is State.FAILED else ""
    if result is None:
        state, message, result = State.FAILED, "the report of its outputs cannot be read", ""
    order = json.loads(job.spec.env[STEP_VARIABLE])
    return StepStatus(
        path=order["path"],
        number=number,
        state=state,
        message=message,
        result=result,
        key=order.get("key", ""),
        reason=order.get("reason", ""),
        began_at=job.created_at if state in ENDED else None,
        ended_at=job.history[-1].at if state in ENDED else None,
    )


def _missing(job: Job) -> str:
    """Return what a step that failed has to say of artefacts: at most which address has nothing any more."""
    found = next(filter(None, (missing_in(replica.result) for replica in job.replicas)), "")
    return json.dumps({MISSING: found}) if found else ""


def _result(job: Job) -> str | None:
    """Return the outputs of a step; None for a report that is not one: programs may write into its file themselves."""
    report = next((replica.result for replica in job.replicas if replica.result), "")
    try:
        result = json.dumps(outputs_of(report, job.spec.env[STEP_VARIABLE]), ensure_ascii=False)
        _outcome(StepStatus(path="", number=0, state=State.SUCCEEDED, result=result))
        result.encode()  # JSON can write halves of characters, which cannot be kept
    except (ValueError, TypeError, AttributeError, EOFError, OSError):
        return None
    return result


def _outcome(step: StepStatus) -> Outcome:
    found = json.loads(step.result) if step.result else {}
    artifacts = {name: tuple(map(_artifact, each)) for name, each in found.get("artifacts", {}).items()}
    return Outcome(state=State(step.state), message=step.message, outputs={**found.get("parameters", {}), **artifacts})


def _artifact(plain: Mapping[str, Json]) -> Artifact:
    kind = plain.get("type") or {}
    return Artifact(
        name=plain.get("name", ""),
        uri=plain.get("uri", ""),
        type=kind.get("schemaTitle", "system.Artifact"),
        version=kind.get("schemaVersion", "0.0.1"),
        metadata=plain.get("metadata") or {},
        digest=plain.get("digest", ""),
    )


def _read(text: str) -> Path:
    return tuple(text.split("/"))
