"""PodGroups of three makers, read alike."""

from typing import Any

import pytest

from gangline.engines.kubernetes.foreign.groups import Group, GroupKind, GroupName, group_of, read_group
from gangline.kube import GenericObject, Metadata
from tests.engines.kubernetes.foreign.builders import NAMESPACE, make_pod


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, None, id="none"),
        pytest.param(
            {"annotations": {"scheduling.k8s.io/group-name": "team"}}, (GroupKind.VOLCANO, "team", "", ""), id="volcano"
        ),
        pytest.param(
            {"labels": {"scheduling.x-k8s.io/pod-group": "team"}}, (GroupKind.PLUGINS, "team", "", ""), id="plugins"
        ),
        pytest.param(
            {"schedulingGroup": {"podGroupName": "team"}}, (GroupKind.NATIVE, "team", "", ""), id="Kubernetes 1.36"
        ),
        pytest.param(
            {"workloadRef": {"name": "train", "podGroup": "workers", "podGroupReplicaKey": "1"}},
            (GroupKind.WORKLOAD, "train", "workers", "1"),
            id="Kubernetes 1.35",
        ),
    ],
)
def test_a_pod_says_which_group_it_belongs_to(fields: dict[str, Any], want: tuple[Any, ...] | None) -> None:
    found = group_of(make_pod(**fields))
    assert (None if found is None else (found.kind, found.name, found.part, found.copy)) == want


def read(kind: GroupKind, spec: dict[str, Any], part: str = "") -> Group | None:
    item = GenericObject(metadata=Metadata(name="team", namespace=NAMESPACE, uid="uid-team"), spec=spec)
    return read_group(GroupName(kind=kind, namespace=NAMESPACE, name="team", part=part), item)


def test_volcano_groups_have_tasks_a_queue_and_a_priority() -> None:
    spec = {"minMember": 3, "minTaskMember": {"ps": 1}, "queue": "research", "priorityClassName": "high"}
    group = read(GroupKind.VOLCANO, spec)
    assert group is not None
    assert (group.least, group.least_of_task, group.queue, group.priority_class) == (3, {"ps": 1}, "research", "high")


@pytest.mark.parametrize(
    ("kind", "spec", "part", "want"),
    [
        pytest.param(GroupKind.PLUGINS, {"minMember": 4, "scheduleTimeoutSeconds": 9}, "", 4, id="scheduler-plugins"),
        pytest.param(GroupKind.NATIVE, {"schedulingPolicy": {"gang": {"minCount": 5}}}, "", 5, id="native gang"),
        pytest.param(GroupKind.NATIVE, {"schedulingPolicy": {"basic": {}}}, "", 1, id="native basic"),
        pytest.param(
            GroupKind.WORKLOAD,
            {"podGroups": [{"name": "a", "policy": {"basic": {}}}, {"name": "b", "policy": {"gang": {"minCount": 6}}}]},
            "b",
            6,
            id="part of a workload",
        ),
    ],
)
def test_each_kind_says_how_many_pods_start_together(
    kind: GroupKind, spec: dict[str, Any], part: str, want: int
) -> None:
    group = read(kind, spec, part)
    assert group is not None
    assert group.least == want


def test_a_workload_without_the_part_is_no_group() -> None:
    assert read(GroupKind.WORKLOAD, {"podGroups": []}, "b") is None


def test_a_native_group_may_want_one_domain() -> None:
    constraints = {"topology": [{"key": "topology.kubernetes.io/rack"}]}
    group = read(
        GroupKind.NATIVE, {"schedulingPolicy": {"gang": {"minCount": 2}}, "schedulingConstraints": constraints}
    )
    assert group is not None
    assert group.within == "rack"
