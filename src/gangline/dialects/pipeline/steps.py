"""Our own form of a pipeline: steps that are jobs, which name what they take as ``$(step.output)``.

A name stands for an input of the pipeline (``$(rate)``), an output of another step (``$(prepare.data)``), the place of
an own output (``$(outputs.model)``), the item of a loop (``$(item)``, ``$(item.key)``), or how a step ended
(``$(train.status)``). What a step names is what it waits for.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gangline.dialects.document import plain
from gangline.dialects.native import job_to_plain
from gangline.dialects.native.job import job_from_parts
from gangline.dialects.recognition import read_plain
from gangline.dialects.value import Value
from gangline.model import JobSpec
from gangline.model.identity import check_name
from gangline.model.kinds.registered_model import model_reference
from gangline.pipelines import Component, Dag, Graph, ParameterType, Task, check_graph
from gangline.pipelines.checking import cycle_in
from gangline.pipelines.conditions import Condition
from gangline.pipelines.graph import (
    ArtifactDefinition,
    Definition,
    FinalStatus,
    FromInput,
    FromTask,
    InputSource,
    JobTemplate,
    Loop,
    ModelLookup,
    ParameterDefinition,
    Stop,
)
from gangline.pipelines.values import MisfitError, fit

PARTS = ("name", "inputs", "steps", "outputs")
_BODIES = ("job", "file", "steps", "model", "stop")
_STEP = (*_BODIES, "outputs", "when", "each", "parallelism", "after", "always", "cache")
_REFERENCE = re.compile(r"\$\(([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*)\)")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_TYPES: Mapping[str, Definition] = {
    **{kind.lower().removeprefix("number_"): ParameterDefinition(type=kind) for kind in ParameterType},
    **{
        name.lower(): ArtifactDefinition(type=f"system.{name}")
        for name in ("Artifact", "Dataset", "Model", "Metrics", "ClassificationMetrics", "HTML", "Markdown")
    },
}
_OF_VALUES = {
    bool: ParameterType.BOOLEAN,
    int: ParameterType.INTEGER,
    float: ParameterType.DOUBLE,
    str: ParameterType.STRING,
    list: ParameterType.LIST,
    dict: ParameterType.STRUCT,
}
_ITEM = "item"
_STATUS = ParameterDefinition(type=ParameterType.FINAL_STATUS)
_OF_MODELS: Mapping[str, Definition] = {
    "model": ArtifactDefinition(type="system.Model", optional=True),
    "exists": ParameterDefinition(type=ParameterType.BOOLEAN),
    "version": ParameterDefinition(type=ParameterType.INTEGER),
    "metrics": ParameterDefinition(type=ParameterType.STRUCT),
}
"""What is known of a registered model."""


def is_native(value: Value) -> bool:
    """Whether a document has steps of our own form."""
    return isinstance(value.data, Mapping) and "steps" in value.data


def read_steps(value: Value) -> Graph:
    """Read a pipeline; refuses what cannot run."""
    found = value.fields(PARTS)
    inputs = {name: _input(name, each) for name, each in _fields(found.get("inputs")).items()}
    components: dict[str, Component] = {}
    scope = _Scope(components=components, inputs=inputs)
    dag = scope.read(found["steps"], found.get("outputs"))
    root = Component(body=dag, inputs=inputs, outputs=scope.gives)
    name = found["name"].text() if "name" in found else "pipeline"
    graph = Graph(name=name, root=root, components=components)
    with value.located():
        check_graph(graph)
    return graph


def remarks_of(value: Value, *, on_cluster: bool) -> Iterator[str]:
    """Return what the dialects of jobs that are steps could not express, or on one machine do not use."""
    found = value.fields()
    for step in found["steps"].fields().values() if "steps" in found else ():
        yield from remarks_of(step, on_cluster=on_cluster)
    if "job" in found and "kind" in found["job"].fields(optional=True):
        for job in read_plain(found["job"].data, file=value.source.file):
            notes = (*job.notes, *(() if on_cluster else job.local_notes))
            yield from (f"{found['job'].path}: {note}" for note in notes)


def each_job(document: Mapping[str, Any], change: Callable[[JobSpec], JobSpec]) -> dict[str, Any]:
    """Put every job of a document through a function."""

    def changed(step: Mapping[str, Any]) -> dict[str, Any]:
        if "steps" in step:
            return each_job(step, change)
        if "job" not in step:
            return dict(step)
        return {**step, "job": job_to_plain(change(_job(plain(step["job"]))))}

    return {**document, "steps": {name: changed(step) for name, step in document["steps"].items()}}


def with_files(value: Value, read: Callable[[str], Value]) -> Value:
    """Put the jobs of files that steps name in their place; ``read`` returns the one document of a file."""

    def embedded(step: Value) -> Any:
        if not isinstance(step.data, Mapping):
            return step.data
        bodies = [name for name in _BODIES if name in step.data]
        if len(bodies) > 1:
            raise step.wrong(f"the step has {' and '.join(bodies)}", expected="one of them")
        if "steps" in step.data:
            inner = {name: embedded(each) for name, each in step.fields()["steps"].fields().items()}
            return {**step.data, "steps": inner}
        if "file" not in step.data:
            return step.data
        rest = {name: data for name, data in step.data.items() if name != "file"}
        return {**rest, "job": read(step.fields()["file"].text()).data}

    return replace(value, data=embedded(value))


@dataclass(slots=True)
class _Scope:
    """One graph while it is read: what its steps may name."""

    components: dict[str, Component]
    inputs: Mapping[str, Definition] = field(default_factory=dict)
    parent: "_Scope | None" = None
    path: tuple[str, ...] = ()
    loops: bool = False
    """Whether there is an item."""
    steps: dict[str, Mapping[str, Definition]] = field(default_factory=dict)
    """What each step gives, as others see it."""
    passed: dict[str, tuple[InputSource, Definition]] = field(default_factory=dict)
    """What it takes from around it, by the name that was used."""
    gives: dict[str, Definition] = field(default_factory=dict)

    def read(self, steps: Value, outputs: Value | None) -> Dag:
        given = steps.fields()
        if not given:
            raise steps.wrong("there are no steps", expected="at least one")
        for name, step in given.items():
            with step.located():
                check_name(name, "")
            self.steps[name] = _seen_outputs(step)
        tasks = {name: self._task(name, step, given) for name, step in given.items()}
        sources = {name: tuple(self._sources(each)) for name, each in _fields(outputs).items()}
        self.gives = {name: self._definition_of(found[0]) for name, found in sources.items()}
        dag = Dag(tasks=tasks, outputs=sources)
        if problem := cycle_in(dag):
            raise steps.wrong(problem, expected="steps without a cycle")
        return dag

    def _definition_of(self, source: FromTask) -> Definition:
        return self.steps[source.task][source.output]

    def _sources(self, value: Value) -> Iterator[FromTask]:
        """Read where an output comes from: a step's output, or the first of several that there is."""
        for each in value.items() if isinstance(value.data, list) else [value]:
            match = _REFERENCE.fullmatch(each.text())
            source = self.resolve(match[1], each)[0] if match else None
            if not isinstance(source, FromTask):
                raise each.wrong(f"'{each.text()}' is not an output of a step", expected="$(step.output)")
            yield source

    def resolve(self, name: str, where: Value) -> tuple[InputSource, Definition]:
        """Return where what is named comes from, seen from a step of this graph, and its type."""
        first, *rest = name.split(".")
        if first == _ITEM and self.loops:
            return FromInput(_ITEM, tuple(rest)), ParameterDefinition(type=ParameterType.STRING)
        if name in self.inputs:
            return FromInput(name), self.inputs[name]
        if first in self.steps and len(rest) == 1:
            if rest[0] == "status":
                return FinalStatus(first), _STATUS
            if rest[0] not in self.steps[first]:
                raise where.unknown(f"output of '{first}'", rest[0], self.steps[first])
            return FromTask(first, rest[0]), self.steps[first][rest[0]]
        if self.parent is None:
            known = [*self.inputs, *(f"{step}.{each}" for step, gives in self.steps.items() for each in gives)]
            raise where.unknown("name", name, known)
        if name not in self.passed:
            self.passed[name] = self.parent.resolve(name, where)
        return FromInput(name), self.passed[name][1]

    def _task(self, name: str, step: Value, siblings: Mapping[str, Value]) -> Task:
        found = step.fields(_STEP)
        outer = _Uses(self)
        condition = Condition(outer.in_condition(found["when"])) if "when" in found else None
        loop = self._loop(found, outer) if "each" in found else None
        if loop is not None:
            component, taken = self._group(name, step, found, loops=True)
        elif "steps" in found:
            component, taken = self._group(name, step, found, loops=False)
        else:
            component, taken = self._single(name, step, found)
        always = "always" in found and found["always"].boolean()
        after = tuple(each.text() for each in found["after"].items()) if "after" in found else ()
        if always and not after:
            after = tuple(each for each, other in siblings.items() if each != name and not _is_always(other))
        return Task(
            name=name,
            component=component,
            inputs={**taken, **outer.sources},
            after=after,
            condition=condition,
            always=always,
            loop=loop,
            cache=found["cache"].boolean() if "cache" in found else True,
        )

    def _loop(self, found: Mapping[str, Value], outer: "_Uses") -> Loop:
        value = found["each"]
        limit = found["parallelism"].integer(1) if "parallelism" in found else None
        if isinstance(value.data, list):
            return Loop(items=tuple(value.data), item_input=_ITEM, parallelism=limit)
        match = _REFERENCE.fullmatch(value.data) if isinstance(value.data, str) else None
        if match is None:
            raise value.mismatch("a list, or $(name) of one")
        outer.take(match[1], value)
        return Loop(items=match[1], item_input=_ITEM, parallelism=limit)

    def _group(
        self, name: str, step: Value, found: Mapping[str, Value], *, loops: bool
    ) -> tuple[str, dict[str, InputSource]]:
        """Read a graph within: what it names of what is around it becomes its inputs. A loop over a step is one."""
        inner = _Scope(components=self.components, parent=self, path=(*self.path, name), loops=loops)
        if "steps" in found:
            dag = inner.read(found["steps"], found.get("outputs"))
        else:
            rest = {key: data for key, data in _mapping(step).items() if key not in ("each", "parallelism", "when")}
            rest = {key: data for key, data in rest.items() if key not in ("after", "always")}
            outputs = {each: f"$({name}.{each})" for each in _outputs(step)}
            one = replace(step, data={name: rest})
            dag = inner.read(one, replace(step, data=outputs) if outputs else None)
        inputs = {each: definition for each, (_, definition) in inner.passed.items()}
        if loops:
            inputs[_ITEM] = ParameterDefinition(type=ParameterType.STRING, optional=True)
        label = "/".join(inner.path)
        self.components[label] = Component(body=dag, inputs=inputs, outputs=inner.gives)
        return label, {each: source for each, (source, _) in inner.passed.items()}

    def _single(self, name: str, step: Value, found: Mapping[str, Value]) -> tuple[str, dict[str, InputSource]]:
        label = "/".join((*self.path, name))
        outputs = _outputs(step)
        uses = _Uses(self, outputs)
        body: JobTemplate | Stop | ModelLookup
        if "stop" in found:
            body = Stop(reason=uses.in_text(found["stop"].text(), found["stop"]))
        elif "model" in found:
            body = ModelLookup(_model(found["model"]))
        else:
            value = step.need("job", "job, file, steps, model or stop")
            body = JobTemplate(job=uses.in_job(_job(value), value), registers=_registered(found.get("outputs")))
        self.components[label] = Component(body=body, inputs=uses.definitions, outputs=outputs)
        return label, uses.sources


