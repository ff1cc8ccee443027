"""Graphs in components of version 1: what may be passed to what, conditions, references, and what is refused."""

import hashlib
from typing import Any

import pytest

from gangline.dialects import document
from gangline.dialects.kfp import read_pipeline, with_references
from gangline.errors import InvalidInputError
from gangline.pipelines import Artifact, Graph, Instance, State, evaluate
from gangline.pipelines.evaluation import Outcome, due
from gangline.pipelines.graph import ArtifactDefinition, ParameterDefinition
from gangline.pipelines.placeholders import RunInfo, command_words

MAKE = """
          inputs: [{name: Size, type: Integer, default: '3'}]
          outputs: [{name: Table, type: CSV}, {name: Rows, type: Integer}, {name: Note}]
          implementation: {container: {image: i, command: [make, {inputValue: Size}, {outputPath: Table},
            {outputPath: Rows}, {outputPath: Note}]}}
"""
USE = """
          inputs: [{name: Table}, {name: Rows}, {name: Note}]
          outputs: [{name: Sum, type: Float}]
          implementation: {container: {image: i, command: [use, {inputPath: Table}, {inputPath: Rows},
            {inputValue: Note}, {outputPath: Sum}]}}
"""
TEXT = f"""
name: Make and use
inputs: [{{name: How many, type: Integer}}, {{name: Other table}}]
outputs: [{{name: Sum, type: Float}}, {{name: Table}}]
implementation:
  graph:
    tasks:
      Make it:
        componentRef:
         spec: {MAKE}
        arguments: {{Size: {{graphInput: {{inputName: How many}}}}}}
      Use it:
        annotations: {{editor.position: here}}
        componentRef:
         spec: {USE}
        arguments:
          Table: {{taskOutput: {{taskId: Make it, outputName: Table, type: CSV}}}}
          Rows: {{taskOutput: {{taskId: Make it, outputName: Rows}}}}
          Note: {{taskOutput: {{taskId: Make it, outputName: Note}}}}
      Use the other:
        componentRef:
         spec: {USE}
        arguments:
          Table: {{graphInput: {{inputName: Other table}}}}
          Rows: '10'
          Note: 'say "hi" 😀'
        isEnabled: {{and: {{op1: {{'>=': {{op1: {{taskOutput: {{taskId: Make it, outputName: Rows}}}}, op2: '2'}}}},
          op2: {{not: {{'==': {{op1: {{graphInput: {{inputName: How many}}}}, op2: '4'}}}}}}}}}}
        executionOptions: {{retryStrategy: {{maxRetries: 2}}, cachingStrategy: {{maxCacheStaleness: P0D}}}}
    outputValues:
      Sum: {{taskOutput: {{taskId: Use it, outputName: Sum}}}}
      Table: {{taskOutput: {{taskId: Make it, outputName: Table}}}}
"""
MADE = Artifact(name="table", uri="/made/table")


def graph(text: str = TEXT) -> Graph:
    return read_pipeline(document.parse(text, file="component.yaml"))


def words(step: Instance) -> list[str]:
    body: Any = step.component.body
    return command_words(body.command, step.component, step.inputs, RunInfo(name="r").texts("t"))


def run(found: Graph, *, rows: int = 3, **arguments: Any) -> dict[str, Instance]:
    made = Outcome(state=State.SUCCEEDED, outputs={"table": (MADE,), "rows": rows, "note": "a note"})
    return {each.path[-1]: each for each in evaluate(found, arguments, {("make-it",): made}).walk() if each.path}


def test_tasks_take_inputs_of_the_graph_and_outputs_of_each_other() -> None:
    (first,) = due(evaluate(graph(), {"how_many": 3, "other_table": "/t"}, {}))
    assert words(first)[:2] == ["make", "3"]
    found = run(graph(), how_many=3, other_table="/t")
    assert words(found["use-it"])[:4] == ["use", "/made/table", "{{RESULT_DIR}}/inputs/rows", "a note"]
    assert words(found["use-the-other"])[1:4] == ["/t", "{{RESULT_DIR}}/inputs/rows", 'say "hi" 😀']


def test_what_somebody_takes_as_a_value_is_one_and_the_rest_are_files() -> None:
    found = graph()
    make = found.components[found.root.body.tasks["make-it"].component]  # type: ignore[union-attr]
    kinds = {name: isinstance(kind, ParameterDefinition) for name, kind in make.outputs.items()}
    assert kinds == {"table": False, "rows": True, "note": True}
    assert isinstance(found.root.inputs["other_table"], ArtifactDefinition)
    assert isinstance(found.root.outputs["table"], ArtifactDefinition)


