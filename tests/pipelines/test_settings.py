"""What inputs decide besides a command: image, amounts, settings of the pod, time; and what makes steps the same."""

import copy
import json
from typing import Any

import pytest

from gangline.kinds.kind import Owned, Plan
from gangline.kinds.pipeline import plan_pipeline, run_tree
from gangline.model import JobId, Phase, Resources, Timestamp
from gangline.model.kinds.pipeline import STEP_VARIABLE, PipelineRun, PipelineSpec, PipelineStatus
from gangline.model.record import RecordId
from gangline.pipelines.jobs import LAUNCHER, bounded_by
from gangline.testing.builders import make_job
from tests.dialects.kfp.test_platform import STEP, with_settings
from tests.pipelines.test_plan import ended

NOW = Timestamp(1000.0)
CHANNEL = "{{$.inputs.parameters['pipelinechannel--x']}}"


def run_of(
    container: dict[str, Any], *others: Any, component: dict[str, Any] | None = None, **task: Any
) -> PipelineRun:
    """Return a run of one step, which is given the pipeline's input ``x`` under the name that compilers choose."""
    pipeline = copy.deepcopy(STEP)
    pipeline["deploymentSpec"]["executors"]["exec-a"]["container"] |= container
    pipeline["components"]["comp-a"] |= component or {}
    given = {"pipelinechannel--x": {"componentInputParameter": "x"}}
    pipeline["root"]["dag"]["tasks"]["a"] |= {"inputs": {"parameters": given}, **task}
    pipeline["root"]["inputDefinitions"]["parameters"]["x"] = {"parameterType": "STRING", "defaultValue": "2"}
    spec = PipelineSpec(name="run", documents_json=json.dumps([pipeline, *others]))
    return PipelineRun(id=RecordId("r1"), spec=spec, status=PipelineStatus(), created_at=NOW)


def given(run: PipelineRun, x: str) -> PipelineRun:
    spec = PipelineSpec(name="run", documents_json=run.spec.documents_json, arguments_json=json.dumps({"x": x}))
    return PipelineRun(id=run.id, spec=spec, status=run.status, created_at=NOW)


def job_of(run: PipelineRun) -> Any:
    (new,) = plan_pipeline(run, Owned(), NOW).create
    return new.spec


def test_inputs_decide_image_and_amounts() -> None:
    amounts = {"resourceCpuLimit": CHANNEL, "resourceMemoryLimit": f"{CHANNEL}Gi", "accelerator": {"count": CHANNEL}}
    run = run_of({"image": f"repo:{CHANNEL}", "resources": amounts})
    job = job_of(run)
    assert job.image == "repo:2"
    assert job.roles[0].resources == Resources(cpu_millis=2000, memory_mib=2048, gpu_millis=2000)
    assert job_of(given(run, "0.5")).roles[0].resources.cpu_millis == 500


def test_an_amount_that_is_none_fails_its_step_and_starts_nothing() -> None:
    run = given(run_of({"resources": {"resourceCpuLimit": CHANNEL}}), "a lot")
    plan = plan_pipeline(run, Owned(), NOW)
    assert plan.create == ()
    assert "'a lot' is not an amount" in plan.status.failure


@pytest.mark.parametrize(
    ("x", "want_tolerations"),
    [
        ('{"key": "gpu"}', [{"key": "gpu"}, {"key": "own"}]),
        ('[{"key": "a"}, {"key": "b"}]', [{"key": "a"}, {"key": "b"}, {"key": "own"}]),
        ("{}", [{"key": "own"}]),
    ],
)
def test_inputs_decide_where_a_pod_may_run(x: str, want_tolerations: list[dict[str, str]]) -> None:
    later = {"componentInputParameter": "x"}
    settings = with_settings(
        tolerations=[{"tolerationJson": later}, {"key": "own"}], nodeSelector={"labels": {"a": "b"}}
    )
    pod = json.loads(job_of(given(run_of({}, settings[1]), x)).roles[0].pod_template_json)["spec"]
    assert pod == {"tolerations": want_tolerations, "nodeSelector": {"a": "b"}}
    constant = {"runtimeValue": {"constant": {"disk": "ssd"}}}
    chosen = with_settings(nodeSelector={"nodeSelectorJson": constant}, nodeAffinity=[{"nodeAffinityJson": later}])
    pod = json.loads(job_of(given(run_of({}, chosen[1]), '{"x": 1}')).roles[0].pod_template_json)["spec"]
    assert pod == {"nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": {"x": 1}}}


def test_a_setting_that_is_not_json_fails_its_step() -> None:
    settings = with_settings(tolerations=[{"tolerationJson": {"componentInputParameter": "x"}}])
    plan = plan_pipeline(given(run_of({}, settings[1]), "gpu"), Owned(), NOW)
    assert (plan.create, "'gpu' is not a mapping or a list in JSON" in plan.status.failure) == ((), True)


