"""Compiled pipelines are read whole, and what cannot run is refused with its place in the file."""

from typing import Any

import pytest

from gangline.dialects import document
from gangline.dialects.document import plain
from gangline.dialects.kfp import read_pipeline
from gangline.errors import InvalidInputError
from gangline.model import Resources
from gangline.model.jobs.spec import MOST_SECONDS
from gangline.pipelines import Container, Dag, Graph, Importer, ParameterType, Task, evaluate
from gangline.pipelines.evaluation import due
from gangline.pipelines.graph import Constant, FromInput, FromTask, ParameterDefinition, Retries
from gangline.pipelines.placeholders import RunInfo
from gangline.pipelines.settings import settings_of
from tests.pipelines.compiled import compiled


def graph(name: str) -> Graph:
    return read_pipeline(document.parse(compiled()[name].read_text(), file=f"{name}.yaml"))


def root_task(of: Graph, name: str) -> Task:
    assert isinstance(of.root.body, Dag)
    return of.root.body.tasks[name]


def test_every_feature_of_the_language_is_read() -> None:
    assert len(compiled()) >= 16
    for name in compiled():
        assert graph(name).name == name


def test_whole_numbers_stay_whole() -> None:
    inputs = graph("values").components["comp-values"].inputs
    assert inputs["i"] == ParameterDefinition(type=ParameterType.INTEGER, default=3, optional=True)
    assert repr(inputs["d"].default) == "{'in': {'x': [1]}, 'n': 3}"  # type: ignore[union-attr]
    assert repr(inputs["xs"].default) == "[1, 'two', 2.5]"  # type: ignore[union-attr]


def test_a_loop_has_its_items_and_its_limit() -> None:
    found = graph("loops").root.body
    assert isinstance(found, Dag)
    limits = sorted(
        (task.loop.parallelism or 0, task.loop.items)
        for task in found.tasks.values()
        if task.loop and not isinstance(task.loop.items, str)
    )
    assert limits == [(1, ({"a": 1}, {"a": 2}))]


def test_an_item_is_selected_by_its_key() -> None:
    sources = [
        source
        for component in graph("loops").components.values()
        if isinstance(component.body, Dag)
        for task in component.body.tasks.values()
        for source in task.inputs.values()
    ]
    assert {source.keys for source in sources if isinstance(source, FromInput)} == {(), ("a",), ("b",)}


def test_an_exit_handler_does_not_forgive_and_a_task_that_ignores_failures_does() -> None:
    handler = root_task(graph("exit-handler"), "note-end")
    assert (handler.always, handler.forgives) == (True, False)
    ignoring = root_task(graph("ignored-failure"), "defaulted")
    assert (ignoring.always, ignoring.forgives) == (True, True)
    assert ignoring.inputs == {"text": FromTask("maybe", "Output")}


def test_retries_and_caching_are_read() -> None:
    task = root_task(graph("retries"), "fail-first")
    assert (task.retries.most, task.retries.backoff_seconds, task.cache) == (3, 0.0, True)
    assert not root_task(graph("resources"), "echo").cache


RETRY_POLICIES: dict[str, tuple[dict[str, Any], Retries]] = {
    "nothing but a count": ({"maxRetryCount": 2}, Retries(most=2)),
    "as the compiler writes it": (
        {"maxRetryCount": 3, "backoffDuration": "30s", "backoffFactor": 1.5, "backoffMaxDuration": "600s"},
        Retries(most=3, backoff_seconds=30, backoff_factor=1.5, within_seconds=600),
    ),
    "zeros are what was not said": (
        {"maxRetryCount": 1, "backoffDuration": "0s", "backoffFactor": 0, "backoffMaxDuration": "0s"},
        Retries(most=1),
    ),
    "longer than any calendar": ({"backoffMaxDuration": "99999999999s"}, Retries(within_seconds=MOST_SECONDS)),
}


@pytest.mark.parametrize(("policy", "want"), RETRY_POLICIES.values(), ids=RETRY_POLICIES)
def test_a_retry_policy_is_read(policy: dict[str, Any], want: Retries) -> None:
    document = one_step()
    document["root"]["dag"]["tasks"]["step"]["retryPolicy"] = policy
    assert root_task(read_pipeline([plain(document)]), "step").retries == want


def test_retries_of_a_graph_are_noted_for_only_steps_have_them() -> None:
    document = one_step()
    document["components"]["inner"] = {"dag": document["root"]["dag"]}
    outer = {"componentRef": {"name": "inner"}, "retryPolicy": {"maxRetryCount": 2}}
    document["root"] = {"dag": {"tasks": {"whole": outer}}}
    assert read_pipeline([plain(document)]).notes == ("tasks.whole.retryPolicy (it is a graph)",)


@pytest.mark.parametrize("factor", [-1, 1e9, "twice", True])
def test_a_factor_that_no_pause_can_grow_by_is_refused(factor: object) -> None:
    document = one_step()
    document["root"]["dag"]["tasks"]["step"]["retryPolicy"] = {"backoffFactor": factor}
    with pytest.raises(InvalidInputError) as refused:
        read_pipeline([plain(document)])
    assert "backoffFactor" in str(refused.value)


