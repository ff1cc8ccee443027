"""What a pod of others asks for, and what is refused."""

import json
from contextlib import nullcontext

import pytest

from gangline.engines.kubernetes.foreign.pod_requests import InexpressibleError, pod_request_of, priority_of
from gangline.engines.kubernetes.node_rules.capacity import taken
from gangline.model import Match, NodeRequirement
from tests.engines.kubernetes.foreign.builders import make_pod, node_choice, pod_terms

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DB = {"labelSelector": {"matchLabels": {"app": "db"}}}


def test_amounts_and_ports_become_resources() -> None:
    pod = make_pod(ports=[{"containerPort": 80, "hostPort": 8080}])
    request = pod_request_of(pod)
    assert request.resources.extended == {"gangline.dev/port.tcp-8080": 1}
    assert request.singles == {"gangline.dev/port.tcp-8080"}
    assert request.resources.cpu_millis == 100
    assert taken(pod).extended == {"gangline.dev/port.tcp-8080": 1}


def test_what_a_pod_says_of_others_is_kept_in_its_own_words() -> None:
    preferred = [{"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]
    affinity = pod_terms("podAntiAffinity", {**DB, "topologyKey": HOST})
    affinity |= {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    spread = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    request = pod_request_of(make_pod(affinity=affinity, topologySpreadConstraints=spread))
    assert json.loads(request.affinity_json) == {"affinity": affinity, "topologySpreadConstraints": spread}
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    assert pod_request_of(make_pod(affinity=node_choice(named))).affinity_json == ""


def test_an_affinity_that_selects_no_node_is_said() -> None:
    with pytest.raises(InexpressibleError, match="selects no node"):
        pod_request_of(make_pod(affinity=node_choice({"matchFields": []})))


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
    request = pod_request_of(pod)
    assert request.labels == (("disk", "ssd"),)
    assert request.terms == ((NodeRequirement(key="zone", operator=Match.EXISTS),),)
    assert [toleration.key for toleration in request.tolerations] == ["gpu"]
    assert request.claims == ("data", "pod-0-scratch")


@pytest.mark.parametrize(
    ("unsatisfied", "alone", "want_refused"),
    [
        pytest.param("DoNotSchedule", True, True, id="nobody to lie evenly with"),
        pytest.param("DoNotSchedule", False, False, id="one of a gang"),
        pytest.param("ScheduleAnyway", True, False, id="a preference"),
    ],
)
def test_a_hard_spread_is_kept_inside_a_gang(unsatisfied: str, *, alone: bool, want_refused: bool) -> None:
    pod = make_pod(topologySpreadConstraints=[{"topologyKey": ZONE, "whenUnsatisfiable": unsatisfied}])
    with pytest.raises(InexpressibleError, match="PodGroup alone") if want_refused else nullcontext():
        pod_request_of(pod, alone=alone)


def test_devices_are_left_to_kube_scheduler_and_the_refusal_says_so() -> None:
    with pytest.raises(InexpressibleError, match="leave schedulerName out"):
        pod_request_of(make_pod(resourceClaims=[{"name": "gpu"}]))


def test_priorities_meet_the_installers_classes_and_never_fall() -> None:
    assert [priority_of(value) for value in (-100, 0, 1_000, 10_000)] == [0, 50, 75, 100]
    values = [-(2**31), -1, 0, 1, 999, 5_000, 10_000, 500_000_000, 2_000_000_000, 2**31 - 1]
    found = [priority_of(value) for value in values]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, 1_000)
