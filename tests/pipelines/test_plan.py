"""What a run of a pipeline does next: jobs for steps that are due, their outcomes, and what a crash leaves behind."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gangline.kinds.kind import Owned
from gangline.kinds.pipeline import (
    PIPELINE,
    give_up_pipeline,
    graph_of,
    plan_pipeline,
    retry_pipeline,
    run_name,
    stop_pipeline,
)
from gangline.model import Job, JobId, NodeName, Phase, PhaseEntry, ReplicaId, ReplicaStatus, RoleName, Timestamp
from gangline.model.kinds.pipeline import (
    STEP_VARIABLE,
    PipelineRun,
    PipelineSpec,
    PipelineState,
    PipelineStatus,
    StepStatus,
)
from gangline.model.record import RecordId
from gangline.pipelines.caching import Earlier
from gangline.pipelines.jobs import LAUNCHER
from gangline.pipelines.plan import Surroundings, plan_run
from gangline.testing.builders import ONE_STEP, make_job, make_run

NOW = Timestamp(1000.0)
INTEGER = {"parameterType": "NUMBER_INTEGER"}
ADD = {
    "executorLabel": "exec-add",
    "inputDefinitions": {"parameters": {"n": INTEGER}},
    "outputDefinitions": {"parameters": {"out": INTEGER}},
}
TWO_STEPS = {
    "pipelineInfo": {"name": "two"},
    "schemaVersion": "2.1.0",
    "components": {"comp-add": ADD},
    "deploymentSpec": {
        "executors": {
            "exec-add": {
                "container": {
                    "image": "alpine",
                    "command": ["add", "{{$.inputs.parameters['n']}}", "{{$.outputs.parameters['out'].output_file}}"],
                }
            }
        }
    },
    "root": {
        "inputDefinitions": {"parameters": {"n": {**INTEGER, "defaultValue": 3.0}}},
        "dag": {
            "tasks": {
                "one": {
                    "componentRef": {"name": "comp-add"},
                    "inputs": {"parameters": {"n": {"componentInputParameter": "n"}}},
                    "retryPolicy": {"maxRetryCount": 2, "backoffDuration": "5s", "backoffFactor": 3.0},
                },
                "two": {
                    "componentRef": {"name": "comp-add"},
                    "inputs": {
                        "parameters": {
                            "n": {"taskOutputParameter": {"producerTask": "one", "outputParameterKey": "out"}}
                        }
                    },
                },
            }
        },
    },
}


def run_of(pipeline: dict[str, Any] = TWO_STEPS, **status: Any) -> PipelineRun:
    spec = PipelineSpec(name="mine", documents_json=json.dumps([pipeline]))
    return PipelineRun(id=RecordId("r1"), spec=spec, status=PipelineStatus(**status), created_at=NOW)


def ended(new: Any, phase: Phase = Phase.COMPLETED, result: str = "", message: str = "") -> Job:
    job = make_job(job_id=new.id, spec=new.spec)
    entry = PhaseEntry(phase=phase, at=NOW, reason="R", message=message)
    replica = ReplicaStatus(id=ReplicaId(RoleName("worker"), 0), node=NodeName("here"), result=result)
    return replace(job, history=(*job.history, entry), replicas=(replica,))


def planned(run: PipelineRun, *jobs: Job, others: tuple[PipelineRun, ...] = ()) -> tuple[PipelineRun, Any]:
    plan = plan_pipeline(run, Owned(jobs=jobs, others=others), NOW)
    return replace(run, status=plan.status), plan


def order_of(new: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(new.spec.env[STEP_VARIABLE])
    return found


def out(value: object) -> str:
    return json.dumps({"said": json.dumps({"parameterValues": {"out": value}})})


def test_a_step_is_a_job_with_its_command_filled_in() -> None:
    _, plan = planned(run_of())
    (new,) = plan.create
    assert (new.id, new.spec.name, new.spec.labels) == (JobId("r1-0"), "mine-0", {PIPELINE.label: "mine"})
    assert new.spec.roles[0].command[len(LAUNCHER) :] == ("add", "3", "{{RESULT_DIR}}/outputs/out")
    assert order_of(new)["parameters"] == {"out": "{{RESULT_DIR}}/outputs/out"}
    policy = new.spec.policy
    assert (policy.max_attempts, policy.backoff_seconds, policy.backoff_factor) == (3, 5.0, 3.0)
    assert (policy.retry_for_seconds, new.spec.image) == (3600.0, "alpine")


def test_a_double_is_one_for_programs_and_has_no_needless_point_in_commands() -> None:
    """kfp's launcher writes 3 for 3.0 in a command; its Python executor takes the number as the document has it."""
    double = {"parameters": {"n": {"parameterType": "NUMBER_DOUBLE"}}}
    container = {"image": "alpine", "command": ["x", "{{$.inputs.parameters['n']}}", "{{$}}"]}
    pipeline = {
        **TWO_STEPS,
        "components": {"comp-add": {**ADD, "inputDefinitions": double}},
        "deploymentSpec": {"executors": {"exec-add": {"container": container}}},
        "root": {**TWO_STEPS["root"], "inputDefinitions": {"parameters": {"n": {**double["parameters"]["n"]}}}},
    }
    for given in ("3", "3.0"):
        run = run_of(pipeline)
        _, plan = planned(replace(run, spec=replace(run.spec, arguments_json=f'{{"n": {given}}}')))
        word, document = plan.create[0].spec.roles[0].command[-2:]
        assert word == "3"
        assert '"parameterValues": {"n": 3.0}' in document


