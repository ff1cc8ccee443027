"""Steps as jobs: artefacts fetched and stored, models looked up and registered, gangs, and ages of what is reused."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gangline.dialects.document import compact_json, plain
from gangline.errors import InvalidInputError
from gangline.kinds.kind import Owned
from gangline.kinds.pipeline import PIPELINE, plan_pipeline
from gangline.kinds.schedule import SCHEDULE
from gangline.kinds.template import TEMPLATE_VERSION
from gangline.model import DataMove, Job, Phase, PhaseEntry, ReplicaId, ReplicaStatus, RoleName, Timestamp
from gangline.model.kinds.pipeline import STEP_VARIABLE, PipelineRun, PipelineSpec, PipelineStatus
from gangline.model.kinds.registered_model import Model, ModelSpec, ModelStatus, ModelVersion
from gangline.model.kinds.schedule import ScheduleSpec
from gangline.model.kinds.template import TemplateVersionSpec
from gangline.model.node import NodeName
from gangline.model.record import RecordId
from gangline.pipelines.jobs import LAUNCHER
from gangline.testing.builders import ONE_STEP, make_job

NOW = Timestamp(1000.0)


def run_of(steps: dict[str, Any], name: str = "mine", **fields: Any) -> PipelineRun:
    spec = PipelineSpec(name=name, documents_json=json.dumps([{"name": "p", "steps": steps}]), **fields)
    return PipelineRun(id=RecordId(f"r-{name}"), spec=spec, status=PipelineStatus(), created_at=NOW)


def planned(run: PipelineRun, *jobs: Job, now: Timestamp = NOW, **owned: Any) -> tuple[PipelineRun, Any]:
    plan = plan_pipeline(run, Owned(jobs=jobs, **owned), now)
    return replace(run, status=plan.status), plan


def ended(new: Any, **files: str) -> Job:
    job = make_job(job_id=new.id, spec=new.spec)
    entry = PhaseEntry(phase=Phase.COMPLETED, at=NOW, reason="R")
    report = json.dumps({"results": "/r", **files})
    lead = ReplicaStatus(id=ReplicaId(RoleName("worker"), 0), node=NodeName("here"), result=report)
    return replace(job, history=(*job.history, entry), replicas=(lead,))


MAKE = {"job": {"command": ["make", "$(outputs.data)"]}, "outputs": {"data": "dataset"}}
TAKE = {"job": {"command": ["take", "$(make.data)"]}}
STORED = {"digest:/r/outputs/data/data": "d1"}


def test_artefacts_go_to_the_root_and_are_fetched_from_there() -> None:
    run, plan = planned(run_of({"make": MAKE, "take": TAKE}, root="s3://lake/runs/"))
    (first,) = plan.create
    assert first.spec.outputs == (DataMove("$RESULT_DIR/outputs", "s3://lake/runs/mine/0/"),)
    run, plan = planned(run, ended(first, **STORED))
    (second,) = plan.create
    assert second.spec.inputs == (DataMove("s3://lake/runs/mine/0/data", "$DATA_DIR/inputs/0"),)
    assert second.spec.roles[0].command == (*LAUNCHER, "take", "{{DATA_DIR}}/inputs/0/data")


def test_without_a_root_artefacts_stay_where_they_are_and_are_looked_for() -> None:
    run, plan = planned(run_of({"make": MAKE, "take": TAKE}))
    assert plan.create[0].spec.outputs == ()
    _, plan = planned(run, ended(plan.create[0], **STORED))
    (second,) = plan.create
    assert (second.spec.inputs, second.spec.roles[0].command[-1]) == ((), "/r/outputs/data/data")
    assert json.loads(second.spec.env[STEP_VARIABLE])["needs"] == {"/r/outputs/data/data": "make.data"}


def test_a_root_must_be_an_address_of_a_store() -> None:
    with pytest.raises(InvalidInputError, match="artefacts cannot be stored at '/tmp'"):
        run_of({"make": MAKE}, root="/tmp")  # refused


def test_what_is_imported_is_fetched_as_it_is() -> None:
    take = {"job": {"command": ["take", "$(data)"]}}
    document = {"name": "p", "inputs": {"data": {"type": "dataset"}}, "steps": {"take": take}}
    spec = PipelineSpec(
        name="mine", documents_json=json.dumps([document]), arguments_json='{"data": "https://example.org/a.csv"}'
    )
    run = PipelineRun(id=RecordId("r1"), spec=spec, status=PipelineStatus(), created_at=NOW)
    (new,) = planned(run)[1].create
    assert new.spec.inputs == (DataMove("https://example.org/a.csv", "$DATA_DIR/inputs/0/a.csv"),)


def test_a_model_is_registered_by_the_job_that_makes_it() -> None:
    step = {
        "job": {"command": ["train", "$(outputs.model)"]},
        "outputs": {"model": {"type": "model", "register": "mnist"}},
    }
    (new,) = planned(run_of({"train": step}))[1].create
    assert new.spec.outputs == (DataMove("$RESULT_DIR/outputs/model/model", "model://mnist"),)


def model(accuracy: float) -> Model:
    version = ModelVersion(number=3, digest="d3", created_at=NOW, metrics={"accuracy": accuracy})
    status = ModelStatus(versions=(version,), aliases={"production": 3}, last_number=3)
    return Model(id=RecordId("m1"), spec=ModelSpec(name="mnist"), status=status, created_at=NOW)


LOOK = {
    "known": {"model": "mnist@production"},
    "use": {"job": {"command": ["use", "$(known.metrics)", "$(known.exists)", "$(known.version)"]}},
}


def test_a_model_is_looked_up_once_and_stays_what_it_was() -> None:
    run, plan = planned(run_of(LOOK), related=(model(0.5),))
    assert plan.create[0].spec.roles[0].command[len(LAUNCHER) + 1 :] == ('{"accuracy": 0.5}', "true", "3")
    assert [(step.path, step.state) for step in run.status.steps] == [("known", "succeeded"), ("use", "running")]
    again, plan = planned(run, make_job(job_id=plan.create[0].id, spec=plan.create[0].spec), related=(model(0.9),))
    assert (plan.create, again.status.steps[0]) == ((), run.status.steps[0])


def test_a_model_that_is_not_there_has_no_metrics() -> None:
    _, plan = planned(run_of(LOOK))
    assert plan.create[0].spec.roles[0].command[len(LAUNCHER) + 1 :] == ("{}", "false", "0")


def test_the_files_of_a_model_are_fetched_by_version() -> None:
    steps = {"known": {"model": "mnist@production"}, "use": {"job": {"command": ["use", "$(known.model)"]}}}
    _, plan = planned(run_of(steps), related=(model(0.5),))
    (new,) = plan.create
    assert new.spec.inputs == (DataMove("model://mnist:3", "$DATA_DIR/inputs/0"),)
    assert new.spec.roles[0].command[-1] == "{{DATA_DIR}}/inputs/0"


def test_only_pipelines_that_look_models_up_see_them() -> None:
    assert [kind.name for kind in PIPELINE.related(run_of(LOOK).spec)] == ["model"]
    assert PIPELINE.related(run_of({"make": MAKE}).spec) == ()


def test_every_replica_of_a_gang_gets_what_the_step_takes_and_the_lead_reports() -> None:
    roles = {"chief": {"replicas": 1, "command": ["lead", "$(run)"]}, "worker": {"replicas": 3, "command": ["work"]}}
    (new,) = planned(run_of({"train": {"job": {"roles": roles}}}))[1].create
    chief, worker = new.spec.roles
    assert (chief.command, worker.command) == ((*LAUNCHER, "lead", "mine"), (*LAUNCHER, "work"))
    assert (worker.replicas, json.loads(new.spec.env[STEP_VARIABLE])["lead"]) == (3, "chief")


def test_what_is_too_old_is_not_reused_and_the_step_says_so() -> None:
    first, plan = planned(run_of({"make": MAKE}, name="before"))
    first, _ = planned(first, ended(plan.create[0], **STORED))
    later = Timestamp(NOW + 100)
    _, plan = planned(run_of({"make": MAKE}, reuse_seconds=200), others=(first,), now=later)
    assert plan.create == ()
    _, plan = planned(run_of({"make": MAKE}, reuse_seconds=50), others=(first,), now=later)
    (new,) = plan.create
    reason = json.loads(new.spec.env[STEP_VARIABLE])["reason"]
    assert reason == "what before/make made is older than the run allows"


def test_steps_of_ones_own_get_numbers_as_they_were_written() -> None:
    steps = {
        "words": {
            "job": {"command": ["x", "$(rate)", "$(n)", "$(several)", "$(run)-$(rate)"], "env": {"RATE": "$(rate)"}},
            "outputs": {"loss": "double", "count": "integer"},
        },
        "items": {"each": [1.0, 2, "3.0"], "job": {"command": ["x", "$(item)"]}},
        "next": {"job": {"command": ["x", "$(words.loss)", "$(words.count)"]}},
    }
    document = {"name": "p", "inputs": {"rate": 3.0, "n": 3, "several": [1.0, 2]}, "steps": steps}
    spec = PipelineSpec(name="mine", documents_json=compact_json([document]))
    run, plan = planned(replace(run_of(steps), spec=spec))
    new = {json.loads(each.spec.env[STEP_VARIABLE])["path"]: each.spec for each in plan.create}
    assert new["words"].roles[0].command[len(LAUNCHER) + 1 :] == ("3.0", "3", "[1.0, 2]", "mine-3.0")
    assert new["words"].env["RATE"] == "3.0"
    items = [new[f"items/{number}/items"].roles[0].command[-1] for number in range(3)]
    assert items == ["1.0", "2", "3.0"]
    made = {"parameter:loss": "4.0", "parameter:count": "4"}
    _, plan = planned(run, *(ended(each, **made) for each in plan.create))
    assert plan.create[0].spec.roles[0].command[len(LAUNCHER) + 1 :] == ("4.0", "4")


def test_numbers_survive_a_custom_resource_whose_keeper_takes_their_points() -> None:
    steps = {"a": {"job": {"command": ["x", "$(rate)"]}}}
    document = {"name": "mine", "inputs": {"rate": 1.0, "n": 3}, "steps": steps}
    spec = PipelineSpec(name="mine", documents_json=compact_json([document]), arguments_json='{"rate":2.0}')
    assert PIPELINE.format.write_object is not None
    kept = json.loads(json.dumps(PIPELINE.format.write_object(spec)), parse_float=lambda text: int(float(text)))
    assert PIPELINE.format.read(plain(kept), {}) == spec
    assert PIPELINE.format.read(plain(PIPELINE.format.write(spec)), {}) == spec


def test_numbers_of_schedules_and_versions_survive_a_custom_resource_too() -> None:
    document = {**ONE_STEP, "note": {"factor": 2.0, "n": 3}}
    pipeline = PipelineSpec(name="pipeline", documents_json=compact_json([document]))
    schedule = ScheduleSpec(name="often", pipeline=pipeline, every_seconds=60.0)
    version = TemplateVersionSpec(name="first", template="mine", documents_json=compact_json([document]))
    for kind, spec in ((SCHEDULE, schedule), (TEMPLATE_VERSION, version)):
        assert kind.format.write_object is not None
        kept = json.loads(json.dumps(kind.format.write_object(spec)), parse_float=lambda text: int(float(text)))
        assert kind.format.read(plain(kept), {}) == spec
        assert kind.format.read(plain(kind.format.write(spec)), {}) == spec
