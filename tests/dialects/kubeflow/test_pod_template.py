"""Pod templates of Kubeflow jobs: what is lifted out of them, and what guides the scheduler."""

import json

import pytest

from gangline.dialects.kubeflow import expand_references
from gangline.errors import InvalidInputError
from gangline.model import Match, NodeRequirement, NodeRule, PlacementRule, Resources, RoleName, Toleration
from tests.dialects.kubeflow.test_job import Builder, translate

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def test_the_training_container_is_found_by_name_and_the_template_is_kept(job: Builder, replica: Builder) -> None:
    worker = replica()
    worker["template"]["spec"]["containers"].insert(0, {"name": "sidecar", "image": "s", "command": ["tail"]})
    (role,) = translate(job("TFJob", {"Worker": worker})).spec.roles
    assert role.command == ("python", "train.py")
    assert json.loads(role.pod_template_json or "") == worker["template"]


def test_what_the_pod_needs_is_the_sum_of_its_containers(job: Builder, replica: Builder) -> None:
    worker = replica(
        resources={
            "limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": 1, "rdma/hca": 1},
            "requests": {"cpu": "500m"},
        }
    )
    worker["template"]["spec"]["containers"].append(
        {"name": "sidecar", "image": "s", "resources": {"requests": {"memory": "1Gi", "ephemeral-storage": "1Gi"}}}
    )
    (role,) = translate(job("TFJob", {"Worker": worker})).spec.roles
    assert role.resources == Resources(cpu_millis=500, memory_mib=5 * 1024, gpu_millis=1000, extended={"rdma/hca": 1})


def test_init_containers_count_where_they_need_more_than_what_follows(job: Builder, replica: Builder) -> None:
    worker = replica(resources={"requests": {"cpu": "1", "memory": "4Gi"}})
    worker["template"]["spec"]["initContainers"] = [
        {"name": "mesh", "image": "m", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
        {"name": "fetch", "image": "f", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
    ]
    worker["template"]["spec"]["overhead"] = {"memory": "100Mi"}
    (role,) = translate(job("TFJob", {"Worker": worker})).spec.roles
    assert role.resources == Resources(cpu_millis=3100, memory_mib=4 * 1024 + 100)


def test_nothing_asked_for_is_nothing(job: Builder, replica: Builder) -> None:
    assert translate(job("TFJob", {"Worker": replica()})).spec.roles[0].resources == Resources()


def test_environment_port_and_grace_are_lifted(job: Builder, replica: Builder) -> None:
    worker = replica(
        env=[{"name": "A", "value": "1"}, {"name": "EMPTY"}, {"name": "S", "valueFrom": {"secretKeyRef": {}}}],
        ports=[{"containerPort": 80}, {"name": "tfjob-port", "containerPort": 3333}],
        pod={"terminationGracePeriodSeconds": 90},
    )
    translation = translate(job("TFJob", {"Worker": worker}))
    (role,) = translation.spec.roles
    assert (role.env, role.port) == ({"A": "1", "EMPTY": ""}, 3333)
    assert translation.spec.policy.grace_seconds == 90
    assert any("S is set from objects of the cluster" in note for note in translation.local_notes)


@pytest.mark.parametrize(
    ("missing", "want"),
    [
        pytest.param(("command", "args"), "has no command", id="an image alone"),
        pytest.param(("command",), "has arguments and no command", id="arguments for an unknown entry point"),
    ],
)
def test_what_an_image_would_run_is_not_known_on_one_machine(
    job: Builder, replica: Builder, missing: tuple[str, ...], want: str
) -> None:
    worker = replica()
    for name in missing:
        del worker["template"]["spec"]["containers"][0][name]
    translation = translate(job("TFJob", {"Worker": worker}))
    assert translation.spec.roles[0].command == ()
    assert "acme/train:1 is ignored" in translation.local_notes[0]
    with pytest.raises(InvalidInputError, match=want) as refusal:
        translation.on_one_machine()
    assert refusal.value.field == "spec.tfReplicaSpecs.Worker.template.spec.containers"


def test_a_worker_that_waits_for_an_mpi_launcher_needs_no_command_on_one_machine(
    job: Builder, replica: Builder
) -> None:
    worker = replica()
    del worker["template"]["spec"]["containers"][0]["command"]
    translation = translate(job("MPIJob", {"Launcher": replica(), "Worker": worker}))
    assert translation.on_one_machine().role(RoleName("worker")).command


def test_selectors_and_tolerations_that_all_share_guide_the_scheduler(job: Builder, replica: Builder) -> None:
    pod = {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    }
    translation = translate(job("TFJob", {"Worker": replica(pod=pod), "PS": replica(pod=pod)}))
    assert translation.spec.placement.node_selector == {"disk": "ssd"}
    assert translation.spec.placement.tolerations == (Toleration(key="gpu", operator="Exists", effect="NoExecute"),)
    assert translation.notes == ()


def test_replica_types_with_different_rules_keep_them_to_themselves(job: Builder, replica: Builder) -> None:
    one = {"nodeSelector": {"pool": "a"}}
    other = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    spec = translate(job("TFJob", {"Worker": replica(pod=one), "PS": replica(pod=other)})).spec
    assert spec.placement == PlacementRule()
    assert {role.name: role.placement for role in spec.roles} == {
        "worker": NodeRule(node_selector={"pool": "a"}),
        "ps": NodeRule(tolerations=(Toleration(key="gpu", operator="Exists"),)),
    }


def test_node_affinity_that_is_required_guides_the_scheduler(job: Builder, replica: Builder) -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["big"]}]},
        {},
    ]
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    translation = translate(job("TFJob", {"Worker": replica(pod={"affinity": affinity})}))
    assert translation.spec.placement.node_affinity == (
        (NodeRequirement(key="zone", operator=Match.IN, values=("a", "b")),),
        (NodeRequirement(key="metadata.name", operator=Match.IN, values=("big",)),),
    )
    assert translation.notes == ()


