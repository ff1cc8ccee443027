"""What a TrainJob and its runtime become."""

from typing import Any

import pytest

from gangline.dialects import document
from gangline.dialects.document import compact_json
from gangline.dialects.trainer import read_runtime, read_train_job, train_job_to_job
from gangline.dialects.trainer.patches import patched
from gangline.dialects.trainer.runtimes import SHIPPED
from gangline.dialects.translation import Translation
from gangline.errors import InvalidInputError
from gangline.model import DataMove, Framework, JobSpec

RUNTIMES = {each.name: each.manifest_json for each in SHIPPED}


def job_of(runtime: str = "torch-distributed", manifest: str | None = None, **body: Any) -> JobSpec:
    return translated(runtime, manifest, **body).spec


def translated(runtime: str = "torch-distributed", manifest: str | None = None, **body: Any) -> Translation:
    whole = {"metadata": {"name": "digits"}, "spec": {"runtimeRef": {"name": runtime}, **body}}
    return train_job_to_job(read_train_job(document.plain(whole)), manifest or RUNTIMES[runtime])


def runtime_with(policy: dict[str, Any], container: dict[str, Any] | None = None, **job: Any) -> str:
    pod = {"containers": [{"name": "beside", "image": "b"}, {"name": "node", "image": "a", **(container or {})}]}
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}, **job}}}]
    return compact_json({"spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}})


@pytest.mark.parametrize(
    ("runtime", "framework"),
    [
        ("torch-distributed", Framework.PYTORCH),
        ("jax-distributed", Framework.JAX),
        ("xgboost-distributed", Framework.XGBOOST),
        ("deepspeed-distributed", Framework.MPI),
    ],
)
def test_the_policy_of_the_runtime_chooses_the_framework(runtime: str, framework: Framework) -> None:
    assert job_of(runtime, trainer={"command": ["a"]}).framework is framework


def test_a_runtime_without_a_policy_is_plain() -> None:
    assert job_of(manifest=runtime_with({}), trainer={"command": ["a"]}).framework is Framework.NONE


def test_the_train_job_has_the_last_word_on_nodes_command_and_variables() -> None:
    manifest = runtime_with(
        {"numNodes": 4, "torch": {}},
        {"command": ["old"], "args": ["-x"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]},
    )
    trainer = {"numNodes": 2, "command": ["new"], "env": [{"name": "B", "value": "2"}], "image": "c"}
    (role,) = job_of(manifest=manifest, trainer=trainer).roles
    assert (role.name, role.replicas, role.command, role.image) == ("node", 2, ("new",), "c")
    assert role.env == {"A": "1", "B": "2"}
    (role,) = job_of(manifest=manifest).roles
    assert (role.replicas, role.command) == (4, ("old", "-x"))


@pytest.mark.parametrize(
    ("given", "asked", "want"),
    [
        (None, {}, 1),
        (None, {"cpu": "3500m"}, 3),
        (None, {"cpu": "8", "nvidia.com/gpu": "2"}, 2),
        (5, {"cpu": "3"}, 5),
    ],
)
def test_torch_starts_as_many_processes_as_a_node_has_devices(given: int | None, asked: Any, want: int) -> None:
    trainer = {"command": ["a"], "resourcesPerNode": {"limits": asked}}
    trainer |= {} if given is None else {"numProcPerNode": given}
    assert job_of(trainer=trainer).processes == want


def test_an_mpi_launcher_counts_as_a_node_and_reads_the_hostfile_of_the_job() -> None:
    command = ["mpirun", "--hostfile", "/etc/mpi/hostfile", "train"]
    launcher, node = job_of("deepspeed-distributed", trainer={"numNodes": 3, "command": command}).roles
    assert (launcher.name, launcher.replicas, node.name, node.replicas) == ("launcher", 1, "node", 2)
    assert launcher.command == ("mpirun", "--hostfile", "$(OMPI_MCA_orte_default_hostfile)", "train")
    assert "sshd" not in " ".join(node.command)
    (alone,) = job_of("deepspeed-distributed", trainer={"command": command}).roles
    assert alone.name == "launcher"


def test_initializers_become_inputs_and_their_paths_where_they_lie() -> None:
    initializer = {"dataset": {"storageUri": "s3://b/d"}, "model": {"storageUri": "file:///m"}}
    job = job_of(initializer=initializer, trainer={"command": ["train", "/workspace/dataset/x", "/workspace/model"]})
    assert job.inputs == (DataMove("s3://b/d", "$DATA_DIR/dataset/"), DataMove("file:///m", "$DATA_DIR/model/"))
    assert job.roles[0].command == ("train", "$(DATA_DIR)/dataset/x", "$(DATA_DIR)/model")


def test_patches_change_the_runtime_by_the_names_of_its_parts() -> None:
    pod = {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "node", "env": [{"name": "A", "value": "2"}]}]}
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": pod}}}}]
    patch = {"manager": "me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    manifest = runtime_with({}, {"command": ["a"], "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]})
    job = job_of(manifest=manifest, runtimePatches=[patch])
    assert job.roles[0].env == {"A": "2", "B": "1"}
    assert job.placement.node_selector == {"disk": "ssd"}


@pytest.mark.parametrize(
    ("target", "patch", "want"),
    [
        ([1, 2], [3], [3]),
        ([{"key": "a"}], [{"effect": "b"}], [{"key": "a"}, {"effect": "b"}]),
        (
            [{"name": "a", "x": 1}],
            [{"name": "a", "y": 2}, {"name": "b"}],
            [{"name": "a", "x": 1, "y": 2}, {"name": "b"}],
        ),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
    ],
)
def test_a_patch_merges_mappings_and_named_things_alone(target: Any, patch: Any, want: Any) -> None:
    assert patched(target, patch) == want


def test_the_gang_is_started_again_as_often_as_the_runtime_says() -> None:
    assert job_of(manifest=runtime_with({}, backoffLimit=3), trainer={"command": ["a"]}).policy.max_attempts == 4
    assert job_of(trainer={"command": ["a"]}, activeDeadlineSeconds=9).policy.max_attempts == 1
    assert job_of(trainer={"command": ["a"]}, activeDeadlineSeconds=9).policy.deadline_seconds == 9


def test_one_without_a_command_is_for_a_cluster_alone() -> None:
    refused = translated().local_refusal
    assert refused is not None
    assert "entry point" in str(refused)


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ({"runtimeRef": {}}, "spec.runtimeRef.name"),
        ({"runtimeRef": {"name": "a", "kind": "Other"}}, "spec.runtimeRef.kind"),
        ({"runtimeRef": {"name": "a"}, "trainer": {"numNodes": 0}}, "spec.trainer.numNodes"),
        ({"runtimeRef": {"name": "a"}, "managedBy": "kueue.x-k8s.io/multikueue"}, "spec.managedBy"),
        ({"runtimeRef": {"name": "a"}, "initializer": {"model": {"storageUri": "hf://x"}}}, "storageUri"),
    ],
)
def test_a_train_job_that_is_wrong_is_refused_with_its_field(body: Any, want: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_train_job(document.plain({"metadata": {"name": "a"}, "spec": body}))
    assert want in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"mlPolicy": {"flux": {}}}, "spec.mlPolicy.flux"),
        ({"mlPolicy": {"torch": {}, "mpi": {}}}, "two frameworks"),
        ({"template": {"spec": {"replicatedJobs": [{"name": "other"}]}}}, "'node'"),
    ],
)
def test_a_runtime_that_is_wrong_is_refused_with_its_field(spec: Any, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        read_runtime(document.plain({"metadata": {"name": "a"}, "spec": spec}))
