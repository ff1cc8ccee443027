"""Gangline installed in a real cluster and used from the command line, with the controller running in its own pods."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.engines.kubernetes.installing.objects import CONTROLLER_NAME
from gangline.kinds.queue import QUEUE
from gangline.kube import LEASES, NAMESPACES, PODS, ApiError, KubeClient, Resource
from gangline.kube.objects import GenericObject
from gangline.model import NamedAmounts, Queue, QueueName
from gangline.storage.kubernetes import JOBS, KubernetesStore
from gangline.testing.builders import make_queue
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.test_whole_katib import make_shared_claim
from tests.integration.kubernetes.world import OBEDIENT, eventually
from tests.integration.test_population import INTERVAL, LAST, TRAIN
from tools.cluster import BUSYBOX
from tools.cluster.pytest_plugin import ClusterUnderTest
from tools.cluster.python_image import python_image

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = pytest.mark.alone

SYSTEM = "gangline-system"
SMALL = ("--cpu", "50m", "--memory", "32Mi")
POLICIES = Resource(
    group="admissionregistration.k8s.io",
    plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    type=GenericObject,
    namespaced=False,
)
POLICY_BINDINGS = Resource(
    group="admissionregistration.k8s.io",
    plural="validatingadmissionpolicybindings",
    kind="ValidatingAdmissionPolicyBinding",
    type=GenericObject,
    namespaced=False,
)
DEPLOYMENTS = Resource(group="apps", plural="deployments", kind="Deployment", type=GenericObject)
ROLE_BINDINGS = Resource(
    group="rbac.authorization.k8s.io", plural="rolebindings", kind="RoleBinding", type=GenericObject
)
PROGRAM = """
import gangline.runtime as runtime
replica = runtime.current()
print("I am", replica.name, flush=True)
runtime.report(step=1, loss=0.5)
"""
SWEEP = """
kind: Sweep
metadata: {name: grid}
spec:
  objective: {metric: score, goal: maximize}
  parameters: {rate: [1, 3, 2]}
  template:
    spec:
      image: IMAGE
      code: .
      resources: {cpu: 50m, memory: 64Mi}
      command: [python3, trial.py, $(rate)]
"""
POPULATION = f"""
kind: Sweep
metadata: {{name: population}}
spec:
  sampler: random
  seed: 1
  objective: {{metric: skill, goal: maximize}}
  parameters: {{rate: {{min: 0.001, max: 1.0}}}}
  budget: {{trials: 3}}
  stopping: {{rule: pbt, first: {INTERVAL}, last: {LAST}}}
  template:
    metadata: {{labels: {{gangline.dev/volume: disk}}}}
    spec:
      image: IMAGE
      code: .
      resources: {{cpu: 50m, memory: 64Mi}}
      command: [python3, train.py]
"""


@pytest.fixture(scope="module")
def admin(
    kubernetes_cluster: ClusterUnderTest, kubernetes_python_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandLine]:
    """An administrator who has installed Gangline, and removes it afterwards."""
    gangline = CommandLine(kubernetes_cluster, tmp_path_factory.mktemp("admin"))
    done = gangline.run("install", "--image", kubernetes_python_image)
    assert done.returncode == 0, done.stderr
    assert "controller: 2 of 2 replicas ready" in done.stderr
    yield gangline
    done = gangline.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert "not installed" in gangline.run("list").stderr


@pytest.fixture
async def tenants(kubernetes_client: KubeClient) -> AsyncIterator[tuple[str, str]]:
    """Two namespaces of this test's own."""
    names = tuple(f"{colour}-{uuid.uuid4().hex[:8]}" for colour in ("red", "blue"))
    for name in names:
        await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
    yield names
    for name in names:
        await release_jobs(kubernetes_client, name)
        await kubernetes_client.delete_all(PODS, labels=None, namespace=name, grace_seconds=0)
        await kubernetes_client.delete(NAMESPACES, name)


@pytest.fixture
def red(
    admin: CommandLine, kubernetes_cluster: ClusterUnderTest, tenants: tuple[str, str], tmp_path: Path
) -> CommandLine:
    """The administrator at work in the first namespace."""
    return CommandLine(kubernetes_cluster, tmp_path, namespace=tenants[0])


