"""Kubeflow jobs on the real cluster: names, labels, environment, status and events are upstream's; rules of life."""

import asyncio
import json

import pytest

from gangline.dialects import read_plain
from gangline.engines.kubernetes.node_rules.capacity import is_ready
from gangline.kube import NODES, NotFoundError
from gangline.lifecycle import new_job
from gangline.lifecycle.events import HaltRequested, ResumeRequested
from gangline.model import JobId, Phase
from tests.integration.kubernetes.kubeflow import RESOURCES, Play, conditions, job_object, replica, state
from tests.integration.kubernetes.world import OBEDIENT, World, eventually

SERVE = OBEDIENT
LABELS = "training.kubeflow.org"


async def test_a_tfjob_has_upstreams_pods_services_labels_status_and_events(kubeflow: World) -> None:
    replicas = {"Chief": replica("TFJob"), "PS": replica("TFJob"), "Worker": replica("TFJob", 2)}
    play = await Play.begin(kubeflow, "TFJob", "mnist", replicas)
    running = await play.condition("Running")
    pods, services = await play.pods(), await play.services()
    names = {"chief-0", "ps-0", "worker-0", "worker-1"}
    assert set(pods) == set(services) == names
    chief, service = pods["chief-0"].metadata, services["chief-0"]
    upstream = {
        f"{LABELS}/job-name": "mnist",
        f"{LABELS}/operator-name": "tfjob-controller",
        f"{LABELS}/replica-type": "chief",
        f"{LABELS}/replica-index": "0",
    }
    assert {key: value for key, value in chief.labels.items() if key.startswith(LABELS)} == {
        **upstream,
        f"{LABELS}/job-role": "master",
    }
    owner = chief.owner_references[0]
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("TFJob", "mnist", play.uid, True)
    assert service.spec.selector == upstream
    assert [(port.name, port.port) for port in service.spec.ports] == [("tfjob-port", 2222)]
    statuses = running.status["replicaStatuses"]
    assert {name: status["active"] for name, status in statuses.items()} == {"Chief": 1, "PS": 1, "Worker": 2}
    await play.tell_to_exit("chief-0", 0)
    ended = await play.done("Succeeded")
    assert list(conditions(ended).items()) == [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
    assert ended.status["startTime"] <= ended.status["completionTime"]
    assert (await play.pods()).keys() == names, "pods are kept to be looked at"
    await play.until_running()
    wanted = {"SuccessfulCreatePod", "SuccessfulCreateService", "TFJobRunning", "TFJobSucceeded"}

    async def announced() -> bool:
        return wanted <= await play.reasons()

    await eventually(announced)


async def test_every_replica_of_a_tfjob_sees_the_same_cluster_and_its_own_place(kubeflow: World) -> None:
    replicas = {name: replica("TFJob") for name in ("Chief", "PS", "Evaluator")} | {"Worker": replica("TFJob", 2)}
    play = await Play.begin(kubeflow, "TFJob", "places", replicas)
    names = ("chief-0", "ps-0", "worker-0", "worker-1", "evaluator-0")
    seen = dict(zip(names, await asyncio.gather(*map(play.environment, names)), strict=True))

    def address(name: str) -> str:
        return f"places-{name}.{kubeflow.namespace}.svc:2222"

    cluster = {
        "chief": [address("chief-0")],
        "ps": [address("ps-0")],
        "worker": [address("worker-0"), address("worker-1")],
    }
    for name, environment in seen.items():
        role, _, index = name.partition("-")
        want = {"cluster": cluster, "task": {"type": role, "index": int(index)}, "environment": "cloud"}
        assert json.loads(environment["TF_CONFIG"]) == want
    secrets = {await play.ask(name, "sh", "-c", "cat $GANGLINE_SECRET_FILE") for name in names}
    assert [len(secret.strip()) for secret in secrets] == [64], "all have the same"
    found = await play.ask("worker-0", "nslookup", f"places-ps-0.{kubeflow.namespace}.svc.cluster.local")
    assert (await play.pods())["ps-0"].status.pod_ip in found


@pytest.mark.parametrize(
    ("kind", "replicas", "asked", "want"),
    [
        pytest.param(
            "PyTorchJob",
            {"Master": 1, "Worker": 2},
            "worker-1",
            {
                "MASTER_ADDR": "told-master-0",
                "MASTER_PORT": "23456",
                "PET_MASTER_ADDR": "told-master-0",
                "RANK": "2",
                "WORLD_SIZE": "3",
                "PET_NNODES": "3",
                "PET_NODE_RANK": "2",
                "PET_NPROC_PER_NODE": "auto",
            },
            id="pytorch",
        ),
        pytest.param(
            "JAXJob",
            {"Worker": 2},
            "worker-1",
            {
                "COORDINATOR_ADDRESS": "told-worker-0",
                "COORDINATOR_PORT": "6666",
                "NUM_PROCESSES": "2",
                "PROCESS_ID": "1",
            },
            id="jax",
        ),
        pytest.param(
            "XGBoostJob",
            {"Master": 1, "Worker": 1},
            "worker-0",
            {
                "MASTER_ADDR": "told-master-0",
                "MASTER_PORT": "9999",
                "WORLD_SIZE": "2",
                "RANK": "1",
                "WORKER_ADDRS": "told-worker-0",
                "WORKER_PORT": "9999",
            },
            id="xgboost",
        ),
        pytest.param(
            "PaddleJob",
            {"Worker": 2},
            "worker-1",
            {"PADDLE_JOB_ID": "told", "PADDLE_NNODES": "2", "PADDLE_MASTER": "told-worker-0:36543"},
            id="paddle",
        ),
    ],
)
async def test_replicas_are_told_what_their_framework_reads(
    kubeflow: World, kind: str, replicas: dict[str, int], asked: str, want: dict[str, str]
) -> None:
    specs = {name: replica(kind, count) for name, count in replicas.items()}
    play = await Play.begin(kubeflow, kind, "told", specs)
    environment = await play.environment(asked)
    assert {name: environment.get(name) for name in want} == want


async def test_the_first_replica_of_a_paddle_job_is_told_its_own_address(kubeflow: World) -> None:
    play = await Play.begin(kubeflow, "PaddleJob", "told", {"Worker": replica("PaddleJob", 2)})
    await play.condition("Running")
    told = (await play.environment("worker-0"))["PADDLE_MASTER"]
    assert told == f"{(await play.pods())['worker-0'].status.pod_ip}:36543"


async def test_each_replica_type_goes_where_its_own_template_says(kubeflow: World) -> None:
    found = (await kubeflow.client.list(NODES)).items or ()
    first, second, *_ = sorted(node.metadata.name for node in found if is_ready(node) and not node.spec.taints)
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [second]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named]}}
    specs = {
        "Chief": replica("TFJob", nodeSelector={"kubernetes.io/hostname": first}),
        "Worker": replica("TFJob", 2, affinity={"nodeAffinity": required}),
    }
    play = await Play.begin(kubeflow, "TFJob", "apart", specs)
    await play.condition("Running")
    where = {name: pod.spec.node_name for name, pod in (await play.pods()).items()}
    assert where == {"chief-0": first, "worker-0": second, "worker-1": second}


