"""TrainJobs on a cluster, from the object to the pods and back; ``test_whole_trainer.py`` does it on a real one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from gangline.compose.cluster import ClusterService
from gangline.engines.kubernetes import install
from gangline.kinds.experiment import EXPERIMENT
from gangline.kinds.train_job import CLUSTER_TRAINING_RUNTIME, TRAIN_JOBS, TRAINING_RUNTIME
from gangline.kube import PODS, GenericObject, KubeClient, NotFoundError, Pod
from gangline.storage.kubernetes import DEFINITIONS, JOBS, kubeflow_definitions, resource_of
from tests.apiserver import ApiServer
from tests.integration.kubernetes.world import eventually

CONTAINER = {"name": "node", "image": "any"}
JOBSET = "jobset.sigs.k8s.io"


@asynccontextmanager
async def cluster() -> AsyncIterator[KubeClient]:
    """A cluster with Kubeflow's kinds and a controller that leads."""
    async with ApiServer.running() as (_, access), KubeClient(access) as client:
        await install(client, [*DEFINITIONS, *kubeflow_definitions()], lambda line: None)
        service = ClusterService(
            access=access, context="test", identity="one", namespace="default", host="127.0.0.1", port=0
        )
        stop = asyncio.Event()
        serving = asyncio.create_task(service.run(stop=stop))
        try:
            yield client
        finally:
            stop.set()
            await serving


def train_job(name: str, script: str, **spec: Any) -> dict[str, Any]:
    trainer = {"image": "any", "command": ["sh", "-c", script], "resourcesPerNode": {"requests": {"cpu": "100m"}}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runtimeRef": {"name": "jax-distributed"}, "trainer": {**trainer, "numNodes": 2}, **spec},
    }


