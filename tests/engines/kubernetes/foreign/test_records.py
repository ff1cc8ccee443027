"""A gang of others' pods as a job object, read back by the store and by us."""

import json
from typing import Any

import msgspec
import pytest

from gangline.dialects.native import API_VERSION, KIND, job_from_plain
from gangline.engines.kubernetes.foreign.groups import VOLCANO_TASK, Group, GroupKind, GroupName
from gangline.engines.kubernetes.foreign.pods import WatchedPod
from gangline.engines.kubernetes.foreign.record_book import RecordBook
from gangline.engines.kubernetes.foreign.records import (
    BadRecordError,
    Member,
    gang_to_job,
    gang_to_record,
    name_of_group,
    object_to_record,
    requirements_of,
)
from gangline.engines.kubernetes.foreign.wishes import wish_of
from gangline.engines.kubernetes.names import JOB_ID
from gangline.errors import InvalidInputError
from gangline.kube import GenericObject, OwnerReference
from gangline.kube.objects import NodeSelector
from gangline.model import JobSpec, Phase
from tests.engines.kubernetes.fake_cluster import FakeCluster
from tests.engines.kubernetes.foreign.builders import NAMESPACE, make_kube_node, make_pod, node_choice, pod_terms

GROUP = Group(
    name=GroupName(kind=GroupKind.VOLCANO, namespace=NAMESPACE, name="team"),
    owner=OwnerReference(api_version="scheduling.volcano.sh/v1beta1", kind="PodGroup", name="team", uid="uid-team"),
    least=2,
    queue="research",
)


def record(*pods: WatchedPod, group: Group = GROUP, priority: int | None = None) -> GenericObject:
    members = [Member(pod=pod, wish=wish_of(pod)) for pod in pods]
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


async def written(book: RecordBook, *pods: WatchedPod) -> str:
    members = [Member(pod=pod, wish=wish_of(pod)) for pod in pods]
    body = gang_to_record(members, GROUP, tenant=NAMESPACE, priority=None)
    return (await book.write(body, called=name_of_group(GROUP))).name


async def test_a_record_has_the_name_of_its_group_unless_another_job_has_it() -> None:
    book = RecordBook(FakeCluster(), namespace=None, changed=lambda _: None)  # type: ignore[arg-type]  # the fake
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


def test_what_all_share_the_job_says_itself() -> None:
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    item = record(make_pod(nodeSelector={"disk": "ssd"}, tolerations=tolerations))
    placement = spec_of(item).placement
    assert placement.node_selector == {"disk": "ssd"}
    assert [(each.key, each.operator) for each in placement.tolerations] == [("gpu", "Exists")]
    assert object_to_record(item).manifest.needs == {}


def test_pods_that_differ_in_where_they_may_run_need_it_each() -> None:
    item = record(make_pod("a", nodeSelector={"disk": "ssd"}), make_pod("b"))
    spec, kept = spec_of(item), object_to_record(item)
    assert spec.placement.node_selector == {}
    assert len(spec.roles) == 2
    asked = {name for role in spec.roles for name in role.resources.extended}
    assert asked == kept.manifest.needs.keys()
    met = [need.meets(make_kube_node(labels={"disk": "hdd"})) for need in requirements_of(kept, {}).values()]
    assert sorted(met) == [False, True]


def test_volumes_narrow_a_requirement_without_another_name() -> None:
    pod = make_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    kept = object_to_record(record(pod))
    (name,) = kept.manifest.needs
    anywhere, nowhere = (requirements_of(kept, {"data": choices})[name] for choices in ([], [NodeSelector()]))
    assert anywhere.meets(make_kube_node())
    assert not nowhere.meets(make_kube_node())
    assert requirements_of(kept, {}) == {}, "nobody has looked at the claim yet"


def test_a_record_knows_its_phase_and_its_needs_after_a_restart() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    item = record(make_pod(affinity=node_choice(term)))
    written = msgspec.json.decode(msgspec.json.encode(item), type=GenericObject)
    kept = object_to_record(msgspec.structs.replace(written, status={"phase": "HALTED"}))
    assert kept.phase is Phase.HALTED
    (requirement,) = requirements_of(kept, {}).values()
    assert requirement.meets(make_kube_node(labels={"zone": "a"}))
    assert not requirement.meets(make_kube_node())


def test_a_queue_that_is_no_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="Not A Queue"):
        record(make_pod(annotations={"gangline.dev/queue": "Not A Queue"}))


@pytest.mark.parametrize("manifest", [{"pods": 3}, {"pods": {"nonsense": {"name": "a"}}}], ids=["type", "field"])
def test_a_job_that_only_looks_like_a_record_is_told_apart(manifest: dict[str, Any]) -> None:
    item = record(make_pod())
    with pytest.raises(BadRecordError, match="is no record of pods"):
        object_to_record(msgspec.structs.replace(item, spec={"manifest": manifest}))


def test_a_role_holds_what_its_pods_have_in_common_and_say_of_others() -> None:
    alone = pod_terms("podAntiAffinity", {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}})
    shared = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pods = [
        make_pod(f"pod-{number}", labels={"app": "db", "index": str(number)}, affinity=alone, volumes=shared)
        for number in range(2)
    ]
    other = make_pod("web", labels={"app": "web"})
    members = [Member(pod=pod, wish=wish_of(pod)) for pod in (*pods, other)]
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
    single, _ = gang_to_job(members[:1], None, tenant=NAMESPACE, priority=None)
    assert "volumes" not in (single.roles[0].pod_template_json or ""), "a pod alone shares its claim with no gang"


def test_a_record_that_bears_the_id_of_a_job_is_not_that_jobs() -> None:
    item = record(make_pod("a"), make_pod("b"))
    labels = {**item.metadata.labels, JOB_ID: "job-of-another"}
    forged = msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, labels=labels))
    assert object_to_record(forged).job_id == "uid-record", "or stopping that job would stop these pods instead"
