"""A run of a pipeline outlives the service that drives it: every step runs once, and its outputs arrive."""

import json
from pathlib import Path
from typing import Any

from gangline.kinds.pipeline import PIPELINE, run_tree
from gangline.kinds.schedule import SCHEDULE
from gangline.model import Phase
from gangline.model.kinds.pipeline import PipelineSpec, PipelineState
from gangline.model.kinds.schedule import ScheduleSpec
from gangline.sdk import Client
from gangline.sdk.transports.background import address_of, running_process, start_service, stop_service
from gangline.settings import Settings
from gangline.testing.builders import ONE_STEP
from tests.integration.test_sweep_crashes import kill_service

ITEMS = 6
KILLS = 5


def pipeline(marks: Path) -> dict[str, Any]:
    """A loop whose steps leave a mark and hand their item on, and a step that takes all of them."""
    integer, items = {"parameterType": "NUMBER_INTEGER"}, {"parameterType": "LIST"}
    mark = f'echo ran >> {marks}/$1; sleep 0.1; printf "%s" "$1" > "$2"'
    collect = f'echo ran >> {marks}/all; printf "%s" "$1" > "$2"'

    def command(script: str, name: str) -> dict[str, Any]:
        words = [f"{{{{$.inputs.parameters['{name}']}}}}", "{{$.outputs.parameters['out'].output_file}}"]
        return {"container": {"image": "alpine", "command": ["sh", "-c", script, "sh"], "args": words}}

    def output(task: str) -> dict[str, Any]:
        return {"parameters": {"out": {"valueFromParameter": {"producerSubtask": task, "outputParameterKey": "out"}}}}

    inner = {"componentRef": {"name": "comp-mark"}, "inputs": {"parameters": {"n": {"componentInputParameter": "n"}}}}
    taken = {"taskOutputParameter": {"producerTask": "loop", "outputParameterKey": "out"}}
    loop = {
        "componentRef": {"name": "comp-loop"},
        "parameterIterator": {"itemInput": "n", "items": {"raw": json.dumps(list(range(ITEMS)))}},
        "iteratorPolicy": {"parallelismLimit": 2},
    }
    step = {"inputDefinitions": {"parameters": {"n": integer}}, "outputDefinitions": {"parameters": {"out": integer}}}
    many = {"inputDefinitions": {"parameters": {"xs": items}}, "outputDefinitions": {"parameters": {"out": items}}}
    collecting = {"componentRef": {"name": "comp-collect"}, "inputs": {"parameters": {"xs": taken}}}
    return {
        "pipelineInfo": {"name": "marks"},
        "components": {
            "comp-mark": {**step, "executorLabel": "mark"},
            "comp-loop": {**step, "dag": {"tasks": {"mark": inner}, "outputs": output("mark")}},
            "comp-collect": {**many, "executorLabel": "collect"},
        },
        "deploymentSpec": {"executors": {"mark": command(mark, "n"), "collect": command(collect, "xs")}},
        "root": {
            "outputDefinitions": {"parameters": {"out": items}},
            "dag": {"tasks": {"loop": loop, "collect": collecting}, "outputs": output("collect")},
        },
    }


def test_a_schedule_loses_no_time_and_repeats_none_though_the_service_is_killed_again_and_again(tmp_path: Path) -> None:
    settings = Settings.load({}, home=tmp_path / "home", runtime_directory=tmp_path / "run")
    settings.home.mkdir()
    marks = tmp_path / "marks"
    marks.mkdir()
    note = f'mktemp "{marks}/$(echo "$1" | cut -d- -f2).XXXXXX"'
    container = {"image": "alpine", "command": ["sh", "-c", note, "sh", "{{$.pipeline_job_name}}"]}
    document = {**ONE_STEP, "deploymentSpec": {"executors": {"exec-a": {"container": container}}}}
    pipeline = PipelineSpec(name="pipeline", documents_json=json.dumps([document]), cache=False)
    start_service(settings)
    try:
        client = Client(address_of(settings), settings=settings)
        schedules, runs = client.records(SCHEDULE), client.records(PIPELINE)
        spec = ScheduleSpec(name="often", pipeline=pipeline, every_seconds=1.0, catch_up=True, at_most=3)
        first = schedules.create(spec)
        for wanted in range(2, 2 * KILLS + 1, 2):
            states = schedules.watch("often", timeout=60)
            next(each for each in states if each.status.begun >= wanted)
            kill_service(settings)
            start_service(settings)
        schedules.do("often", "pause")
        status = schedules.get("often").status
        for run in runs.list():
            assert runs.wait(run.name, timeout=60).status.state is PipelineState.SUCCEEDED
        found = sorted(run.spec.scheduled_at or 0.0 for run in runs.list())
        want = [first.created_at + number for number in range(1, status.begun + 1)]
        assert [round(at, 3) for at in found] == [round(at, 3) for at in want]
        assert sorted(mark.name.partition(".")[0] for mark in marks.iterdir()) == sorted(str(int(at)) for at in want)
        schedules.delete("often")
    finally:
        if running_process(settings) is not None:
            stop_service(settings)


def test_every_step_runs_once_though_the_service_is_killed_again_and_again(tmp_path: Path) -> None:
    settings = Settings.load({}, home=tmp_path / "home", runtime_directory=tmp_path / "run")
    settings.home.mkdir()
    marks = tmp_path / "marks"
    marks.mkdir()
    spec = PipelineSpec(name="marks", documents_json=json.dumps([pipeline(marks)]))
    start_service(settings)
    try:
        client = Client(address_of(settings), settings=settings)
        runs = client.records(PIPELINE)
        runs.create(spec)
        for ended in range(KILLS):
            states = runs.watch("marks", timeout=60)
            next(run for run in states if sum(step.state != "running" for step in run.status.steps) > ended)
            kill_service(settings)
            start_service(settings)
        done = runs.wait("marks", timeout=60)
        assert (done.status.state, done.status.failure) == (PipelineState.SUCCEEDED, "")
        assert run_tree(done).outputs == {"out": list(range(ITEMS))}
        want = dict.fromkeys(("all", *map(str, range(ITEMS))), "ran\n")
        assert {mark.name: mark.read_text() for mark in marks.iterdir()} == want
        jobs = client.list(labels={PIPELINE.label: "marks"}, limit=None)
        assert [(job.phase, job.attempt) for job in jobs] == [(Phase.COMPLETED, 1)] * len(want)
        runs.delete("marks", timeout=60)
    finally:
        if running_process(settings) is not None:
            stop_service(settings)
