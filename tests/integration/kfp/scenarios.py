"""What users do with ``kfp.Client``: ``python scenarios.py HOST FOLDER NAME``, where kfp is installed."""
# ruff: noqa: PT017, TID251  -- there is no pytest where this runs, and nothing that tells when a run begins

import json
import sys
import time
import warnings
from pathlib import Path

import samples
from kfp import Client, compiler
from kfp_server_api import ApiException

warnings.simplefilter("ignore")


def run(client, pipeline, arguments=None, *, want="SUCCEEDED", **more):
    """Run a pipeline to its end and return it with its tasks by name."""
    made = client.create_run_from_pipeline_func(pipeline, arguments=arguments or {}, enable_caching=False, **more)
    done = client.wait_for_run_completion(made.run_id, timeout=120, sleep_duration=0.2)
    assert done.state == want, (done.state, done.error)
    return done, {task.display_name: task for task in done.run_details.task_details}


def conditions(client, folder):
    _, tasks = run(client, samples.conditions, {"side": "heads"})
    assert {tasks["condition-2"].state, tasks["condition-3"].state} == {"SUCCEEDED", "SKIPPED"}
    assert tasks["say"].state == "SUCCEEDED"
    run(client, samples.conditions, {"side": "tails"})


def nested_conditions(client, folder):
    done, tasks = run(client, samples.nested_conditions, {"low": 0, "high": 4})
    states = [task.state for task in done.run_details.task_details]
    assert states.count("SKIPPED") == 2, states
    assert tasks["between"].state == "SUCCEEDED"


def loops(client, folder):
    run(client, samples.loop_static, {"folder": str(folder)})
    assert {each.stem for each in folder.glob("*.ended")} == {"a", "b", "c"}
    run(client, samples.loop_parameter, {"folder": str(folder), "names": ["p", "q", "r"]})
    assert {each.stem for each in folder.glob("*.ended")} == {"a", "b", "c", "p", "q", "r"}
    _, tasks = run(client, samples.loop_output)
    assert [tasks[str(number)].state for number in range(4)] == ["SUCCEEDED"] * 4


def parallelism(client, folder):
    run(client, samples.parallelism, {"folder": str(folder)})
    assert max(int(each.read_text()) for each in folder.glob("*.running")) <= 2
    assert len(list(folder.glob("*.ended"))) == 6


def exit_handler(client, folder):
    done, tasks = run(client, samples.exit_handler, {"folder": str(folder)}, want="FAILED")
    assert (folder / "status").read_text() == "FAILED exit-handler-1"
    assert "the disk is full" in done.error.message
    assert (tasks["fail"].state, tasks["note-end"].state) == ("FAILED", "SUCCEEDED")


def retries(client, folder):
    run(client, samples.retry, {"folder": str(folder)})
    assert len(list(folder.glob("try-*"))) == 3


def execution_order(client, folder):
    run(client, samples.execution_order, {"folder": str(folder)})
    times = [
        float((folder / f"{name}.{when}").read_text())
        for name in ("first", "second", "third")
        for when in ("began", "ended")
    ]
    assert times == sorted(times)


def output_a_directory(client, folder):
    run(client, samples.output_a_directory)


def resource_spec(client, folder):
    run(client, samples.resource_spec)


