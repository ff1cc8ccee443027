"""Components of version 1: every placeholder, names, types that were never enforced, and what is refused."""

from typing import Any

import pytest

from gangline.dialects import document
from gangline.dialects.kfp import read_pipeline
from gangline.errors import InvalidInputError
from gangline.pipelines import Container, Graph, ParameterType, evaluate
from gangline.pipelines.evaluation import due
from gangline.pipelines.graph import ArtifactDefinition, ParameterDefinition
from gangline.pipelines.placeholders import RunInfo, command_words, inputs_as_files

TEXT = """
name: Every placeholder
description: One of each
help: https://example.org
metadata: {annotations: {author: Ada}, labels: {x: y}}
inputs:
- {name: Some Text, type: String, default: 'a "b"'}
- {name: Count, type: Integer}
- {name: Table, type: CSV}
- {name: Maybe, type: String, optional: true}
- {name: Flag, type: Bool, default: 'false'}
- {name: Options, type: JsonObject, default: ''}
outputs:
- {name: Lines, type: Integer}
- {name: Copy}
- {name: Fixed, type: String}
implementation:
  container:
    image: alpine
    env: {LEVEL: 3}
    command: [sh, -c, 'do "$@"', sh]
    args:
    - {inputValue: Some Text}
    - --count={inputValue}
    - {inputPath: Table}
    - {inputPath: Count}
    - {inputUri: Table}
    - {outputPath: Lines}
    - {outputPath: Copy}
    - {outputUri: Copy}
    - concat: [--text=, {inputValue: Some Text}, '!']
    - if: {cond: {isPresent: Maybe}, then: [--maybe, {inputValue: Maybe}], else: [--none]}
    - if: {cond: {inputValue: Flag}, then: --flag, else: --no-flag}
    - if: {cond: 'true', then: [--always]}
    - {executorInput: null}
    fileOutputs: {Fixed: /tmp/fixed.txt}
"""


def graph(text: str = TEXT) -> Graph:
    return read_pipeline(document.parse(text, file="component.yaml"))


def words(found: Graph, **arguments: Any) -> list[str]:
    (step,) = due(evaluate(found, arguments, {}))
    assert isinstance(step.component.body, Container)
    return command_words(step.component.body.command, step.component, step.inputs, RunInfo(name="r").texts("component"))


def test_every_placeholder_becomes_a_word() -> None:
    found = words(graph(), count=3, table="/data/t.csv", maybe="m")
    assert found[4:-1] == [
        'a "b"',
        "--count={inputValue}",
        "/data/t.csv",
        "{{RESULT_DIR}}/inputs/count",
        "/data/t.csv",
        "{{RESULT_DIR}}/outputs/lines",
        "{{RESULT_DIR}}/outputs/copy/copy",
        "{{RESULT_DIR}}/outputs/copy/copy",
        '--text=a "b"!',
        "--maybe",
        "m",
        "--no-flag",
        "--always",
    ]
    assert found[-1].startswith("{")


def test_what_is_not_given_leaves_its_words_out() -> None:
    found = words(graph(), count=3, table="/t", flag="True")
    assert ("--none" in found, "--maybe" in found, "--flag" in found) == (True, False, True)


def test_a_parameter_that_is_read_as_a_file_is_written_into_one() -> None:
    (step,) = due(evaluate(graph(), {"count": 3, "table": "/t"}, {}))
    assert isinstance(step.component.body, Container)
    assert inputs_as_files(step.component.body.command, step.inputs) == {"{{RESULT_DIR}}/inputs/count": "3"}
    assert step.component.body.left_at == {"fixed": "/tmp/fixed.txt"}
    assert step.component.body.env == {"LEVEL": "3"}


def test_types_and_names_are_those_that_kfp_gives() -> None:
    inputs = graph().root.inputs
    assert list(inputs) == ["some_text", "count", "table", "maybe", "flag", "options"]
    assert isinstance(inputs["table"], ArtifactDefinition)
    assert isinstance(inputs["count"], ParameterDefinition)
    assert (inputs["count"].type, inputs["count"].optional) == (ParameterType.INTEGER, False)


def test_a_value_of_another_type_is_taken_as_it_is() -> None:
    (step,) = due(evaluate(graph(), {"count": 3, "table": "/t", "options": "not JSON"}, {}))
    assert (step.inputs["options"], step.inputs["flag"]) == ("not JSON", False)


def test_unknown_keys_are_noted() -> None:
    assert graph().notes == ("help",)


REFUSED = {
    "an unknown placeholder": ("{inputVal: x}", "the placeholder inputVal is not known"),
    "an input that does not exist": ("{inputValue: y}", "unknown input or output 'y'"),
    "a condition that is not known": ("{if: {cond: {isThere: x}, then: a}}", "this condition is not known"),
    "two placeholders in one": ("{inputValue: x, inputPath: x}", "is not known"),
}


@pytest.mark.parametrize(("word", "want_words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_is_refused_with_its_line(word: str, want_words: str) -> None:
    text = f"inputs: [{{name: x}}]\nimplementation:\n  container:\n    image: i\n    command: [{word}]\n"
    with pytest.raises(InvalidInputError) as refused:
        graph(text)
    assert want_words in str(refused.value)
    assert str(refused.value).startswith("component.yaml:5")