RETRIED = [("OnFailure", 1, "chief-0"), ("ExitCode", 143, "worker-0")]
FINAL = [("Never", 143, "chief-0"), ("ExitCode", 1, "ps-0")]
"""A sample; the laptop's suite goes through the whole table."""


@pytest.mark.parametrize(("policy", "code", "failing"), RETRIED)
async def test_a_failure_that_deserves_another_try_restarts_the_gang(
    kubeflow: World, failing: str, policy: str, code: int
) -> None:
    specs = {"Chief": replica("TFJob", restart=policy), "Worker": replica("TFJob", restart=policy)}
    play = await Play.begin(kubeflow, "TFJob", "again", specs, runPolicy={"backoffLimit": 1})
    await play.condition("Running")
    before = {name: pod.metadata.uid for name, pod in (await play.pods()).items()}
    await play.tell_to_exit(failing, code)
    await play.until(lambda found: state(found)["attempt"] == 2 and conditions(found).get("Running") == "True")
    after = {name: pod.metadata.uid for name, pod in (await play.pods()).items()}
    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values()), "the whole gang is new, under the same names"
    await play.tell_to_exit("chief-0", 0)
    await play.done("Succeeded")
    assert "TFJobRestarting" in await play.reasons()


@pytest.mark.parametrize(("policy", "code", "failing"), FINAL)
async def test_a_failure_that_is_final_ends_the_job_and_frees_what_survives(
    kubeflow: World, failing: str, policy: str, code: int
) -> None:
    specs = {name: replica("TFJob", restart=policy) for name in ("Chief", "Worker", "PS")}
    play = await Play.begin(kubeflow, "TFJob", "final", specs)
    await play.condition("Running")  # all of it: a gang of which some never started was never running
    await play.tell_to_exit(failing, code)
    ended = await play.done("Failed")
    assert (state(ended)["attempt"], state(ended)["exit_code"]) == (1, code)
    await play.until_running()
    assert conditions(ended)["Running"] == "False"