def test_resources_and_importers_are_read() -> None:
    body = graph("resources").components["comp-echo"].body
    assert isinstance(body, Container)
    assert isinstance(body.resources, Resources)
    assert (body.resources.cpu_millis, body.resources.memory_mib) == (500, 128)
    assert isinstance(body.command[0], str)
    imported = graph("importer").components["comp-importer"].body
    assert imported == Importer(uri=FromInput("uri"), output="artifact", metadata={"rows": "5"})


def test_a_second_document_may_hold_settings_for_kubernetes_and_nothing_else() -> None:
    text = compiled()["order"].read_text()
    settings = "\n---\nplatforms: {kubernetes: {deploymentSpec: {executors: {exec-echo: {nodeSelector: {}}}}}}\n"
    assert read_pipeline(document.parse(text + settings)).name == "order"
    with pytest.raises(InvalidInputError, match="this document is not known"):
        read_pipeline(document.parse(text + "\n---\nkind: Job\n"))


DAMAGE = {
    "a missing component": ("name: comp-echo-2\n", "name: comp-ehco\n", "there is no component 'comp-ehco'"),
    "a missing executor": ("executorLabel: exec-echo\n", "executorLabel: exec-ehco\n", "unknown executor 'exec-ehco'"),
    "a cycle": ("- echo-2\n", "- echo\n", "echo waits for itself"),
    "an unknown placeholder": ("- '{{$}}'", "- '{{$.inputs.parameters[''txet'']}}'", "is not known"),
    "a wrong type": ("parameterType: STRING", "parameterType: STRUNG", "'STRUNG' is not known"),
    "a constant that does not fit": ("parameterType: STRING", "parameterType: NUMBER_INTEGER", "is not a whole number"),
    "another version": ("schemaVersion: 2.1.0", "schemaVersion: 9.0.0", "'9.0.0' is not known"),
}


@pytest.mark.parametrize(("found", "put", "want_words"), DAMAGE.values(), ids=DAMAGE)
def test_what_cannot_run_is_refused_with_its_place(found: str, put: str, want_words: str) -> None:
    text = compiled()["order"].read_text()
    assert found in text
    with pytest.raises(InvalidInputError) as refused:
        read_pipeline(document.parse(text.replace(found, put), file="order.yaml"))
    assert want_words in str(refused.value)
    assert str(refused.value).startswith("order.yaml:")
    assert refused.value.line


def test_a_constant_is_a_constant() -> None:
    assert root_task(graph("order"), "echo").inputs["text"] in (Constant("last"), Constant("first"))


AMOUNTS = {
    "as they are written now": (
        {"resourceCpuLimit": "2", "resourceMemoryRequest": "1Gi", "accelerator": {"resourceCount": "1"}},
        Resources(cpu_millis=2000, memory_mib=1024, gpu_millis=1000),
    ),
    "as older compilers wrote them": (
        {"cpuLimit": 0.5, "memoryLimit": 2.0, "accelerator": {"type": "NVIDIA_TESLA_K80", "count": 2}},
        Resources(cpu_millis=500, memory_mib=1908, gpu_millis=2000),
    ),
    "a device that is not a GPU": (
        {"accelerator": {"resourceType": "google.com/tpu", "resourceCount": "4"}},
        Resources(extended={"google.com/tpu": 4}),
    ),
}


@pytest.mark.parametrize(("amounts", "want"), AMOUNTS.values(), ids=AMOUNTS)
def test_amounts_are_read(amounts: dict[str, Any], want: Resources) -> None:
    body = read_pipeline([plain(one_step(resources=amounts))]).components["comp"].body
    assert isinstance(body, Container)
    assert body.resources == want


def test_what_means_nothing_here_is_noted() -> None:
    document = one_step(lifecycle={"preCacheCheck": {}}, resources={"disk": "1Gi"})
    assert read_pipeline([plain(document)]).notes == (
        "deploymentSpec.executors.exec.container.lifecycle",
        "deploymentSpec.executors.exec.container.resources.disk",
    )


def test_variables_may_name_inputs_and_the_run() -> None:
    variables = [{"name": "A", "value": "{{$.inputs.parameters['x']}}-{{$.pipeline_job_name}}"}]
    document = one_step(env=variables)
    task = document["root"]["dag"]["tasks"]["step"]
    task["inputs"] = {"parameters": {"x": {"runtimeValue": {"constant": 3.0}}}}
    (step,) = due(evaluate(read_pipeline([plain(document)]), {}, {}))
    assert isinstance(step.component.body, Container)
    assert settings_of(step.component.body, step.inputs, RunInfo(name="r"), "step").env == {"A": "3-r"}
    variables[0]["value"] = "{{$.nonsense}}"
    with pytest.raises(InvalidInputError, match="placeholder"):
        read_pipeline([plain(document)])


def one_step(**container: Any) -> dict[str, Any]:
    """Return a compiled pipeline of one step."""
    return {
        "pipelineInfo": {"name": "p"},
        "components": {"comp": {"executorLabel": "exec"}},
        "deploymentSpec": {"executors": {"exec": {"container": {"command": ["true"], **container}}}},
        "root": {"dag": {"tasks": {"step": {"componentRef": {"name": "comp"}}}}},
    }
