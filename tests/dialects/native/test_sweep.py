"""Sweep files: read, refused with their line, and written back."""

import json

import pytest

from gangline.dialects import document
from gangline.dialects.native import sweep_from_value, sweep_to_plain
from gangline.errors import InvalidInputError
from gangline.model.kinds.sweep import Budget, Goal, KnownTrial, Objective, SweepSpec
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Rule, Stopping

TEXT = """\
apiVersion: gangline.dev/v1
kind: Sweep
metadata: {name: grid, queue: research}
spec:
  parallelism: 2
  objective: {metric: loss, goal: minimize}
  parameters:
    layers: [1, 2, 3]
    rate: [0.10, 0.01]
  template:
    spec:
      framework: parameter-server
      roles:
        chief: {command: [python, train.py, "$(layers)", "$(rate)"]}
        worker: 2
"""


def read_sweep(text: str) -> SweepSpec:
    (value,) = document.parse(text)
    return sweep_from_value(value)


def test_a_sweep_is_read_with_its_values_as_they_are_written() -> None:
    spec = read_sweep(TEXT)
    assert (spec.name, spec.parallelism, spec.template.queue) == ("grid", 2, "research")
    assert spec.objective == Objective("loss", Goal.MINIMIZE)
    assert [(p.name, p.values) for p in spec.parameters] == [("layers", ("1", "2", "3")), ("rate", ("0.10", "0.01"))]


def test_what_is_written_reads_back_equal() -> None:
    spec = read_sweep(TEXT)
    assert sweep_from_value(document.plain(sweep_to_plain(spec))) == spec


def test_order_survives_a_keeper_that_sorts_names() -> None:
    spec = read_sweep(TEXT.replace("layers: [1, 2, 3]", "zeta: [1, 2, 3]"))
    kept = json.loads(json.dumps(sweep_to_plain(spec, ordered=True), sort_keys=True))
    assert sweep_from_value(document.plain(kept)) == spec


SPACE = """\
    layers: {type: int, min: 1, max: 3}
    rate: {min: 0.1, max: 0.5, step: 0.1}
    optimizer: {values: [adam, sgd]}
    momentum: {values: [0.5, 0.90], when: {optimizer: sgd}}
    seed: 7
"""


def test_ranges_conditions_and_constants_are_read_and_written_back() -> None:
    text = TEXT.replace("    layers: [1, 2, 3]\n    rate: [0.10, 0.01]\n", SPACE)
    spec = read_sweep(text)
    assert spec.parameters == (
        Parameter("layers", range=Range(low=1, high=3, whole=True)),
        Parameter("rate", range=Range(low=0.1, high=0.5, step=0.1)),
        Parameter("optimizer", ("adam", "sgd")),
        Parameter("momentum", ("0.5", "0.90"), when=(("optimizer", ("sgd",)),)),
        Parameter("seed", ("7",)),
    )
    for ordered in (False, True):
        kept = json.loads(json.dumps(sweep_to_plain(spec, ordered=ordered)))
        assert sweep_from_value(document.plain(kept)) == spec