async def test_a_gang_that_fails_more_often_than_its_limit_fails_for_good(kubeflow: World) -> None:
    specs = {"Worker": replica("TFJob", 2, restart="OnFailure", script="exit 6")}
    play = await Play.begin(kubeflow, "TFJob", "limit", specs, runPolicy={"backoffLimit": 1})
    ended = await play.done("Failed")
    assert (state(ended)["attempt"], state(ended)["exit_code"]) == (2, 6)
    last = ended.status["conditions"][-1]
    assert last["message"] == "Job limit has failed because it has reached the specified backoff limit"


async def test_a_chief_decides_alone_and_without_one_the_first_worker(kubeflow: World) -> None:
    led = await Play.begin(kubeflow, "TFJob", "led", {"Chief": replica("TFJob"), "Worker": replica("TFJob")})
    bare = await Play.begin(kubeflow, "TFJob", "bare", {"Worker": replica("TFJob", 2)})
    await led.tell_to_exit("worker-0", 0)
    await bare.tell_to_exit("worker-1", 0)
    for play in (led, bare):
        found = await play.until(lambda found: found.status["replicaStatuses"]["Worker"].get("succeeded") == 1)
        assert "Succeeded" not in conditions(found)
    await led.tell_to_exit("chief-0", 0)
    await bare.tell_to_exit("worker-0", 0)
    await led.done("Succeeded")
    await bare.done("Succeeded")


async def test_the_workers_of_a_jax_job_must_all_succeed(kubeflow: World) -> None:
    play = await Play.begin(kubeflow, "JAXJob", "all", {"Worker": replica("JAXJob", 2)})
    await play.tell_to_exit("worker-0", 0)
    found = await play.until(lambda found: found.status["replicaStatuses"]["Worker"].get("succeeded") == 1)
    assert "Succeeded" not in conditions(found)
    await play.tell_to_exit("worker-1", 0)
    await play.done("Succeeded")


@pytest.mark.parametrize(
    ("policy", "strict", "want"),
    [
        pytest.param("All", False, set(), id="All"),
        pytest.param("Running", False, {"chief-0"}, id="Running"),
        pytest.param("None", False, {"chief-0", "ps-0"}, id="None"),
        pytest.param("None", True, {"chief-0", "ps-0"}, id="None as upstream"),
    ],
)
async def test_a_finished_job_keeps_the_pods_its_clean_up_policy_leaves(
    kubeflow: World, policy: str, strict: bool, want: set[str]
) -> None:
    specs = {"Chief": replica("TFJob"), "PS": replica("TFJob", script=SERVE)}
    annotations = {"gangline.dev/strict": str(strict).lower()}
    play = await Play.begin(
        kubeflow, "TFJob", "clean", specs, annotations=annotations, runPolicy={"cleanPodPolicy": policy}
    )
    await play.tell_to_exit("chief-0", 0)
    await play.done("Succeeded")
    assert set(await play.pods()) == want
    assert set(await play.services()) == want
    await play.until_running(*(["ps-0"] if strict else []))
    await kubeflow.restart()
    fresh = await Play.begin(kubeflow, "TFJob", "fresh", {"Worker": replica("TFJob")})
    await fresh.condition("Running")
    assert set(await play.pods()) == want, "a new life of the controller leaves them alone"
    assert set(await play.services()) == want