async def test_shipped_code_runs_and_its_output_outlives_its_pods(
    red: CommandLine, tenants: tuple[str, str], kubernetes_client: KubeClient, kubernetes_python_image: str
) -> None:
    (red.folder / "train.py").write_text(PROGRAM)
    said = await red(
        "submit",
        "--image",
        kubernetes_python_image,
        "--name",
        "ship",
        "--workers",
        "2",
        *SMALL,
        "--",
        "python3",
        "train.py",
    )
    assert "shipping the current directory" in said
    assert f"gangline --context {red.context} logs -f ship" in said
    assert "ship is COMPLETED" in await red("wait", "ship")

    async def pods_are_gone() -> bool:
        return not (await kubernetes_client.list(PODS, namespace=tenants[0])).items

    await eventually(pods_are_gone)
    assert sorted((await red("logs", "ship")).splitlines()) == ["[worker-0] I am worker-0", "[worker-1] I am worker-1"]
    await red.until(lambda text: "loss" in text and "0.5" in text, "metrics", "ship", "--latest")
    await red("delete", "ship")
    assert "no jobs" in await red("list")


async def test_a_replica_can_be_entered_and_killed_and_survives_the_drill(
    red: CommandLine, kubernetes_cluster: ClusterUnderTest, tenants: tuple[str, str], tmp_path: Path
) -> None:
    await red(
        *("submit", "--image", BUSYBOX, "--name", "busy", "--workers", "2", *SMALL, "-e", "WORD=inside"),
        *("--", "sh", "-c", OBEDIENT),
    )
    await red("wait", "busy", "--for", "PROCESSING")
    assert "inside worker 1" in await red(
        "attach", "busy", "-i", "worker-1", "--", "sh", "-c", "echo $WORD $GANGLINE_ROLE $GANGLINE_INDEX"
    )
    assert "ls: /nowhere" in await red("attach", "busy", "--", "ls", "/nowhere", want_code=1)
    stranger = CommandLine(kubernetes_cluster, tmp_path, user="stranger", namespace=tenants[0])
    assert "cannot list" in await stranger("attach", "busy", "--", "true", want_code=5)
    assert "killed worker-" in await red("chaos", "busy", "--kill", "worker=1s", "--for", "1s")
    await red.until(lambda text: "AllReplicasStarted" in text and "2/2" in text, "get", "busy")
    listed = (await red("--tenant", "default", "list", "-A")).splitlines()
    assert [tenants[0], "busy"] in [line.split()[:2] for line in listed]
    assert "cannot list" in await stranger("list", "-A", want_code=5)
    assert "cannot list" in await stranger("list", "-A", "-w", want_code=5)
    watched = red.folder / "watched"
    with watched.open("wb") as file:
        watching = red.start("--tenant", "default", "list", "-A", "-w", "busy", output=file)

    async def rows() -> list[list[str]]:
        return [line.split() for line in watched.read_text().splitlines()]

    async def shows_the_job() -> bool:
        return [tenants[0], "busy"] in [row[:2] for row in await rows()]

    async def shows_its_end() -> bool:
        return (await rows())[-1][-1] == "deleted"

    await eventually(shows_the_job)
    await red("delete", "busy")
    await eventually(shows_its_end)
    watching.terminate()
    watching.wait()


async def test_the_doctor_knows_a_cluster_and_what_its_user_may_do(
    red: CommandLine, kubernetes_cluster: ClusterUnderTest, tenants: tuple[str, str], tmp_path: Path
) -> None:
    said = await red("doctor")
    for line in ("controller: 2 of 2 replicas ready", "leader: gangline-controller", "rights: all that commands need"):
        assert f"ok    {line}" in said
    stranger = CommandLine(kubernetes_cluster, tmp_path, user="stranger", namespace=tenants[0])
    said = await stranger("doctor", want_code=1)
    assert "ok    user: stranger" in said
    assert "note  controller: you may not look" in said
    assert "FAIL  rights: in namespace" in said
    assert "attach (create pods/exec)" in said