def test_an_output_reaches_the_next_step_and_the_run_ends() -> None:
    run, plan = planned(run_of())
    first = ended(plan.create[0], result=out("4"))
    run, plan = planned(run, first)
    assert plan.create[0].spec.roles[0].command[len(LAUNCHER) + 1] == "4"
    run, plan = planned(run, first, ended(plan.create[0], result=out(5)))
    assert (plan.create, run.status.state, run.settled) == ((), PipelineState.SUCCEEDED, True)
    assert [step.state for step in run.status.steps] == ["succeeded", "succeeded"]


def test_what_a_crash_left_is_found_and_not_made_twice() -> None:
    _, plan = planned(run_of())
    unfinished = make_job(job_id=plan.create[0].id, spec=plan.create[0].spec)
    again, second = planned(run_of(), unfinished)
    assert second.create == ()
    assert [(step.path, step.number) for step in again.status.steps] == [("one", 0)]
    assert planned(again, unfinished)[1].status == again.status


def test_a_failed_step_fails_the_run_with_its_reason() -> None:
    run, plan = planned(run_of())
    run, plan = planned(run, ended(plan.create[0], Phase.FAILED, message="no luck"))
    assert (run.status.state, run.status.failure, plan.create) == (PipelineState.FAILED, "one: no luck", ())


def test_an_output_of_the_wrong_type_fails_its_step() -> None:
    run, plan = planned(run_of())
    run, _ = planned(run, ended(plan.create[0], result=out("many")))
    assert run.status.failure == "one: the output 'out': \"many\" is not a whole number"


def test_an_output_that_was_never_written_fails_what_needs_it() -> None:
    run, plan = planned(run_of())
    run, _ = planned(run, ended(plan.create[0]))
    assert run.status.failure == "two: the input 'n' has no value"


def test_a_finished_step_counts_when_its_job_is_gone_and_an_unfinished_one_has_failed() -> None:
    run, plan = planned(run_of())
    done, after = planned(run, ended(plan.create[0], result=out(4)))
    assert [order_of(new)["path"] for new in after.create] == ["two"]
    gone, _ = planned(done)
    assert gone.status.failure == "two: its job was deleted before it had ended"