@pytest.mark.parametrize(
    ("strict", "code"),
    [
        pytest.param("false", 0, id="ended with 0"),
        pytest.param("true", 0, id="ended with 0 as upstream"),
        pytest.param("true", 3, id="failed as upstream"),
    ],
)
async def test_a_replica_that_is_always_restarted_comes_back_alone(kubeflow: World, strict: str, code: int) -> None:
    specs = {"Chief": replica("TFJob"), "Worker": replica("TFJob", restart="Always")}
    play = await Play.begin(kubeflow, "TFJob", "always", specs, annotations={"gangline.dev/strict": strict})
    await play.condition("Running")
    before = {name: pod.metadata.uid for name, pod in (await play.pods()).items()}
    await play.tell_to_exit("worker-0", code)
    await play.until_replaced("worker-0", before["worker-0"])
    found = await play.object()
    assert (state(found)["attempt"], found.status["replicaStatuses"]["Worker"].get("succeeded")) == (1, None)
    assert (await play.pods())["chief-0"].metadata.uid == before["chief-0"]
    await play.tell_to_exit("chief-0", 0)
    await play.done("Succeeded")


async def test_a_job_whose_chief_is_always_restarted_ends_by_its_backoff_limit(kubeflow: World) -> None:
    specs = {"Chief": replica("TFJob", restart="Always", script="exit 0"), "Worker": replica("TFJob", script=SERVE)}
    play = await Play.begin(kubeflow, "TFJob", "endless", specs, runPolicy={"backoffLimit": 1})
    ended = await play.done("Failed")
    last = ended.status["conditions"][-1]
    assert last["message"] == "Job endless has failed because it has reached the specified backoff limit"
    assert (state(ended)["attempt"], state(ended)["replica_restarts"]) == (1, 1)


async def test_strict_restarts_the_failed_replica_alone(kubeflow: World) -> None:
    specs = {"Chief": replica("TFJob", restart="OnFailure"), "Worker": replica("TFJob", restart="OnFailure")}
    play = await Play.begin(kubeflow, "TFJob", "alone", specs, annotations={"gangline.dev/strict": "true"})
    await play.condition("Running")
    before = {name: pod.metadata.uid for name, pod in (await play.pods()).items()}
    await play.tell_to_exit("worker-0", 1)
    await play.until_replaced("worker-0", before["worker-0"])
    assert (await play.pods())["chief-0"].metadata.uid == before["chief-0"]
    assert state(await play.object())["attempt"] == 1


async def test_a_job_is_suspended_changed_and_resumed(kubeflow: World) -> None:
    specs = {"Worker": replica("PyTorchJob", script=f"echo before; {OBEDIENT}")}
    play = await Play.begin(kubeflow, "PyTorchJob", "rest", specs, runPolicy={"suspend": True})
    await play.condition("Suspended")
    assert await play.pods() == {}
    changed = replica("PyTorchJob", script=f"echo after; {OBEDIENT}")
    await play.patch({"spec": {"pytorchReplicaSpecs": {"Worker": changed}}})
    await play.patch({"spec": {"runPolicy": {"suspend": False}}})
    await play.condition("Running")

    await play.patch({"spec": {"runPolicy": {"suspend": True}}})
    suspended = await play.until(
        lambda found: conditions(found).get("Suspended") == "True" and not state(found)["holding"]
    )
    assert conditions(suspended) == {"Created": "True", "Running": "False", "Suspended": "True"}
    assert await play.pods() == {}
    await play.patch({"spec": {"runPolicy": {"suspend": False}}})
    resumed = await play.condition("Running")
    assert conditions(resumed)["Suspended"] == "False"
    assert {"PyTorchJobSuspended", "PyTorchJobResumed"} <= await play.reasons()


async def test_halting_with_our_own_words_shows_in_the_spec(kubeflow: World) -> None:
    play = await Play.begin(kubeflow, "TFJob", "halt", {"Worker": replica("TFJob", script=SERVE)})
    await play.condition("Running")
    job = await play.job()
    kubeflow.controller.hear(HaltRequested(job_id=job.id, at=kubeflow.clock.now()))
    found = await play.until(lambda found: conditions(found).get("Suspended") == "True" and not state(found)["holding"])
    assert found.spec["runPolicy"]["suspend"] is True
    kubeflow.controller.hear(ResumeRequested(job_id=job.id, at=kubeflow.clock.now()))
    found = await play.condition("Running")
    assert found.spec["runPolicy"]["suspend"] is False


