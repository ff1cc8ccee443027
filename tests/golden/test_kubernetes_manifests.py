"""Rendered objects, compared whole with files that people can read.

To accept a change, delete the file and run the test twice: the first run writes it and fails, so that nobody accepts
a change without looking at it.
"""

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gangline.engines.kubernetes.installing.objects import Installation, installation_objects
from gangline.engines.kubernetes.manifests.archives import Archive, archive_to_config_maps
from gangline.engines.kubernetes.manifests.gang import (
    Surroundings,
    archive_metadata,
    gang_to_hosts,
    gang_to_network_policy,
    gang_to_pods,
    gang_to_secret,
    gang_to_service,
)
from gangline.engines.kubernetes.manifests.moves import JobArchives
from gangline.engines.kubernetes.names import Part
from gangline.kube import OwnerReference
from gangline.model import (
    DataMove,
    Framework,
    Gang,
    GangId,
    GangReplica,
    JobId,
    JobSpec,
    NodeName,
    NodeRule,
    PlacementRule,
    ReplicaId,
    Resources,
    RoleName,
    Tenant,
    Toleration,
)
from gangline.runtime import current
from gangline.storage.kubernetes import DEFINITIONS
from gangline.testing.builders import make_role, make_spec

FOLDER = Path(__file__).parent / "kubernetes"
OWNER = OwnerReference(api_version="gangline.dev/v1", kind="Job", name="mnist", uid="11111111-2222")
TEMPLATE = {
    "metadata": {"labels": {"team": "vision"}, "annotations": {"note": "kept"}},
    "spec": {
        "serviceAccountName": "reader",
        "affinity": {"nodeAffinity": {}},
        "securityContext": {"runAsUser": 4711},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "mnist"}}],
        "containers": [
            {"name": "sidecar", "image": "side:1"},
            {
                "name": "pytorch",
                "image": "train:2",
                "args": ["--epochs", "$(EPOCHS)"],
                "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "resources": {"limits": {"nvidia.com/gpu": "2"}},
            },
        ],
    },
}


def gang_of(spec: JobSpec, *, incarnation: int = 0) -> Gang:
    replicas = (
        GangReplica(id=ReplicaId(role.name, index), node=NodeName(f"node-{index}"), incarnation=incarnation)
        for role in spec.roles
        for index in range(role.replicas)
    )
    return Gang(id=GangId(JobId("job-1"), 2), spec=spec, replicas=tuple(replicas))


def training() -> list[object]:
    spec = make_spec(
        roles=(
            make_role("chief", command=("python", "train.py", "--cost=$(free)")),
            make_role(
                "worker",
                replicas=2,
                resources=Resources(cpu_millis=1500, memory_mib=2048, gpu_millis=1000),
                placement=NodeRule(tolerations=(Toleration(key="spot", value="yes"),)),
            ),
        ),
        tenant=Tenant("vision"),
        framework=Framework.TENSORFLOW,
        image="acme/mnist:1",
        code="sha256:" + "0" * 64,
        priority=80,
        env={"GREETING": "hello"},
        placement=PlacementRule(tolerations=(Toleration(key="gpu", operator="Exists"),)),
    )
    gang = gang_of(spec)
    around = Surroundings(
        owner=OWNER,
        gpu_resources={NodeName("node-1"): "amd.com/gpu"},
        priority_classes=((0, "gangline-low"), (75, "gangline-high"), (100, "gangline-critical")),
    )
    code, bodies = archive_to_config_maps(b"archive", archive_metadata(gang, around, Part.CODE))
    around = replace(around, job_archives=JobArchives(code=code))
    return [
        gang_to_service(gang, around),
        gang_to_network_policy(gang, around),
        *bodies,
        *gang_to_pods(gang, gang.replicas, around),
    ]


def data() -> list[object]:
    spec = make_spec(
        image="acme/mnist:1",
        inputs=(
            DataMove("/home/me/mnist", "$DATA_DIR"),
            DataMove("s3://bucket/more", "$DATA_DIR/more"),
            DataMove("pvc://sets/labels", "$DATA_DIR/labels"),
        ),
        outputs=(DataMove("$RESULT_DIR", "pvc://keep/$JOB_NAME"),),
    )
    gang = gang_of(spec)
    sent = Archive(name="mnist-inputs-0", digest="0" * 64, parts=2)
    return list(
        gang_to_pods(gang, gang.replicas, Surroundings(owner=OWNER, job_archives=JobArchives(inputs={0: sent})))
    )


