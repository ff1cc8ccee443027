"""What is refused before the first step: cycles, missing components, types that do not fit, unknown words."""

from collections.abc import Iterator

from gangline.errors import InvalidInputError
from gangline.model.identity import check_name
from gangline.pipelines.conditions import input_names, parse
from gangline.pipelines.evaluation import MOST_ITEMS
from gangline.pipelines.graph import (
    ArtifactDefinition,
    Component,
    Constant,
    Container,
    Dag,
    Definition,
    FinalStatus,
    FromInput,
    FromTask,
    Graph,
    JobTemplate,
    ParameterDefinition,
    Task,
    in_order,
)
from gangline.pipelines.placeholders import unknown_placeholders
from gangline.pipelines.values import MisfitError, ParameterType, fit

MOST_DEPTH = 50
"""The most graphs within graphs."""

_WIDER = {(ParameterType.INTEGER, ParameterType.DOUBLE)}


def check_graph(graph: Graph) -> None:
    """Refuse a pipeline that cannot run; the error names the field."""
    if not isinstance(graph.root.body, Dag):
        raise InvalidInputError("the root is not a graph of tasks", field="root", expected="dag")
    _check_depth(graph, graph.root, (), "root")
    _check_component(graph, graph.root, "root")
    for name, component in graph.components.items():
        _check_component(graph, component, f"components.{name}")


def _check_depth(graph: Graph, component: Component, inside: tuple[str, ...], where: str) -> None:
    """Refuse a component that contains itself, and graphs too deep within each other."""
    for task in component.body.tasks.values() if isinstance(component.body, Dag) else ():
        field = f"{where}.dag.tasks.{task.name}"
        if task.component not in graph.components:
            raise InvalidInputError(
                f"there is no component '{task.component}'",
                field=f"{field}.componentRef",
                expected=f"one of {', '.join(sorted(graph.components))}",
            )
        if task.component in inside:
            raise InvalidInputError("the component contains itself", field=field, expected="graphs without a cycle")
        if len(inside) > MOST_DEPTH:
            raise InvalidInputError("the graphs are too deep", field=where, expected=f"at most {MOST_DEPTH} levels")
        inner = graph.components[task.component]
        _check_depth(graph, inner, (*inside, task.component), f"components.{task.component}")


def _check_component(graph: Graph, component: Component, where: str) -> None:
    if isinstance(component.body, Container):
        for word in (*component.body.command, component.body.image or "", *component.body.env.values()):
            _refuse_unknown(word, component, frozenset(), where)
    if isinstance(component.body, JobTemplate):
        for name, model in component.body.registers.items():
            check_name(model, f"{where}.outputs.{name}.register")
    if not isinstance(component.body, Dag):
        return
    _check_tasks(graph, component, component.body, where)


def _check_tasks(graph: Graph, component: Component, dag: Dag, where: str) -> None:
    for task in dag.tasks.values():
        if "/" in task.name:  # its place in the run would be another than the one that its job reports
            raise InvalidInputError(
                f"'{task.name}' is not a name for a task", field=f"{where}.dag.tasks", expected="a name without '/'"
            )
        for problem, expected in _task_problems(graph, component, dag, task):
            raise InvalidInputError(problem, field=f"{where}.dag.tasks.{task.name}", expected=expected)
        for name, source in task.inputs.items():
            if isinstance(source, Constant) and isinstance(source.value, str):
                _refuse_unknown(
                    source.value,
                    graph.components[task.component],
                    frozenset(task.inputs),
                    f"{where}.dag.tasks.{task.name}.inputs.{name}",
                )
    if problem := cycle_in(dag):
        raise InvalidInputError(problem, field=f"{where}.dag.tasks", expected="tasks without a cycle")
    for name, sources in dag.outputs.items():
        for source in sources:
            for problem, expected in _source_problems(graph, component, dag, source):
                raise InvalidInputError(problem, field=f"{where}.dag.outputs.{name}", expected=expected)


def check_new(graph: Graph) -> None:
    """Refuse names that can be no part of a path or a variable, and constants that are not the text that is wanted.

    Earlier versions took them. Runs that were accepted then must stay readable, so only new runs are asked.
    """
    _check_constants(graph)
    for where, component in {"root": graph.root, **graph.components}.items():
        body = component.body
        for name in (*component.inputs, *component.outputs, *(body.tasks if isinstance(body, Dag) else ())):
            if "/" in name or name in ("", ".", "..") or not name.isprintable():
                raise InvalidInputError(
                    f"{name!r} is not a valid name",
                    field=f"the component {where}",
                    expected="letters, digits and other signs without '/'",
                )
        for name in body.env if isinstance(body, Container) else ():
            if not name or "=" in name or not name.isprintable():
                raise InvalidInputError(
                    f"{name!r} is not a name for a variable",
                    field=f"the component {where}",
                    expected="a name without '='",
                )