class _Uses:
    """What one step names, as placeholders, sources and types."""

    def __init__(self, scope: _Scope, outputs: Mapping[str, Definition] | None = None) -> None:
        self._scope = scope
        self._outputs = outputs or {}
        self.sources: dict[str, InputSource] = {}
        self.definitions: dict[str, Definition] = {}

    def take(self, name: str, where: Value) -> Definition:
        """Note that something is named; return its type."""
        if name not in self.sources:
            self.sources[name], self.definitions[name] = self._scope.resolve(name, where)
        return self.definitions[name]

    def in_condition(self, value: Value) -> str:
        def taken(match: re.Match[str]) -> str:
            self.take(match[1], value)
            return f"inputs.parameter_values['{match[1]}']"

        return _REFERENCE.sub(taken, value.text())

    def in_text(self, text: str, where: Value) -> str:
        return _REFERENCE.sub(lambda match: self._placeholder(match[1], where), text)

    def _placeholder(self, name: str, where: Value) -> str:
        first, _, rest = name.partition(".")
        if first == "outputs":
            if rest not in self._outputs:
                raise where.unknown("output", rest, self._outputs)
            return f"{{{{$.outputs.artifacts['{rest}'].path}}}}"
        if name == "run":
            return "{{$.pipeline_job_name}}"
        if name.isupper():
            return f"$({name})"  # a variable of the replica, which its engine puts in
        if isinstance(self.take(name, where), ArtifactDefinition):
            return f"{{{{$.inputs.artifacts['{name}'].path}}}}"
        return f"{{{{$.inputs.parameters['{name}']}}}}"

    def in_job(self, job: JobSpec, where: Value) -> JobSpec:
        """Return a job whose texts have placeholders for what they name."""
        return job.with_texts(lambda text: self.in_text(text, where))


