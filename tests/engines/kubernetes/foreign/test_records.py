"""A gang of others' pods as a job object, read back by the store and by us."""

import json
from typing import Any

import msgspec
import pytest

from gangline.dialects.native import API_VERSION, KIND, job_from_plain
from gangline.engines.kubernetes.foreign.groups import VOLCANO_TASK, Group, GroupKind, GroupName
from gangline.engines.kubernetes.foreign.pod_requests import pod_request_of
from gangline.engines.kubernetes.foreign.record_store import RecordStore
from gangline.engines.kubernetes.foreign.records import (
    BadRecordError,
    Member,
    gang_to_job,
    gang_to_record,
    name_of_group,
    object_to_record,
)
from gangline.engines.kubernetes.names import JOB_ID
from gangline.engines.kubernetes.node_rules.volume_claims import claims_by_role
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod
from gangline.errors import InvalidInputError
from gangline.kube import GenericObject, OwnerReference
from gangline.model import JobSpec, NodeRequirement, NodeRule, Phase, PlacementRule, Toleration
from tests.engines.kubernetes.fake_cluster import FakeCluster
from tests.engines.kubernetes.foreign.builders import NAMESPACE, make_pod, node_choice, pod_terms

GROUP = Group(
    name=GroupName(kind=GroupKind.VOLCANO, namespace=NAMESPACE, name="team"),
    owner=OwnerReference(api_version="scheduling.volcano.sh/v1beta1", kind="PodGroup", name="team", uid="uid-team"),
    least=2,
    queue="research",
)


def record(*pods: WatchedPod, group: Group = GROUP, priority: int | None = None) -> GenericObject:
    members = [Member(pod=pod, request=pod_request_of(pod)) for pod in pods]
    body = gang_to_record(members, group, tenant=NAMESPACE, priority=priority)
    body["metadata"] |= {"uid": "uid-record", "resourceVersion": "1"}
    return msgspec.convert(body, GenericObject)


def spec_of(item: GenericObject) -> JobSpec:
    """Read the object's spec as every store does: as a job file, with what stands in ``metadata`` there."""
    above = {name: item.spec[name] for name in ("queue", "priority", "origin", "manifest") if name in item.spec}
    metadata = {"name": item.metadata.name, "labels": item.metadata.labels, **above}
    body = {name: value for name, value in item.spec.items() if name not in above}
    return job_from_plain({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": body})


def test_a_group_gives_its_name_queue_and_owner() -> None:
    item = record(make_pod("a"), make_pod("b"), priority=10_000)
    spec = spec_of(item)
    assert (spec.origin, spec.queue, spec.priority) == ("scheduling.volcano.sh/v1beta1 PodGroup", "research", 100)
    assert item.metadata.owner_references[0].uid == "uid-team"
    assert item.metadata.name.startswith("team-")
    assert spec.roles[0].replicas == 2


def test_recording_a_gang_twice_makes_one_name_and_another_gang_another() -> None:
    first, again = record(make_pod("a"), make_pod("b")), record(make_pod("b"), make_pod("a"))
    other = record(make_pod("a"), make_pod("c"))
    assert first.metadata.name == again.metadata.name != other.metadata.name


async def written(book: RecordStore, *pods: WatchedPod) -> str:
    members = [Member(pod=pod, request=pod_request_of(pod)) for pod in pods]
    body = gang_to_record(members, GROUP, tenant=NAMESPACE, priority=None)
    return (await book.write(body, called=name_of_group(GROUP))).name


async def test_a_record_has_the_name_of_its_group_unless_another_job_has_it() -> None:
    book = RecordStore(FakeCluster(), namespace=None, changed=lambda _: None)  # type: ignore[arg-type]  # the fake
    assert await written(book, make_pod("a"), make_pod("b")) == "team"
    assert await written(book, make_pod("b"), make_pod("a")) == "team", "the same pods in another order"
    later = await written(book, make_pod("c"), make_pod("d"))
    assert later.startswith("team-")
    assert await written(book, make_pod("c"), make_pod("d")) == later


def test_pods_that_differ_are_roles_of_their_own_and_never_service_roles() -> None:
    item = record(
        make_pod("a", annotations={VOLCANO_TASK: "ps"}),
        make_pod("b", annotations={VOLCANO_TASK: "worker"}),
        make_pod("c", annotations={VOLCANO_TASK: "worker"}, requests={"cpu": "2"}),
    )
    assert sorted(role.name for role in spec_of(item).roles) == ["ps-pods", "worker-pods", "worker-pods-2"]


def test_every_role_says_which_nodes_its_pods_may_use() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    choosy = make_pod("a", nodeSelector={"disk": "ssd"}, tolerations=tolerations, affinity=node_choice(term))
    spec = spec_of(record(choosy, make_pod("b")))
    first, second = spec.roles
    assert first.placement == NodeRule(
        node_selector={"disk": "ssd"},
        node_affinity=((NodeRequirement(key="zone", values=("a",)),),),
        tolerations=(Toleration(key="gpu", operator="Exists"),),
    )
    assert second.placement is None
    assert spec.placement == PlacementRule()


def test_pods_with_volumes_of_their_own_are_roles_of_their_own() -> None:
    pods = [
        make_pod(name, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]) for name in "ab"
    ]
    spec = spec_of(record(*pods))
    assert claims_by_role(spec) == {role.name: (f"data-{name}",) for role, name in zip(spec.roles, "ab", strict=True)}


def test_a_record_knows_its_phase_after_a_restart() -> None:
    written = msgspec.json.decode(msgspec.json.encode(record(make_pod())), type=GenericObject)
    kept = object_to_record(msgspec.structs.replace(written, status={"phase": "HALTED"}))
    assert kept.phase is Phase.HALTED


def test_a_queue_that_is_no_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="Not A Queue"):
        record(make_pod(annotations={"gangline.dev/queue": "Not A Queue"}))


@pytest.mark.parametrize("manifest", [{"pods": 3}, {"pods": {"nonsense": {"name": "a"}}}], ids=["type", "field"])
def test_a_job_that_only_looks_like_a_record_is_told_apart(manifest: dict[str, Any]) -> None:
    item = record(make_pod())
    with pytest.raises(BadRecordError, match="is not a record of pods"):
        object_to_record(msgspec.structs.replace(item, spec={"manifest": manifest}))


def test_a_role_holds_what_its_pods_have_in_common_and_say_of_others() -> None:
    alone = pod_terms("podAntiAffinity", {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}})
    shared = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pods = [
        make_pod(f"pod-{number}", labels={"app": "db", "index": str(number)}, affinity=alone, volumes=shared)
        for number in range(2)
    ]
    other = make_pod("web", labels={"app": "web"})
    members = [Member(pod=pod, request=pod_request_of(pod)) for pod in (*pods, other)]
    spec, _ = gang_to_job(members, None, tenant=NAMESPACE, priority=None)
    assert [json.loads(role.pod_template_json or "") for role in spec.roles] == [
        {
            "metadata": {"labels": {"app": "db"}},
            "spec": {
                "schedulerName": "gangline",
                "affinity": alone,
                "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}],
            },
        },
        {"metadata": {"labels": {"app": "web"}}, "spec": {"schedulerName": "gangline"}},
    ]


def test_a_record_that_bears_the_id_of_a_job_is_not_that_jobs() -> None:
    item = record(make_pod("a"), make_pod("b"))
    labels = {**item.metadata.labels, JOB_ID: "job-of-another"}
    forged = msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, labels=labels))
    assert object_to_record(forged).job_id == "uid-record", "or stopping that job would stop these pods instead"
