"""The objects of Kubeflow jobs: upstream's names, labels and mounts, the template to the letter."""

import base64
import json
from typing import Any

from gangline.dialects import read_plain
from gangline.dialects.kubeflow import kind_of
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.kubeflow_pods import (
    KubeflowGang,
    kubeflow_network_policy,
    kubeflow_pods,
    kubeflow_secret,
    kubeflow_services,
)
from gangline.engines.kubernetes.manifests.mpi import kubeflow as kubeflow_mpi
from gangline.kube import OwnerReference
from gangline.model import Gang, GangId, GangReplica, JobId, NodeName, ReplicaId

Plain = dict[str, Any]
OWNER = OwnerReference(api_version="kubeflow.org/v1", kind="TFJob", name="mnist", uid="u", block_owner_deletion=True)


def gang_of(document: Plain) -> KubeflowGang:
    (translation,) = read_plain(document)
    spec = translation.spec
    kind = kind_of(spec)
    assert kind is not None
    replicas = tuple(
        GangReplica(id=ReplicaId(role.name, index), node=NodeName("n1"))
        for role in spec.roles
        for index in range(role.replicas)
    )
    gang = Gang(id=GangId(JobId("job-1"), 2), spec=spec, replicas=replicas)
    return KubeflowGang(gang=gang, kind=kind, controller="gangline", owner=OWNER)


def tfjob(pod: Plain) -> Plain:
    metadata = {"labels": {"team": "vision"}, "annotations": {"note": "mine"}, "finalizers": ["example.com/held"]}
    template = {"metadata": metadata, "spec": pod}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "mnist", "namespace": "red"},
        "spec": {"tfReplicaSpecs": {"Chief": {"template": template}, "Worker": {"template": template}}},
    }


def mpijob(version: str, **worker: Any) -> Plain:
    def template(**fields: Any) -> Plain:
        return {"template": {"spec": {"containers": [{"name": "mpi", "image": "acme/mpi", **fields}]}}}

    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": "pi", "namespace": "red"},
        "spec": {
            "slotsPerWorker": 2,
            "mpiReplicaSpecs": {
                "Launcher": template(command=["mpirun"]),
                "Worker": {"replicas": 2, **template(**worker)},
            },
        },
    }


