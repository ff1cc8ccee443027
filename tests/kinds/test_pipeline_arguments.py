"""What is refused of a run before its first step is started: whatever is certain from the file and the arguments."""

import json
from typing import Any

import pytest

from gangline.errors import InvalidInputError
from gangline.kinds.pipeline import check_arguments, graph_of
from gangline.pipelines.evaluation import MOST_ITEMS

TEXT = {"parameterType": "STRING"}


def pipeline(task: dict[str, Any], inputs: dict[str, Any], root: dict[str, Any] | None = None) -> str:
    document = {
        "pipelineInfo": {"name": "p"},
        "components": {"comp": {"executorLabel": "exec", "inputDefinitions": {"parameters": inputs}}},
        "deploymentSpec": {"executors": {"exec": {"container": {"image": "alpine", "command": ["true"]}}}},
        "root": {
            "inputDefinitions": {"parameters": root or {}},
            "dag": {"tasks": {"step": {"componentRef": {"name": "comp"}, **task}}},
        },
    }
    return json.dumps([document])


LOOP = pipeline(
    {
        "inputs": {"parameters": {"all": {"componentInputParameter": "items"}}},
        "parameterIterator": {"items": {"inputParameter": "all"}, "itemInput": "item"},
    },
    {"all": {"parameterType": "LIST"}, "item": TEXT},
    {"items": {"parameterType": "LIST"}},
)
PASSED_ON = pipeline(
    {"inputs": {"parameters": {"n": {"componentInputParameter": "word"}}}},
    {"n": {"parameterType": "NUMBER_INTEGER"}},
    {"word": TEXT},
)
NUMBER = pipeline(
    {"inputs": {"parameters": {"x": {"componentInputParameter": "x"}}}},
    {"x": {"parameterType": "NUMBER_DOUBLE"}},
    {"x": {"parameterType": "NUMBER_DOUBLE"}},
)
CONSTANT = pipeline({"inputs": {"parameters": {"x": {"runtimeValue": {"constant": 3}}}}}, {"x": TEXT})

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a loop over too many items": (LOOP, {"items": [0] * (MOST_ITEMS + 1)}, "the step step: the loop has 10,001 items"),
    "a text that a step wants as a number": (PASSED_ON, {"word": "three"}, "is not a whole number"),
    "not a number": (NUMBER, {"x": float("nan")}, "arguments.x: is not a finite number"),
    "infinity": (NUMBER, {"x": float("inf")}, "arguments.x: is not a finite number"),
    "a number as the constant of a text": (CONSTANT, {}, "input 'x': 3 is not a text"),
}


@pytest.mark.parametrize(("documents", "arguments", "want"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused_before_the_first_step(documents: str, arguments: Any, want: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        check_arguments(graph_of(documents), arguments)
    assert want in str(refused.value)


def test_what_may_work_is_accepted() -> None:
    check_arguments(graph_of(LOOP), {"items": [0] * MOST_ITEMS})
    check_arguments(graph_of(PASSED_ON), {"word": "3"})
    check_arguments(graph_of(NUMBER), {"x": 3})
