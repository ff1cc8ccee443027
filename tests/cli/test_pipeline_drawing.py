"""The drawing of a run: well-formed, with every task in it, and from left to right in the order of the graph."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

from gangline.cli.output.drawings.pipeline_picture import drawing
from gangline.model.kinds.pipeline import PipelineStatus, StepStatus
from gangline.testing.builders import ONE_STEP, make_run


def task(**more: Any) -> dict[str, Any]:
    return {"componentRef": {"name": "comp-a"}, **more}


def test_tasks_stand_behind_what_they_wait_for_and_texts_are_quoted() -> None:
    tasks = {"a": task(), "b": task(dependentTasks=["a"]), "c": task(dependentTasks=["a", "b"])}
    run = make_run(document={**ONE_STEP, "root": {"dag": {"tasks": tasks}}})
    steps = (
        StepStatus(path="a", number=0, state="succeeded"),
        StepStatus(path="b", number=1, state="failed", message="a < b"),
    )
    text = drawing(replace(run, status=PipelineStatus(steps=steps)))
    root = ET.fromstring(text)
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["one: running", "a", "succeeded", "b", "failed", "c", "not-triggered"]
    lefts = [int(x) for x in re.findall(r'translate\((\d+) 0\)"><g><title>', text)]
    assert lefts == sorted(set(lefts))
    assert len(lefts) == 3
    assert text.count("<path ") == 3
    assert "a &lt; b" in text


def test_a_loop_is_a_frame_around_its_items() -> None:
    over = {"itemInput": "n", "items": {"raw": "[1, 2, 3]"}}
    inner = {
        "inputDefinitions": {"parameters": {"n": {"parameterType": "NUMBER_INTEGER"}}},
        "dag": {"tasks": {"a": task()}},
    }
    loop = {"componentRef": {"name": "comp-loop"}, "parameterIterator": over}
    components = {**ONE_STEP["components"], "comp-loop": inner}
    text = drawing(
        make_run(document={**ONE_STEP, "components": components, "root": {"dag": {"tasks": {"loop": loop}}}})
    )
    words = [each.text for each in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert words[1:] == [
        "loop: running",
        "[0]: running",
        "a",
        "due",
        "[1]: running",
        "a",
        "due",
        "[2]: running",
        "a",
        "due",
    ]


def loop_over(count: int, **status: Any) -> str:
    over = {"itemInput": "n", "items": {"raw": str(list(range(count)))}}
    loop = {"componentRef": {"name": "comp-n"}, "parameterIterator": over}
    comp = {**ONE_STEP["components"]["comp-a"], "inputDefinitions": {"parameters": {"n": {"parameterType": "STRING"}}}}
    components = {**ONE_STEP["components"], "comp-n": comp}
    run = make_run(document={**ONE_STEP, "components": components, "root": {"dag": {"tasks": {"loop": loop}}}})
    return drawing(replace(run, status=PipelineStatus(**status)))


def places(text: str) -> dict[str, tuple[int, int]]:
    found = re.findall(r'translate\((\d+) (\d+)\)"><g><title>\[?([^\]:]+)', text)
    return {name: (int(x), int(y)) for x, y, name in found}


def test_many_items_of_a_loop_are_put_into_columns() -> None:
    few, many = (places(loop_over(count)) for count in (8, 25))
    assert len({few[str(item)][0] for item in range(8)}) == 1
    assert len({many[str(item)][0] for item in range(25)}) == 5
    assert many["1"][0] == many["0"][0]
    assert many["1"][1] > many["0"][1]


def test_of_very_many_items_those_are_drawn_that_have_not_succeeded() -> None:
    steps = tuple(
        StepStatus(path=f"loop/{item}", number=item, state="failed" if item == 950 else "succeeded")
        for item in range(1000)
    )
    text = loop_over(1000, steps=steps)
    assert "[950]: failed" in text
    assert "[5]: succeeded" in text
    assert "[500]: succeeded" not in text
    assert ">900 more<" in text


def test_tasks_stand_beside_what_they_wait_for() -> None:
    tasks = {"a": task(), "b": task(), "c": task(dependentTasks=["b"]), "d": task(dependentTasks=["a"])}
    text = drawing(make_run(document={**ONE_STEP, "root": {"dag": {"tasks": tasks}}}))
    found = places(text)
    assert found["d"][1] == found["a"][1] < found["b"][1] == found["c"][1]


def test_long_names_stay_within_their_box() -> None:
    tasks = {"a-task-with-a-name-that-is-longer-than-its-box": task()}
    text = drawing(make_run(document={**ONE_STEP, "root": {"dag": {"tasks": tasks}}}))
    assert ">a-task-with-a-name-t…<" in text
    assert "<title>a-task-with-a-name-that-is-longer-than-its-box" in text