def _check_constants(graph: Graph) -> None:
    for component in (graph.root, *graph.components.values()):
        tasks = component.body.tasks.values() if isinstance(component.body, Dag) else ()
        for task in tasks:
            for name, source in task.inputs.items():
                wanted = graph.components[task.component].inputs.get(name)
                if (
                    isinstance(source, Constant)
                    and isinstance(wanted, ParameterDefinition)
                    and wanted.type is ParameterType.STRING
                    and not (wanted.loose or source.value is None or isinstance(source.value, str))
                ):
                    raise InvalidInputError(
                        f"input '{name}': {source.value!r} is not a text",
                        field=f"the task {task.name}",
                        expected=f"a value of type {wanted.type}",
                    )


def cycle_in(dag: Dag) -> str:
    """Say which tasks wait for each other, without those that only wait for such tasks; empty if none do."""
    left = set(dag.tasks) - {task.name for task in in_order(dag)}
    while idle := left - {name for task in left for name in dag.tasks[task].upstream}:
        left -= idle
    return f"{', '.join(sorted(left))} {'wait for each other' if len(left) > 1 else 'waits for itself'}" if left else ""


def _refuse_unknown(text: str, component: Component, also: frozenset[str], where: str) -> None:
    for name in unknown_placeholders(text, component, also=also):
        raise InvalidInputError(
            f"the placeholder {name} is not known", field=where, expected="an input or an output of the component"
        )


Problem = tuple[str, str | None]


def _task_problems(graph: Graph, parent: Component, dag: Dag, task: Task) -> Iterator[Problem]:
    component = graph.components[task.component]
    for name in task.after:
        if name not in dag.tasks:
            yield f"it waits for '{name}', which does not exist", "a task of the same graph"
    for name, source in task.inputs.items():
        yield from _source_problems(graph, parent, dag, source)
        wanted = component.inputs.get(name)
        if wanted is not None:
            yield from (
                (f"input '{name}': {problem}", expected)
                for problem, expected in _type_problems(graph, dag, source, wanted)
            )
    item = task.loop.item_input if task.loop else None
    for name, definition in component.inputs.items():
        if not definition.optional and name not in task.inputs and name != item and _default(definition) is None:
            yield f"the input '{name}' is not given", "a value for every input without a default"
    yield from _condition_problems(task)
    if task.loop and not isinstance(task.loop.items, str) and len(task.loop.items) > MOST_ITEMS:
        yield f"the loop has {len(task.loop.items):,} items", f"at most {MOST_ITEMS:,}"
    if task.loop and isinstance(task.loop.items, str) and task.loop.items not in task.inputs:
        yield f"the loop is over '{task.loop.items}', which is not an input", "an input of the task"


def _condition_problems(task: Task) -> Iterator[Problem]:
    if task.condition is None:
        return
    try:
        parse(task.condition.text)
    except ValueError as error:
        yield f"the condition '{task.condition.text}' is not understood: {error}", None
        return
    for name in input_names(task.condition.text):
        if name not in task.inputs:
            yield f"the condition looks at '{name}', which is not an input", "an input of the task"


def _source_problems(
    graph: Graph, parent: Component, dag: Dag, source: Constant | FromInput | FromTask | FinalStatus
) -> Iterator[Problem]:
    if isinstance(source, FromInput) and source.name not in parent.inputs:
        yield f"there is no input '{source.name}'", f"one of {', '.join(sorted(parent.inputs))}"
    if isinstance(source, FromTask | FinalStatus) and source.task not in dag.tasks:
        yield f"there is no task '{source.task}'", f"one of {', '.join(sorted(dag.tasks))}"
    elif isinstance(source, FromTask):
        component = graph.components[dag.tasks[source.task].component]
        if source.output not in component.outputs:
            yield (
                f"the task '{source.task}' has no output '{source.output}'",
                f"one of {', '.join(sorted(component.outputs))}" if component.outputs else None,
            )


def _type_problems(
    graph: Graph, dag: Dag, source: Constant | FromInput | FromTask | FinalStatus, wanted: Definition
) -> Iterator[Problem]:
    """Compare where both types are certain: the compiler calls items of loops text, whatever they are."""
    if isinstance(source, Constant) and isinstance(wanted, ParameterDefinition):
        if wanted.loose or (isinstance(source.value, str) and "{{$" in source.value):
            return
        try:
            fit(source.value, wanted.type)
        except MisfitError as error:
            yield str(error), f"a value of type {wanted.type}"
    if not isinstance(source, FromTask) or source.keys or source.task not in dag.tasks:
        return
    producer = graph.components[dag.tasks[source.task].component]
    made = producer.outputs.get(source.output)
    if made is None or (isinstance(made, ParameterDefinition) and dag.tasks[source.task].loop):
        return
    if isinstance(made, ArtifactDefinition) is not isinstance(wanted, ArtifactDefinition):
        yield "a parameter and an artefact are not the same", "an output of the input's kind"
    elif (
        made.type != wanted.type
        and isinstance(wanted, ParameterDefinition)
        and not wanted.loose
        and (made.type, wanted.type) not in _WIDER
    ):
        yield f"{source.task} gives {made.type}, and {wanted.type} is wanted", f"an output of type {wanted.type}"


def _default(definition: Definition) -> object:
    return getattr(definition, "default", None)