def pipelines_and_versions(client, folder):
    """Upload, versions, and runs made from them."""
    file = str(folder / "first.yaml")
    compiler.Compiler().compile(samples.conditions, file)
    first = client.upload_pipeline(file, pipeline_name="Tossing a coin", description="once")
    assert (first.display_name, first.description) == ("Tossing a coin", "once")
    assert client.get_pipeline_id("Tossing a coin") == first.pipeline_id
    assert client.get_pipeline(first.pipeline_id).display_name == "Tossing a coin"
    second = client.upload_pipeline_version(file, "second try", pipeline_id=first.pipeline_id, description="again")
    versions = client.list_pipeline_versions(first.pipeline_id, sort_by="created_at desc").pipeline_versions
    assert [each.display_name for each in versions] == ["second try", "Tossing a coin"]
    found = client.get_pipeline_version(first.pipeline_id, second.pipeline_version_id)
    assert found.pipeline_spec["pipelineInfo"]["name"] == "conditions"
    refused(409, lambda: client.upload_pipeline(file, pipeline_name="Tossing a coin"))
    experiment = client.create_experiment("versions")
    made = client.run_pipeline(
        experiment.experiment_id,
        "from a version",
        params={"side": "tails"},
        pipeline_id=first.pipeline_id,
        version_id=second.pipeline_version_id,
    )
    done = client.wait_for_run_completion(made.run_id, timeout=120, sleep_duration=0.2)
    assert done.pipeline_version_reference.pipeline_version_id == second.pipeline_version_id
    assert done.runtime_config.parameters == {"side": "tails"}
    refused(400, lambda: client.delete_pipeline(first.pipeline_id))
    for version in versions:
        client.delete_pipeline_version(first.pipeline_id, version.pipeline_version_id)
    client.delete_pipeline(first.pipeline_id)
    assert client.get_pipeline_id("Tossing a coin") is None
    func = client.upload_pipeline_from_pipeline_func(samples.retry, pipeline_name="from a function")
    client.upload_pipeline_version_from_pipeline_func(samples.retry, "v2", pipeline_name="from a function")
    assert client.list_pipeline_versions(func.pipeline_id).total_size == 2


def experiments_and_lists(client, folder):
    """Experiments, and lists with filters, orders and pages."""
    before = client.create_experiment("numbers", description="small ones")
    assert client.create_experiment("numbers").experiment_id == before.experiment_id
    assert client.get_experiment(experiment_name="numbers").description == "small ones"
    names = [f"number {each}" for each in range(5)]
    for name in names:
        client.create_run_from_pipeline_func(samples.resource_spec, run_name=name, experiment_name="numbers")
    page = client.list_runs(experiment_id=before.experiment_id, page_size=2, sort_by="created_at desc")
    assert [each.display_name for each in page.runs] == names[:2:-1]
    rest = client.list_runs(
        experiment_id=before.experiment_id, page_size=9, sort_by="created_at desc", page_token=page.next_page_token
    )
    assert [each.display_name for each in rest.runs] == names[2::-1]
    assert not rest.next_page_token

    def filtered(operation, key, **value):
        wanted = json.dumps({"predicates": [{"operation": operation, "key": key, **value}]})
        found = client.list_runs(experiment_id=before.experiment_id, filter=wanted, sort_by="display_name").runs or []
        return [each.display_name for each in found]

    assert filtered("EQUALS", "display_name", stringValue="number 3") == ["number 3"]
    assert filtered("NOT_EQUALS", "name", string_value="number 3") == [each for each in names if each != "number 3"]
    assert filtered("IS_SUBSTRING", "name", stringValue="BER 1") == ["number 1"]
    assert filtered("IN", "name", string_values={"values": ["number 0", "number 4"]}) == ["number 0", "number 4"]
    assert filtered("GREATER_THAN", "created_at", timestamp_value="2030-01-01T00:00:00Z") == []
    assert filtered("LESS_THAN", "created_at", timestamp_value="2100-01-01T00:00:00Z") == names
    run_id = client.list_runs(experiment_id=before.experiment_id).runs[0].run_id
    client.wait_for_run_completion(run_id, timeout=120, sleep_duration=0.2)
    client.archive_run(run_id)
    assert filtered("EQUALS", "storage_state", stringValue="ARCHIVED") == ["number 0"]
    client.unarchive_run(run_id)
    assert client.get_run(run_id).storage_state == "AVAILABLE"
    client.archive_experiment(before.experiment_id)
    assert client.get_experiment(before.experiment_id).storage_state == "ARCHIVED"
    refused(400, lambda: client.run_pipeline(before.experiment_id, "late", pipeline_package_path=_file(folder)))
    client.unarchive_experiment(before.experiment_id)
    client.delete_run(run_id)
    refused(404, lambda: client.get_run(run_id))
    client.delete_experiment(before.experiment_id)
    refused(404, lambda: client.get_experiment(before.experiment_id))
    assert client.list_experiments().experiments is not None


