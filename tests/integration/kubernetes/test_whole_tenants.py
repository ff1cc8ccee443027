"""Two tenants on a real cluster, each with its own user: neither reaches the other's jobs, nor beyond its rights."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gangline.compose.cluster import ClusterService
from gangline.engines.kubernetes import Installation, install, installation_objects, uninstall
from gangline.engines.kubernetes.installing.objects import CONTROLLER_NAME
from gangline.kinds.pipeline import PIPELINE
from gangline.kinds.sweep import SWEEP
from gangline.kube import (
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    ClusterAccess,
    ForbiddenError,
    GenericObject,
    KubeClient,
    Resource,
    load_access,
)
from gangline.model import JobId, Tenant
from gangline.storage.kubernetes import DEFINITIONS, JOBS, KubernetesStore, kubeflow_definitions, resource_of
from gangline.storage.kubernetes.records.creation import AUTHOR, INITIAL, JOB_ID, SUBMITTED_AS
from gangline.storage.kubernetes.records.record_text import FIELD, record_to_text
from gangline.testing.builders import make_job, make_running_job
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.world import SERVE, eventually
from tools.cluster import BUSYBOX
from tools.cluster.pytest_plugin import ClusterUnderTest

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = [pytest.mark.alone, pytest.mark.asyncio(loop_scope="module")]

OBJECTS = installation_objects(
    Installation(image=BUSYBOX, replicas=0, definitions=[*DEFINITIONS, *kubeflow_definitions()])
)
ACCOUNT = f"system:serviceaccount:gangline-system:{CONTROLLER_NAME}"
RBAC = "rbac.authorization.k8s.io"
ROLES = Resource(group=RBAC, plural="roles", kind="Role", type=GenericObject)
ROLE_BINDINGS = Resource(group=RBAC, plural="rolebindings", kind="RoleBinding", type=GenericObject)
TFJOBS = Resource(group="kubeflow.org", plural="tfjobs", kind="TFJob", type=GenericObject)
SECURE = {"pod-security.kubernetes.io/enforce": "restricted"}
RESOURCES = {"cpu": "50m", "memory": "32Mi"}


@dataclass(frozen=True)
class Tenants:
    """Two namespaces, ada who may edit the one, bob who may edit the other, and jim who may only submit to ada's."""

    admin: KubeClient
    ada: KubeClient
    bob: KubeClient
    jim: KubeClient
    names: dict[str, str]
    """Of the people, as the API server knows them."""

    async def get(self, client: KubeClient, name: str) -> GenericObject:
        return await client.get(JOBS, name)

    async def until(self, client: KubeClient, name: str, **want: str) -> GenericObject:
        """Wait until a job's status says so."""
        last: GenericObject | None = None

        async def said() -> bool:
            nonlocal last
            last = await self.get(client, name)
            return all(last.status.get(field) == value for field, value in want.items())

        try:
            await eventually(said)
        except TimeoutError:
            raise AssertionError(f"wanted {want}: {last.status if last is not None else None}") from None
        assert last is not None
        return last

    async def pods(self, client: KubeClient) -> list[Any]:
        return (await client.list(PODS, namespace=client.namespace)).items or []


