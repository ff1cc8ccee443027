"""Reading a compiled pipeline (``schemaVersion`` 2.1.0): components, tasks and executors.

Keys that are not known are passed over, because each version of the compiler adds some. What a run needs is checked: a
graph that is returned can be run.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gangline.dialects.kfp.component import is_component
from gangline.dialects.kfp.component_graph import read_component
from gangline.dialects.kfp.executors import deciding_inputs, ignored, read_executor
from gangline.dialects.kfp.platform import PodSettings, read_settings
from gangline.dialects.kfp.sources import read_selector, read_source
from gangline.dialects.quantities import seconds
from gangline.dialects.value import Value
from gangline.model.jobs.spec import MOST_FACTOR, MOST_SECONDS
from gangline.pipelines import Component, Dag, Graph, ParameterType, Task, check_graph
from gangline.pipelines.conditions import Condition
from gangline.pipelines.graph import (
    ArtifactDefinition,
    Container,
    Definition,
    FinalStatus,
    FromInput,
    FromTask,
    InputSource,
    Loop,
    ParameterDefinition,
    Retries,
)
from gangline.pipelines.values import Json, whole

VERSIONS = ("2.1.0", "2.0.0")
_ALWAYS = "ALL_UPSTREAM_TASKS_COMPLETED"
_HIDDEN = ParameterDefinition(type=ParameterType.STRING, optional=True, loose=True)
"""An input that tasks give to what is around the program: the amounts and settings of its pod."""
_HANDLED = "exit-handler-"
"""How the compiler calls the graph that an exit handler guards; nothing else tells a handler from a forgiving task."""


def is_pipeline(value: Value) -> bool:
    """Whether a document is a compiled pipeline."""
    return isinstance(value.data, Mapping) and {"pipelineInfo", "root"} <= value.data.keys()


def read_pipeline(documents: Sequence[Value]) -> Graph:
    """Read a compiled pipeline, with its settings for Kubernetes, or a component. Refuses what cannot run."""
    first, *others = documents
    if is_component(first) and not others:
        return read_component(first)
    if not is_pipeline(first):
        raise first.wrong(
            "this is neither a compiled pipeline nor a component",
            expected="pipelineInfo, components, deploymentSpec and root; or inputs, outputs and implementation",
        )
    top = first.fields()
    if "schemaVersion" in top:
        top["schemaVersion"].one_of(VERSIONS)
    platform = _Platform.of(others)
    executors = _below(top.get("deploymentSpec"), "executors")
    graph = Graph(
        name=top["pipelineInfo"].need("name", "the name of the pipeline").text(),
        root=_component(top["root"], executors, platform.settings),
        components={
            name: _component(each, executors, platform.settings)
            for name, each in _mapping(top.get("components")).items()
        },
        deadline_seconds=platform.deadline_seconds,
        workspace=platform.workspace,
        notes=(*platform.notes, *(path for each in executors.values() for path in ignored(each))),
    )
    graph = replace(graph, notes=(*graph.notes, *_retried_graphs(graph)))
    graph = _with_hidden_inputs(graph, {name: each.sources for name, each in platform.by_component(top).items()})
    with first.located():
        check_graph(graph)
    return graph


def _retried_graphs(graph: Graph) -> Iterator[str]:
    """Return the retries of tasks that are graphs: the format has them for steps only."""
    for component in (graph.root, *graph.components.values()):
        for task in component.body.tasks.values() if isinstance(component.body, Dag) else ():
            known = graph.components.get(task.component)
            if task.retries.most and known is not None and isinstance(known.body, Dag):
                yield f"tasks.{task.name}.retryPolicy (it is a graph)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Platform:
    """The settings for Kubernetes, by executor, and those of the whole run."""

    settings: Mapping[str, PodSettings]
    deadline_seconds: float | None
    workspace: Mapping[str, Json] | None
    notes: tuple[str, ...]

    @classmethod
    def of(cls, documents: Sequence[Value]) -> "_Platform":
        settings: dict[str, PodSettings] = {}
        config: dict[str, Value] = {}
        notes: list[str] = []
        # The compiler writes every number of this document with a point, and Kubernetes takes none for what it counts.
        for document in (replace(each, data=whole(each.data)) for each in documents):
            if "platforms" not in document.fields():
                raise document.wrong("this document is not known", expected="platforms: settings for Kubernetes")
            for platform, value in _below(document, "platforms").items():
                if platform != "kubernetes":
                    notes.append(value.path)
                    continue
                config |= _below(value, "pipelineConfig")
                executors = _below(value.fields().get("deploymentSpec"), "executors")
                settings |= {name: read_settings(each) for name, each in executors.items()}
        notes += [path for each in settings.values() for path in each.ignored]
        deadline = config.pop("activeDeadlineSeconds", None)
        workspace = _workspace(config.pop("workspace", None))
        return cls(
            settings=settings,
            deadline_seconds=deadline.converted(float, "a number of seconds") if deadline is not None else None,
            workspace=workspace,
            notes=(*notes, *(each.path for each in config.values())),
        )

    def by_component(self, top: Mapping[str, Value]) -> dict[str, PodSettings]:
        """Return the settings of the components whose executors have any."""
        labels = {name: each.fields().get("executorLabel") for name, each in _mapping(top.get("components")).items()}
        return {
            name: self.settings[label.text()]
            for name, label in labels.items()
            if label is not None and label.text() in self.settings
        }


def _workspace(value: Value | None) -> Mapping[str, Json] | None:
    """Read the claim of the volume that all steps share."""
    if value is None:
        return None
    patch = _below(value.fields().get("kubernetes"), "pvcSpecPatch")
    size = {"requests": {"storage": value.need("size", "a size, for example 1Gi").text()}}
    return {"accessModes": ["ReadWriteOnce"], "resources": size, **{name: each.data for name, each in patch.items()}}


def _with_hidden_inputs(graph: Graph, hidden: Mapping[str, Mapping[str, InputSource]]) -> Graph:
    """Let tasks take what the settings of their pods look at."""
    if not any(hidden.values()):
        return graph

    def tasks(component: Component) -> Component:
        if not isinstance(component.body, Dag):
            return component
        taken = {
            name: replace(task, inputs={**task.inputs, **hidden.get(task.component, {})})
            for name, task in component.body.tasks.items()
        }
        return replace(component, body=replace(component.body, tasks=taken))

    def inputs(name: str, component: Component) -> Component:
        return replace(component, inputs={**component.inputs, **dict.fromkeys(hidden.get(name, {}), _HIDDEN)})

    components = {name: inputs(name, tasks(each)) for name, each in graph.components.items()}
    return replace(graph, root=tasks(graph.root), components=components)


def _mapping(value: Value | None) -> dict[str, Value]:
    return value.fields() if value is not None else {}


def _below(value: Value | None, name: str) -> dict[str, Value]:
    return _mapping(_mapping(value).get(name))


def _component(value: Value, executors: Mapping[str, Value], settings: Mapping[str, PodSettings]) -> Component:
    found = value.fields()
    outputs = _definitions(found.get("outputDefinitions"))
    inputs = _definitions(found.get("inputDefinitions"))
    if "dag" in found:
        return Component(body=_dag(found["dag"]), inputs=inputs, outputs=outputs)
    label = value.need("executorLabel", "an executor or a dag").text()
    if label not in executors:
        raise found["executorLabel"].unknown("executor", label, executors)
    body = read_executor(executors[label], outputs)
    inputs = {**dict.fromkeys(sorted(deciding_inputs(executors[label])), _HIDDEN), **inputs}
    if label in settings and isinstance(body, Container):
        body = replace(body, pod=settings[label].template, deadline_seconds=settings[label].deadline_seconds)
    if "taskConfigPassthroughs" in found and isinstance(body, Container):
        body = replace(body, passes=dict(map(_passed, found["taskConfigPassthroughs"].items())))
    return Component(body=body, inputs=inputs, outputs=outputs)


def _passed(value: Value) -> tuple[str, bool]:
    also = value.fields().get("applyToTask")
    return value.need("field", "a setting").text(), also is not None and also.boolean()


def _definitions(value: Value | None) -> dict[str, Definition]:
    parameters = {name: _parameter(each) for name, each in _below(value, "parameters").items()}
    artifacts = {name: _artifact(each) for name, each in _below(value, "artifacts").items()}
    return {**parameters, **artifacts}


def _parameter(value: Value) -> ParameterDefinition:
    found = value.fields()
    literals = found["literals"].data if "literals" in found else ()
    return ParameterDefinition(
        type=value.need("parameterType", f"one of {', '.join(ParameterType)}").choice(ParameterType),
        default=whole(found["defaultValue"].data) if "defaultValue" in found else None,
        optional=found["isOptional"].boolean() if "isOptional" in found else False,
        literals=tuple(whole(literals)),
    )


def _artifact(value: Value) -> ArtifactDefinition:
    found = value.fields()
    kind = _mapping(found.get("artifactType"))
    title = kind.get("schemaTitle") or kind.get("instanceSchema")
    return ArtifactDefinition(
        type=title.text() if title else "system.Artifact",
        version=kind["schemaVersion"].text() if "schemaVersion" in kind else "0.0.1",
        many=found["isArtifactList"].boolean() if "isArtifactList" in found else False,
        optional=found["isOptional"].boolean() if "isOptional" in found else False,
    )


def _dag(value: Value) -> Dag:
    found = value.fields()
    outputs = _mapping(found.get("outputs"))
    made = {name: _parameter_sources(each) for name, each in _mapping(outputs.get("parameters")).items()}
    made |= {name: _artifact_sources(each) for name, each in _mapping(outputs.get("artifacts")).items()}
    return Dag(tasks={name: _task(name, each) for name, each in _mapping(found.get("tasks")).items()}, outputs=made)


def _parameter_sources(value: Value) -> tuple[FromTask, ...]:
    found = value.fields()
    if "valueFromParameter" in found:
        return (read_selector(found["valueFromParameter"], "outputParameterKey"),)
    if "valueFromOneof" not in found:
        raise value.missing("valueFromParameter", "the output of a task")
    selectors = found["valueFromOneof"].need("parameterSelectors", "outputs of tasks").items()
    return tuple(read_selector(each, "outputParameterKey") for each in selectors)


def _artifact_sources(value: Value) -> tuple[FromTask, ...]:
    selectors = value.need("artifactSelectors", "outputs of tasks").items()
    return tuple(read_selector(each, "outputArtifactKey") for each in selectors)


def _task(name: str, value: Value) -> Task:
    found = value.fields()
    inputs = _mapping(found.get("inputs"))
    sources = {each: read_source(source) for each, source in _mapping(inputs.get("parameters")).items()}
    sources |= {each: _artifact_source(source) for each, source in _mapping(inputs.get("artifacts")).items()}
    after = tuple(each.text() for each in found["dependentTasks"].items()) if "dependentTasks" in found else ()
    policy = _mapping(found.get("triggerPolicy"))
    always = "strategy" in policy and policy["strategy"].text() == _ALWAYS
    handles = any(isinstance(source, FinalStatus) for source in sources.values())
    handles |= any(each.startswith(_HANDLED) for each in after)
    caching = _mapping(found.get("cachingOptions"))
    return Task(
        name=name,
        component=value.need("componentRef", "a component").need("name", "the name of a component").text(),
        inputs=sources,
        after=after,
        condition=Condition(policy["condition"].text()) if "condition" in policy else None,
        always=always,
        forgives=always and not handles,
        loop=_loop(found),
        retries=_retries(found.get("retryPolicy")),
        cache=caching["enableCache"].boolean() if "enableCache" in caching else False,
        cache_key=caching["cacheKey"].text() if "cacheKey" in caching else "",
    )


def _artifact_source(value: Value) -> InputSource:
    found = value.fields()
    if "componentInputArtifact" in found:
        return FromInput(found["componentInputArtifact"].text())
    if "taskOutputArtifact" in found:
        return read_selector(found["taskOutputArtifact"], "outputArtifactKey", "producerTask")
    raise value.wrong("it is not said where the artefact comes from", expected="an input or an output")


def _loop(found: Mapping[str, Value]) -> Loop | None:
    iterator = found.get("parameterIterator") or found.get("artifactIterator")
    if iterator is None:
        return None
    limit = _mapping(found.get("iteratorPolicy")).get("parallelismLimit")
    items = iterator.need("items", "what to loop over")
    over = items.fields().get("inputParameter") or items.fields().get("inputArtifact")
    return Loop(
        items=over.text() if over else _raw(items.need("raw", "a list in JSON")),
        item_input=iterator.need("itemInput", "the input that takes an item").text(),
        parallelism=limit.integer(0) or None if limit else None,
    )


def _raw(value: Value) -> tuple[object, ...]:
    try:
        items = json.loads(value.text())
    except ValueError:
        items = None
    if not isinstance(items, list):
        raise value.wrong("the items of the loop are not a list", expected="a list in JSON")
    return tuple(whole(items))


def _retries(value: Value | None) -> Retries:
    """Read how a task is retried. What is 0 or missing is the default, as in every message of kfp's."""
    found = _mapping(value)
    usual = Retries()

    def number(name: str) -> float:
        return found[name].converted(float, "a number") if name in found else 0.0

    def duration(name: str) -> float:
        return found[name].converted(seconds, "a duration") if name in found else 0.0

    factor = number("backoffFactor") or usual.backoff_factor
    if not 0 < factor <= MOST_FACTOR:
        raise found["backoffFactor"].wrong("the factor is not in range", expected=f"above 0, at most {MOST_FACTOR:g}")
    return Retries(
        most=max(0, int(number("maxRetryCount"))),
        backoff_seconds=duration("backoffDuration"),
        backoff_factor=factor,
        within_seconds=min(duration("backoffMaxDuration") or usual.within_seconds, MOST_SECONDS),
    )