def test_a_machine_of_its_own_is_not_asked_for_the_labels_of_a_cluster(job: Builder, replica: Builder) -> None:
    one, other = ({"nodeSelector": {"pool": pool}} for pool in ("a", "b"))
    translation = translate(job("TFJob", {"Worker": replica(pod=one), "PS": replica(pod=other)}))
    spec = translation.on_one_machine()
    assert [spec.nodes_of(role) for role in spec.roles] == [PlacementRule(), PlacementRule()]
    assert [note for note in translation.local_notes if "nodeSelector is not used here" in note]


@pytest.mark.parametrize(
    "scheduler", ["kube-batch", "kube-batchd", "kubebatch", "volcano", "scheduler-plugins-scheduler"]
)
def test_a_gang_scheduler_means_a_gang(job: Builder, replica: Builder, scheduler: str) -> None:
    translation = translate(job("TFJob", {"Worker": replica(pod={"schedulerName": scheduler})}))
    assert translation.notes == (f"schedulerName {scheduler} asks for a gang; every job is one here",)


def test_other_schedulers_and_their_kind_of_rules_are_remarked_on(job: Builder, replica: Builder) -> None:
    worker = replica(
        envFrom=[{"configMapRef": {"name": "c"}}],
        pod={"schedulerName": "own", "affinity": {"podAffinity": {PREFERRED: []}}},
    )
    translation = translate(
        job("TFJob", {"Worker": worker}, runPolicy={"schedulingPolicy": {"minResources": {"cpu": 1}}})
    )
    assert [note.partition(":")[0] for note in translation.notes] == [
        "spec.runPolicy.schedulingPolicy.minResources",
        "spec.tfReplicaSpecs.Worker",
    ]
    assert "the preferred podAffinity counts towards pods of its own kind alone" in translation.notes[1]
    assert any("envFrom is set from objects of the cluster" in note for note in translation.local_notes)


def test_references_expand_as_a_kubelet_does_it() -> None:
    words = ("--rank=$(RANK)", "$$(RANK)", "$(UNKNOWN)", "$RANK")
    assert expand_references(words, {"RANK": "3"}) == ("--rank=3", "$(RANK)", "$(UNKNOWN)", "$RANK")