async def test_an_elastic_job_is_scaled_through_its_scale_subresource(kubeflow: World) -> None:
    specs = {"Worker": replica("PyTorchJob", 2, restart="OnFailure", script=SERVE)}
    play = await Play.begin(
        kubeflow, "PyTorchJob", "elastic", specs, elasticPolicy={"minReplicas": 1, "maxReplicas": 4}
    )
    await play.condition("Running")
    patch = {"spec": {"replicas": 1}}
    await kubeflow.client.patch(
        RESOURCES["PyTorchJob"], "elastic", patch, namespace=kubeflow.namespace, subresource="scale"
    )

    async def shrunk() -> bool:
        return set(await play.pods()) == set(await play.services()) == {"worker-0"}

    await eventually(shrunk)


async def test_a_job_that_runs_too_long_fails_on_time(kubeflow: World) -> None:
    specs = {"Worker": replica("TFJob", script=SERVE)}
    play = await Play.begin(kubeflow, "TFJob", "late", specs, runPolicy={"activeDeadlineSeconds": 2})
    ended = await play.done("Failed")
    assert ended.status["conditions"][-1]["message"].endswith("active longer than specified deadline")
    assert state(ended)["finished_at"] - state(ended)["started_at"] < 4


async def test_a_finished_job_disappears_after_its_time_to_live(kubeflow: World) -> None:
    specs = {"Worker": replica("TFJob", script="true")}
    play = await Play.begin(kubeflow, "TFJob", "short", specs, runPolicy={"ttlSecondsAfterFinished": 1})

    async def gone() -> bool:
        try:
            await play.object()
        except NotFoundError:
            return not await play.pods()
        return False

    await eventually(gone)


async def test_a_deleted_job_is_gone_at_once_and_frees_its_machines(kubeflow: World) -> None:
    play = await Play.begin(kubeflow, "TFJob", "gone", {"Worker": replica("TFJob", 2, script=SERVE)})
    await play.condition("Running")
    await play.delete()
    with pytest.raises(NotFoundError):
        await play.object()

    async def nothing_left() -> bool:
        return not await play.pods() and not await play.services()

    await eventually(nothing_left)
    again = await Play.begin(kubeflow, "TFJob", "gone", {"Worker": replica("TFJob", script=SERVE)})
    await again.condition("Running")


async def test_a_job_of_another_controller_is_left_alone(kubeflow: World) -> None:
    specs = {"Worker": replica("TFJob")}
    other = await Play.begin(kubeflow, "TFJob", "other", specs, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})
    ours = await Play.begin(kubeflow, "TFJob", "ours", specs)
    await ours.condition("Running")
    assert (await other.object()).status == {}
    assert [job.name async for job in kubeflow.store.unfinished()] == ["ours"]


async def test_the_controller_may_die_at_any_moment(kubeflow: World) -> None:
    play = await Play.begin(kubeflow, "TFJob", "life", {"Chief": replica("TFJob"), "Worker": replica("TFJob")})
    await play.condition("Running")
    before = {name: pod.metadata.uid for name, pod in (await play.pods()).items()}
    await kubeflow.kill()
    await play.tell_to_exit("chief-0", 0)
    await kubeflow.restart()
    await play.done("Succeeded")
    assert {name: pod.metadata.uid for name, pod in (await play.pods()).items()} == before
    assert (await play.job()).phase is Phase.COMPLETED


async def test_a_file_submitted_with_our_own_words_becomes_the_object_it_describes(kubeflow: World) -> None:
    document = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob"}
    document |= job_object("TFJob", "submitted", {"Worker": replica("TFJob")})
    document["metadata"]["namespace"] = kubeflow.namespace
    (translation,) = read_plain(document)
    job = new_job(JobId("submitted-1"), translation.spec, kubeflow.clock.now())
    await kubeflow.store.create(job)
    kubeflow.controller.changed(job.id)
    play = Play(kubeflow, "TFJob", "submitted")
    found = await play.condition("Running")
    assert found.metadata.labels["gangline.dev/job-id"] == job.id
    assert (await kubeflow.store.find(translation.spec.tenant, "submitted")).id == job.id
    await play.tell_to_exit("worker-0", 0)
    await play.done("Succeeded")
    await kubeflow.delete(job.id)
    with pytest.raises(NotFoundError):
        await play.object()
