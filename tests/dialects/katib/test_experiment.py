"""Experiments are read in Katib's words, and what is wrong is refused with its path and what is allowed there."""

import pytest

from gangline.dialects import document
from gangline.dialects.document import compact_json
from gangline.dialects.katib import ResumePolicy, Strategy, experiment_of, read_experiment
from gangline.errors import InvalidInputError
from gangline.kinds.experiment import read_file, write_file
from tests.dialects.katib.experiments import DOCUMENT, changed, make_experiment

SPACE = "spec.parameters.0.feasibleSpace"
TEMPLATE = "spec.trialTemplate"
SOURCE = "spec.metricsCollectorSpec"


def test_what_is_not_said_is_what_katib_takes_for_granted() -> None:
    experiment = make_experiment("spec.parallelTrialCount", None)
    assert (experiment.parallel, experiment.resume, experiment.collector.kind) == (3, ResumePolicy.NEVER, "StdOut")
    assert experiment.objective.strategies == {"loss": Strategy.MIN}
    assert experiment.template.success == 'status.conditions.#(type=="Complete")#|#(status=="True")#'


@pytest.mark.parametrize(
    ("path", "value", "field", "said"),
    [
        ("metadata.name", "Mnist", "metadata.name", "lower-case letters"),
        ("metadata.name", "a" * 41, "metadata.name", "at most 40"),
        ("spec.maxTrialCount", 0, "spec.maxTrialCount", "0 is too small"),
        ("spec.parallelTrialCount", 0, "spec.parallelTrialCount", "0 is too small"),
        ("spec.parallelTrialCount", 9, "spec.parallelTrialCount", "at most maxTrialCount (4)"),
        ("spec.maxFailedTrialCount", 5, "spec.maxFailedTrialCount", "at most maxTrialCount (4)"),
        ("spec.resumePolicy", "Sometimes", "spec.resumePolicy", "one of Never, LongRunning, FromVolume"),
        ("spec.objective", None, "spec.objective", "must be specified"),
        ("spec.objective.type", "best", "spec.objective.type", "one of maximize, minimize"),
        ("spec.objective.objectiveMetricName", "", "spec.objective.objectiveMetricName", "it is empty"),
        ("spec.objective.additionalMetricNames", ["loss"], "spec.objective.additionalMetricNames", "already"),
        (
            "spec.objective.metricStrategies",
            [{"name": "loss", "value": "mean"}],
            "spec.objective.metricStrategies[0].value",
            "one of min, max, latest",
        ),
        ("spec.algorithm.algorithmName", "darts", "spec.algorithm.algorithmName", "not supported: it searches"),
        ("spec.algorithm.algorithmName", "enas", "spec.algorithm.algorithmName", "not supported: it searches"),
        ("spec.algorithm.algorithmName", "rndom", "spec.algorithm.algorithmName", "did you mean 'random'?"),
        (
            "spec.algorithm.algorithmSettings",
            [{"name": "speed", "value": "1"}],
            "spec.algorithm.algorithmSettings[0].name",
            "unknown setting 'speed' for algorithm random",
        ),
        (
            "spec.algorithm.algorithmSettings",
            [{"name": "random_state", "value": "x"}],
            "spec.algorithm.algorithmSettings[0].value",
            "'x' is not a number",
        ),
        ("spec.earlyStopping", {"algorithmName": "asha"}, "spec.earlyStopping.algorithmName", "one of medianstop"),
        ("spec.parameters", [], "spec.parameters", "the space is empty"),
        (f"{SPACE}.min", "2", "spec.parameters[0].feasibleSpace.min", "the space is empty: min is above max"),
        (f"{SPACE}.max", None, "spec.parameters[0].feasibleSpace.max", "must be specified"),
        (f"{SPACE}.list", ["1"], "spec.parameters[0].feasibleSpace.list", "not supported for parameterType double"),
        (f"{SPACE}.step", "-1", "spec.parameters[0].feasibleSpace.step", "a number above 0"),
        (f"{SPACE}.distribution", "zipf", "spec.parameters[0].feasibleSpace.distribution", "one of uniform"),
        ("spec.parameters.0.parameterType", "float", "spec.parameters[0].parameterType", "one of double, int"),
        ("spec.nasConfig", {}, "spec.nasConfig", "not supported"),
        (f"{TEMPLATE}.primaryContainerName", None, f"{TEMPLATE}.primaryContainerName", "must be specified"),
        (f"{TEMPLATE}.trialSpec", None, TEMPLATE, "there is no template"),
        (
            f"{TEMPLATE}.trialSpec.kind",
            "Workflow",
            f"{TEMPLATE}.trialSpec.kind",
            "a trial cannot be a Workflow of Argo",
        ),
        (f"{TEMPLATE}.trialSpec.metadata", {"name": "x"}, f"{TEMPLATE}.trialSpec.metadata.name", "its own"),
        (f"{TEMPLATE}.trialParameters.0.reference", "lr", f"{TEMPLATE}.trialParameters[0].reference", "not in spec"),
        (f"{TEMPLATE}.trialParameters.0.name", "lr", f"{TEMPLATE}.trialSpec", "${trialParameters.rate} is not in"),
        (f"{TEMPLATE}.successCondition", "#(", f"{TEMPLATE}.successCondition", "not a GJSON path"),
        (SOURCE, {"collector": {"kind": "Custom"}}, f"{SOURCE}.collector.kind", "not supported"),
        (
            SOURCE,
            {"source": {"filter": {"metricsFormat": ["loss"]}}},
            f"{SOURCE}.source.filter.metricsFormat[0]",
            "two groups are required",
        ),
        (
            SOURCE,
            {"collector": {"kind": "File"}, "source": {"fileSystemPath": {"path": "log"}}},
            f"{SOURCE}.source.fileSystemPath.path",
            "not an absolute path",
        ),
        ("spec.surprise", 1, "spec.surprise", "unknown field 'surprise'"),
    ],
)
def test_what_is_wrong_is_refused_in_the_words_of_the_field(path: str, value: object, field: str, said: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_experiment(document.plain(changed(path, value)))
    assert caught.value.field == field
    assert said in str(caught.value)


def test_hyperband_needs_a_resource_and_room_for_its_first_bracket() -> None:
    settings = [{"name": "r_l", "value": "9"}, {"name": "resource_name", "value": "epochs"}]
    algorithm = {"algorithmName": "hyperband", "algorithmSettings": settings}
    with pytest.raises(InvalidInputError, match="the resource 'epochs' is not a parameter"):
        make_experiment("spec.algorithm", algorithm)
    algorithm["algorithmSettings"] = [settings[0], {"name": "resource_name", "value": "rate"}]
    with pytest.raises(InvalidInputError, match="parallelTrialCount of 9 or more"):
        make_experiment("spec.algorithm", algorithm)


def test_a_grid_needs_steps() -> None:
    with pytest.raises(InvalidInputError, match="'rate' has no step"):
        make_experiment("spec.algorithm", {"algorithmName": "grid"})


def test_a_file_is_written_as_it_was_read() -> None:
    spec = read_file(document.plain(DOCUMENT), {})
    again = read_file(document.plain(write_file(spec)), {})
    assert again == spec
    assert write_file(spec)["spec"] == DOCUMENT["spec"]


def test_the_template_of_a_config_map_is_read_when_it_is_found() -> None:
    source = {"configMapName": "templates", "configMapNamespace": "kubeflow", "templatePath": "small.yaml"}
    made = changed(f"{TEMPLATE}.trialSpec", None)
    made["spec"]["trialTemplate"]["configMap"] = source
    assert experiment_of(compact_json(made)).template.spec_json is None
    found = experiment_of(compact_json(made), compact_json(DOCUMENT["spec"]["trialTemplate"]["trialSpec"]))
    assert found.template.spec_json is not None
    assert "Complete" in found.template.success