async def until(client: KubeClient, name: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the status of a TrainJob is as wanted."""
    found: dict[str, Any] = {}

    async def holds() -> bool:
        item: GenericObject = await client.get(resource_of(TRAIN_JOBS), name, namespace="default")
        found.clear()
        found.update(item.status)
        return condition(found)

    await eventually(holds, 60.0)
    return found


def ended(status: dict[str, Any]) -> bool:
    return any(each["type"] in ("Complete", "Failed") for each in status.get("conditions") or ())


async def pods(client: KubeClient) -> list[Pod]:
    return (await client.list(PODS, namespace="default")).items or []


async def test_a_train_job_runs_with_a_shipped_runtime_as_a_gang_that_its_clients_find() -> None:
    async with cluster() as client:
        script = 'echo "process $JAX_PROCESS_ID of $JAX_NUM_PROCESSES"'
        await client.create(resource_of(TRAIN_JOBS), train_job("digits", script))
        status = await until(client, "digits", ended)
        assert [each["type"] for each in status["conditions"]] == ["Complete"]
        assert status["jobsStatus"] == [
            {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0}
        ]
        shipped = (await client.list(resource_of(CLUSTER_TRAINING_RUNTIME))).items or []
        frameworks = {item.metadata.name: item.metadata.labels["trainer.kubeflow.org/framework"] for item in shipped}
        assert frameworks["torch-distributed"] == "torch"
        assert len(frameworks) == 5
        found = await pods(client)
        labels = [pod.metadata.labels for pod in found]
        assert {each[f"{JOBSET}/jobset-name"] for each in labels} == {"digits"}
        assert {each[f"{JOBSET}/replicatedjob-name"] for each in labels} == {"node"}
        assert {each["batch.kubernetes.io/job-completion-index"] for each in labels} == {"0", "1"}
        assert {pod.spec.containers[0].name for pod in found} == {"node"}
        text = [await client.raw(f"/api/v1/namespaces/default/pods/{pod.metadata.name}/log") for pod in found]
        assert sorted(text) == [b"process 0 of 2\n", b"process 1 of 2\n"]


async def test_a_train_job_rests_and_goes_on_as_its_spec_says_and_a_wrong_one_says_why() -> None:
    async with cluster() as client:
        resource = resource_of(TRAIN_JOBS)
        await client.create(resource, train_job("resting", "sleep 600", suspend=True))
        status = await until(client, "resting", lambda status: bool(status.get("conditions")))
        assert [each["type"] for each in status["conditions"]] == ["Suspended"]
        assert await pods(client) == []
        await client.patch(resource, "resting", {"spec": {"suspend": False}}, namespace="default")
        status = await until(client, "resting", lambda status: "ready" in str(status.get("jobsStatus")))
        assert status["conditions"] == []
        fetching = {"dataset": {"storageUri": "hf://a/b"}}
        await client.create(resource, train_job("wrong", "true", initializer=fetching))
        status = await until(client, "wrong", ended)
        assert "Hugging Face" in status["conditions"][0]["message"]
        await client.create(resource, train_job("early", "true", runtimeRef={"name": "own", "kind": "TrainingRuntime"}))
        status = await until(client, "early", lambda status: "own" in str(status))
        node = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}}
        runtime = {"spec": {"template": {"spec": {"replicatedJobs": [node]}}}}
        await client.create(
            resource_of(TRAINING_RUNTIME), {"metadata": {"name": "own", "namespace": "default"}, **runtime}
        )
        assert [each["type"] for each in (await until(client, "early", ended))["conditions"]] == ["Complete"]


async def test_a_deleted_train_job_takes_its_job_along_and_a_deadline_ends_one() -> None:
    async with cluster() as client:
        resource = resource_of(TRAIN_JOBS)
        await client.create(resource, train_job("late", "sleep 600", activeDeadlineSeconds=1))
        (condition,) = (await until(client, "late", ended))["conditions"]
        assert (condition["type"], condition["reason"]) == ("Failed", "DeadlineExceeded")
        job = await client.get(JOBS, "late", namespace="default")
        assert [owner.kind for owner in job.metadata.owner_references] == ["TrainJob"]
        await client.delete(resource, "late", namespace="default")

        async def gone() -> bool:
            try:
                await client.get(resource, "late", namespace="default")
            except NotFoundError:
                return True
            return False

        await eventually(gone, 30.0)


async def test_the_trials_of_a_search_are_shown_as_train_jobs_and_run_once() -> None:
    trial = {"apiVersion": TRAIN_JOBS.api_version, "kind": "TrainJob"}
    trial["spec"] = train_job("", "echo score=${trialParameters.rate}")["spec"]
    search = {
        "objective": {"type": "maximize", "objectiveMetricName": "score"},
        "algorithm": {"algorithmName": "grid"},
        "parameters": [
            {"name": "rate", "parameterType": "categorical", "feasibleSpace": {"list": ["1", "2"]}},
        ],
        "maxTrialCount": 2,
        "trialTemplate": {
            "primaryContainerName": "node",
            "trialParameters": [{"name": "rate", "reference": "rate"}],
            "trialSpec": trial,
        },
    }
    async with cluster() as client:
        await client.create(
            resource_of(EXPERIMENT), {"metadata": {"name": "rates", "namespace": "default"}, "spec": search}
        )

        async def over() -> bool:
            found = await client.get(resource_of(EXPERIMENT), "rates", namespace="default")
            return any(each["type"] in ("Succeeded", "Failed") for each in found.status.get("conditions") or ())

        await eventually(over, 120.0)
        jobs = (await client.list(JOBS, namespace="default")).items or []
        assert {owner.kind for job in jobs for owner in job.metadata.owner_references} == {"Experiment"}
        shown = (await client.list(resource_of(TRAIN_JOBS), namespace="default")).items or []
        assert {item.metadata.name for item in shown} == {job.metadata.name for job in jobs}
        assert len(jobs) == 2
        assert [each["type"] for item in shown for each in item.status["conditions"]] == ["Complete", "Complete"]
        assert len(await pods(client)) == 4