@pytest.mark.parametrize(
    ("how_many", "rows", "want"), [(3, 3, State.DUE), (3, 1, State.SKIPPED), (4, 3, State.SKIPPED)]
)
def test_a_task_whose_predicate_does_not_hold_is_skipped(how_many: int, rows: int, want: State) -> None:
    assert run(graph(), rows=rows, how_many=how_many, other_table="/t")["use-the-other"].state is want


def test_options_of_a_task_are_kept() -> None:
    task = graph().root.body.tasks["use-the-other"]  # type: ignore[union-attr]
    assert (task.retries.most, task.cache) == (2, False)


OUTER = """
inputs: [{name: n, type: Integer}, {name: t}]
outputs: [{name: total}]
implementation:
  graph:
    tasks:
      inner:
        componentRef: {url: inner.yaml, digest: DIGEST}
        arguments: {How many: {graphInput: n}, Other table: {graphInput: t}}
    outputValues: {total: {taskOutput: {taskId: inner, outputName: Sum}}}
"""


def outer(text: str = OUTER, read: str = TEXT) -> Graph:
    (value,) = document.parse(text.replace("DIGEST", hashlib.sha256(TEXT.encode()).hexdigest()), file="outer.yaml")
    return read_pipeline(
        [with_references(value, "file:///here/outer.yaml", {"file:///here/inner.yaml": read}.__getitem__)]
    )


def test_a_graph_within_a_graph_is_read_from_beside_it() -> None:
    found = outer()
    (step,) = due(evaluate(found, {"n": 7, "t": "/t"}, {}))
    assert (step.path, words(step)[1]) == (("inner", "make-it"), "7")
    assert isinstance(found.root.outputs["total"], ParameterDefinition)


def test_a_file_with_another_digest_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="is another file"):
        outer(read=TEXT + "# changed")


def test_a_component_that_contains_itself_is_refused() -> None:
    text = OUTER.replace(", digest: DIGEST", "")
    with pytest.raises(InvalidInputError, match="contains itself"):
        outer(text, read=text)


REFUSED = {
    "a component that is elsewhere": ("spec: {}", "url: https://example.org/c.yaml", "is not in the file"),
    "a task that does not exist": ("taskId: b", "taskId: nobody", "unknown task 'nobody'"),
    "an output that does not exist": ("outputName: x", "outputName: y", "unknown input or output 'y'"),
    "an input that does not exist": ("inputName: n", "inputName: m", "unknown input or output 'm'"),
    "an argument that is not one": ("{graphInput: {inputName: n}}", "{graphOutput: n}", "this argument is not known"),
    "a predicate that is not one": ("'==':", "'=':", "this predicate is not known"),
    "an output that is an input": (
        "o: {taskOutput: {taskId: b, outputName: x}}",
        "o: {graphInput: n}",
        "only what a task gives",
    ),
    "an output that nobody gives": ("o: {taskOutput: {taskId: b, outputName: x}}", "", "nothing gives the output 'o'"),
    "a cycle": (
        "a: {graphInput: {inputName: n}}",
        "a: {taskOutput: {taskId: c, outputName: x}}",
        "wait for each other",
    ),
}
SMALL = """
inputs: [{name: n}]
outputs: [{name: o}]
implementation:
  graph:
    tasks:
      b:
        componentRef: {spec: {}}
        arguments: {a: {graphInput: {inputName: n}}}
      c:
        componentRef: {spec: {}}
        arguments: {a: {taskOutput: {taskId: b, outputName: x}}}
        isEnabled: {'==': {op1: a, op2: b}}
    outputValues: {o: {taskOutput: {taskId: b, outputName: x}}}
"""
INNER = "spec: {inputs: [{name: a}], outputs: [{name: x}], implementation: {container: {command: [t, {inputPath: a}]}}}"


@pytest.mark.parametrize(("old", "new", "want_words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_is_refused_with_its_line(old: str, new: str, want_words: str) -> None:
    assert old in SMALL
    with pytest.raises(InvalidInputError) as refused:
        graph(SMALL.replace(old, new).replace("spec: {}", INNER))
    assert want_words in str(refused.value)
    assert str(refused.value).startswith("component.yaml:")
