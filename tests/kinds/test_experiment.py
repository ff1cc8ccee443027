"""The plan of an Experiment, step by step: trials begin, end, are judged, and are told in Katib's words."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from gangline.dialects import document
from gangline.dialects.katib.status import (
    experiment_to_status,
    suggestion_to_object,
    train_jobs_to_objects,
    trials_to_objects,
)
from gangline.dialects.trainer.runtimes import SHIPPED
from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds import Owned
from gangline.kinds.experiment import EXPERIMENT, check, plan_experiment, read_file, reopened, view_experiment
from gangline.kinds.train_job import CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME
from gangline.lifecycle import new_job
from gangline.model import Framework, Job, JobId, Metric, Phase, ReplicaId, RoleName, Timestamp
from gangline.model.kinds.experiment import COLLECTOR_VARIABLE, ExperimentProgress, ExperimentRecord, TrialState
from gangline.model.record import NoStatus, Record, RecordId
from tests.dialects.katib.experiments import DOCUMENT, changed

NOW = Timestamp(100.0)


class Stage:
    """An Experiment whose jobs do as the test says."""

    def __init__(self, made: dict[str, object]) -> None:
        spec = read_file(document.plain(made), {})
        self.record = ExperimentRecord(
            id=RecordId("s1"), spec=spec, status=ExperimentProgress(), created_at=Timestamp(1.0)
        )
        self.jobs: dict[str, Job] = {}
        self.reports: list[Metric] = []
        self.related: tuple[Record[Any, Any], ...] = ()

    @property
    def owned(self) -> Owned:
        return Owned(jobs=tuple(self.jobs.values()), history=tuple(self.reports), related=self.related)

    def turn(self) -> list[str]:
        """Carry out one plan; returns the ids of the jobs that it cancelled."""
        wanted = plan_experiment(self.record, self.owned, NOW)
        for job in wanted.create:
            self.jobs[job.id] = self._in(new_job(job.id, job.spec, NOW), Phase.PROCESSING)
        self.record = replace(self.record, status=wanted.status)
        return list(wanted.cancel)

    def end(self, number: int, *values: float, phase: Phase = Phase.COMPLETED) -> None:
        self.report(number, *values)
        job_id = JobId(f"s1-{number}")
        self.jobs[job_id] = self._in(self.jobs[job_id], phase)

    def report(self, number: int, *values: float, name: str = "loss") -> None:
        for value in values:
            at = Timestamp(NOW + len(self.reports))
            replica = ReplicaId(RoleName("worker"), 0)
            job_id = JobId(f"s1-{number}")
            self.reports.append(Metric(job_id=job_id, replica=replica, name=name, value=value, step=None, at=at))

    def _in(self, job: Job, phase: Phase) -> Job:
        finished = NOW if phase in (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED) else None
        entry = replace(job.history[-1], phase=phase, at=NOW)
        return replace(job, history=(*job.history, entry), finished_at=finished)

    @property
    def states(self) -> list[TrialState]:
        return [each.state for each in view_experiment(self.record, self.owned).trials]


def conditions(stage: Stage) -> dict[str, tuple[str, str]]:
    status = experiment_to_status(view_experiment(stage.record, stage.owned))
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def test_it_runs_its_trials_and_tells_the_best() -> None:
    stage = Stage(DOCUMENT)
    stage.turn()
    assert stage.states == [TrialState.RUNNING] * 2
    assert conditions(stage) == {"Created": ("True", "ExperimentCreated"), "Running": ("True", "ExperimentRunning")}
    stage.end(0, 0.9, 0.3, 0.5)
    stage.end(1, 0.4)
    stage.turn()
    stage.end(2, 0.8)
    stage.end(3, 0.7)
    stage.turn()
    view = view_experiment(stage.record, stage.owned)
    status = experiment_to_status(view)
    best = status["currentOptimalTrial"]
    assert best["bestTrialName"] == view.trials[0].name
    assert best["observation"]["metrics"] == [{"name": "loss", "latest": "0.5", "min": "0.3", "max": "0.9"}]
    assert (status["trials"], status["trialsSucceeded"], len(status["succeededTrialList"])) == (4, 4, 4)
    assert conditions(stage)["Succeeded"] == ("True", "ExperimentMaxTrialsReached")
    assert conditions(stage)["Running"][0] == "False"
    assert [each["status"]["conditions"][-1]["type"] for each in trials_to_objects(view)] == ["Succeeded"] * 4
    assert suggestion_to_object(view)["status"]["suggestionCount"] == 4


def test_asked_again_after_its_plan_was_carried_out_it_finds_nothing_to_do() -> None:
    stage = Stage(DOCUMENT)
    stage.turn()
    again = plan_experiment(stage.record, stage.owned, NOW)
    assert (again.create, again.cancel, again.status) == ((), (), stage.record.status)


def test_a_plan_that_was_lost_in_a_crash_is_made_again_as_it_was() -> None:
    stage = Stage(DOCUMENT)
    first, second = (plan_experiment(stage.record, stage.owned, NOW).create for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("values", "phase", "state", "said"),
    [
        ((), Phase.COMPLETED, TrialState.METRICS_UNAVAILABLE, "2 ended without a finite number for 'loss'"),
        ((float("nan"),), Phase.COMPLETED, TrialState.METRICS_UNAVAILABLE, "without a finite number"),
        ((0.1,), Phase.FAILED, TrialState.FAILED, "2 failed"),
    ],
    ids=["silent", "not a number", "failing"],
)
def test_too_many_trials_without_a_result_fail_it(
    values: Sequence[float], phase: Phase, state: TrialState, said: str
) -> None:
    stage = Stage(DOCUMENT)
    stage.turn()
    for number in (0, 1):
        stage.end(number, *values, phase=phase)
    stage.turn()
    assert stage.states == [state] * 2
    assert stage.record.status.state == "Failed"
    status = experiment_to_status(view_experiment(stage.record, stage.owned))
    assert said in status["conditions"][-1]["message"]
    assert status["conditions"][-1]["reason"] == "ExperimentFailed"


def test_one_that_used_its_trials_and_has_no_result_has_failed() -> None:
    stage = Stage(changed("spec.maxFailedTrialCount", None))
    stage.turn()
    stage.end(0, phase=Phase.FAILED)
    stage.end(1, phase=Phase.FAILED)
    stage.turn()
    stage.end(2, phase=Phase.FAILED)
    stage.end(3, phase=Phase.FAILED)
    stage.turn()
    assert stage.record.status.state == "Failed"
    assert stage.record.status.search.end is not None
    assert stage.record.status.search.end.message == "none of its 4 trials has a result"


def test_the_goal_ends_it_and_cancels_what_still_runs() -> None:
    stage = Stage(changed("spec.objective.goal", 0.5))
    stage.turn()
    stage.end(0, 0.4)
    assert stage.turn() == ["s1-1"]
    stage.end(1, phase=Phase.CANCELLED)
    stage.turn()
    assert conditions(stage)["Succeeded"] == ("True", "ExperimentGoalReached")
    assert stage.states == [TrialState.SUCCEEDED, TrialState.KILLED]


def test_a_trial_worse_than_the_median_of_the_first_steps_is_stopped() -> None:
    rule = {
        "algorithmName": "medianstop",
        "algorithmSettings": [{"name": "min_trials_required", "value": "2"}, {"name": "start_step", "value": "2"}],
    }
    made = changed("spec.earlyStopping", rule)
    stage = Stage(made)
    stage.turn()
    stage.end(0, 0.2, 0.4, 0.1)
    stage.end(1, 0.4, 0.6)
    stage.turn()
    stage.report(2, 0.9)
    stage.report(3, 0.9, 0.39)
    assert stage.turn() == [], "one is not at the step yet, the other is better than the median of 0.4"
    stage.report(2, 0.8)
    assert stage.turn() == ["s1-2"]
    stage.end(2, phase=Phase.CANCELLED)
    stage.turn()
    assert stage.states[2] is TrialState.EARLY_STOPPED


def test_more_trials_let_it_go_on_if_its_policy_does() -> None:
    made = changed("spec.resumePolicy", "LongRunning")
    made["spec"]["maxTrialCount"] = 2
    stage = Stage(made)
    stage.turn()
    stage.end(0, 0.4)
    stage.end(1, 0.5)
    stage.turn()
    assert stage.record.settled
    assert reopened(stage.record) == stage.record
    made["spec"]["maxTrialCount"] = 3
    stage.record = reopened(replace(stage.record, spec=read_file(document.plain(made), {})))
    assert stage.record.status.state == "Restarting"
    stage.turn()
    assert "Restarting" in conditions(stage)
    stage.end(2, 0.3)
    stage.turn()
    assert (stage.record.status.state, len(stage.states)) == ("Succeeded", 3)


async def test_only_the_budget_may_be_changed_and_not_of_one_that_never_resumes() -> None:
    stage = Stage(DOCUMENT)

    async def edit(made: dict[str, object]) -> None:
        after = replace(stage.record, spec=read_file(document.plain(made), {}))
        await check(stage.record, after, None)  # type: ignore[arg-type]  # nobody reads

    await edit(changed("spec.maxTrialCount", 9))
    with pytest.raises(InvalidInputError, match=r"spec\.objective: it cannot be changed"):
        await edit(changed("spec.objective.goal", 1))
    stage.turn()
    with pytest.raises(InvalidInputError, match="2 trials have begun already"):
        await edit(changed("spec.maxTrialCount", 2))
    for number in range(4):
        stage.turn()
        stage.end(number, 0.1)
    stage.turn()
    assert stage.record.settled
    with pytest.raises(ConflictError, match=r"spec\.resumePolicy is LongRunning or FromVolume"):
        await edit(changed("spec.maxTrialCount", 9))


def test_a_template_that_is_found_in_a_config_map_is_kept() -> None:
    made = changed("spec.trialTemplate.trialSpec", None)
    source = {"configMapName": "templates", "configMapNamespace": "kubeflow", "templatePath": "small"}
    made["spec"]["trialTemplate"]["configMap"] = source
    stage = Stage(made)
    assert EXPERIMENT.config_maps(stage.record.spec) == (("kubeflow", "templates"),)
    text = document.compact_json(DOCUMENT["spec"]["trialTemplate"]["trialSpec"])
    found = Owned(config_maps={("kubeflow", "templates"): {"small": text}})
    wanted = plan_experiment(stage.record, found, NOW)
    assert len(wanted.create) == 2
    assert wanted.status.template_json == text
    lost = plan_experiment(stage.record, Owned(), NOW)
    assert lost.status.state == "Failed"
    bare = document.compact_json({"apiVersion": "batch/v1", "kind": "Job", "spec": {}})
    unfit = plan_experiment(stage.record, Owned(config_maps={("kubeflow", "templates"): {"small": bare}}), NOW)
    assert (unfit.status.state, unfit.create) == ("Failed", ())
    ended = replace(stage.record, status=unfit.status)
    assert unfit.status.search.end is not None
    assert "trial" in unfit.status.search.end.message
    assert EXPERIMENT.view(ended, Owned()) is not None, "it can be shown still"


def train_job_template(**trainer: object) -> dict[str, Any]:
    made = changed("spec.trialTemplate.primaryContainerName", "node")
    made["spec"]["trialTemplate"]["trialSpec"] = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "spec": {
            "runtimeRef": {"name": "jax-distributed"},
            "trainer": {"numNodes": 2, "command": ["train", "--rate=${trialParameters.rate}"], **trainer},
        },
    }
    return made


def runtimes() -> tuple[Record[Any, Any], ...]:
    spec = next(each for each in SHIPPED if each.name == "jax-distributed")
    return (Record(id=RecordId("r1"), spec=spec, status=NoStatus(), created_at=NOW),)


def test_a_trial_that_is_a_train_job_is_a_gang_of_its_runtime_and_keeps_the_runtime_it_began_with() -> None:
    stage = Stage(train_job_template())
    assert EXPERIMENT.related(stage.record.spec) == (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME)
    wanted = plan_experiment(stage.record, Owned(related=runtimes()), NOW)
    job = wanted.create[0].spec
    (role,) = job.roles
    assert (job.framework, role.name, role.replicas) == (Framework.JAX, "node", 2)
    assert role.command is not None
    assert role.command[0] == "train"
    assert role.env["KATIB_TRIAL_NAME"] == job.name
    assert COLLECTOR_VARIABLE in role.env
    kept = replace(stage.record, status=wanted.status)
    assert plan_experiment(kept, Owned(), NOW).status.search.end is None


def test_a_train_job_is_shown_under_the_name_of_its_trial_with_its_end() -> None:
    stage = Stage(train_job_template())
    stage.related = runtimes()
    stage.turn()
    stage.end(0, 0.5)
    stage.turn()
    view = view_experiment(stage.record, stage.owned)
    objects = train_jobs_to_objects(view, stage.record.status.template_json)
    assert [each["metadata"]["name"] for each in objects] == [
        each["metadata"]["name"] for each in trials_to_objects(view)
    ]
    ended, running, *_ = objects
    assert [each["type"] for each in ended["status"]["conditions"]] == ["Complete"]
    assert running["status"]["conditions"] == []
    assert running["status"]["jobsStatus"][0]["ready"] == 1
    assert ended["spec"]["trainer"]["command"][1] != "--rate=${trialParameters.rate}"
    assert "runtime" not in trials_to_objects(view)[0]["spec"]["runSpec"]


def test_a_search_without_the_runtime_of_its_trials_fails_and_says_so() -> None:
    end = plan_experiment(Stage(train_job_template()).record, Owned(), NOW).status.search.end
    assert end is not None
    assert end.message == "there is no ClusterTrainingRuntime 'jax-distributed'"


@pytest.mark.parametrize(
    ("change", "want_field"),
    [
        ({"numNodes": 0}, "trialSpec.spec.trainer.numNodes"),
        ({"nodes": 2}, "trialSpec.spec.trainer"),
    ],
    ids=["no nodes", "an unknown field"],
)
def test_what_is_wrong_with_a_train_job_is_refused_where_it_stands(change: dict[str, object], want_field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Stage(train_job_template(**change))
    assert want_field in str(caught.value)


def test_a_template_brings_no_runtime_of_its_own() -> None:
    made = train_job_template()
    made["spec"]["trialTemplate"]["trialSpec"]["runtime"] = {}
    with pytest.raises(InvalidInputError, match="runtime"):
        Stage(made)
