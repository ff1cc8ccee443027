"""What clients of the Kubernetes interface are answered."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gangline.api.kubernetes import make_kubernetes_app
from gangline.api.kubernetes.endpoint import Endpoint, open_endpoint
from gangline.errors import GanglineError
from gangline.lifecycle.events import GangPlaced, ReplicaStarted
from gangline.model import JobId, JobPage, NodeName, Phase, ReplicaId, RoleName
from gangline.storage.interface import JobQuery
from tests.operations.fakes import Office, at

JOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"
PODS = "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}


def tfjob(name: str = "mnist", *, workers: int = 2, **fields: object) -> dict[str, Any]:
    container = {"name": "tensorflow", "image": "acme/mnist:1", "command": ["python", "train.py"]}
    template = {"metadata": {"labels": {"team": "vision"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "labels": {"team": "vision"}, "annotations": {"note": "mine"}},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": workers, "template": template}}, **fields},
    }


async def created(session: aiohttp.ClientSession, document: dict[str, Any] | None = None) -> dict[str, Any]:
    async with session.post(JOBS, json=document or tfjob()) as answer:
        assert answer.status == 201, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def asked(session: aiohttp.ClientSession, path: str, status: int = 200, **parameters: str) -> dict[str, Any]:
    async with session.get(path, params=parameters) as answer:
        assert answer.status == status, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def patched(session: aiohttp.ClientSession, change: object, status: int = 200) -> dict[str, Any]:
    async with session.patch(f"{JOBS}/mnist", data=json.dumps(change), headers=MERGE) as answer:
        assert answer.status == status, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def start(office: Office, job_id: str) -> None:
    """Let the gang run, as the controller would."""
    job = await office.store.get(JobId(job_id))
    replicas = [ReplicaId(role.name, index) for role in job.spec.roles for index in range(role.replicas)]
    placed = GangPlaced(job_id=job.id, at=at(1), placement=dict.fromkeys(replicas, NodeName("node-0")))
    started = [ReplicaStarted(job_id=job.id, at=at(2), attempt=1, replica=replica) for replica in replicas]
    await office.happen(job_id, placed, *started)


@pytest.mark.parametrize("token", ["", "Bearer wrong", "Basic b3Blbg=="])
async def test_nobody_is_answered_without_the_token(address: str, token: str) -> None:
    async with aiohttp.ClientSession(address, headers={"Authorization": token}) as stranger:
        found = await asked(stranger, JOBS, 401)
        assert found["reason"] == "Unauthorized"
        async with stranger.get("/healthz") as health:
            assert await health.text() == "ok"


async def test_a_created_job_is_returned_as_it_was_written_with_identity_and_status(
    session: aiohttp.ClientSession,
) -> None:
    made = await created(session)
    assert made["spec"] == tfjob()["spec"]
    assert made["metadata"]["annotations"] == {"note": "mine"}
    assert made["metadata"]["namespace"] == "default"
    assert [condition["type"] for condition in made["status"]["conditions"]] == ["Created"]
    again = await asked(session, f"{JOBS}/mnist")
    assert again == made
    assert (await asked(session, JOBS))["items"] == [made]


async def test_notes_of_the_translation_are_warnings(session: aiohttp.ClientSession) -> None:
    async with session.post(JOBS, json=tfjob()) as answer:
        assert "acme/mnist:1 is ignored" in answer.headers["Warning"]


async def test_a_dry_run_makes_nothing(session: aiohttp.ClientSession) -> None:
    async with session.post(JOBS, json=tfjob(), params={"dryRun": "All"}) as answer:
        assert answer.status == 201
    assert (await asked(session, JOBS))["items"] == []


async def test_a_name_can_be_generated(session: aiohttp.ClientSession) -> None:
    document = tfjob()
    document["metadata"] = {"generateName": "mnist-"}
    name = (await created(session, document))["metadata"]["name"]
    assert name.startswith("mnist-")
    assert len(name) == len("mnist-") + 5


def _without_command() -> dict[str, Any]:
    document = tfjob()
    del document["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"]
    return document


@pytest.mark.parametrize(
    ("document", "want"),
    [
        pytest.param(_without_command(), "runs commands, not images", id="no command"),
        pytest.param({**tfjob(), "kind": "PyTorchJob"}, "expected TFJob", id="another kind"),
        pytest.param(tfjob(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), "belongs to", id="another manager"),
        pytest.param({**tfjob(), "metadata": {}}, "the name of the job", id="no name"),
        pytest.param({**tfjob(), "metadata": {"name": "Big_Name"}}, "DNS-1035", id="a bad name"),
        pytest.param(tfjob(replicas=3), "replicas", id="an unknown field"),
    ],
)
async def test_a_wrong_job_is_refused_with_the_reason(
    session: aiohttp.ClientSession, document: dict[str, Any], want: str
) -> None:
    async with session.post(JOBS, json=document) as answer:
        found = await answer.json()
        assert (answer.status, found["reason"], found["kind"]) == (422, "Invalid", "Status")
        assert want in found["message"]


async def test_a_taken_name_is_told_from_other_conflicts(session: aiohttp.ClientSession) -> None:
    await created(session)
    async with session.post(JOBS, json=tfjob()) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    "path", [f"{JOBS}/other", "/apis/kubeflow.org/v1/namespaces/default/nonejobs", f"{PODS}/a-worker-0", "/apis/x/v1"]
)
async def test_what_is_not_there_is_answered_with_a_status(session: aiohttp.ClientSession, path: str) -> None:
    found = await asked(session, path, 404)
    assert (found["kind"], found["reason"], found["code"]) == ("Status", "NotFound", 404)


async def test_both_versions_of_mpijob_are_served_by_one_kind(session: aiohttp.ClientSession) -> None:
    launcher = {"spec": {"containers": [{"name": "mpi", "image": "any", "command": ["mpirun", "true"]}]}}
    document = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "ring"},
        "spec": {"mpiReplicaSpecs": {"Launcher": {"template": launcher}, "Worker": {"template": launcher}}},
    }
    many = "/apis/kubeflow.org/{}/namespaces/default/mpijobs"
    async with session.post(many.format("v2beta1"), json=document) as answer:
        assert answer.status == 201, await answer.text()
    for version in ("v1", "v2beta1"):
        (found,) = (await asked(session, many.format(version)))["items"]
        assert found["apiVersion"] == f"kubeflow.org/{version}"


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("team=vision", ["one", "two"]),
        ("team==vision,size!=big", ["one"]),
        ("size in (big, huge)", ["two"]),
        ("size notin (big)", ["one"]),
        ("size", ["two"]),
        ("!size", ["one"]),
    ],
)
async def test_jobs_are_listed_by_label(session: aiohttp.ClientSession, selector: str, want: list[str]) -> None:
    await created(session, tfjob("one"))
    two = tfjob("two")
    two["metadata"]["labels"]["size"] = "big"
    await created(session, two)
    found = await asked(session, JOBS, labelSelector=selector)
    assert [item["metadata"]["name"] for item in found["items"]] == want


async def test_suspending_halts_and_resuming_resumes(session: aiohttp.ClientSession, office: Office) -> None:
    made = await created(session)
    suspended = await patched(session, {"spec": {"runPolicy": {"suspend": True}}})
    assert suspended["spec"]["runPolicy"] == {"suspend": True}
    assert suspended["status"]["conditions"][-1]["type"] == "Suspended"
    assert (await office.store.get(JobId(made["metadata"]["uid"]))).phase is Phase.HALTED
    resumed = await patched(session, {"spec": {"runPolicy": {"suspend": False}}})
    assert resumed["status"]["conditions"][-1]["reason"] == "TFJobResumed"


async def test_a_job_that_has_not_run_may_become_another(session: aiohttp.ClientSession, office: Office) -> None:
    made = await created(session)
    changed = await patched(session, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 5}}}})
    assert changed["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 5
    assert (await office.store.get(JobId(made["metadata"]["uid"]))).spec.role(RoleName("worker")).replicas == 5


async def test_a_job_that_runs_may_change_its_labels_and_nothing_that_runs(
    session: aiohttp.ClientSession, office: Office
) -> None:
    made = await created(session)
    await start(office, made["metadata"]["uid"])
    changed = await patched(session, {"metadata": {"labels": {"team": None, "tier": "gold"}}})
    assert changed["metadata"]["labels"] == {"tier": "gold"}
    refused = await patched(session, {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 5}}}}, 409)
    assert "has been started" in refused["message"]


async def test_the_workers_of_an_elastic_job_are_scaled_by_their_number(
    session: aiohttp.ClientSession, office: Office
) -> None:
    many = JOBS.replace("tfjobs", "pytorchjobs")
    template = {"spec": {"containers": [{"name": "pytorch", "image": "any", "command": ["torchrun", "train.py"]}]}}
    document = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "elastic"},
        "spec": {
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 4},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
        },
    }
    async with session.post(many, json=document) as answer:
        made = await answer.json()
    await start(office, made["metadata"]["uid"])
    change = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 3}}}}
    async with session.patch(f"{many}/elastic", data=json.dumps(change), headers=MERGE) as answer:
        assert (await answer.json())["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    assert (await office.store.get(JobId(made["metadata"]["uid"]))).scale == ((RoleName("worker"), 3),)


async def test_a_change_to_an_older_version_is_refused(session: aiohttp.ClientSession) -> None:
    made = await created(session)
    await patched(session, {"metadata": {"labels": {"tier": "gold"}}})
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"tier": "tin"}}}
    assert (await patched(session, stale, 409))["reason"] == "Conflict"
    renamed = {"metadata": {"name": "other"}}
    assert "cannot change" in (await patched(session, renamed, 422))["message"]


async def test_a_deleted_job_is_gone_at_once_and_its_name_is_free(session: aiohttp.ClientSession) -> None:
    first = await created(session)
    async with session.delete(f"{JOBS}/mnist") as answer:
        assert (await answer.json())["status"] == "Success"
    await asked(session, f"{JOBS}/mnist", 404)
    assert (await created(session))["metadata"]["uid"] != first["metadata"]["uid"]


async def test_pods_are_the_replicas_named_and_labelled_as_upstream_does(
    session: aiohttp.ClientSession, office: Office
) -> None:
    made = await created(session)
    assert (await asked(session, PODS))["items"] == []
    await start(office, made["metadata"]["uid"])
    pods = (await asked(session, PODS, labelSelector="training.kubeflow.org/job-name=mnist"))["items"]
    assert [pod["metadata"]["name"] for pod in pods] == ["mnist-worker-0", "mnist-worker-1"]
    assert pods[0]["metadata"]["labels"]["team"] == "vision"
    assert pods[0]["metadata"]["labels"]["training.kubeflow.org/job-role"] == "master"
    assert "training.kubeflow.org/job-role" not in pods[1]["metadata"]["labels"]
    assert pods[0]["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert pods[0]["status"]["containerStatuses"][0]["state"] == {"running": {"startedAt": "1970-01-12T13:46:42Z"}}
    chosen = await asked(session, PODS, fieldSelector="metadata.name=mnist-worker-1", labelSelector="team")
    assert chosen["items"] == [await asked(session, f"{PODS}/mnist-worker-1")]


async def test_logs_are_those_of_one_pod(session: aiohttp.ClientSession, office: Office) -> None:
    made = await created(session)
    await start(office, made["metadata"]["uid"])
    job = await office.store.get(JobId(made["metadata"]["uid"]))
    office.engine.write(job, "first line")
    async with session.get(f"{PODS}/mnist-worker-0/log", params={"tailLines": "5", "timestamps": "True"}) as answer:
        assert answer.content_type == "text/plain"
        assert await answer.text() == "1970-01-12T13:46:40Z first line\n"
    assert (office.engine.queries[-1].tail, office.engine.queries[-1].index) == (5, 0)
    found = await asked(session, f"{PODS}/mnist-worker-0/log", 422, tailLines="many")
    assert "tailLines" in found["message"]


async def test_events_speak_of_the_job_and_of_its_pods(session: aiohttp.ClientSession) -> None:
    await created(session)
    path = "/api/v1/namespaces/default/events"
    (submitted,) = (await asked(session, path, fieldSelector="involvedObject.name=mnist"))["items"]
    assert (submitted["reason"], submitted["involvedObject"]["kind"]) == ("Submitted", "TFJob")
    assert (await asked(session, path, fieldSelector="involvedObject.kind=Pod"))["items"] == []


async def test_a_watch_tells_of_every_change_until_its_time_is_up(session: aiohttp.ClientSession) -> None:
    await created(session)
    events: list[tuple[str, str]] = []
    async with session.get(JOBS, params={"watch": "True", "timeoutSeconds": "5"}) as answer:
        lines = answer.content.__aiter__()

        async def next_event() -> None:
            event = json.loads(await asyncio.wait_for(anext(lines), 5))
            events.append((event["type"], event["object"]["metadata"]["name"]))

        await next_event()
        await created(session, tfjob("second"))
        await next_event()
        await patched(session, {"metadata": {"labels": {"tier": "gold"}}})
        await next_event()
        async with session.delete(f"{JOBS}/mnist"):
            await next_event()
    assert events == [("ADDED", "mnist"), ("ADDED", "second"), ("MODIFIED", "mnist"), ("DELETED", "mnist")]


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
async def test_objects_are_kept_changed_and_removed(session: aiohttp.ClientSession, plural: str) -> None:
    path = f"/api/v1/namespaces/default/{plural}"
    document = {"metadata": {"name": "words"}, "data": {"a": "MQ==", "b": "Mg=="}}
    async with session.post(path, json=document) as answer:
        assert answer.status == 201
    async with session.post(path, json=document) as answer:
        assert (await answer.json())["reason"] == "AlreadyExists"
    async with session.patch(f"{path}/words", json={"data": {"b": None}}) as answer:
        assert (await answer.json())["data"] == {"a": "MQ=="}
    found = await asked(session, f"{path}/words")
    assert found["metadata"]["resourceVersion"] == "2"
    assert (await asked(session, path))["items"] == [found]
    async with session.delete(f"{path}/words"):
        await asked(session, f"{path}/words", 404)


@pytest.mark.parametrize("plural", ["pods", "events", "secrets"])
async def test_what_cannot_be_watched_is_not_answered_with_a_list(session: aiohttp.ClientSession, plural: str) -> None:
    found = await asked(session, f"/api/v1/namespaces/default/{plural}", 405, watch="true")
    assert found["reason"] == "MethodNotAllowed"


async def test_discovery_names_what_there_is(session: aiohttp.ClientSession) -> None:
    assert (await asked(session, "/version"))["major"] == "1"
    groups = (await asked(session, "/apis"))["groups"]
    preferred = [group["preferredVersion"]["groupVersion"] for group in groups]
    assert preferred == ["kubeflow.org/v1", "serving.kserve.io/v1beta1", "trainer.kubeflow.org/v1alpha1"]
    assert (await asked(session, "/apis/serving.kserve.io"))["name"] == "serving.kserve.io"
    served = await asked(session, "/apis/serving.kserve.io/v1beta1")
    assert [(each["name"], each["kind"]) for each in served["resources"]] == [("inferenceservices", "InferenceService")]
    resources = (await asked(session, "/apis/kubeflow.org/v1"))["resources"]
    assert "pytorchjobs" in [resource["name"] for resource in resources]
    assert (await asked(session, "/api/v1/namespaces/default"))["status"] == {"phase": "Active"}
    await asked(session, "/apis/kubeflow.org/v9", 404)


async def test_a_json_patch_is_not_taken_for_a_merge_patch(session: aiohttp.ClientSession) -> None:
    await created(session)
    headers = {"Content-Type": "application/json-patch+json"}
    async with session.patch(f"{JOBS}/mnist", data="[]", headers=headers) as answer:
        assert (answer.status, (await answer.json())["reason"]) == (415, "UnsupportedMediaType")


async def test_the_door_keeps_its_token_and_its_port_and_moves_when_the_port_is_taken(
    office: Office, tmp_path: Path
) -> None:
    file = tmp_path / "kubernetes.json"
    first = Endpoint.read(file)
    runners = [web.AppRunner(make_kubernetes_app(lambda request: office.context(), token="t")) for _ in range(2)]
    for runner in runners:
        await runner.setup()
    try:
        opened = await open_endpoint(runners[0], first, file, wanted_port=None)
        assert file.stat().st_mode & 0o777 == 0o600
        assert Endpoint.read(file) == opened
        moved = await open_endpoint(runners[1], Endpoint.read(file), file, wanted_port=None)
        assert moved.token == opened.token
        assert moved.port != opened.port
        with pytest.raises(GanglineError, match="is taken or not a port"):
            await open_endpoint(runners[1], moved, file, wanted_port=opened.port)
        with pytest.raises(GanglineError, match="not a port"):
            await open_endpoint(runners[1], moved, file, wanted_port=70_000)
    finally:
        for runner in runners:
            await runner.cleanup()


async def test_a_job_that_disappears_while_events_are_listed_has_none(
    session: aiohttp.ClientSession, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await created(session)
    listing = office.store.list

    async def list_and_remove(query: JobQuery) -> JobPage:
        page = await listing(query)
        await office.store.remove(JobId(made["metadata"]["uid"]))
        return page

    monkeypatch.setattr(office.store, "list", list_and_remove)
    assert (await asked(session, "/api/v1/namespaces/default/events"))["items"] == []