def _model(value: Value) -> str:
    address = f"model://{value.text().removeprefix('model://')}"
    if model_reference(address) is None:
        raise value.wrong(f"'{value.text()}' is not a model", expected="NAME, NAME:VERSION or NAME@ALIAS")
    return address


def _job(value: Value) -> JobSpec:
    """Read a job: the spec of one, or a whole document of any kind that is a job."""
    found = value.fields()
    if "kind" in found or "metadata" in found:
        with value.located():
            (translation,) = read_plain(value.data, file=value.source.file)
        return translation.spec
    return job_from_parts(value, "step", {}, value)


def _input(name: str, value: Value) -> Definition:
    """Read an input: its default, or a mapping with a type and perhaps a default."""
    if not _NAME.fullmatch(name):
        raise value.wrong(f"'{name}' cannot be named by a step", expected="letters, digits, - and _")
    if isinstance(value.data, Mapping) and "type" in value.data:
        found = value.fields(("type", "default", "optional"))
        definition = _type(found["type"])
        if isinstance(definition, ArtifactDefinition):
            return definition
        optional = found["optional"].boolean() if "optional" in found else "default" in found
        default = found["default"].data if "default" in found else None
        try:
            fitted = None if default is None else fit(default, definition.type)
        except MisfitError as error:
            raise value.wrong(
                str(error), expected=f"a value of type {found['type'].text()}", below=".default"
            ) from None
        return replace(definition, default=fitted, optional=optional)
    kind = next((kind for each, kind in _OF_VALUES.items() if isinstance(value.data, each)), None)
    if kind is None:
        raise value.mismatch("a default, or a mapping with type")
    return ParameterDefinition(type=kind, default=value.data, optional=True)


