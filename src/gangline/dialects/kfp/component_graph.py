"""Reading a ``component.yaml`` (version 1) as a pipeline: a command is one step, a graph has components as tasks.

In a graph anything may be passed to anything: what one task leaves as a file, another may want as a value. So kinds
follow from use. An output that somebody takes as a value is a parameter, and what is given to an input decides what
that is. Components that tasks name by an address are put in their place before (``with_references``).
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urljoin

from gangline.dialects import document
from gangline.dialects.kfp.component import CommandReader, Ports, is_component
from gangline.dialects.value import Value
from gangline.pipelines import Component, Dag, Graph, Task, check_graph
from gangline.pipelines.checking import MOST_DEPTH
from gangline.pipelines.conditions import Condition
from gangline.pipelines.graph import ArtifactDefinition, Constant, FromInput, FromTask, InputSource, Retries
from gangline.pipelines.values import whole

_STEP = "component"
_TASK = ("componentRef", "arguments", "isEnabled", "executionOptions", "annotations")
_EQUALITY = ("==", "!=")
_ORDER = ("<", "<=", ">", ">=")
_JOINED = {"and": "&&", "or": "||"}
_NO_AGE = re.compile(r"P(0[YMWD])*(T(0[HMS])*)?")


def read_component(value: Value) -> Graph:
    """Read a component; refuses what cannot run."""
    notes: list[str] = []
    reader = _reader(value, notes, ())
    components: dict[str, Component] = {}
    if isinstance(reader, CommandReader):
        components[_STEP] = step = reader.component({}, frozenset())
        task = Task(name=_STEP, component=_STEP, inputs={name: FromInput(name) for name in step.inputs})
        dag = Dag(tasks={_STEP: task}, outputs={name: (FromTask(_STEP, name),) for name in step.outputs})
        root = Component(body=dag, inputs=step.inputs, outputs=step.outputs)
    else:
        root = reader.component({}, frozenset(), components)
    found = value.fields()
    graph = Graph(
        name=found["name"].text() if "name" in found else _STEP,
        root=root,
        components=components,
        notes=tuple(dict.fromkeys(notes)),
    )
    with value.located():
        check_graph(graph)
    return graph


def with_references(value: Value, base: str, read: Callable[[str], str]) -> Value:
    """Put the components that tasks name by an address in their place; ``read`` returns the text at an address."""
    return replace(value, data=_embedded(value, base, read, ()))


def _embedded(value: Value, base: str, read: Callable[[str], str], inside: tuple[str, ...]) -> Any:
    data: Any = value.data
    if not is_component(value) or "graph" not in value.fields()["implementation"].fields():
        return data
    body = value.fields()["implementation"].fields()["graph"]
    tasks: dict[str, Any] = {}
    for name, task in body.need("tasks", "tasks, by name").fields().items():
        reference = task.need("componentRef", "a component")
        inner = _component_at(reference, base, read, inside)
        plain = {each: found.data for each, found in task.fields().items()}
        tasks[name] = {**plain, "componentRef": {"spec": inner}}
    graph = {name: each.data for name, each in body.fields().items()}
    return {**data, "implementation": {"graph": {**graph, "tasks": tasks}}}


def _component_at(reference: Value, base: str, read: Callable[[str], str], inside: tuple[str, ...]) -> Any:
    found = reference.fields()
    if "spec" in found:
        return _embedded(found["spec"], base, read, inside)
    address = urljoin(base, reference.need("url", "an address, or the component itself as spec").text())
    if address in inside or len(inside) > MOST_DEPTH:
        raise reference.wrong("the component contains itself", expected="graphs without a cycle")
    if address.startswith("file:") and not base.startswith("file:"):
        raise reference.wrong("what was downloaded names a file of this machine", expected="an https:// address")
    return _embedded(_referred(found, address, read), address, read, (*inside, address))


def _referred(found: Mapping[str, Value], address: str, read: Callable[[str], str]) -> Value:
    text = read(address)
    if "digest" in found:
        wanted = found["digest"].text().removeprefix("sha256=").removeprefix("sha256:")
        if hashlib.sha256(text.encode()).hexdigest() != wanted:
            raise found["digest"].wrong(f"{address} is another file", expected="a file with this digest")
    first, *others = document.parse(text, file=address)
    if others or not is_component(first):
        raise found["url"].wrong(f"{address} is not a component", expected="inputs, outputs and implementation")
    return first


def _reader(value: Value, notes: list[str], inside: tuple[Value, ...]) -> "CommandReader | _GraphReader":
    if len(inside) > MOST_DEPTH:
        raise value.wrong("too many graphs are within each other", expected=f"at most {MOST_DEPTH}")
    implementation = value.need("implementation", "container or graph")
    found = implementation.fields()
    if "graph" in found:
        return _GraphReader(value, notes, (*inside, value))
    if "container" in found:
        return CommandReader(value, notes)
    raise implementation.wrong("it is not said what to run", expected="container or graph")


@dataclass(frozen=True, slots=True)
class _Use:
    """One task of a graph while it is read: the arguments by input, and what its condition looks at."""

    name: str
    value: Value
    reader: "CommandReader | _GraphReader"
    arguments: Mapping[str, InputSource]
    condition: str = ""
    looks_at: Mapping[str, InputSource] = field(default_factory=dict)

    def taken_as_values(self) -> set[FromInput | FromTask]:
        """Return where all that comes from which it needs as a value."""
        names = self.reader.taken_as_values & self.arguments.keys()
        sources = (*(self.arguments[name] for name in names), *self.looks_at.values())
        return {source for source in sources if isinstance(source, FromInput | FromTask)}


class _GraphReader(Ports):
    """Reads a component that is a graph of others."""

    def __init__(self, value: Value, notes: list[str], inside: tuple[Value, ...]) -> None:
        super().__init__(value, notes)
        body = value.fields()["implementation"].fields()["graph"]
        tasks = body.need("tasks", "tasks, by name").fields()
        self._names = _safe_names(tasks)
        self._readers = {each: _reader(_inline(task), notes, inside) for each, task in tasks.items()}
        self._uses = {self._names[each]: self._use(each, task) for each, task in tasks.items()}
        outputs = body.fields().get("outputValues")
        self._given = {} if outputs is None else self._output_values(outputs)
        for name, each in self.outputs.items():
            if name not in self._given:
                raise each.wrong(f"nothing gives the output '{name}'", expected="an entry in outputValues")

    @property
    def taken_as_values(self) -> frozenset[str]:
        """The inputs that some task takes as a value."""
        sources = (source for use in self._uses.values() for source in use.taken_as_values())
        return frozenset(source.name for source in sources if isinstance(source, FromInput))

    def gives_value(self, name: str) -> bool:
        """Whether an output is a value though nobody needs it as one."""
        source = self._given[name]
        return self.has_simple_type(name) or self._uses[source.task].reader.gives_value(source.output)

    def component(
        self, given: Mapping[str, bool], values: frozenset[str], components: dict[str, Component]
    ) -> Component:
        """Return the component and add those of its tasks; ``given`` and ``values`` are as for a command."""
        sources = [source for use in self._uses.values() for source in use.arguments.values()]
        files = {source.name for source in sources if isinstance(source, FromInput)} - self.taken_as_values
        inputs = {name: self.input(name, is_file=name in files, given=given.get(name)) for name in self.inputs}
        wanted = {source for use in self._uses.values() for source in use.taken_as_values()}
        values |= {name for name in self.outputs if self.gives_value(name)}
        wanted |= {self._given[name] for name in values}

        def is_artifact(source: InputSource) -> bool:
            if isinstance(source, FromInput):
                return isinstance(inputs[source.name], ArtifactDefinition)
            if not isinstance(source, FromTask):
                return False
            return source not in wanted and not self._uses[source.task].reader.gives_value(source.output)

        for use in self._uses.values():
            kinds = {name: is_artifact(source) for name, source in use.arguments.items()}
            needed = frozenset(each.output for each in wanted if isinstance(each, FromTask) and each.task == use.name)
            inner = use.reader
            made = (
                inner.component(kinds, needed)
                if isinstance(inner, CommandReader)
                else inner.component(kinds, needed, components)
            )
            components[self._component_name(use)] = made
        return Component(
            body=Dag(
                tasks={name: self._task(use) for name, use in self._uses.items()},
                outputs={name: (source,) for name, source in self._given.items()},
            ),
            inputs=inputs,
            outputs={name: self.output(name, is_value=name in values) for name in self.outputs},
        )

    def _component_name(self, use: _Use) -> str:
        """Return a name that no other task has, in whatever graph: each use has kinds of its own."""
        return f"{use.name}-{use.value.path}"

    def _use(self, task_id: str, value: Value) -> _Use:
        reader = self._readers[task_id]
        found = value.fields()
        self._notes += [each.path for name, each in found.items() if name not in _TASK]
        given = found["arguments"].fields() if "arguments" in found else {}
        arguments = {self.named(each, name, reader.inputs): self._source(each) for name, each in given.items()}
        looks_at: dict[str, InputSource] = {}
        condition = self._predicate(found["isEnabled"], looks_at) if "isEnabled" in found else ""
        return _Use(self._names[task_id], value, reader, arguments, condition, looks_at)

    def _source(self, value: Value) -> InputSource:
        """Read an argument: a constant, an input of the graph, or what another task gives."""
        if not isinstance(value.data, Mapping):
            return Constant(whole(value.data))
        found = value.fields()
        if found.keys() == {"graphInput"}:
            inner = found["graphInput"]
            name = inner.need("inputName", "the name of an input") if isinstance(inner.data, Mapping) else inner
            return FromInput(self.named(name, name.text_or_number(), self.inputs))
        if found.keys() == {"taskOutput"}:
            return self._task_output(found["taskOutput"])
        raise value.wrong("this argument is not known", expected="text, graphInput or taskOutput")

    def _task_output(self, value: Value) -> FromTask:
        task = value.need("taskId", "the name of a task")
        if task.text() not in self._readers:
            raise task.unknown("task", task.text(), self._readers)
        output = value.need("outputName", "the name of an output")
        known = self._readers[task.text()].outputs
        return FromTask(self._names[task.text()], self.named(output, output.text_or_number(), known))

    def _output_values(self, value: Value) -> dict[str, FromTask]:
        given: dict[str, FromTask] = {}
        for name, each in value.fields().items():
            source = self._source(each)
            if not isinstance(source, FromTask):
                raise each.wrong("only what a task gives can be an output", expected="taskOutput")
            given[self.named(each, name, self.outputs)] = source
        return given

    def _task(self, use: _Use) -> Task:
        found = use.value.fields()
        options = found["executionOptions"].fields() if "executionOptions" in found else {}
        retries = options["retryStrategy"].fields().get("maxRetries") if "retryStrategy" in options else None
        return Task(
            name=use.name,
            component=self._component_name(use),
            inputs={**use.arguments, **use.looks_at},
            condition=Condition(use.condition) if use.condition else None,
            retries=Retries(most=retries.integer(0)) if retries is not None else Retries(),
            cache=self._cache(options.get("cachingStrategy")),
        )

    def _cache(self, value: Value | None) -> bool:
        """Whether outputs of earlier runs may be reused; of ages only none at all is known, others are the run's."""
        age = value.fields().get("maxCacheStaleness") if value is not None else None
        if age is None:
            return True
        if _NO_AGE.fullmatch(age.text()):
            return False
        self._notes.append(age.path)
        return True

    def _predicate(self, value: Value, looks_at: dict[str, InputSource]) -> str:
        """Write a predicate as a condition over inputs of the task."""
        found = value.fields()
        if len(found) != 1 or (sign := next(iter(found))) not in (*_EQUALITY, *_ORDER, *_JOINED, "not"):
            known = ", ".join((*_EQUALITY, *_ORDER, *_JOINED, "not"))
            raise value.wrong("this predicate is not known", expected=f"one of {known}")
        inner = found[sign]
        if sign == "not":
            return f"!({self._predicate(inner, looks_at)})"
        left, right = (inner.need(name, "two operands, op1 and op2") for name in ("op1", "op2"))
        if sign in _JOINED:
            return f"({self._predicate(left, looks_at)} {_JOINED[sign]} {self._predicate(right, looks_at)})"
        form = "double" if sign in _ORDER else "bool" if any(map(_is_truth, (left, right))) else "string"
        return f"({form}({self._operand(left, looks_at)}) {sign} {form}({self._operand(right, looks_at)}))"

    def _operand(self, value: Value, looks_at: dict[str, InputSource]) -> str:
        name = f"operand--{len(looks_at)}"
        looks_at[name] = self._source(value)
        return f"inputs.parameter_values['{name}']"


def _is_truth(value: Value) -> bool:
    return str(value.data).lower() in ("true", "false")


def _inline(task: Value) -> Value:
    """Return the component of a task, which must be in the file."""
    reference = task.need("componentRef", "a component")
    if "spec" not in reference.fields():
        raise reference.wrong(
            "the component is not in the file", expected="spec; 'gangline pipeline run' reads what url names"
        )
    return reference.fields()["spec"]


def _safe_names(tasks: Mapping[str, Value]) -> dict[str, str]:
    """Return names that can be parts of a path, by the ids of tasks."""
    found: dict[str, str] = {}
    for each in tasks:
        stem = re.sub(r"[^a-z0-9]+", "-", each.lower()).strip("-") or "task"
        names = (stem, *(f"{stem}-{number}" for number in range(2, len(tasks) + 1)))
        found[each] = next(name for name in names if name not in found.values())
    return found