@pytest.mark.parametrize(
    ("parameter", "want"),
    [
        pytest.param("{min: 2, max: 1}", r"8: spec.parameters.layers.min: the space is empty", id="empty"),
        pytest.param("{min: 1}", r"8: spec.parameters.layers.max: the field is missing", id="no end"),
        pytest.param("{type: whole, min: 1, max: 2}", r"layers.type: 'whole' is not known", id="type"),
        pytest.param("{values: [1], log: true}", r"layers.log: values and a range exclude each other", id="both"),
        pytest.param("{min: 1, max: 2}", r"layers: a grid cannot try every number of a range", id="grid"),
        pytest.param(
            "{values: [1], when: {rate: 0.1}}", r"layers.when.rate: 'rate' is not a parameter above", id="above"
        ),
        pytest.param("{min: few, max: 2}", r"layers.min: 'few'", id="not a number"),
    ],
)
def test_wrong_spaces_are_refused_with_their_line(parameter: str, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        read_sweep(TEXT.replace("[1, 2, 3]", parameter))


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param("parallelism: 2", "paralelism: 2", r"5: spec.paralelism.*'parallelism'", id="unknown field"),
        pytest.param("goal: minimize", "goal: least", r"6: spec.objective.goal.*one of", id="unknown goal"),
        pytest.param("[1, 2, 3]", "[]", r"8: spec.parameters.layers.*no values", id="no values"),
        pytest.param("worker: 2", "worker: {replicas: 0}", r"15: .*worker.replicas", id="a wrong template"),
        pytest.param("  template:", "  templates:", "spec.templates", id="no template"),
    ],
)
def test_wrong_sweeps_are_refused_with_their_line(old: str, new: str, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        read_sweep(TEXT.replace(old, new))


SEARCH = """\
  sampler: {name: tpe, n_startup_trials: 5}
  seed: 3
  budget: {trials: 20, time: 2h, gpu_hours: 1.5, failures: 4}
  stopping: {rule: asha, first: 2, last: 50}
  known:
    - {values: {layers: 1, rate: 0.01}, results: {loss: 0.5}}
"""


def test_a_search_is_read_and_written_back() -> None:
    spec = read_sweep(
        TEXT.replace("  parallelism: 2\n", SEARCH).replace("goal: minimize", "goal: minimize, target: 0.1")
    )
    assert (spec.sampler, spec.settings, spec.seed) == ("tpe", {"n_startup_trials": 5}, 3)
    assert spec.objective == Objective("loss", Goal.MINIMIZE, 0.1)
    assert spec.budget == Budget(trials=20, time_seconds=7200, gpu_hours=1.5, failures=4)
    assert spec.stopping == Stopping(rule=Rule.ASHA, first=2, last=50)
    assert spec.known == (KnownTrial(values={"layers": "1", "rate": "0.01"}, results={"loss": 0.5}),)
    for ordered in (False, True):
        kept = json.loads(json.dumps(sweep_to_plain(spec, ordered=ordered), sort_keys=ordered))
        assert sweep_from_value(document.plain(kept)) == spec


def test_a_sampler_that_is_installed_elsewhere_is_read() -> None:
    """Whoever lists the sweeps of a service need not have the packages that search for it."""
    spec = read_sweep(TEXT.replace("parallelism: 2", "sampler: theirs\n  budget: {trials: 3}"))
    assert spec.sampler == "theirs"
    assert sweep_from_value(document.plain(sweep_to_plain(spec))) == spec


def test_several_objectives_are_a_list() -> None:
    both = "objective: [{metric: loss, goal: minimize}, {metric: speed}]"
    spec = read_sweep(TEXT.replace("objective: {metric: loss, goal: minimize}", both))
    assert spec.objectives == (Objective("loss", Goal.MINIMIZE), Objective("speed"))
    assert sweep_from_value(document.plain(sweep_to_plain(spec))) == spec


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("sampler: random", "spec.budget: the sampler random never ends by itself", id="no budget"),
        pytest.param("budget: {trials: 0}", "spec.budget.trials: a budget of 0 tries nothing", id="no trials"),
        pytest.param("budget: {time: 0s}", "spec.budget.time: a budget of 0 tries nothing", id="no time"),
        pytest.param("budget: {gpu_hours: 0}", "spec.budget.gpu_hours: a budget of 0", id="no GPU hours"),
        pytest.param("budget: {failures: 0}", "spec.budget.failures: 0 is too small", id="no failures"),
        pytest.param("seed: 4294967296", "spec.seed: 4294967296 is not a seed", id="seed"),
        pytest.param("known: [{values: {layers: 9, rate: 0.01}, results: {loss: 1}}]", "'9' is outside", id="outside"),
        pytest.param("known: [{values: {layers: 1, rate: 0.01}, results: {}}]", "no number for 'loss'", id="no result"),
        pytest.param("stopping: {first: 1}", "spec.stopping.rule: the field is missing", id="no rule"),
        pytest.param("stopping: {rule: asha}", "5: spec.stopping.last: asha needs the steps", id="no last rung"),
        pytest.param("sampler: {name: tpe, why: [1]}", "sampler.why: found a list", id="setting"),
    ],
)
def test_wrong_searches_are_refused(line: str, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        read_sweep(TEXT.replace("parallelism: 2", line))


def test_a_metric_is_an_objective_once() -> None:
    with pytest.raises(InvalidInputError, match="a metric is named twice"):
        read_sweep(TEXT.replace("{metric: loss, goal: minimize}", "[{metric: loss}, {metric: loss}]"))
