"""The parts of an Experiment: its space, its conditions, and the jobs that its trials become."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gangline.dialects.katib import Verdict, stand_in, trial_name, trial_to_job, verdict_of
from gangline.dialects.katib.conditions import PathError, holds, parse
from gangline.dialects.katib.space import Dimension, Distribution, ParameterType, assigned
from gangline.dialects.katib.trial import values_of
from gangline.model import Phase
from gangline.model.kinds.experiment import COLLECTOR_VARIABLE
from gangline.testing.builders import make_job
from tests.dialects.katib.experiments import make_experiment

STATUS: dict[str, Any] = {
    "status": {
        "conditions": [
            {"type": "Created", "status": "True"},
            {"type": "Complete", "status": "False"},
            {"type": "Failed", "status": "True", "count": 3},
        ],
        "succeeded": 2,
        "phase": "COMPLETED",
    }
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ('status.conditions.#(type=="Complete")#|#(status=="True")#', False),
        ('status.conditions.#(type=="Failed")#|#(status=="True")#', True),
        ('status.conditions.#(type=="Failed")', True),
        ('status.conditions.#(type=="Nothing")', False),
        ("status.conditions.#(count>2)", True),
        ("status.conditions.#(count>3)", False),
        ('status.conditions.#(type!="Created")#', True),
        ("status.conditions.#", True),
        ("status.conditions.#.count", True),
        ("status.conditions.2.count", True),
        ("status.conditions.9.count", False),
        ("status.succeeded", True),
        ("status.nothing", False),
    ],
)
def test_a_condition_holds_if_its_path_finds_something(path: str, want: bool) -> None:
    assert holds(path, STATUS) is want


@pytest.mark.parametrize("path", ["", "#(", "a..b", 'a.#(b%"c*")', "a|"])
def test_what_is_not_a_path_is_refused(path: str) -> None:
    with pytest.raises(PathError):
        parse(path)


@pytest.mark.parametrize(
    ("distribution", "type_", "step", "shares"),
    [
        (Distribution.NORMAL, ParameterType.DOUBLE, None, {0.0: 1.0, 0.5: 50.5, 1.0: 100.0}),
        (Distribution.NORMAL, ParameterType.INT, None, {0.5: 50.0, 1.0: 100.0}),
        (Distribution.LOG_NORMAL, ParameterType.DOUBLE, None, {0.5: 10.0}),
        (Distribution.LOG_UNIFORM, ParameterType.DOUBLE, 1.0, {0.0: 1.0, 0.5: 10.0, 1.0: 100.0}),
    ],
)
def test_a_share_of_a_distribution_becomes_a_value(
    distribution: Distribution, type_: ParameterType, step: float | None, shares: dict[float, float]
) -> None:
    one = Dimension(name="x", type=type_, low=1.0, high=100.0, step=step, distribution=distribution)
    found = one.parameter(0).range
    assert found is not None
    assert (found.low, found.high) == (0.0, 1.0)
    for share, want in shares.items():
        assert float(assigned((one,), {"p0": str(share)})["x"]) == pytest.approx(want, rel=1e-6)


def test_what_a_sweep_can_search_it_searches_as_it_is() -> None:
    one = Dimension(name="--lr", type=ParameterType.INT, low=1, high=9, step=2)
    assert one.parameter(3).name == "p3"
    assert one.parameter(3).listed() == ("1", "3", "5", "7", "9")
    assert assigned((one,), {"p0": "3"}) == {"--lr": "3"}


def test_a_trial_is_a_job_with_its_values_and_its_name() -> None:
    experiment = make_experiment()
    name = trial_name("mnist", "s1", 0)
    job = trial_to_job(experiment, {"p0": "0.5"}, number=0, name=name, env={"PATH": "/bin"}).spec
    (role,) = job.roles
    assert (job.name, role.command) == (name, ("train", "--rate=0.5"))
    assert job.labels["katib.kubeflow.org/experiment"] == "mnist"
    assert (role.env["KATIB_TRIAL_NAME"], role.env["PATH"]) == (name, "/bin")
    assert json.loads(role.env[COLLECTOR_VARIABLE]) == {"kind": "StdOut", "metrics": ["loss"]}
    assert values_of(make_job(job)) == {"p0": "0.5"}
    names = [each["name"] for each in json.loads(role.pod_template_json or "{}")["spec"]["containers"]]
    assert names == ["main", "beside"], "engines take the first container for the one that trains"


def test_names_of_trials_are_their_own_in_every_namespace() -> None:
    names = {trial_name("mnist", record, number) for record in ("s1", "s2") for number in range(3)}
    assert len(names) == 6
    assert trial_name("mnist", "s1", 0) in names


def test_a_directory_that_is_read_is_a_volume_of_the_trial() -> None:
    source = {"fileSystemPath": {"path": "/katib/log", "kind": "File"}}
    experiment = make_experiment("spec.metricsCollectorSpec", {"collector": {"kind": "File"}, "source": source})
    template = json.loads(stand_in(experiment).spec.roles[0].pod_template_json or "{}")
    assert template["spec"]["volumes"] == [{"name": "katib-metrics", "emptyDir": {}}]
    mount = {"name": "katib-metrics", "mountPath": "/katib", "subPath": "katib"}
    assert template["spec"]["containers"][0]["volumeMounts"] == [mount]


def test_a_job_that_ended_without_either_condition_has_failed() -> None:
    experiment = make_experiment("spec.trialTemplate.successCondition", "status.nothing")
    running = make_job(stand_in(experiment).spec)
    done = replace(running, history=(*running.history, replace(running.history[-1], phase=Phase.COMPLETED)))
    assert verdict_of(experiment, running) is Verdict.ACTIVE
    assert verdict_of(experiment, done) is Verdict.FAILED
    assert verdict_of(make_experiment(), done) is Verdict.SUCCEEDED