async def test_an_upgrade_to_another_image_leaves_what_runs_alone(
    admin: CommandLine,
    red: CommandLine,
    tenants: tuple[str, str],
    kubernetes_cluster: ClusterUnderTest,
    kubernetes_client: KubeClient,
) -> None:
    await red("submit", "--image", BUSYBOX, "--name", "lasting", "--workers", "2", *SMALL, "--", "sh", "-c", OBEDIENT)
    await red.until(lambda text: "PROCESSING" in text, "get", "lasting")

    async def uids(namespace: str) -> set[str]:
        pods = (await kubernetes_client.list(PODS, namespace=namespace)).items or ()
        return {pod.metadata.uid for pod in pods if pod.metadata.deletion_timestamp is None}

    replicas, controllers = await uids(tenants[0]), await uids(SYSTEM)
    another = replace(python_image(), name="gangline.local/python:2")
    kubernetes_cluster.load(another)
    said = await admin("install", "--image", another.name)
    assert "controller: 2 of 2 replicas ready" in said

    async def replaced() -> bool:
        return controllers.isdisjoint(await uids(SYSTEM))

    await eventually(replaced)
    # The new leader knows the gang: it stops it when it is asked to, and has not touched it before.
    await red("submit", "--image", BUSYBOX, "--name", "later", *SMALL, "--", "true")
    assert "later is COMPLETED" in await red("wait", "later")
    assert replicas <= await uids(tenants[0])
    found = await kubernetes_client.get(JOBS, "lasting", namespace=tenants[0])
    assert (found.status["phase"], found.status["attempt"]) == ("PROCESSING", 1)
    await red("halt", "lasting")
    await red.until(lambda text: "HALTED" in text, "get", "lasting")
    assert not await uids(tenants[0])


async def test_why_a_job_waits_is_in_its_status_for_whoever_may_read_it(red: CommandLine) -> None:
    await red("submit", "--image", BUSYBOX, "--name", "vast", "--cpu", "500", "--memory", "32Mi", "--", "true")
    said = await red.until(lambda text: "would not fit" in text, "explain", "vast", "--no-forecast")
    assert "vast is QUEUED." in said
    assert "Missing: " in said
    facts = json.loads(await red("explain", "vast", "--no-forecast", "-o", "json"))
    assert (facts["constraint"], facts["role"]) == ("too-large", "worker")
    assert facts["line"]["place_in_queue"] >= 1
    assert "It is number" in said
    await red("cancel", "vast")
    assert "does not wait for machines: it is CANCELLED" in await red("explain", "vast")


async def test_a_gang_that_an_admission_rule_denies_says_so_and_holds_nothing(
    red: CommandLine, tenants: tuple[str, str], kubernetes_client: KubeClient
) -> None:
    await _deny_pods(kubernetes_client, tenants[0])
    try:
        await red("submit", "--image", BUSYBOX, "--name", "denied", "--workers", "3", *SMALL, "--", "true")
        said = await red.until(lambda text: "FAILED" in text, "get", "denied")
        assert "AdmissionDenied" in said
        assert "no pods on Sundays" in said
        assert "no pods on Sundays" in await red("explain", "denied")
        assert not (await kubernetes_client.list(PODS, namespace=tenants[0])).items
    finally:
        await kubernetes_client.delete(POLICY_BINDINGS, tenants[0])
        await kubernetes_client.delete(POLICIES, tenants[0])