def _file(folder):
    file = str(folder / "some.yaml")
    compiler.Compiler().compile(samples.resource_spec, file)
    return file


def terminating(client, folder):
    """A run that is stopped, and one that is retried from where it failed."""
    made = client.create_run_from_pipeline_func(samples.forever, arguments={"folder": str(folder)})
    until((folder / "waiting").exists)
    assert client.get_run(made.run_id).state == "RUNNING"
    client.terminate_run(made.run_id)
    done = made.wait_for_run_completion(timeout=60)
    assert (done.state, done.error.code) == ("FAILED", 1)
    assert [each.state for each in done.state_history] == ["RUNNING", "CANCELING", "FAILED"]
    client.terminate_run(made.run_id)
    failed, _ = run(client, samples.fails_once, {"folder": str(folder)}, want="FAILED")
    kept = (folder / "kept.ended").read_text()
    client._run_api.run_service_retry_run(failed.run_id)
    assert client.wait_for_run_completion(failed.run_id, timeout=60, sleep_duration=0.2).state == "SUCCEEDED"
    assert (folder / "kept.ended").read_text() == kept
    refused(400, lambda: client._run_api.run_service_retry_run(failed.run_id))


def recurring_runs(client, folder):
    """Runs that begin by themselves."""
    experiment = client.create_experiment("again and again")
    made = client.create_recurring_run(
        experiment.experiment_id,
        "every second",
        interval_second=1,
        max_concurrency=2,
        no_catchup=True,
        pipeline_package_path=_file(folder),
        enable_caching=True,
    )
    until(lambda: len(client.list_runs(experiment_id=experiment.experiment_id).runs or []) >= 2)
    client.disable_recurring_run(made.recurring_run_id)
    found = client.get_recurring_run(made.recurring_run_id)
    assert (found.status, found.mode, found.max_concurrency, found.no_catchup) == ("DISABLED", "DISABLE", "2", True)
    runs = client.list_runs(experiment_id=experiment.experiment_id, page_size=50).runs
    assert {each.recurring_run_id for each in runs} == {made.recurring_run_id}
    times = [each.scheduled_at for each in runs]
    assert len(set(times)) == len(times)
    client.enable_recurring_run(made.recurring_run_id)
    assert client.get_recurring_run(made.recurring_run_id).status == "ENABLED"
    assert [
        each.display_name for each in client.list_recurring_runs(experiment_id=experiment.experiment_id).recurring_runs
    ] == ["every second"]
    client.delete_recurring_run(made.recurring_run_id)
    refused(404, lambda: client.get_recurring_run(made.recurring_run_id))
    nightly = client.create_recurring_run(
        experiment.experiment_id,
        "nightly",
        cron_expression="0 0 3 * * *",
        enabled=False,
        pipeline_package_path=_file(folder),
    )
    assert nightly.trigger.cron_schedule.cron == "0 0 3 * * *"
    refused(
        400,
        lambda: client.create_recurring_run(
            experiment.experiment_id, "never", cron_expression="0 0 31 2 *", pipeline_package_path=_file(folder)
        ),
    )


def refused(status, ask):
    """Expect the status, and an error in the form of google.rpc.Status."""
    try:
        ask()
    except ApiException as error:
        body = json.loads(error.body)
        assert error.status == status, (error.status, body)
        assert isinstance(body["code"], int)
        assert body["message"]
        assert body["details"][0]["@type"].endswith("rpc.Status")
    else:
        raise AssertionError(f"{status} was expected")


def until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


if __name__ == "__main__":
    host, place, name = sys.argv[1:]
    globals()[name](Client(host=host), Path(place))
