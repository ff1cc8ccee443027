"""The rules of a run: given how its steps have ended so far, where everything is and what is due.

``evaluate`` walks the graph once and returns a tree of instances: one for each task and, in a loop, for each item. It
remembers nothing, so that asking again with the same outcomes gives the same answer, after a crash too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gangline.model.kinds.pipeline import StepState
from gangline.pipelines.graph import (
    ArtifactDefinition,
    Claim,
    Component,
    Constant,
    Container,
    Dag,
    Definition,
    FinalStatus,
    FromInput,
    FromTask,
    Graph,
    Importer,
    InputSource,
    Stop,
    Task,
    in_order,
)
from gangline.pipelines.placeholders import Flow, RunInfo, constant_text, each_of, filled
from gangline.pipelines.settings import settings_of
from gangline.pipelines.values import Artifact, Json, MisfitError, ParameterType, fit, select, text_of

Path = tuple[str, ...]
"""Where an instance is: names of tasks from the outside in, and behind that of a loop the number of the item."""

MOST_ITEMS = 10_000
"""The most items a loop may have: each is at least one job on record."""


State = StepState
"""Where an instance is."""

ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.SKIPPED, State.NOT_TRIGGERED, State.CANCELLED})
BAD = frozenset({State.FAILED, State.NOT_TRIGGERED, State.CANCELLED})
_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known of a step that was started."""

    state: State
    outputs: Mapping[str, Flow] = field(default_factory=dict)
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One task, item or step of a run. ``inputs`` are those of a step that is due or was started."""

    path: Path
    component: Component
    task: Task | None = None
    state: State = State.WAITING
    message: str = ""
    inputs: Mapping[str, Flow] = field(default_factory=dict)
    outputs: Mapping[str, Flow] = field(default_factory=dict)
    children: tuple["Instance", ...] = ()

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ENDED

    def walk(self) -> Iterator["Instance"]:
        """Return it and everything in it, from the outside in."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    graph: Graph
    info: RunInfo
    outcomes: Mapping[Path, Outcome]


def evaluate(
    graph: Graph, arguments: Mapping[str, Flow], outcomes: Mapping[Path, Outcome], info: RunInfo | None = None
) -> Instance:
    """Return the whole run as it stands."""
    run = _Run(graph=graph, info=info or RunInfo(name=graph.name), outcomes=outcomes)
    try:
        inputs = with_defaults(graph.root, arguments)
    except MisfitError as error:
        return Instance(path=(), component=graph.root, state=State.FAILED, message=str(error))
    return _body(run, (), None, graph.root, inputs)


def due(root: Instance) -> tuple[Instance, ...]:
    """Return the steps that should be started now, in the order of the graph."""
    return tuple(each for each in root.walk() if each.state is State.DUE)


def with_defaults(component: Component, given: Mapping[str, Flow]) -> dict[str, Flow]:
    """Return all inputs of a component as their types have them; raises MisfitError for what is missing or wrong."""
    found: dict[str, Flow] = {}
    for name, definition in component.inputs.items():
        value = given.get(name, _MISSING)
        if (value is _MISSING or value is None) and getattr(definition, "default", None) is not None:
            value = definition.default  # type: ignore[union-attr]  # an artefact has none
        if value is _MISSING and definition.type == ParameterType.FINAL_STATUS:
            value = {
                "state": "",
                "error": {},
            }  # nothing that it could be told of: programs expect a status all the same
        if value is _MISSING and not definition.optional:
            raise MisfitError(f"the input '{name}' has no value")
        if value is not _MISSING:
            found[name] = _fitted(f"input '{name}'", value, definition)
    return found


def _fitted(what: str, value: Flow, definition: Definition) -> Flow:
    if isinstance(definition, ArtifactDefinition):
        artifacts = each_of(_artifacts(value, definition))
        if not artifacts and not (value == () and definition.many):
            raise MisfitError(f"the {what} should be an artefact")
        return artifacts if definition.many else artifacts[0]
    if value is None:
        return None
    try:
        fitted = fit(value, definition.type)
    except MisfitError as error:
        if definition.loose:
            return value
        raise MisfitError(f"the {what}: {error}") from None
    if definition.literals and fitted not in definition.literals:
        raise MisfitError(f"the {what}: {fitted!r} is not one of {', '.join(map(repr, definition.literals))}")
    return fitted


def _artifacts(value: Flow, definition: ArtifactDefinition) -> Flow:
    """Return what an argument says of an artefact: its address, or a mapping with that and what is known of it."""
    if isinstance(value, list):
        return tuple(_artifacts(each, definition) for each in value)
    plain = {"uri": value} if isinstance(value, str) else value
    if not isinstance(plain, Mapping) or not isinstance(plain.get("uri"), str):
        return value
    metadata = plain.get("metadata")
    return Artifact(
        name=str(plain.get("name") or plain["uri"].rpartition("/")[2]),
        uri=plain["uri"],
        type=definition.type,
        version=definition.version,
        metadata=metadata if isinstance(metadata, Mapping) else {},
    )