async def _deny_pods(client: KubeClient, namespace: str) -> None:
    """Deny every pod of a namespace, and wait until the API server does."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": chosen},
        "validations": [{"expression": "false", "message": "no pods on Sundays"}],
    }
    await client.create(POLICIES, {"metadata": {"name": namespace}, "spec": spec})
    binding = {"policyName": namespace, "validationActions": ["Deny"]}
    await client.create(POLICY_BINDINGS, {"metadata": {"name": namespace}, "spec": binding})
    pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "main", "image": BUSYBOX}]}}

    async def denied() -> bool:
        try:
            await client.create(PODS, pod, namespace=namespace, dry_run=True)
        except ApiError as error:
            return "no pods on Sundays" in error.message
        return False

    await eventually(denied)


async def test_a_leader_that_is_deleted_hands_over(admin: CommandLine, kubernetes_client: KubeClient) -> None:
    leader, began = await _leader(kubernetes_client), time.monotonic()
    await kubernetes_client.delete(PODS, leader, namespace=SYSTEM)
    await eventually(lambda: _leads_another(kubernetes_client, leader))
    print(f"leader deleted, until another leads: {time.monotonic() - began:.2f} s")


async def test_when_the_leader_is_killed_the_other_goes_on_and_nothing_runs_twice(
    red: CommandLine, tenants: tuple[str, str], kubernetes_client: KubeClient
) -> None:
    """No pod can be killed without warning; two controllers on this machine can, and stand in for the cluster's own."""
    await kubernetes_client.patch(DEPLOYMENTS, CONTROLLER_NAME, {"spec": {"replicas": 0}}, namespace=SYSTEM)
    await eventually(lambda: _nobody_is_left(kubernetes_client))
    controllers = [red.start("controller", "run") for _ in range(2)]
    try:
        await red(
            "submit", "--image", BUSYBOX, "--name", "steady", "--workers", "2", *SMALL, "--", "sh", "-c", OBEDIENT
        )
        await red("wait", "steady", "--for", "PROCESSING")
        before = await _pods(kubernetes_client, tenants[0])
        leader, began = await _leader(kubernetes_client), time.monotonic()
        next(process for process in controllers if leader.endswith(f"-{process.pid}")).kill()
        submitting = asyncio.create_task(red("submit", "--image", BUSYBOX, "--name", "after", *SMALL, "--", "true"))
        await eventually(lambda: _leads_another(kubernetes_client, leader))
        print(f"leader killed -9, until another leads: {time.monotonic() - began:.2f} s")
        await submitting
        await red("wait", "after")
        print(f"leader killed -9, until a job submitted meanwhile has ended: {time.monotonic() - began:.2f} s")
        assert await _pods(kubernetes_client, tenants[0]) == before
        assert json.loads(await red("get", "steady", "-o", "json"))["status"]["attempt"] == 1
        await red("halt", "steady")
        await red("wait", "steady", "--for", "HALTED")
        assert await _pods(kubernetes_client, tenants[0]) == set()
    finally:
        for process in controllers:
            process.kill()
            process.wait()
        await kubernetes_client.patch(DEPLOYMENTS, CONTROLLER_NAME, {"spec": {"replicas": 2}}, namespace=SYSTEM)


async def _leads_another(client: KubeClient, than: str) -> bool:
    return await _leader(client) not in ("", than)


async def _nobody_is_left(client: KubeClient) -> bool:
    pods = (await client.list(PODS, namespace=SYSTEM)).items or ()
    return not [pod for pod in pods if pod.metadata.name.startswith(f"{CONTROLLER_NAME}-")]


async def _leader(client: KubeClient) -> str:
    return (await client.get(LEASES, CONTROLLER_NAME, namespace=SYSTEM)).spec.holder_identity or ""


async def _pods(client: KubeClient, namespace: str) -> set[str]:
    """The uids of the pods of the job ``steady``."""
    pods = await client.list(PODS, namespace=namespace, labels={"gangline.dev/job": "steady"})
    return {pod.metadata.uid for pod in pods.items or ()}