def _type(value: Value) -> Definition:
    return _TYPES[value.one_of([name for name in _TYPES if not name.startswith("task_")])]


def _outputs(step: Value) -> dict[str, Definition]:
    """Return what a step says that it gives; groups say it by naming outputs of their steps."""
    found: dict[str, Definition] = dict(_OF_MODELS) if "model" in _mapping(step) else {}
    for name, value in _fields(step.fields().get("outputs")).items():
        if not _NAME.fullmatch(name):
            raise value.wrong(f"'{name}' cannot be named by a step", expected="letters, digits, - and _")
        kind = value.fields(("type", "register")).get("type") if isinstance(value.data, Mapping) else value
        found[name] = _type(kind) if kind is not None else _TYPES["model"]
    return found


def _seen_outputs(step: Value) -> Mapping[str, Definition]:
    """Return what others see of a step: a loop gives lists."""
    gives = _group_outputs(step) if isinstance(step.data, Mapping) and "steps" in step.data else _outputs(step)
    if "each" not in _mapping(step):
        return gives
    return {
        name: replace(each, many=True)
        if isinstance(each, ArtifactDefinition)
        else ParameterDefinition(type=ParameterType.LIST)
        for name, each in gives.items()
    }


def _group_outputs(step: Value) -> dict[str, Definition]:
    """Return what a group gives: the types of the outputs that it names."""
    found = step.fields()
    inner = found["steps"].fields()
    gives: dict[str, Definition] = {}
    for name, value in _fields(found.get("outputs")).items():
        first = value.items()[0] if isinstance(value.data, list) and value.data else value
        match = _REFERENCE.fullmatch(first.text())
        task, _, output = match[1].partition(".") if match else ("", "", "")
        if task not in inner or output not in (seen := _seen_outputs(inner[task])):
            raise value.wrong(f"'{first.text()}' is not an output of a step within", expected="$(step.output)")
        gives[name] = seen[output]
    return gives


def _registered(value: Value | None) -> dict[str, str]:
    """Return the models that outputs are registered as."""
    entries = {name: each.fields() for name, each in _fields(value).items() if isinstance(each.data, Mapping)}
    return {name: each["register"].text() for name, each in entries.items() if "register" in each}


def _is_always(step: Value) -> bool:
    return bool(_mapping(step).get("always"))


def _mapping(value: Value) -> Mapping[str, Any]:
    if not isinstance(value.data, Mapping):
        raise value.mismatch("a mapping")
    return value.data


def _fields(value: Value | None) -> dict[str, Value]:
    return value.fields() if value is not None else {}