def test_a_program_is_told_of_its_settings_and_its_pod_keeps_those_that_it_shall() -> None:
    passed = [{"field": "RESOURCES"}, {"field": "ENV", "applyToTask": True}, {"field": "KUBERNETES_TOLERATIONS"}]
    config = {"parameters": {"config": {"parameterType": "TASK_CONFIG", "isOptional": True}}}
    component = {"taskConfigPassthroughs": passed, "inputDefinitions": config}
    container = {
        "command": ["do", "{{$}}"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {"resourceCpuLimit": "2"},
    }
    settings = with_settings(tolerations=[{"key": "gpu"}], nodeSelector={"labels": {"a": "b"}})
    job = job_of(run_of(container, settings[1], component=component))
    told = json.loads(job.roles[0].command[-1])["inputs"]["parameterValues"]["config"]
    amounts = {"cpu": "2000m"}
    assert told == {
        "resources": {"limits": amounts, "requests": amounts},
        "env": [{"name": "A", "value": "1"}],
        "tolerations": [{"key": "gpu"}],
    }
    assert (job.env["A"], job.roles[0].resources.cpu_millis) == ("1", 100)
    assert json.loads(job.roles[0].pod_template_json)["spec"] == {"nodeSelector": {"a": "b"}}


def test_a_key_of_the_author_makes_steps_the_same_whatever_they_run() -> None:
    same = {"cachingOptions": {"enableCache": True, "cacheKey": "mine"}}
    keys = [
        json.loads(job_of(run_of({"command": [word]}, **task)).env[STEP_VARIABLE])["key"]
        for word, task in (("do", same), ("other", same), ("do", {"cachingOptions": {"enableCache": True}}))
    ]
    assert (keys[0] == keys[1], keys[0] == keys[2]) == (True, False)


def test_a_step_is_told_when_its_run_was_made_and_was_due() -> None:
    words = ["{{$.pipeline_job_create_time_utc}}", "{{$.pipeline_job_schedule_time_utc}}"]
    assert job_of(run_of({"command": words})).roles[0].command[len(LAUNCHER) :] == ("1970-01-01T00:16:40Z",) * 2


def planned(run: PipelineRun, now: float, *jobs: Any) -> Plan[PipelineStatus]:
    return plan_pipeline(run, Owned(jobs=jobs), Timestamp(now))


def test_a_run_that_takes_too_long_is_ended_and_fails_for_that_reason() -> None:
    limit = {"platforms": {"kubernetes": {"pipelineConfig": {"activeDeadlineSeconds": 60}}}}
    run = run_of({}, limit)
    plan = planned(run, NOW)
    assert plan.again_at == NOW + 60
    job = make_job(job_id=JobId(plan.create[0].id), spec=plan.create[0].spec)
    run = PipelineRun(id=run.id, spec=run.spec, status=plan.status, created_at=NOW)
    assert (planned(run, NOW + 59, job).cancel, planned(run, NOW + 60, job).cancel) == ((), (job.id,))
    assert planned(run, NOW + 60, job).status.finished_at is None
    cancelled = ended(plan.create[0], Phase.CANCELLED)
    done = planned(run, NOW + 61, cancelled).status
    assert (done.failure, done.finished_at) == ("it took longer than 60 s", NOW + 61)
    again = PipelineStatus(given_up=(0,))
    assert planned(PipelineRun(id=run.id, spec=run.spec, status=again, created_at=NOW), NOW + 90).create != ()


def test_a_compiled_step_runs_with_what_the_only_machine_has_and_its_log_says_so() -> None:
    machine = Resources(cpu_millis=2000, memory_mib=4096)
    wishes = {"resourceCpuLimit": "1", "resourceMemoryLimit": "15Gi", "accelerator": {"count": 1}}
    job = bounded_by(job_of(run_of({"resources": wishes})), machine)
    assert job.roles[0].resources == Resources(cpu_millis=1000, memory_mib=4096)
    said = json.loads(job.env[STEP_VARIABLE])["lacking"]
    assert said.startswith("the step asks for 15360 MiB memory, 1 GPU, which this machine does not have")
    small = job_of(run_of({}))
    assert bounded_by(small, machine) is small


def test_a_list_without_artefacts_is_not_an_artefact() -> None:
    definitions = {"artifacts": {"data": {"artifactType": {"schemaTitle": "system.Dataset"}}}}
    run = run_of({}, component={"inputDefinitions": definitions}, inputs={"artifacts": {}})
    pipeline = json.loads(run.spec.documents_json)
    pipeline[0]["root"]["inputDefinitions"]["artifacts"] = {"many": {"isArtifactList": True, "artifactType": {}}}
    taken = {"data": {"componentInputArtifact": "many"}}
    pipeline[0]["root"]["dag"]["tasks"]["a"]["inputs"] = {"artifacts": taken}
    spec = PipelineSpec(name="run", documents_json=json.dumps(pipeline), arguments_json='{"many": []}')
    tree = run_tree(PipelineRun(id=run.id, spec=spec, status=PipelineStatus(), created_at=NOW))
    assert (tree.state, "should be an artefact" in tree.message) == ("failed", True)