def _body(run: _Run, path: Path, task: Task | None, component: Component, inputs: Mapping[str, Flow]) -> Instance:
    """A component with its inputs: a graph, something to import, or a step."""
    here = Instance(path=path, task=task, component=component, inputs=inputs)
    if isinstance(component.body, Dag):
        return _dag(run, here, component.body)
    if isinstance(component.body, Importer):
        return replace(here, state=State.SUCCEEDED, outputs=_imported(run, here, component.body))
    if isinstance(component.body, Stop):
        reason = constant_text(component.body.reason, inputs, run.info, _name(here), written=text_of)
        return replace(here, state=State.FAILED, message=reason)
    if isinstance(component.body, Claim):
        return replace(here, state=State.SUCCEEDED, outputs=_claimed(run, here))
    outcome = run.outcomes.get(path)
    try:
        if outcome is None:
            if isinstance(component.body, Container):
                settings_of(component.body, inputs, run.info, _name(here))
            return replace(here, state=State.DUE)
        outputs = _produced(component, outcome.outputs)
    except MisfitError as error:
        return replace(here, state=State.FAILED, message=str(error))
    return replace(here, state=outcome.state, outputs=outputs, message=outcome.message)


def _produced(component: Component, reported: Mapping[str, Flow]) -> dict[str, Flow]:
    """Return what a step reported as its outputs have it."""
    known = component.outputs.items()
    return {name: _fitted(f"output '{name}'", reported[name], kind) for name, kind in known if name in reported}


def _imported(run: _Run, here: Instance, importer: Importer) -> dict[str, Flow]:
    uri = importer.uri.value if isinstance(importer.uri, Constant) else here.inputs.get(importer.uri.name)
    metadata = filled(importer.metadata, here.inputs, run.info, _name(here))
    definition = here.component.outputs[importer.output]
    kind = definition if isinstance(definition, ArtifactDefinition) else ArtifactDefinition()
    artifact = Artifact(name=importer.output, uri=str(uri), type=kind.type, version=kind.version, metadata=metadata)
    return {importer.output: artifact}


def _claimed(run: _Run, here: Instance) -> dict[str, Flow]:
    """Return the name of a volume: the one that is given, or the run's with a suffix."""
    name = here.inputs.get("pvc_name") or f"{run.info.name}{here.inputs.get('pvc_name_suffix') or '-volume'}"
    return {"name": name} if "name" in here.component.outputs else {}


def _dag(run: _Run, here: Instance, dag: Dag) -> Instance:
    """A graph: its tasks in order, each seeing those before it."""
    done: dict[str, Instance] = {}
    for task in in_order(dag):
        done[task.name] = _task(run, here, task, done)
    children = tuple(done.values())
    outputs = {name: flow for name in dag.outputs if (flow := _dag_output(dag, name, done)) is not _MISSING}
    if not all(child.ended for child in children):
        return replace(here, state=State.RUNNING, children=children)
    failed = [child for child in children if _counts_as_failed(child, done)]
    if failed:
        return replace(here, state=State.FAILED, children=children, outputs=outputs, message=_blame(failed[0]))
    return replace(here, state=State.SUCCEEDED, children=children, outputs=outputs)


def _dag_output(dag: Dag, name: str, done: Mapping[str, Instance]) -> Flow:
    """Return what the first source that has anything has."""
    found = (done[source.task].outputs.get(source.output, _MISSING) for source in dag.outputs[name])
    return next((flow for flow in found if flow is not _MISSING), _MISSING)


def _counts_as_failed(child: Instance, done: Mapping[str, Instance]) -> bool:
    """A failure is the graph's, unless everything that waited for it was told to forgive it."""
    if child.state not in (State.FAILED, State.CANCELLED):
        return False
    dependents = [each.task for each in done.values() if each.task and _name(child) in each.task.upstream]
    return not dependents or not all(task.forgives for task in dependents)


def _blame(failed: Instance) -> str:
    name = _name(failed)
    return f"{name}: {failed.message}" if failed.message else f"{name} failed"


def _name(instance: Instance) -> str:
    return instance.task.name if instance.task else ""


def _task(run: _Run, parent: Instance, task: Task, done: Mapping[str, Instance]) -> Instance:
    """A task of a graph: does it wait, is it left out, and if not, what are its inputs."""
    component = run.graph.components[task.component]
    here = Instance(path=(*parent.path, task.name), task=task, component=component)
    upstream = [done[name] for name in sorted(task.upstream)]
    if not all(each.ended for each in upstream):
        return here
    if not task.always and (bad := next((each for each in upstream if each.state in BAD), None)) is not None:
        return replace(here, state=State.NOT_TRIGGERED, message=f"{_name(bad)} has not succeeded")
    try:
        inputs = _inputs(run, parent, task, done)
        if lacking := _lacking(task, component, inputs, done):
            return replace(here, state=State.SKIPPED, message=f"{lacking} was skipped")
        if task.condition is not None and not task.condition.holds(inputs):
            return replace(here, state=State.SKIPPED, message="its condition does not hold")
        if task.loop is not None:
            return _loop(run, here, task, inputs)
        return _body(run, here.path, task, component, with_defaults(component, inputs))
    except MisfitError as error:
        return replace(here, state=State.FAILED, message=str(error))