def test_stopping_cancels_what_runs_and_starts_nothing() -> None:
    run, plan = planned(run_of())
    running = make_job(job_id=plan.create[0].id, spec=plan.create[0].spec)
    run, plan = planned(stop_pipeline(run), running)
    assert (plan.cancel, plan.create, run.status.state) == ((running.id,), (), PipelineState.STOPPING)
    cancelled = replace(running, history=(*running.history, PhaseEntry(phase=Phase.CANCELLED, at=NOW, reason="R")))
    run, plan = planned(run, cancelled)
    assert (plan.create, run.status.state) == ((), PipelineState.STOPPED)


@pytest.mark.parametrize("finished", [True, False])
def test_a_finished_run_stays_as_it_is(finished: bool) -> None:
    run = run_of(finished_at=NOW if finished else None)
    assert stop_pipeline(run).status.stopped is not finished


def test_a_job_of_somebody_else_with_such_an_id_is_not_a_step() -> None:
    _, plan = planned(run_of(), make_job(job_id="r1-x"), make_job(job_id="r1-7"))
    assert [new.id for new in plan.create] == ["r1-0"]


NAMES = {
    "plain": ("two", "two-1"),
    "odd": ("My_Pipeline (v2)", "my-pipeline-v2-1"),
    "long": ("x" * 200, "x" * 45 + "-1"),
    "none": ("😀", "pipeline-1"),
}


@pytest.mark.parametrize(("name", "want_name"), NAMES.values(), ids=NAMES)
def test_a_run_is_named_after_its_pipeline(name: str, want_name: str) -> None:
    made = run_name(graph_of(json.dumps([{**TWO_STEPS, "pipelineInfo": {"name": name}}])), "1")
    assert made == want_name
    PipelineSpec(name=made, documents_json="[{}]")


def cached(pipeline: dict[str, Any] = TWO_STEPS) -> dict[str, Any]:
    """The same pipeline with caching switched on for every task, as the compiler does."""
    changed: dict[str, Any] = json.loads(json.dumps(pipeline))
    for task in changed["root"]["dag"]["tasks"].values():
        task["cachingOptions"] = {"enableCache": True}
    return changed


def finished_run(pipeline: dict[str, Any]) -> PipelineRun:
    run, plan = planned(run_of(pipeline))
    first = ended(plan.create[0], result=out(4))
    run, plan = planned(run, first)
    run, _ = planned(run, first, ended(plan.create[0], result=out(5)))
    assert run.status.state is PipelineState.SUCCEEDED
    return replace(run, id=RecordId("r0"), spec=replace(run.spec, name="before"))


def test_the_same_steps_are_reused_and_say_from_where() -> None:
    run, plan = planned(run_of(cached()), others=(finished_run(cached()),))
    assert (plan.create, run.status.state) == ((), PipelineState.SUCCEEDED)
    assert [(step.path, step.reused_from) for step in run.status.steps] == [
        ("one", "before/one"),
        ("two", "before/two"),
    ]
    assert [step.result for step in run.status.steps] == [
        '{"parameters": {"out": 4}, "artifacts": {}}',
        '{"parameters": {"out": 5}, "artifacts": {}}',
    ]


def test_a_step_whose_inputs_differ_runs_and_says_why() -> None:
    other = replace(run_of(cached()), spec=replace(run_of(cached()).spec, arguments_json='{"n": 9}'))
    run, plan = planned(other, others=(finished_run(cached()),))
    assert [order_of(new)["path"] for new in plan.create] == ["one"]
    assert order_of(plan.create[0])["reason"] == "its input 'n' differs from that of before/one"
    # What it makes is the same again: the second step need not run.
    run, plan = planned(run, ended(plan.create[0], result=out(4)), others=(finished_run(cached()),))
    assert (plan.create, run.status.steps[-1].reused_from) == ((), "before/two")


def changed_command(pipeline: dict[str, Any]) -> dict[str, Any]:
    pipeline["deploymentSpec"]["executors"]["exec-add"]["container"]["command"].append("-v")
    return pipeline


