"""The rules of a run, against a plain interpreter that runs the same graph from top to bottom, and one by one."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.errors import InvalidInputError
from gangline.pipelines import (
    Component,
    Container,
    Dag,
    Graph,
    Outcome,
    ParameterType,
    State,
    Task,
    check_graph,
    evaluate,
)
from gangline.pipelines.checking import check_new
from gangline.pipelines.conditions import Condition
from gangline.pipelines.evaluation import Instance, due
from gangline.pipelines.graph import (
    Claim,
    Constant,
    FinalStatus,
    FromInput,
    FromTask,
    Loop,
    ParameterDefinition,
    Stop,
)

INTEGER = ParameterDefinition(type=ParameterType.INTEGER)
LIST = ParameterDefinition(type=ParameterType.LIST)
STEP = Component(body=Container(command=("work",)), inputs={"n": INTEGER}, outputs={"out": INTEGER})
HANDLER = Component(
    body=Container(command=("work",)),
    inputs={"status": ParameterDefinition(type=ParameterType.FINAL_STATUS)},
)
STOP = Component(body=Stop("n is {{$.inputs.parameters['n']}}"), inputs={"n": INTEGER})
CLAIM = Component(body=Claim.CREATE, outputs={"name": ParameterDefinition(type=ParameterType.STRING)})
JOIN = Component(body=Container(command=("work",)), inputs={"xs": LIST}, outputs={"out": INTEGER})


def work(component: Component, inputs: Mapping[str, Any]) -> int | None:
    """What a step does in these tests: None is a failure."""
    if component is JOIN:
        return int(sum(inputs["xs"]))
    if component is STEP:
        return None if inputs["n"] % 7 == 6 else int(inputs["n"]) + 1
    return 0


def run_all(graph: Graph, arguments: Mapping[str, Any], chooser: random.Random) -> Instance:
    """Drive a run to its end, its steps ending in any order; as in real life some of those due wait."""
    outcomes: dict[tuple[str, ...], Outcome] = {}
    for _ in range(10_000):
        root = evaluate(graph, arguments, outcomes)
        assert evaluate(graph, arguments, outcomes) == root
        ready = due(root)
        if root.ended:
            assert not ready
            return root
        step = chooser.choice(ready)
        assert step.path not in outcomes, "no step is started twice"
        result = work(step.component, step.inputs)
        done = (
            Outcome(state=State.FAILED, message="no luck")
            if result is None
            else Outcome(state=State.SUCCEEDED, outputs={"out": result})
        )
        outcomes[step.path] = done
    raise AssertionError("it never ends")


@dataclass
class Interpreter:
    """The same language run directly: a task is run when everything before it has been."""

    graph: Graph
    states: dict[tuple[str, ...], str] = field(default_factory=dict)

    def run(self, component: Component, inputs: dict[str, Any], path: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
        if component.body is Claim.CREATE:
            return "succeeded", {"name": "drawn-volume"}
        if isinstance(component.body, Stop):
            return "failed", {}
        if not isinstance(component.body, Dag):
            result = work(component, inputs)
            return ("failed", {}) if result is None else ("succeeded", {"out": result})
        results: dict[str, tuple[str, dict[str, Any]]] = {}
        left = list(component.body.tasks.values())
        while left:
            task = next(each for each in left if each.upstream <= results.keys())
            left.remove(task)
            results[task.name] = self.task(task, inputs, results, (*path, task.name))
            self.states[(*path, task.name)] = results[task.name][0]
        outputs = {
            name: values[0]
            for name, sources in component.body.outputs.items()
            if (
                values := [
                    results[each.task][1][each.output] for each in sources if each.output in results[each.task][1]
                ]
            )
        }
        tasks = component.body.tasks.values()
        failed = [
            name
            for name, (state, _) in results.items()
            if state == "failed"
            and not ((users := [t for t in tasks if name in t.upstream]) and all(t.forgives for t in users))
        ]
        return ("failed" if failed else "succeeded"), outputs

    def task(
        self, task: Task, outer: dict[str, Any], results: dict[str, Any], path: tuple[str, ...]
    ) -> tuple[str, dict[str, Any]]:
        component = self.graph.components[task.component]
        if not task.always and any(results[name][0] in ("failed", "not-triggered") for name in task.upstream):
            return "not-triggered", {}
        inputs: dict[str, Any] = {}
        for name, source in task.inputs.items():
            match source:
                case Constant(value):
                    inputs[name] = value
                case FromInput(wanted):
                    inputs[name] = outer[wanted]
                case FromTask(producer, output):
                    if output in results[producer][1]:
                        inputs[name] = results[producer][1][output]
                case FinalStatus(producer):
                    inputs[name] = {"state": results[producer][0]}
        if any(name not in inputs and name in task.inputs for name in component.inputs):
            return "skipped", {}
        if task.condition is not None and not (inputs["n"] > 3):
            return "skipped", {}
        if task.loop is not None:
            items = inputs[task.loop.items] if isinstance(task.loop.items, str) else task.loop.items
            runs = [
                self.run(component, {**inputs, task.loop.item_input: item}, (*path, str(number)))
                for number, item in enumerate(items)
            ]
            state = "failed" if any(state == "failed" for state, _ in runs) else "succeeded"
            return state, {name: [made[name] for _, made in runs if name in made] for name in component.outputs}
        return self.run(component, inputs, path)


CONDITION = Condition("int(inputs.parameter_values['n']) > 3")


@st.composite
def dags(draw: st.DrawFn, components: dict[str, Component], depth: int) -> Dag:
    """A graph of up to five tasks over the input n: steps, sub-graphs, loops, conditions, handlers."""
    tasks: dict[str, Task] = {}
    kinds: dict[str, str] = {}
    for number in range(draw(st.integers(1, 5))):
        name = f"t{number}"
        values = [each for each, kind in kinds.items() if kind == "value"]
        lists = [each for each, kind in kinds.items() if kind == "list"]
        source = draw(
            st.one_of(
                st.builds(Constant, st.integers(0, 9)),
                st.just(FromInput("n")),
                *([st.sampled_from(values).map(lambda t: FromTask(t, "out"))] if values else []),
            )
        )
        after = tuple(draw(st.lists(st.sampled_from(sorted(tasks)), max_size=2, unique=True))) if tasks else ()
        common: dict[str, Any] = {"name": name, "after": after}
        choices = (
            ["step", "step", "when", "stop", "claim"]
            + (["sub", "loop"] if depth else [])
            + (["join"] if lists else [])
            + (["handler"] if tasks else [])
        )
        kind = draw(st.sampled_from(choices))
        if kind == "claim":
            tasks[name] = Task(component="claim", **common)
        elif kind == "stop":
            tasks[name] = Task(component="stop", inputs={"n": source}, condition=CONDITION, **common)
        elif kind == "join":
            tasks[name] = Task(component="join", inputs={"xs": FromTask(draw(st.sampled_from(lists)), "out")}, **common)
        elif kind == "handler":
            target = draw(st.sampled_from(sorted(tasks)))
            tasks[name] = Task(
                component="handler",
                inputs={"status": FinalStatus(target)},
                always=True,
                forgives=draw(st.booleans()),
                **common,
            )
        elif kind in ("sub", "loop"):
            inner = f"c{len(components)}"
            components[inner] = STEP  # taken, until it is drawn
            body = draw(dags(components, depth - 1))
            made = {"out": LIST if kind == "loop" else INTEGER} if "out" in body.outputs else {}
            components[inner] = Component(body=body, inputs={"n": INTEGER}, outputs=made)
            if kind == "sub":
                tasks[name] = Task(component=inner, inputs={"n": source}, **common)
            else:
                loop = Loop(
                    items=tuple(draw(st.lists(st.integers(0, 9), max_size=3))),
                    item_input="n",
                    parallelism=draw(st.sampled_from([None, 1, 2])),
                )
                tasks[name] = Task(component=inner, loop=loop, **common)
            if made:
                kinds[name] = (
                    "list"
                    if kind == "loop" and _gives_numbers(body, components)
                    else "nested"
                    if kind == "loop"
                    else "value"
                )
                if kind == "sub" and not _gives_numbers(body, components):
                    kinds[name] = "nested"
            continue
        else:
            tasks[name] = Task(
                component="step", inputs={"n": source}, condition=CONDITION if kind == "when" else None, **common
            )
        if kind in ("step", "when", "join"):
            kinds[name] = "value"
    givers = [each for each, kind in kinds.items() if kind == "value"]
    sources = (
        tuple(FromTask(each, "out") for each in draw(st.lists(st.sampled_from(givers), max_size=2, unique=True)))
        if givers
        else ()
    )
    return Dag(tasks=tasks, outputs={"out": sources} if sources else {})


def _gives_numbers(body: Dag, components: dict[str, Component]) -> bool:
    return all(components[body.tasks[each.task].component].outputs["out"] is INTEGER for each in body.outputs["out"])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    components = {"step": STEP, "join": JOIN, "handler": HANDLER, "stop": STOP, "claim": CLAIM}
    body = draw(dags(components, 2))
    return Graph(name="drawn", root=Component(body=body, inputs={"n": INTEGER}), components=components)


@settings(max_examples=150, deadline=None)
@given(graph=graphs(), n=st.integers(0, 9), seed=st.integers(0, 99))
def test_a_run_ends_as_the_plain_interpreter_says_in_whatever_order_its_steps_end(
    graph: Graph, n: int, seed: int
) -> None:
    root = run_all(graph, {"n": n}, random.Random(seed))
    plain = Interpreter(graph)
    state, _ = plain.run(graph.root, {"n": n}, ())
    assert root.state == state
    found = {each.path: str(each.state) for each in root.walk() if each.path in plain.states}
    assert found == plain.states


@settings(max_examples=100, deadline=None)
@given(graph=graphs())
def test_what_is_drawn_passes_the_checks(graph: Graph) -> None:
    check_graph(graph)


def graph_of(*tasks: Task, **components: Component) -> Graph:
    known = {"step": STEP, "join": JOIN, "handler": HANDLER, **components}
    return Graph(
        name="g",
        root=Component(body=Dag(tasks={task.name: task for task in tasks}), inputs={"n": INTEGER}),
        components=known,
    )


N = {"n": FromInput("n")}
BAD_GRAPHS = {
    "a cycle and what only waits for it": (
        graph_of(
            Task(name="a", component="step", inputs=N, after=("a",)),
            Task(name="b", component="step", inputs=N, after=("a",)),
        ),
        "a waits for itself",
    ),
    "a cycle": (
        graph_of(
            Task(name="a", component="step", inputs=N, after=("b",)),
            Task(name="b", component="step", inputs=N, after=("a",)),
        ),
        "a, b wait for each other",
    ),
    "a missing component": (graph_of(Task(name="a", component="stp", inputs=N)), "no component 'stp'"),
    "a component in itself": (
        graph_of(
            Task(name="a", component="sub", inputs=N),
            sub=Component(body=Dag(tasks={"x": Task(name="x", component="sub", inputs=N)}), inputs={"n": INTEGER}),
        ),
        "contains itself",
    ),
    "a text for a number": (
        graph_of(Task(name="a", component="step", inputs={"n": Constant("many")})),
        '"many" is not a whole number',
    ),
    "an output of another type": (
        graph_of(
            Task(name="a", component="step", inputs=N),
            Task(name="b", component="join", inputs={"xs": FromTask("a", "out")}),
        ),
        "gives NUMBER_INTEGER, and LIST is wanted",
    ),
    "an output that does not exist": (
        graph_of(
            Task(name="a", component="step", inputs=N),
            Task(name="b", component="step", inputs={"n": FromTask("a", "uot")}),
        ),
        "has no output 'uot'",
    ),
    "an input that is not given": (graph_of(Task(name="a", component="step")), "the input 'n' is not given"),
    "an unknown placeholder": (
        graph_of(
            Task(name="a", component="odd"),
            odd=Component(body=Container(command=("echo", "{{$.inputs.parameters['m']}}"))),
        ),
        "is not known",
    ),
    "an unknown placeholder in a text": (
        graph_of(Task(name="a", component="step", inputs={"n": Constant("{{$.nonsense}}")})),
        "the placeholder {{$.nonsense}} is not known",
    ),
    "a condition that is not one": (
        graph_of(Task(name="a", component="step", inputs=N, condition=Condition("1 = 1"))),
        "is not understood",
    ),
    "a loop over too much": (
        graph_of(Task(name="a", component="step", loop=Loop(items=tuple(range(10_001)), item_input="n"))),
        "10,001 items",
    ),
    "a task whose name is a path": (
        graph_of(Task(name="a/b", component="step", inputs=N)),
        "'a/b' is not a name for a task",
    ),
}


@pytest.mark.parametrize(("graph", "want_words"), BAD_GRAPHS.values(), ids=BAD_GRAPHS)
def test_what_cannot_run_is_refused_before_the_first_step(graph: Graph, want_words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_graph(graph)
    assert want_words in str(refused.value)


BAD_NAMES = {
    "no name": (
        Component(body=Dag(tasks={"": Task(name="", component="step", inputs={"n": Constant(1)})})),
        "'' is not a valid name",
    ),
    "a line break": (Component(body=Container(command=("work",)), inputs={"a\nb": INTEGER}), "is not a valid name"),
    "a path": (
        Component(body=Container(command=("work",)), outputs={"../../x": INTEGER}),
        "'../../x' is not a valid name",
    ),
    "an equals sign": (
        Component(body=Container(command=("work",), env={"A=B": "x"})),
        "'A=B' is not a name for a variable",
    ),
}


@pytest.mark.parametrize(("component", "want_words"), BAD_NAMES.values(), ids=BAD_NAMES)
def test_names_that_can_be_no_part_of_a_path_are_refused_in_new_runs(component: Component, want_words: str) -> None:
    graph = graph_of(Task(name="a", component="step", inputs=N), odd=component)
    check_graph(graph)
    with pytest.raises(InvalidInputError) as refused:
        check_new(graph)
    assert want_words in str(refused.value)


def test_a_loop_begins_no_more_items_than_it_may() -> None:
    inner = Component(body=Dag(tasks={"x": Task(name="x", component="step", inputs=N)}), inputs={"n": INTEGER})
    graph = graph_of(
        Task(name="l", component="inner", loop=Loop(items=(1, 2, 3), item_input="n", parallelism=2)), inner=inner
    )
    assert [each.path for each in due(evaluate(graph, {"n": 1}, {}))] == [("l", "0", "x"), ("l", "1", "x")]
    done: dict[tuple[str, ...], Outcome] = {("l", "1", "x"): Outcome(state=State.SUCCEEDED, outputs={"out": 1})}
    assert [each.path for each in due(evaluate(graph, {"n": 1}, done))] == [("l", "0", "x"), ("l", "2", "x")]


def test_a_failing_exit_handler_does_not_hide_the_first_failure() -> None:
    handler = Task(name="z", component="handler", inputs={"status": FinalStatus("a")}, always=True)
    graph = graph_of(Task(name="a", component="step", inputs=N), handler)
    failed = Outcome(state=State.FAILED, message="the disk is full")
    (step,) = due(evaluate(graph, {"n": 1}, {("a",): failed}))
    assert step.inputs["status"]["state"] == "FAILED"
    assert step.inputs["status"]["error"]["message"] == "the disk is full"
    root = evaluate(graph, {"n": 1}, {("a",): failed, ("z",): Outcome(state=State.FAILED, message="me too")})
    assert (root.state, root.message) == (State.FAILED, "a: the disk is full")


def test_a_loop_over_an_output_that_is_too_long_fails_with_a_reason() -> None:
    maker = Component(body=Container(command=("work",)), outputs={"out": LIST})
    tasks = (
        Task(name="m", component="maker"),
        Task(name="l", component="step", inputs={"xs": FromTask("m", "out")}, loop=Loop(items="xs", item_input="n")),
    )
    outcomes: dict[tuple[str, ...], Outcome] = {
        ("m",): Outcome(state=State.SUCCEEDED, outputs={"out": [0] * 1_000_000})
    }
    root = evaluate(graph_of(*tasks, maker=maker), {"n": 1}, outcomes)
    assert (root.state, root.message) == (State.FAILED, "l: the loop has 1,000,000 items; at most 10,000 are allowed")