def _lacking(task: Task, component: Component, inputs: Mapping[str, Flow], done: Mapping[str, Instance]) -> str | None:
    """Return the skipped task without whose output this one cannot run, if there is one."""
    for name, definition in component.inputs.items():
        source = task.inputs.get(name)
        if definition.optional or name in inputs or not isinstance(source, FromTask):
            continue
        producer = done[source.task]
        if producer.state is State.SKIPPED or isinstance(producer.component.body, Dag):
            return source.task
    return None


def _inputs(run: _Run, parent: Instance, task: Task, done: Mapping[str, Instance]) -> dict[str, Flow]:
    """Return the inputs that have a value; texts that name others are filled in last."""
    found = {name: _resolve(run, parent, source, done) for name, source in task.inputs.items()}
    inputs = {name: flow for name, flow in found.items() if flow is not _MISSING}
    for name, source in task.inputs.items():
        if isinstance(source, Constant):
            inputs[name] = filled(source.value, inputs, run.info, task.name)
    return inputs


def _resolve(run: _Run, parent: Instance, source: InputSource, done: Mapping[str, Instance]) -> Flow:
    if isinstance(source, Constant):
        return source.value
    if isinstance(source, FinalStatus):
        return final_status(done[source.task], run.info)
    if isinstance(source, FromInput):
        flow = parent.inputs.get(source.name, _MISSING)
    else:
        flow = done[source.task].outputs.get(source.output, _MISSING)
    return select(flow, source.keys) if source.keys and flow is not _MISSING else flow


def final_status(ended: Instance, info: RunInfo) -> Json:
    """Return how a task ended, as an exit handler is told."""
    failed = ended.state in BAD
    status: dict[str, Json] = {
        "state": "FAILED" if failed else "SUCCEEDED",
        "pipelineJobResourceName": info.name,
        "pipelineTaskName": _name(ended),
    }
    return {**status, "error": {"code": 9, "message": ended.message}} if failed else {**status, "error": {}}


def _loop(run: _Run, here: Instance, task: Task, inputs: Mapping[str, Flow]) -> Instance:
    """A loop: as many items at a time as it may have; its outputs are lists."""
    assert task.loop is not None
    constant = isinstance(task.loop.items, tuple)
    items = _items(filled(task.loop.items, inputs, run.info, task.name) if constant else task.loop.items, inputs)
    children: list[Instance] = []
    active = 0
    for number, item in enumerate(items):
        if task.loop.parallelism and active >= task.loop.parallelism:
            break
        given = _with_item(here.component, inputs, task.loop.item_input, item)
        children.append(_body(run, (*here.path, str(number)), task, here.component, given))
        active += not children[-1].ended
    if len(children) < len(items) or not all(child.ended for child in children):
        return replace(here, state=State.RUNNING, children=tuple(children))
    outputs = {name: _collected(name, kind, children) for name, kind in here.component.outputs.items()}
    failed = next((child for child in children if child.state in BAD), None)
    state = State.SUCCEEDED if failed is None else State.FAILED
    message = "" if failed is None else f"item {failed.path[-1]}: {failed.message}"
    return replace(here, state=state, message=message, outputs=outputs, children=tuple(children))


def _with_item(component: Component, inputs: Mapping[str, Flow], name: str, item: Flow) -> dict[str, Flow]:
    """Return the inputs of one item. The compiler calls an item text whatever it is, so it is taken as it comes."""
    others = replace(component, inputs={each: kind for each, kind in component.inputs.items() if each != name})
    return {**with_defaults(others, inputs), name: item}


def _items(items: Sequence[Json] | str, inputs: Mapping[str, Flow]) -> tuple[Flow, ...]:
    if isinstance(items, str):
        flow = inputs.get(items, ())
        listed = flow if isinstance(flow, tuple) else fit(flow, ParameterType.LIST)
        items = tuple(listed)
    if len(items) > MOST_ITEMS:
        raise MisfitError(f"the loop has {len(items):,} items; at most {MOST_ITEMS:,} are allowed")
    return tuple(items)


def _collected(name: str, kind: Definition, children: list[Instance]) -> Flow:
    """Gather an output of all items in order; one that was skipped has none. Lists of artefacts are joined."""
    flows = [child.outputs[name] for child in children if name in child.outputs]
    if isinstance(kind, ArtifactDefinition):
        return tuple(artifact for flow in flows for artifact in each_of(flow))
    return flows
