"""Pipelines of our own form, drawn at random, against a plain interpreter of the same documents."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gangline.dialects.document import plain
from gangline.dialects.pipeline import read_graph
from gangline.pipelines import JobTemplate, Outcome, State, evaluate
from gangline.pipelines.evaluation import Instance, Path, due

Document = dict[str, Any]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Up to six steps: jobs, loops, groups and stops, which name inputs and outputs of those before them."""
    steps: Document = {}
    gives: list[str] = []
    for number in range(draw(st.integers(1, 6))):
        name = f"s{number}"
        named = draw(st.lists(st.sampled_from(["n", *gives]), max_size=2, unique=True))
        step: Document = {"job": {"command": ["do", *(f"$({each})" for each in named)]}, "outputs": {"x": "integer"}}
        kind = draw(st.sampled_from(["job", "job", "each", "stop", "group"]))
        if kind == "each":
            step["each"] = draw(st.lists(st.integers(0, 9), max_size=3))
            step["job"]["command"].append("$(item)")
        elif kind == "stop":
            step = {"stop": f"no: {' '.join(f'$({each})' for each in named)}", "when": "$(n) > 5"}
        elif kind == "group":
            last = {"job": {"command": ["do", "$(inner.x)", "$(n)"]}, "outputs": {"x": "integer"}}
            step = {"steps": {"inner": step, "last": last}, "outputs": {"x": "$(last.x)"}}
        if kind != "stop" and draw(st.booleans()):
            step["when"] = f"$(n) > {draw(st.integers(0, 9))}"
        steps[name] = step
        if kind in ("job", "group"):
            gives.append(f"{name}.x")
    return {"name": "drawn", "inputs": {"n": 3}, "steps": steps}


def work(values: list[int]) -> int | None:
    """What a job does in these tests: None is a failure."""
    return None if sum(values) % 11 == 10 else sum(values) + 1


def interpreted(steps: Document, around: dict[str, Any], path: Path, states: dict[Path, str]) -> dict[str, Any]:
    """Run steps one by one; what each gives stands in the names that the next may use, and states by path."""
    known = dict(around)
    for name, step in steps.items():
        state, value = _step(name, step, known, (*path, name), states)
        states[(*path, name)] = state
        known[f"{name}.x"] = value if state == "succeeded" else state
    return known


def _step(name: str, step: Document, known: dict[str, Any], path: Path, states: dict[Path, str]) -> tuple[str, Any]:
    words = str(step)
    named = {each: known[each] for each in known if f"$({each})" in words}
    if any(value in ("failed", "not-triggered") for value in named.values()):
        return "not-triggered", None
    if any(value == "skipped" for value in named.values()):
        return "skipped", None
    if "when" in step and not known["n"] > int(step["when"].rpartition(" ")[2]):
        return "skipped", None
    if "stop" in step:
        return "failed", None
    if "steps" in step:
        inside = interpreted(step["steps"], dict(known), path, states)
        bad = [each for each in step["steps"] if states[(*path, each)] in ("failed", "not-triggered")]
        return ("failed", None) if bad else ("succeeded", inside["last.x"])
    given = [known[word[2:-1]] for word in step["job"]["command"][1:] if word != "$(item)"]
    if "each" not in step:
        made = work(given)
        return ("failed", None) if made is None else ("succeeded", made)
    results = [work([*given, item]) for item in step["each"]]
    for number, made in enumerate(results):
        states[(*path, str(number), name)] = "failed" if made is None else "succeeded"
    return ("failed", None) if None in results else ("succeeded", results)


def run_all(document: Document, n: int, chooser: random.Random) -> Instance:
    graph = read_graph([plain(document)])
    outcomes: dict[Path, Outcome] = {}
    while waiting := due(root := evaluate(graph, {"n": n}, outcomes)):
        step = chooser.choice(waiting)
        assert isinstance(step.component.body, JobTemplate)
        made = work([int(value) for value in step.inputs.values()])
        outcomes[step.path] = (
            Outcome(state=State.FAILED) if made is None else Outcome(state=State.SUCCEEDED, outputs={"x": made})
        )
    assert root.ended
    return root


@settings(max_examples=150, deadline=None)
@given(document=documents(), n=st.integers(0, 9), seed=st.integers(0, 99))
def test_a_run_ends_as_the_plain_interpreter_says(document: Document, n: int, seed: int) -> None:
    root = run_all(document, n, random.Random(seed))
    states: dict[Path, str] = {}
    interpreted(document["steps"], {"n": n}, (), states)
    found = {each.path: str(each.state) for each in root.walk() if each.path in states}
    assert found == states
    assert (root.state is State.FAILED) == any(states[(name,)] == "failed" for name in document["steps"])