def solo() -> list[object]:
    gang = gang_of(make_spec(image="busybox", labels={"gangline.dev/volume": "checkpoints"}), incarnation=3)
    around = Surroundings()
    return [
        gang_to_service(gang, around),
        gang_to_network_policy(gang, around),
        *gang_to_pods(gang, gang.replicas, around),
    ]


def template() -> list[object]:
    role = make_role(command=("python",), pod_template_json=json.dumps(TEMPLATE), image="ignored:1")
    gang = gang_of(make_spec(roles=(role,), framework=Framework.PYTORCH))
    return list(gang_to_pods(gang, gang.replicas, Surroundings()))


def mpi() -> list[object]:
    spec = make_spec(
        roles=(make_role("launcher"), make_role("worker", replicas=2)), framework=Framework.MPI, image="mpi"
    )
    gang = gang_of(spec)
    return [gang_to_hosts(gang, Surroundings()), *gang_to_pods(gang, gang.replicas[:1], Surroundings())]


def long_names() -> list[object]:
    role = make_role("r" * 63)
    gang = gang_of(make_spec("j" * 63, roles=(role, make_role("worker", replicas=12)), image="busybox"))
    pods = list(gang_to_pods(gang, gang.replicas, Surroundings()))
    return [(pod["metadata"]["name"], pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods[:2]]


def installation() -> list[object]:
    return list(installation_objects(Installation(image="acme/gangline:1", definitions=DEFINITIONS)))


@pytest.mark.parametrize(
    "render", [training, data, solo, template, mpi, long_names, installation], ids=lambda each: each.__name__
)
def test_objects_are_as_written(render) -> None:
    file = FOLDER / f"{render.__name__}.json"
    text = json.dumps(render(), indent=2) + "\n"
    if not file.exists():
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{file.name} was missing and has been written: look at it, then run again")
    assert json.loads(text) == json.loads(file.read_text(encoding="utf-8"))


def test_many_addresses_stand_in_the_pods_as_a_range() -> None:
    gang = gang_of(make_spec(roles=(make_role(replicas=500),), image="busybox"))
    (pod,) = gang_to_pods(gang, gang.replicas[:1], Surroundings())
    environment = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
    assert len(environment["GANGLINE_CLUSTER"]) < 100
    peers = current(environment).cluster["worker"]
    assert (len(peers), peers[0]) == (500, environment["GANGLINE_ADDRESS"])


def test_pods_of_a_job_with_parameter_servers_mount_its_secret() -> None:
    spec = make_spec(roles=(make_role("ps"), make_role("worker", replicas=2)), image="busybox")
    gang = gang_of(spec)
    secret = gang_to_secret(gang, Surroundings(owner=OWNER))
    assert secret is not None
    name = secret["metadata"]["name"]
    assert secret["metadata"]["ownerReferences"][0]["uid"] == OWNER.uid
    assert len(base64.b64decode(secret["data"]["token"])) == 64
    assert secret != gang_to_secret(gang, Surroundings(owner=OWNER))

    for pod in gang_to_pods(gang, gang.replicas, Surroundings()):
        (container,) = pod["spec"]["containers"]
        (volume,) = [each for each in pod["spec"]["volumes"] if each.get("secret", {}).get("secretName") == name]
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
        path = next(each["value"] for each in container["env"] if each["name"] == "GANGLINE_SECRET_FILE")
        assert path == f"{mount['mountPath']}/token"
        assert mount["readOnly"]


def test_other_jobs_have_no_secret() -> None:
    gang = gang_of(make_spec(roles=(make_role("worker", replicas=2),), image="busybox"))

    assert gang_to_secret(gang, Surroundings()) is None
    assert "GANGLINE_SECRET_FILE" not in json.dumps(list(gang_to_pods(gang, gang.replicas, Surroundings())))


def test_a_role_is_named_in_its_pods() -> None:
    gang = gang_of(make_spec(image="busybox"))
    (pod,) = gang_to_pods(gang, gang.replicas, Surroundings())
    assert pod["metadata"]["labels"]["gangline.dev/role"] == RoleName("worker")