UNLIKE = {
    "another command": (changed_command(cached()), True, "no earlier step ran this code"),
    "a task that is not cached": (TWO_STEPS, True, "the pipeline says not to reuse this step"),
    "a run without a cache": (cached(), False, "the run reuses nothing"),
}


@pytest.mark.parametrize(("pipeline", "cache", "want_reason"), UNLIKE.values(), ids=UNLIKE)
def test_what_is_not_the_same_or_must_not_be_reused_runs(
    pipeline: dict[str, Any], cache: bool, want_reason: str
) -> None:
    run = run_of(pipeline)
    _, plan = planned(replace(run, spec=replace(run.spec, cache=cache)), others=(finished_run(cached()),))
    assert order_of(plan.create[0])["reason"] == want_reason


def test_what_failed_and_what_was_itself_reused_is_not_reused() -> None:
    before = finished_run(cached())
    failed = replace(
        before, status=replace(before.status, steps=tuple(replace(s, state="failed") for s in before.status.steps))
    )
    second = replace(
        before, status=replace(before.status, steps=tuple(replace(s, reused_from="x") for s in before.status.steps))
    )
    for other in (failed, second):
        assert len(planned(run_of(cached()), others=(other,))[1].create) == 1


def made_at(uri: str) -> str:
    return json.dumps({"parameters": {}, "artifacts": {"data": [{"uri": uri}]}})


def test_what_made_an_artefact_that_is_gone_is_not_reused() -> None:
    made = StepStatus(path="make", number=0, state="succeeded", result=made_at("/gone"), key="k")
    failed = StepStatus(path="use", number=1, state="failed", result='{"missing": "/gone"}')
    assert Earlier.of([run_of(steps=(made,))], NOW).find("k") is not None
    assert Earlier.of([run_of(steps=(made, failed))], NOW).find("k") is None
    assert Earlier.of([run_of(steps=(made,)), run_of(steps=(failed,))], NOW).find("k") is None
    assert Earlier.of([run_of(steps=(made,))], NOW, missing=["/gone"]).find("k") is None
    assert Earlier.of([run_of(steps=(made,)), run_of(missing=("/gone",))], NOW).find("k") is None


def test_a_step_that_missed_an_artefact_says_which() -> None:
    run, plan = planned(run_of())
    run, _ = planned(run, ended(plan.create[0], Phase.FAILED, result='{"missing": "/gone"}', message="it is gone"))
    (step,) = run.status.steps
    assert (step.state, step.message, step.result) == ("failed", "it is gone", '{"missing": "/gone"}')


def test_a_retry_makes_an_artefact_that_is_gone_again() -> None:
    steps = (
        StepStatus(path="make", number=0, state="succeeded", result=made_at("/gone")),
        StepStatus(path="other", number=1, state="succeeded", result=made_at("/there")),
        StepStatus(path="use", number=2, state="failed", result='{"missing": "/gone"}'),
    )
    again = retry_pipeline(run_of(steps=steps, failure="use failed", finished_at=Timestamp(5.0)))
    assert [step.path for step in again.status.steps] == ["other"]
    assert (again.status.given_up, again.status.missing) == ((0, 2), ("/gone",))


@pytest.mark.parametrize(
    "report",
    [
        "no JSON",
        "[]",
        '{"said": 3}',
        '{"said": "{\\"artifacts\\": {\\"data\\": 3}}"}',
        "gzip:AAAA",
        json.dumps({"said": json.dumps({"parameterValues": {"out": "\ud83d"}})}),
    ],
)
def test_a_report_that_cannot_be_read_fails_its_step(report: str) -> None:
    run, plan = planned(run_of())
    run, _ = planned(run, ended(plan.create[0], result=report))
    assert run.status.failure == "one: the report of its outputs cannot be read"