def test_a_pod_is_its_template_with_a_name_labels_environment_and_node() -> None:
    sidecar = {"name": "sidecar", "image": "acme/side"}
    main = {"name": "tensorflow", "image": "acme/train", "env": [{"name": "TF_CONFIG", "value": "mine"}]}
    given = {"containers": [sidecar, main], "serviceAccountName": "trainer", "tolerations": [{"operator": "Exists"}]}
    job = gang_of(tfjob(given))
    chief, worker = kubeflow_pods(job, job.gang.replicas)
    assert (chief["metadata"]["name"], worker["metadata"]["name"]) == ("mnist-chief-0", "mnist-worker-0")
    assert chief["metadata"]["labels"]["team"] == "vision"
    assert chief["metadata"]["labels"]["gangline.dev/attempt"] == "2"
    assert chief["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] == "tensorflow"
    assert chief["metadata"]["ownerReferences"][0]["controller"] is True
    assert "finalizers" not in chief["metadata"], "whoever held a pod would hold its machine"
    spec = chief["spec"]
    assert (spec["nodeName"], spec["restartPolicy"], spec["serviceAccountName"]) == ("n1", "Never", "trainer")
    assert "securityContext" not in spec
    assert spec["containers"][0] == sidecar
    variables = {each["name"]: each["value"] for each in spec["containers"][1]["env"]}
    assert variables["TF_CONFIG"] == "mine", "what its author says wins"
    assert variables["GANGLINE_ATTEMPT"] == "2"
    assert spec["containers"][1]["ports"] == [{"name": "tfjob-port", "containerPort": 2222, "protocol": "TCP"}]


def test_replicas_of_a_job_with_parameter_servers_share_a_secret() -> None:
    mine = {"name": "data", "mountPath": "/data"}
    document = tfjob({"containers": [{"name": "tensorflow", "image": "acme/tf", "volumeMounts": [mine]}]})
    document["spec"]["tfReplicaSpecs"]["PS"] = document["spec"]["tfReplicaSpecs"]["Worker"]
    job = gang_of(document)
    secret = kubeflow_secret(job)
    assert secret is not None
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert base64.b64decode(secret["data"]["token"]) != base64.b64decode(kubeflow_secret(job)["data"]["token"])
    for pod in kubeflow_pods(job, job.gang.replicas):
        (container,) = pod["spec"]["containers"]
        volumes = {volume["name"]: volume.get("secret", {}).get("secretName") for volume in pod["spec"]["volumes"]}
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        environment = {each["name"]: each.get("value") for each in container["env"]}
        folder, _, file = environment["GANGLINE_SECRET_FILE"].rpartition("/")
        assert volumes[mounts[folder]] == secret["metadata"]["name"]
        assert file in secret["data"]
        assert mounts["/data"] == "data"


def test_other_jobs_are_given_no_secret() -> None:
    job = gang_of(tfjob({"containers": [{"name": "tensorflow", "image": "acme/tf"}]}))
    assert kubeflow_secret(job) is None
    for pod in kubeflow_pods(job, job.gang.replicas):
        assert "volumes" not in pod["spec"]
        assert "GANGLINE_SECRET_FILE" not in {each["name"] for each in pod["spec"]["containers"][0]["env"]}


def test_the_first_replica_of_a_paddle_job_is_told_its_own_address_by_the_kubelet() -> None:
    template = {"template": {"spec": {"containers": [{"name": "paddle", "image": "acme/paddle"}]}}}
    job = gang_of(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PaddleJob",
            "metadata": {"name": "mnist", "namespace": "red"},
            "spec": {"paddleReplicaSpecs": {"Worker": {"replicas": 2, **template}}},
        }
    )
    first, second = (pod["spec"]["containers"][0]["env"] for pod in kubeflow_pods(job, job.gang.replicas))
    address = {"name": "GANGLINE_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    meeting = {"name": "PADDLE_MASTER", "value": "$(GANGLINE_POD_IP):36543"}
    assert first.index(address) < first.index(meeting), "a variable sees only those before it"
    assert {"name": "PADDLE_MASTER", "value": "mnist-worker-0:36543"} in second
    assert address not in second


def test_every_replica_has_a_headless_service_of_its_own() -> None:
    ports = [
        {"name": "tfjob-port", "containerPort": 9000},
        {"containerPort": 6006},
        {"name": "board", "containerPort": 6006},
        {"name": "statistics", "containerPort": 6006, "protocol": "UDP"},
    ]
    job = gang_of(tfjob({"containers": [{"name": "tensorflow", "image": "acme/train", "ports": ports}]}))
    chief, _ = kubeflow_services(job, job.gang.replicas)
    assert chief["metadata"]["name"] == "mnist-chief-0"
    assert chief["spec"]["clusterIP"] == "None"
    assert chief["spec"]["ports"] == [
        {"name": "tfjob-port", "port": 9000, "protocol": "TCP"},
        {"name": "tcp-6006", "port": 6006, "protocol": "TCP"},
        {"name": "statistics", "port": 6006, "protocol": "UDP"},
    ], "a service names every port, and has none twice"
    assert chief["spec"]["selector"] == {
        "training.kubeflow.org/job-name": "mnist",
        "training.kubeflow.org/operator-name": "tfjob-controller",
        "training.kubeflow.org/replica-type": "chief",
        "training.kubeflow.org/replica-index": "0",
    }


def test_an_mpijob_has_a_service_for_all_and_one_named_as_its_launchers_host() -> None:
    job = gang_of(mpijob("v2beta1"))
    everybody, launcher = kubeflow_services(job, job.gang.replicas)
    (pod, *_) = kubeflow_mpi.mpi_pods(job, job.gang.replicas)
    assert (everybody["metadata"]["name"], launcher["metadata"]["name"]) == ("pi", pod["spec"]["hostname"])
    labels = [each["metadata"]["labels"] for each in kubeflow_pods(job, job.gang.replicas)]
    for service, want in ((everybody, 3), (launcher, 1)):
        assert sum(service["spec"]["selector"].items() <= each.items() for each in labels) == want


def test_an_mpijob_of_the_second_version_logs_in_by_ssh() -> None:
    job = gang_of(mpijob("v2beta1"))
    launcher, worker, _ = kubeflow_mpi.mpi_pods(job, job.gang.replicas)
    assert kubeflow_mpi.config(job)["data"]["hostfile"] == (
        "pi-worker-0.pi.red.svc slots=2\npi-worker-1.pi.red.svc slots=2\n"
    )
    assert (worker["spec"]["hostname"], worker["spec"]["subdomain"]) == ("pi-worker-0", "pi")
    assert worker["spec"]["containers"][0]["command"] == ["/usr/sbin/sshd", "-De"]
    mounts = {each["mountPath"]: each["name"] for each in launcher["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {"/etc/mpi": "mpi-job-config", "/root/.ssh": "ssh-auth"}
    assert kubeflow_mpi.secret(job)["metadata"]["name"] == f"{names.job_name('pi', JobId('job-1'))}-ssh"
    variables = {each["name"]: each["value"] for each in launcher["spec"]["containers"][0]["env"]}
    assert variables["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert "OMPI_MCA_plm_rsh_agent" not in variables


def test_an_mpijob_of_the_first_version_needs_no_server_in_its_image() -> None:
    job = gang_of(mpijob("v1", command=["sleep", "1d"]))
    launcher, worker, _ = kubeflow_mpi.mpi_pods(job, job.gang.replicas)
    program = worker["spec"]["containers"][0]["command"][0]
    assert worker["spec"]["containers"][0]["command"] == [program, "serve", "sleep", "1d"]
    variables = {each["name"]: each["value"] for each in launcher["spec"]["containers"][0]["env"]}
    assert variables["OMPI_MCA_plm_rsh_agent"] == program
    assert kubeflow_mpi.secret(job)["metadata"]["name"] == f"{names.job_name('pi', JobId('job-1'))}-shell"


def test_a_large_gang_is_told_of_its_peers_in_ranges_beside_the_list_of_its_framework() -> None:
    document = tfjob({"containers": [{"name": "tensorflow", "image": "acme/train"}]})
    document["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 60
    job = gang_of(document)
    pod = next(kubeflow_pods(job, job.gang.replicas))
    variables = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
    assert json.loads(variables["GANGLINE_CLUSTER"])["worker"] == ["mnist-worker-[0-59].red.svc:2222"]
    assert len(json.loads(variables["TF_CONFIG"])["cluster"]["worker"]) == 60


def test_a_pod_that_claims_devices_is_left_to_the_scheduler_that_hands_them_out() -> None:
    container = {"name": "tensorflow", "image": "acme/train"}
    job = gang_of(tfjob({"containers": [container], "resourceClaims": [{"name": "gpu"}]}))
    spec = next(kubeflow_pods(job, job.gang.replicas))["spec"]
    assert "nodeName" not in spec
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": [job.gang.replicas[0].node]}]


def test_only_the_replicas_of_the_job_itself_may_connect_to_them() -> None:
    job = gang_of(tfjob({"containers": [{"name": "tensorflow", "image": "acme/train"}]}))
    policy = kubeflow_network_policy(job)
    selector = policy["spec"]["podSelector"]["matchLabels"]
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {"matchLabels": selector}}]}]
    for pod in kubeflow_pods(job, job.gang.replicas):
        assert selector.items() <= pod["metadata"]["labels"].items()
    assert policy["metadata"]["ownerReferences"][0]["uid"] == OWNER.uid
    assert policy["metadata"]["name"] not in {service["metadata"]["name"] for service in kubeflow_services(job, [])}