def job(name: str = "mnist", *, template: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A job of one replica that goes on until it is stopped."""
    role: dict[str, Any] = {"command": ["sh", "-c", SERVE], "image": BUSYBOX, "resources": RESOURCES}
    if template is not None:
        role["pod_template"] = template
    spec = {"policy": {"grace": "2s", "max_attempts": 1}, "roles": {"worker": role}}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def speaking_as(access: ClusterAccess, user: str) -> ClusterAccess:
    return replace(access, impersonation=(("Impersonate-User", user),))


async def settle(client: KubeClient, namespace: str, user: str, *, role: dict[str, str]) -> None:
    """Let a user have a role in a namespace."""
    binding = {
        "metadata": {"name": user, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, **role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
    }
    await client.create(ROLE_BINDINGS, binding)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(kubernetes_cluster: ClusterUnderTest) -> AsyncIterator[None]:
    """The whole installation, with the leader in this process and with the rights of its own account."""
    access = load_access(path=kubernetes_cluster.kubeconfig)
    stop = asyncio.Event()
    async with KubeClient(access) as client:
        await install(client, OBJECTS, print)
        service = ClusterService(
            access=speaking_as(access, ACCOUNT),
            context="test",
            identity="test",
            namespace="gangline-system",
            host="127.0.0.1",
            port=0,
            image=BUSYBOX,
        )
        leading = asyncio.create_task(service.run(stop=stop))
        yield
        stop.set()
        await leading
        await uninstall(client, OBJECTS, print)


@pytest_asyncio.fixture(loop_scope="module")
async def tenants(installed: None, kubernetes_cluster: ClusterUnderTest) -> AsyncIterator[Tenants]:
    access = load_access(path=kubernetes_cluster.kubeconfig)
    mark = uuid.uuid4().hex[:8]
    users = {user: f"{user}-{mark}" for user in ("ada", "bob", "jim")}
    places = {"ada": f"a-{mark}", "bob": f"b-{mark}", "jim": f"a-{mark}"}
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(KubeClient(access))
        for namespace in sorted(set(places.values())):
            await admin.create(NAMESPACES, {"metadata": {"name": namespace}})
        submits = [
            {"apiGroups": ["gangline.dev"], "resources": ["jobs", "sweeps", "pipelines", "schedules"], "verbs": ["*"]},
            {"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"], "verbs": ["*"]},
        ]
        metadata = {"name": "submitter", "namespace": places["jim"]}
        await admin.create(ROLES, {"metadata": metadata, "rules": submits})
        edit, submitter = {"kind": "ClusterRole", "name": "edit"}, {"kind": "Role", "name": "submitter"}
        clients = {}
        for user, name in users.items():
            await settle(admin, places[user], name, role=submitter if user == "jim" else edit)
            clients[user] = await stack.enter_async_context(KubeClient(speaking_as(access, name)))
            clients[user].namespace = places[user]
        yield Tenants(admin=admin, names=users, **clients)
        for namespace in set(places.values()):
            await release_jobs(admin, namespace)
            await admin.delete_all(PODS, labels=None, namespace=namespace, grace_seconds=0)
            await admin.delete(NAMESPACES, namespace)


async def running_pod(tenants: Tenants, client: KubeClient, name: str = "mnist") -> dict[str, Any]:
    """Wait until a job of one replica runs; return its pod as it is written."""
    await tenants.until(client, name, phase="PROCESSING")
    (pod,) = await tenants.pods(client)
    metadata = pod.metadata
    owner = metadata.owner_references[0]
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return {"name": metadata.name, "labels": dict(metadata.labels), "ownerReferences": [reference]}


@pytest.mark.parametrize("owned", [False, True], ids=["with its labels", "with its owner too"])
async def test_a_pod_that_looks_like_anothers_replica_ends_nobodys_job(tenants: Tenants, *, owned: bool) -> None:
    await tenants.bob.create(JOBS, job())
    real = await running_pod(tenants, tenants.bob)
    container = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", "exit 3"]}
    forged = {
        # With an owner that is not in its namespace, garbage collection soon takes it away; its end is seen before.
        "metadata": {**real, "namespace": tenants.ada.namespace, **({} if owned else {"ownerReferences": []})},
        "spec": {"restartPolicy": "Never", "nodeName": await a_node(tenants.admin), "containers": [container]},
    }
    await tenants.ada.create(PODS, forged)

    async def over() -> bool:
        return all(pod.status.phase == "Failed" for pod in await tenants.pods(tenants.ada))

    await eventually(over)
    # A job of ada's that comes later has run: whatever the leader makes of her pod, it has made of it by now.
    later = job("later")
    later["spec"]["roles"]["worker"]["command"] = ["true"]
    await tenants.ada.create(JOBS, later)
    await tenants.until(tenants.ada, "later", phase="COMPLETED")
    found = await tenants.get(tenants.bob, "mnist")
    assert (found.status["phase"], found.status["attempt"]) == ("PROCESSING", 1)
    (pod,) = await tenants.pods(tenants.bob)
    assert (pod.metadata.name, pod.status.phase) == (real["name"], "Running")
    await tenants.bob.delete(JOBS, "mnist")


async def a_node(client: KubeClient) -> str:
    pods = (await client.list(PODS)).items or ()
    return next(pod.spec.node_name for pod in pods if pod.spec.node_name and pod.status.phase == "Running")


async def test_an_annotation_makes_no_job_old_nor_gives_it_a_past(tenants: Tenants) -> None:
    made = make_running_job(job_id="forged-1", at=1.0)
    labels = {JOB_ID: f"forged-{tenants.ada.namespace}"}
    body = job(labels=labels, annotations={INITIAL: record_to_text(made, ())})
    body["spec"]["roles"]["worker"]["resources"] = {"cpu": "4000"}  # it waits
    created = await tenants.ada.create(JOBS, body)
    seen = await tenants.until(tenants.ada, "mnist", phase="QUEUED")
    assert created.metadata.creation_timestamp is not None
    stamp = created.metadata.creation_timestamp.timestamp()
    kept = await KubernetesStore(tenants.ada, namespace=tenants.ada.namespace).get(JobId(labels[JOB_ID]))
    assert stamp <= kept.created_at < stamp + 1
    assert [entry["phase"] for entry in seen.status["history"]] == ["QUEUED"]


async def test_an_id_of_another_tenants_job_is_refused_and_gives_no_hand_in_it(tenants: Tenants) -> None:
    real = await tenants.bob.create(JOBS, job())
    await running_pod(tenants, tenants.bob)
    taken = job("thief", labels={JOB_ID: real.metadata.uid})
    await tenants.ada.create(JOBS, taken)
    refused = await tenants.until(tenants.ada, "thief", reason="InvalidJob")
    assert "has the id of another job" in refused.status["message"]
    await tenants.ada.delete(JOBS, "thief")

    # Nor by way of the record, which whoever edits a job may write.
    await tenants.ada.create(JOBS, job("forger"))
    await tenants.until(tenants.ada, "forger", phase="PROCESSING")
    record = record_to_text(make_job(job_id=real.metadata.uid), ())
    await tenants.ada.patch(JOBS, "forger", {"status": {FIELD: record}}, subresource="status")
    await tenants.until(tenants.ada, "forger", reason="InvalidJob")
    await tenants.ada.delete(JOBS, "forger")

    found = await tenants.get(tenants.bob, "mnist")
    assert (found.status["phase"], found.status["attempt"]) == ("PROCESSING", 1)
    (pod,) = await tenants.pods(tenants.bob)
    assert pod.metadata.deletion_timestamp is None


async def test_what_says_which_job_an_object_is_cannot_be_changed(tenants: Tenants) -> None:
    await tenants.ada.create(JOBS, job())
    for patch in (
        {"labels": {JOB_ID: "another"}},
        {"annotations": {SUBMITTED_AS: "elsewhere/other"}},
        {"annotations": {AUTHOR: tenants.names["ada"]}},
    ):
        with pytest.raises(ForbiddenError, match="say which job this is and cannot be changed"):
            await tenants.ada.patch(JOBS, "mnist", {"metadata": patch})
    await tenants.ada.patch(JOBS, "mnist", {"metadata": {"labels": {"team": "vision"}}})


async def test_nobody_submits_in_the_name_of_another(tenants: Tenants) -> None:
    place = f"{tenants.ada.namespace}/mnist"
    for marks in ({SUBMITTED_AS: place}, {}):
        with pytest.raises(ForbiddenError, match="names somebody else"):
            await tenants.ada.create(JOBS, job(annotations={AUTHOR: tenants.names["bob"], **marks}))
    store = KubernetesStore(tenants.ada, namespace=tenants.ada.namespace, author=tenants.names["ada"])
    # A copy of somebody's job is a job of its own.
    await tenants.ada.create(JOBS, job("copy", annotations={AUTHOR: tenants.names["bob"], SUBMITTED_AS: "b/mnist"}))
    copy = await store.find(Tenant(tenants.ada.namespace), "copy")
    assert not [record for record in await store.journal(copy.id) if record.reason == "Submitted"]


PRIVILEGED = {"privileged": True, "allowPrivilegeEscalation": True}
ESCALATIONS: dict[str, dict[str, Any]] = {
    "hostPath": {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
    "hostNetwork": {"hostNetwork": True},
    "hostPID": {"hostPID": True, "shareProcessNamespace": False},
    "hostIPC": {"hostIPC": True},
    "privileged": {"containers": [{"name": "main", "securityContext": PRIVILEGED}]},
    "root": {"securityContext": {"runAsNonRoot": False, "runAsUser": 0}},
}
BORROWINGS: dict[str, dict[str, Any]] = {
    "the controller's service account": {"serviceAccountName": CONTROLLER_NAME},
    "a token": {"automountServiceAccountToken": True},
    "a projected token": {
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]
    },
    "a secret": {"volumes": [{"name": "secret", "secret": {"secretName": "payroll"}}]},
    "an image pull secret": {"imagePullSecrets": [{"name": "payroll"}]},
    "a node": {"nodeName": "node1"},
}


async def test_pod_security_holds_for_the_pods_of_jobs(tenants: Tenants) -> None:
    await tenants.admin.patch(NAMESPACES, tenants.ada.namespace, {"metadata": {"labels": SECURE}})
    for name, template in ESCALATIONS.items():
        await tenants.ada.create(JOBS, job(name.lower(), template={"spec": template}))
    for name in ESCALATIONS:
        failed = await tenants.until(tenants.ada, name.lower(), phase="FAILED")
        barred = "disallowed by cluster policy" in failed.status["message"]  # an API server may bar it for everybody
        assert barred or failed.status["reason"] == "PodSecurityViolation", (name, failed.status["message"])
    assert not await tenants.pods(tenants.ada)


async def test_who_may_not_make_pods_may_not_have_the_controller_make_them_by_template(tenants: Tenants) -> None:
    for template in (ESCALATIONS | BORROWINGS).values():
        body = job(template={"spec": template})
        trial = {"template": {"spec": body["spec"]}}
        container = {"name": "tensorflow", "image": BUSYBOX}
        replicas = {"Worker": {"template": {"spec": {**template, "containers": [container]}}}}
        for resource, submitted in (
            (JOBS, body),
            (resource_of(SWEEP), {"metadata": {"name": "grid"}, "spec": {"parameters": {"rate": [1, 2]}, **trial}}),
            (TFJOBS, {"metadata": {"name": "mnist"}, "spec": {"tfReplicaSpecs": replicas}}),
            (resource_of(PIPELINE), {"metadata": {"name": "steps"}, "spec": {"steps": {"one": {"job": body["spec"]}}}}),
        ):
            with pytest.raises(ForbiddenError, match="you may not create pods in this namespace"):
                await tenants.jim.create(resource, submitted)


async def test_who_may_not_make_pods_may_submit_what_the_controller_itself_confines(tenants: Tenants) -> None:
    await tenants.jim.create(JOBS, job())
    await tenants.until(tenants.jim, "mnist", phase="PROCESSING")
    (pod,) = await tenants.pods(tenants.ada)
    whole = await tenants.admin.raw(f"/api/v1/namespaces/{tenants.ada.namespace}/pods/{pod.metadata.name}")
    assert b"serviceaccount/token" not in whole.replace(b"serviceAccountToken", b"serviceaccount/token")
    for change in (
        {"spec": {"roles": {"worker": {"pod_template": {"spec": {"hostNetwork": True}}}}}},
        {"metadata": {"labels": {"gangline.dev/volume": "payroll"}}},
        {"spec": {"data": {"inputs": [{"from": "pvc://payroll/all", "to": "$DATA_DIR"}]}}},
    ):
        with pytest.raises(ForbiddenError, match="you may not create pods in this namespace"):
            await tenants.jim.patch(JOBS, "mnist", change)
    await tenants.jim.patch(JOBS, "mnist", {"metadata": {"labels": {"team": "vision"}}})


async def test_a_template_reaches_nothing_outside_the_namespace_of_its_job(tenants: Tenants) -> None:
    given = {"metadata": {"namespace": tenants.bob.namespace}, "spec": {"nodeName": "no-such-node"}}
    await tenants.ada.create(JOBS, job(template=given))
    await running_pod(tenants, tenants.ada)
    assert not await tenants.pods(tenants.bob)
    (pod,) = await tenants.pods(tenants.ada)
    assert pod.spec.node_name != "no-such-node"
    await tenants.ada.delete(JOBS, "mnist")

    account = {"spec": {"serviceAccountName": CONTROLLER_NAME}}
    await tenants.ada.create(JOBS, job("borrower", template=account))
    failed = await tenants.until(tenants.ada, "borrower", phase="FAILED")
    assert failed.status["reason"] == "Forbidden"
    assert f'serviceaccount "{CONTROLLER_NAME}" not found' in failed.status["message"]


async def test_nobody_submits_into_the_namespace_of_another(tenants: Tenants) -> None:
    with pytest.raises(ForbiddenError, match="cannot create resource"):
        await tenants.ada.create(JOBS, job(), namespace=tenants.bob.namespace)


async def test_the_journal_names_people_as_the_cluster_knows_them(
    tenants: Tenants, kubernetes_cluster: ClusterUnderTest, tmp_path: Path
) -> None:
    ada, namespace = tenants.names["ada"], tenants.ada.namespace
    gangline = CommandLine(kubernetes_cluster, tmp_path, user=ada, namespace=namespace)
    await gangline("submit", "--image", BUSYBOX, "--name", "signed", "--cpu", "50m", "--", "sh", "-c", SERVE)
    await tenants.until(tenants.ada, "signed", phase="PROCESSING")
    await gangline("halt", "signed")
    made = await tenants.get(tenants.ada, "signed")
    assert made.metadata.annotations[AUTHOR] == ada
    store = KubernetesStore(tenants.ada, namespace=namespace)
    journal = await store.journal((await store.find(Tenant(namespace), "signed")).id)
    told = {record.reason: record.message for record in journal}
    assert told["Submitted"] == f"by {ada}"
    assert f"by {ada}" in told["HaltRequested"]


async def test_a_kubeflow_job_is_closed_to_others_while_it_runs(tenants: Tenants) -> None:
    container = {"name": "tensorflow", "image": BUSYBOX, "command": ["sh", "-c", SERVE]}
    worker = {"replicas": 2, "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}}
    await tenants.ada.create(TFJOBS, {"metadata": {"name": "mnist"}, "spec": {"tfReplicaSpecs": {"Worker": worker}}})

    async def policies() -> list[GenericObject]:
        return (await tenants.ada.list(NETWORK_POLICIES, namespace=tenants.ada.namespace)).items or []

    async def closed() -> bool:
        found = await policies()
        return len(await tenants.pods(tenants.ada)) == 2 and len(found) == 1

    await eventually(closed)
    (policy,) = await policies()
    pods = await tenants.pods(tenants.ada)
    wanted = policy.spec["podSelector"]["matchLabels"].items()
    assert all(wanted <= pod.metadata.labels.items() for pod in pods)
    await tenants.ada.delete(TFJOBS, "mnist")

    async def open_again() -> bool:
        return not await policies() and not await tenants.pods(tenants.ada)

    await eventually(open_again)
