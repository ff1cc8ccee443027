"""What a pod of others asks for, and what is refused."""

from typing import Any

import pytest

from gangline.engines.kubernetes.capacity import taken
from gangline.engines.kubernetes.foreign.wishes import InexpressibleError, priority_of, wish_of
from tests.engines.kubernetes.foreign.builders import make_pod, node_choice, pod_terms

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DB = {"labelSelector": {"matchLabels": {"app": "db"}}}


def test_amounts_ports_and_kind_become_resources() -> None:
    pod = make_pod(
        labels={"app": "db"},
        ports=[{"containerPort": 80, "hostPort": 8080}],
        affinity=pod_terms("podAntiAffinity", {**DB, "topologyKey": HOST}),
    )
    wish = wish_of(pod, in_group=False)
    apart = next(name for name in wish.singles if "apart" in name)
    assert wish.resources.extended == {"gangline.dev/port.tcp-8080": 1, apart: 1}
    assert wish.resources.cpu_millis == 100
    assert taken(pod).extended == {"gangline.dev/port.tcp-8080": 1}


def test_pods_of_one_kind_ask_for_the_same_thing() -> None:
    apart = pod_terms("podAntiAffinity", {**DB, "topologyKey": HOST})
    first, second = (wish_of(make_pod(name, labels={"app": "db"}, affinity=apart), in_group=False) for name in "ab")
    assert first.singles == second.singles


def test_selector_affinity_tolerations_and_claims_are_read() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    pod = make_pod(
        nodeSelector={"disk": "ssd"},
        affinity=node_choice(term),
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        volumes=[
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "b", "emptyDir": {}},
        ],
    )
    wish = wish_of(pod, in_group=False)
    assert wish.labels == (("disk", "ssd"),)
    assert wish.affinity is not None
    assert [toleration.key for toleration in wish.tolerations] == ["gpu"]
    assert wish.claims == ("data", "pod-0-scratch")


def test_a_group_that_wants_to_be_together_stays_within_a_domain() -> None:
    pod = make_pod(labels={"app": "db"}, affinity=pod_terms("podAffinity", {**DB, "topologyKey": ZONE}))
    assert wish_of(pod, in_group=True).within == "zone"
    with pytest.raises(InexpressibleError, match="podAffinity is kept only between the pods of one PodGroup"):
        wish_of(pod, in_group=False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, "leave schedulerName out", id="device claims"),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "topologySpreadConstraints",
            id="hard spread",
        ),
        pytest.param({"affinity": pod_terms("podAntiAffinity", {**DB, "topologyKey": ZONE})}, ZONE, id="apart by zone"),
        pytest.param(
            {
                "affinity": pod_terms(
                    "podAntiAffinity", {"topologyKey": HOST, "labelSelector": {"matchLabels": {"x": "y"}}}
                )
            },
            "podAntiAffinity",
            id="apart from others",
        ),
        pytest.param(
            {"affinity": pod_terms("podAntiAffinity", {**DB, "topologyKey": HOST, "namespaceSelector": {}})},
            "podAntiAffinity",
            id="apart across namespaces",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InexpressibleError, match=message):
        wish_of(make_pod(labels={"app": "db"}, **fields), in_group=False)


def test_a_soft_spread_is_a_preference_and_no_reason_to_refuse() -> None:
    wish_of(make_pod(topologySpreadConstraints=[{"whenUnsatisfiable": "ScheduleAnyway"}]), in_group=False)


def test_priorities_meet_the_installers_classes_and_never_fall() -> None:
    assert [priority_of(value) for value in (-100, 0, 1_000, 10_000)] == [0, 50, 75, 100]
    values = [-(2**31), -1, 0, 1, 999, 5_000, 10_000, 500_000_000, 2_000_000_000, 2**31 - 1]
    found = [priority_of(value) for value in values]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, 1_000)
