"""Any file a user has is read in its own dialect."""

import json

import pytest

from gangline.dialects import Translation, read, read_plain
from gangline.errors import InvalidInputError
from gangline.model import Resources

NATIVE = "apiVersion: gangline.dev/v1\nkind: Job\nmetadata: {name: ours}\nspec: {command: x}\n"
TFJOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: theirs}
spec: {tfReplicaSpecs: {Worker: {template: {spec: {containers: [{name: tensorflow, image: i, command: [x]}]}}}}}
"""
MANIFEST = "name: old\nframework: {name: caffe, command: x}\n"


def test_one_file_may_mix_dialects() -> None:
    found = read("---\n".join([NATIVE, TFJOB, MANIFEST]))
    assert [(each.spec.name, each.spec.origin) for each in found] == [
        ("ours", None),
        ("theirs", "kubeflow.org/v1 TFJob"),
        ("old", "ffdl manifest"),
    ]


def test_our_own_job_needs_neither_version_nor_kind() -> None:
    (found,) = read("metadata: {name: ours}\nspec: {command: x}\n")
    assert found == Translation(spec=read_plain({"metadata": {"name": "ours"}, "spec": {"command": "x"}})[0].spec)


def test_sizes_reach_our_own_dialect() -> None:
    own = {"tiny": Resources(cpu_millis=1)}
    (found,) = read("metadata: {name: ours}\nspec: {command: x, size: tiny}\n", sizes=own)
    assert found.spec.roles[0].resources == own["tiny"]


def test_jobs_get_the_objects_of_their_own_namespace() -> None:
    def words(name: str, place: str) -> str:
        return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}{place}}}\n"

    def job(name: str) -> str:
        return f"metadata: {{name: {name}, namespace: {name}}}\nspec: {{command: x}}\n"

    kept = [words("any", ""), words("mine", ", namespace: a"), words("lost", ", namespace: c")]
    first, second = read("---\n".join([*kept, job("a"), job("b")]))
    names = [[json.loads(text)["metadata"]["name"] for text in each.objects_json] for each in (first, second)]
    assert names == [["any", "mine"], ["any"]]
    assert first.notes == ("a ConfigMap is for namespace 'c', where no job of this file is: it is not sent",)
    assert second.notes == ()


def test_what_only_a_cluster_has_a_use_for_stands_beside_a_job() -> None:
    def one(kind: str, metadata: str) -> str:
        return f"apiVersion: v1\nkind: {kind}\nmetadata: {metadata}\n"

    documents = [
        one("Service", "{name: names, namespace: red}"),
        one("PersistentVolumeClaim", "{name: data}"),
        one("ConfigMap", "{name: words}"),
        one("Namespace", "{name: red}"),
        "metadata: {name: a, namespace: red}\nspec: {command: x}\n",
    ]
    (found,) = read("---\n".join(documents))
    kinds = [json.loads(text)["kind"] for text in found.cluster_objects_json]
    assert kinds == ["Namespace", "PersistentVolumeClaim", "Service"], "the namespace comes first"
    assert [json.loads(text)["kind"] for text in found.objects_json] == ["ConfigMap"]
    assert found.notes == ()
    assert found.local_notes == (
        "the Namespace 'red' is left out: only a cluster has a use for it",
        "the PersistentVolumeClaim 'data' is a directory of Gangline's home here, whatever size and class it asks for",
        "the Service 'names' is left out: only a cluster has a use for it",
    )


@pytest.mark.parametrize(
    ("kind", "suggestion"), [("PytorchJob", "PyTorchJob"), ("MpiJobs", "MPIJob"), ("Deployment", None), ("job", "Job")]
)
def test_an_unknown_kind_is_refused_with_the_nearest_one(kind: str, suggestion: str | None) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        read(f"apiVersion: kubeflow.org/v1\nkind: {kind}\n", file="x.yaml")
    assert (refusal.value.field, refusal.value.line, refusal.value.suggestion) == ("kind", 2, suggestion)


@pytest.mark.parametrize("text", ["", "[]", "3", "a: b"])
def test_what_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        read(text)
