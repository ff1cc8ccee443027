"""Pipelines of our own form: what steps may name, what becomes of it, and what is refused before the first step."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gangline.dialects.document import parse, plain
from gangline.dialects.pipeline import each_job, read_graph, with_files
from gangline.errors import InvalidInputError
from gangline.pipelines import Instance, JobTemplate, Outcome, State, evaluate
from gangline.pipelines.evaluation import Path, due
from gangline.pipelines.graph import ArtifactDefinition, Dag, FromInput, FromTask, ModelLookup, Stop
from gangline.pipelines.values import Artifact


def job(*words: str) -> dict[str, Any]:
    return {"command": ["do", *words]}


def graph_of(steps: dict[str, Any], **more: Any) -> Any:
    return read_graph([plain({"name": "p", "steps": steps, **more})])


def run(graph: Any, outputs: dict[Path, dict[str, Any]], **arguments: Any) -> Instance:
    """Run everything; what a step gives is told by its path."""
    done: dict[Path, Outcome] = {}
    while waiting := due(root := evaluate(graph, arguments, done)):
        for step in waiting:
            done[step.path] = Outcome(state=State.SUCCEEDED, outputs=outputs.get(step.path, {}))
    return root


def state_of(root: Instance, *path: str) -> tuple[State, str]:
    return next((each.state, each.message) for each in root.walk() if each.path == path)


def test_a_step_waits_for_what_it_names() -> None:
    graph = graph_of(
        {
            "train": {"job": job("$(prepare.data)", "$(rate)", "$(outputs.model)"), "outputs": {"model": "model"}},
            "prepare": {"job": job("$(outputs.data)"), "outputs": {"data": "dataset"}},
        },
        inputs={"rate": 0.5},
    )
    assert isinstance(graph.root.body, Dag)
    task = graph.root.body.tasks["train"]
    assert task.inputs == {"prepare.data": FromTask("prepare", "data"), "rate": FromInput("rate")}
    assert task.upstream == {"prepare"}
    component = graph.components["train"]
    assert isinstance(component.body, JobTemplate)
    assert component.body.job.roles[0].command == (
        "do",
        "{{$.inputs.artifacts['prepare.data'].path}}",
        "{{$.inputs.parameters['rate']}}",
        "{{$.outputs.artifacts['model'].path}}",
    )
    assert component.outputs["model"] == ArtifactDefinition(type="system.Model")


def test_a_loop_gives_lists_and_knows_parts_of_its_items() -> None:
    graph = graph_of(
        {
            "each": {
                "each": [{"a": 1}, {"a": 2}],
                "parallelism": 1,
                "job": job("$(item.a)", "$(outputs.x)"),
                "outputs": {"x": "integer"},
            },
            "all": {"job": job("$(each.x)")},
        }
    )
    root = run(graph, {("each", "0", "each"): {"x": 10}, ("each", "1", "each"): {"x": 20}})
    inputs = {each.path: each.inputs for each in root.walk()}
    assert inputs["each", "1", "each"] == {"item.a": "2"}
    assert inputs[("all",)] == {"each.x": [10, 20]}


def test_a_group_takes_what_is_around_it_and_gives_what_it_says() -> None:
    inner = {
        "inner": {"job": job("$(first.n)", "$(word)", "$(item)"), "outputs": {"y": "string"}},
        "last": {"job": job("$(inner.y)")},
    }
    graph = graph_of(
        {
            "first": {"job": job("$(outputs.n)"), "outputs": {"n": "integer"}},
            "group": {"each": "$(words)", "steps": inner, "outputs": {"y": "$(inner.y)"}},
            "after": {"job": job("$(group.y)")},
        },
        inputs={"word": "w", "words": ["p", "q"]},
    )
    gives = {("first",): {"n": 3}, ("group", "0", "inner"): {"y": "a"}, ("group", "1", "inner"): {"y": "b"}}
    root = run(graph, gives)
    inputs = {each.path: each.inputs for each in root.walk()}
    assert inputs["group", "1", "inner"] == {"first.n": 3, "word": "w", "item": "q"}
    assert inputs[("after",)] == {"group.y": ["a", "b"]}


def test_conditions_skip_and_a_run_is_stopped_with_a_reason() -> None:
    steps = {
        "look": {"job": job("$(outputs.n)"), "outputs": {"n": "integer"}},
        "go": {"when": "$(look.n) > 3", "job": job("x")},
        "no": {"when": "$(look.n) <= 3", "stop": "only $(look.n)"},
    }
    root = run(graph_of(steps), {("look",): {"n": 5}})
    assert (root.state, state_of(root, "no")[0]) == (State.SUCCEEDED, State.SKIPPED)
    root = run(graph_of(steps), {("look",): {"n": 2}})
    assert (root.state, root.message) == (State.FAILED, "no: only 2")
    assert state_of(root, "go")[0] is State.SKIPPED


def test_a_step_that_always_runs_is_told_how_others_ended() -> None:
    steps = {"work": {"job": job("x")}, "tell": {"always": True, "job": job("$(work.status)")}}
    graph = graph_of(steps)
    failed: dict[Path, Outcome] = {("work",): Outcome(state=State.FAILED, message="broken")}
    (step,) = due(evaluate(graph, {}, failed))
    assert (step.path, step.inputs["work.status"]["error"]["message"]) == (("tell",), "broken")


def test_a_model_is_looked_up_and_may_be_missing() -> None:
    graph = graph_of(
        {"known": {"model": "mnist@production"}, "use": {"job": job("$(known.metrics)", "$(known.exists)")}}
    )
    assert graph.components["known"].body == ModelLookup("model://mnist@production")
    root = run(graph, {("known",): {"exists": True, "metrics": {"a": 0.5}, "version": 3}})
    inputs = {each.path: each.inputs for each in root.walk()}
    assert inputs[("use",)] == {"known.metrics": {"a": 0.5}, "known.exists": True}


def test_a_whole_manifest_may_be_a_step() -> None:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "i", "command": ["train", "$(n)", "$(POD)"]}]}}
    manifest = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "t"},
        "spec": {"pytorchReplicaSpecs": {kind: {"replicas": 1, "template": template} for kind in ("Master", "Worker")}},
    }
    body = graph_of({"train": {"job": manifest}}, inputs={"n": 3}).components["train"].body
    assert isinstance(body, JobTemplate)
    assert [role.name for role in body.job.roles] == ["master", "worker"]
    command = ["train", "{{$.inputs.parameters['n']}}", "$(POD)"]
    assert list(body.job.roles[1].command) == command
    assert json.loads(body.job.roles[1].pod_template_json or "")["spec"]["containers"][0]["command"] == command


@pytest.mark.parametrize("other", [{"file": "a.yaml"}, {"stop": "why"}, {"steps": {}}, {"model": "m@production"}])
def test_a_step_is_one_thing(other: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        with_files(plain({"steps": {"a": {"job": job("true"), **other}}}), plain)
    assert "expected one of them" in str(refused.value)


def test_files_of_jobs_are_put_in_their_place_and_changed_like_any_job() -> None:
    document = plain({"steps": {"a": {"file": "a.yaml"}, "g": {"steps": {"b": {"file": "b.yaml"}}}}})
    whole = with_files(document, lambda name: plain({"metadata": {"name": name[0]}, "spec": job(name)}))
    changed = each_job(whole.data, lambda spec: replace(spec, code="sha256:1"))  # type: ignore[arg-type]
    assert changed["steps"]["a"]["job"]["spec"]["code"] == "sha256:1"
    assert changed["steps"]["g"]["steps"]["b"]["job"]["spec"]["code"] == "sha256:1"
    read_graph([plain(changed)])


def deep(levels: int) -> dict[str, Any]:
    steps: dict[str, Any] = {"a": {"job": job("x")}}
    for _ in range(levels):
        steps = {"a": {"steps": steps}}
    return steps


REFUSED = {
    "a name that nothing has": ({"a": {"job": job("$(rte)")}}, "unknown name 'rte'"),
    "an output that a step does not give": (
        {"a": {"job": job("$(b.y)")}, "b": {"job": job("$(outputs.x)"), "outputs": {"x": "string"}}},
        "unknown output of 'b' 'y'",
    ),
    "an own output that is not one": ({"a": {"job": job("$(outputs.y)")}}, "unknown output 'y'"),
    "a cycle": (
        {
            "a": {"job": job("$(b.x)", "$(outputs.x)"), "outputs": {"x": "string"}},
            "b": {"job": job("$(a.x)", "$(outputs.x)"), "outputs": {"x": "string"}},
        },
        "steps: a, b wait for each other; expected steps without a cycle",
    ),
    "a cycle in a group": (
        {"g": {"steps": {"a": {"after": ["a"], "job": job("x")}}}},
        "steps.g.steps: a waits for itself",
    ),
    "groups within groups": (deep(60), "the graphs are too deep; expected at most 50 levels"),
    "a type that is not one": ({"a": {"job": job("x"), "outputs": {"x": "strng"}}}, "'strng' is not known"),
    "nothing to do": ({"a": {"when": "1 == 1"}}, "the field is missing"),
    "a condition that is not one": ({"a": {"when": "1 = 1", "job": job("x")}}, "is not understood"),
    "a loop over a million items": ({"a": {"each": list(range(1_000_000)), "job": job("$(item)")}}, "1,000,000 items"),
    "a loop over what is not a list": ({"a": {"each": 3, "job": job("$(item)")}}, "expected a list"),
    "a step that is waited for and missing": ({"a": {"after": ["b"], "job": job("x")}}, "waits for 'b'"),
    "a field that is not one": ({"a": {"jobs": job("x")}}, "unknown field 'jobs'"),
    "an item without a loop": ({"a": {"job": job("$(item)")}}, "unknown name 'item'"),
    "a model that is not one": ({"a": {"model": "no such@@"}}, "is not a model"),
    "a wrong job": ({"a": {"job": {"comand": ["x"]}}}, "unknown field 'comand'"),
    "a name for a model that is none": (
        {"a": {"job": job("$(outputs.m)"), "outputs": {"m": {"register": "No Name"}}}},
        "register",
    ),
}


@pytest.mark.parametrize(("steps", "want_words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_is_refused_before_the_first_step(steps: dict[str, Any], want_words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        graph_of(steps)
    assert want_words in str(refused.value)


def test_a_refusal_names_the_line() -> None:
    (document,) = parse("name: p\nsteps:\n  a:\n    job:\n      command: [x, $(y)]\n", file="p.yaml")
    with pytest.raises(InvalidInputError) as refused:
        read_graph([document])
    assert str(refused.value).startswith("p.yaml:")
    assert "steps.a" in str(refused.value)


def test_what_a_stop_says_is_filled_in() -> None:
    graph = graph_of({"a": {"stop": "n is $(n)"}}, inputs={"n": 3})
    assert isinstance(graph.components["a"].body, Stop)
    assert evaluate(graph, {"n": 7}, {}).message == "a: n is 7"
    graph = graph_of({"a": {"stop": "the loss is $(loss)"}}, inputs={"loss": 1.0})
    assert evaluate(graph, {}, {}).message == "a: the loss is 1.0"


def test_an_artefact_may_be_an_argument() -> None:
    graph = graph_of({"a": {"job": job("$(data)")}}, inputs={"data": {"type": "dataset"}})
    (step,) = due(evaluate(graph, {"data": "s3://bucket/data.csv"}, {}))
    found = step.inputs["data"]
    assert isinstance(found, Artifact)
    assert (found.uri, found.type, found.name) == ("s3://bucket/data.csv", "system.Dataset", "data.csv")