async def test_a_tenant_can_neither_read_nor_halt_nor_starve_another(
    red: CommandLine, kubernetes_cluster: ClusterUnderTest, kubernetes_client: KubeClient, tenants: tuple[str, str]
) -> None:
    ada_at, other = tenants
    await _let_edit(kubernetes_client, "ada", ada_at)
    limit = NamedAmounts({"cpu_millis": 100})
    queue = make_queue(Queue(name=QueueName("ada"), limit=limit))
    await KubernetesStore(kubernetes_client).records(QUEUE).create(queue)
    ada = CommandLine(kubernetes_cluster, red.folder, user="ada", namespace=ada_at)
    await red("--tenant", other, "submit", "--image", BUSYBOX, "--name", "theirs", *SMALL, "--", "sh", "-c", OBEDIENT)
    for words in (("list",), ("get", "theirs"), ("logs", "theirs"), ("halt", "theirs"), ("delete", "theirs")):
        said = await ada("--tenant", other, *words, want_code=5)
        assert "forbids it" in said
    assert "you may not" in await ada("top", "node", want_code=5)
    assert "nothing was changed" in await ada("install", want_code=5)
    for number in range(4):
        name = ("--name", f"greedy-{number}", "--queue", "ada")
        await ada("submit", "--image", BUSYBOX, *name, *SMALL, "--", "sh", "-c", OBEDIENT)
    said = await ada.until(lambda text: "is at its limit" in text, "explain", "greedy-3")
    assert "greedy-3 is QUEUED." in said
    assert "theirs" not in said
    listed = json.loads(await ada("list", "-o", "json"))
    assert sum(job["status"]["phase"] in ("STARTING", "DOWNLOADING", "PROCESSING") for job in listed) == 2
    assert "greedy-0" in await ada.until(lambda text: "node" in text, "top", "job")
    await red("--tenant", other, "wait", "theirs", "--for", "PROCESSING")


async def _let_edit(client: KubeClient, user: str, namespace: str) -> None:
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    body = {"metadata": {"name": "editors"}, "roleRef": role, "subjects": [subject]}
    await client.create(ROLE_BINDINGS, body, namespace=namespace)


async def test_a_sweep_runs_its_trials_with_code_that_is_sent_once(
    red: CommandLine, kubernetes_python_image: str
) -> None:
    (red.folder / "trial.py").write_text(
        "import sys, gangline.runtime as r; r.report(step=1, score=float(sys.argv[1]))"
    )
    (red.folder / "sweep.yaml").write_text(SWEEP.replace("IMAGE", kubernetes_python_image))
    await red("sweep", "-f", "sweep.yaml", "--wait")
    found = json.loads(await red("sweep", "get", "grid", "-o", "json"))
    assert [(trial["values"]["rate"], trial["phase"]) for trial in found["status"]["trials"]] == [
        ("1", "COMPLETED"),
        ("3", "COMPLETED"),
        ("2", "COMPLETED"),
    ]
    await red.until(lambda text: "score 3 with rate=3" in text, "sweep", "list")
    await red("sweep", "delete", "grid")
    assert "no jobs" in await red("list")


async def test_a_population_goes_on_from_checkpoints_of_its_best(
    red: CommandLine, tenants: tuple[str, str], kubernetes_client: KubeClient, kubernetes_python_image: str
) -> None:
    disk = red.folder / "disk"
    await asyncio.to_thread(disk.mkdir)
    await make_shared_claim(kubernetes_client, tenants[0], "disk", disk)
    (red.folder / "train.py").write_text(TRAIN)
    (red.folder / "population.yaml").write_text(POPULATION.replace("IMAGE", kubernetes_python_image))
    await red("sweep", "-f", "population.yaml", "--wait")
    trials = json.loads(await red("sweep", "get", "population", "-o", "json"))["status"]["trials"]
    copies = [trial for trial in trials if trial.get("parent") is not None]
    assert len(copies) == 2, "one at each of the rungs"
    for rung, copy in enumerate(copies, 1):
        step, skill = (await red("logs", f"population-{copy['number']}")).splitlines()[0].split()[-2:]
        assert int(step) >= rung * INTERVAL, "it began where its parent rested"
        assert float(skill) > 0
    assert sum(trial["phase"] == "COMPLETED" for trial in trials) == 3
    await red("sweep", "delete", "population")


async def test_what_the_controller_is_doing_is_on_its_metrics_page(
    admin: CommandLine, kubernetes_client: KubeClient
) -> None:
    leader = await _leader(kubernetes_client)
    path = f"/api/v1/namespaces/{SYSTEM}/pods/{leader}:8080/proxy"
    assert (await kubernetes_client.raw(f"{path}/healthz")).strip() == b"ok"
    assert (await kubernetes_client.raw(f"{path}/readyz")).strip() == b"ok"
    page = (await kubernetes_client.raw(f"{path}/metrics")).decode()
    assert "gangline_leader 1" in page
    assert "gangline_step_seconds_count" in page