def test_a_retry_keeps_what_succeeded_and_gives_up_the_jobs_of_what_failed() -> None:
    document = {**ONE_STEP, "root": {"dag": {"tasks": {name: {"componentRef": {"name": "comp-a"}} for name in "ab"}}}}
    run = make_run(document=document)
    steps = (StepStatus(path="a", number=0, state="succeeded"), StepStatus(path="b", number=1, state="failed"))
    failed = replace(run, status=PipelineStatus(steps=steps, failure="b failed", finished_at=Timestamp(5.0)))
    again = retry_pipeline(failed)
    assert (again.status.state, again.status.given_up) == (PipelineState.RUNNING, (1,))
    assert retry_pipeline(again) == again
    old = make_job(job_id=f"{run.id}-1", env={STEP_VARIABLE: json.dumps({"path": "b"})})
    plan = plan_run(again, graph_of(run.spec.documents_json), [old], Surroundings(now=NOW))
    assert [(number, json.loads(job.env[STEP_VARIABLE])["path"]) for number, job in plan.start] == [(2, "b")]
    assert [(step.path, step.number) for step in plan.steps] == [("a", 0), ("b", 2)]
    done = replace(run, status=PipelineStatus(steps=steps[:1], finished_at=Timestamp(5.0)))
    assert retry_pipeline(done) == done


def test_what_this_version_refuses_ends_with_the_reason_and_can_be_deleted() -> None:
    run = run_of({"pipelineInfo": {}, "schemaVersion": "9"})
    job = make_job(job_id=run.job_id(0))
    plan = plan_pipeline(run, Owned(jobs=(job,)), NOW)
    assert plan.status.settled
    assert plan.status.failure.startswith("this version of Gangline cannot run it: this is neither a compiled pipeline")
    assert plan.cancel == (job.id,)
    assert (PIPELINE.claims(run.spec), PIPELINE.related(run.spec)) == ((), ())


@pytest.mark.parametrize(
    ("written", "want"),
    [
        pytest.param('{"k": "\\ud83d"}', "'\\ud83d' is half a character and cannot be given to a program", id="half"),
        pytest.param("a\0b", "a text with a NUL character cannot be given to a program", id="NUL"),
    ],
)
def test_what_no_program_can_be_given_fails_the_step_that_takes_it_and_not_the_plan(written: str, want: str) -> None:
    kind = {"parameterType": "STRUCT" if written.startswith("{") else "STRING"}
    outputs = {"outputDefinitions": {"parameters": {"out": kind}}}
    executors = {name: {"container": {"image": "i", "command": [name]}} for name in ("make", "take")}
    executors["take"]["container"]["command"] = ["take", "{{$.inputs.parameters['x']}}"]
    taken = {"taskOutputParameter": {"producerTask": "make", "outputParameterKey": "out"}}
    document = {
        "pipelineInfo": {"name": "odd"},
        "components": {
            "make": {"executorLabel": "make", **outputs},
            "take": {"executorLabel": "take", "inputDefinitions": {"parameters": {"x": kind}}},
        },
        "deploymentSpec": {"executors": executors},
        "root": {
            "dag": {
                "tasks": {
                    "make": {"componentRef": {"name": "make"}},
                    "take": {"componentRef": {"name": "take"}, "inputs": {"parameters": {"x": taken}}},
                }
            }
        },
    }
    run, plan = planned(run_of(document))
    made = ended(plan.create[0], result=json.dumps({"parameter:out": written}))
    run, plan = planned(run, made)
    assert plan.create == ()
    run, plan = planned(run, made)
    assert (run.status.failure, run.status.settled) == (f"take: {want}", True)
    assert [(step.path, step.state) for step in run.status.steps] == [("make", "succeeded"), ("take", "failed")]


def test_a_run_too_large_to_be_kept_has_failed_and_keeps_what_had_ended() -> None:
    done = StepStatus(path="first", number=0, state="succeeded", result=out("x"))
    runs = StepStatus(path="second", number=1, state="running")
    status = give_up_pipeline(PipelineStatus(steps=(done, runs)), Timestamp(9.0))
    assert status.state is PipelineState.FAILED
    assert "make large values artefacts" in status.failure
    assert (status.steps, status.given_up, status.finished_at) == ((done,), (1,), 9.0)
