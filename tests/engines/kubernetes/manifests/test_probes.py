"""Checks of services as probes of pods, and what kubelets say of them."""

import json
from datetime import UTC, datetime

import pytest

from gangline.engines.kubernetes.manifests.gang import Surroundings, gang_to_pods, gang_to_service_policy
from gangline.engines.kubernetes.manifests.probes import serving_address, why_not_ready, with_probes
from gangline.kube import Metadata, Pod
from gangline.kube.objects import Condition, PodStatus
from gangline.model import Gang, GangId, GangReplica, JobId, JobSpec, NodeName, ReplicaId, RoleName, RoleSpec
from gangline.model.kinds.service import SERVICE_LABEL, Check, Checks

COMMAND = ("serve", "--port", "$(PORT)")


def job(template: str | None = None, **labels: str) -> JobSpec:
    role = RoleSpec(name=RoleName("server"), command=COMMAND, port=8080, pod_template_json=template)
    return JobSpec(name="digits-1-1", image="image", roles=(role,), labels=labels)


def main_of(spec: JobSpec) -> dict[str, object]:
    return json.loads(spec.roles[0].pod_template_json or "{}")["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("check", "want_action"),
    [
        pytest.param(Check(http="/ready"), {"httpGet": {"path": "/ready", "port": 8080}}, id="path"),
        pytest.param(Check(exec=("test", "-e", "x")), {"exec": {"command": ["test", "-e", "x"]}}, id="program"),
        pytest.param(Check(), {"tcpSocket": {"port": 8080}}, id="connection"),
    ],
)
def test_check_becomes_a_probe(check: Check, want_action: dict[str, object]) -> None:
    probe = main_of(with_probes(job(), Checks(ready=check)))["readinessProbe"]
    assert probe == {**want_action, "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 3}


def test_checks_that_are_not_there_are_no_probes() -> None:
    assert {"startupProbe", "livenessProbe"}.isdisjoint(main_of(with_probes(job(), Checks())))


def test_start_may_take_as_long_as_readiness_may() -> None:
    checks = Checks(start=Check(http="/up", every_seconds=2), live=Check(every_seconds=10), within_seconds=300)
    main = main_of(with_probes(job(), checks))
    assert main["startupProbe"]["failureThreshold"] == 150  # type: ignore[index]
    assert main["livenessProbe"]["periodSeconds"] == 10  # type: ignore[index]


def test_probes_of_the_template_stay() -> None:
    own = {"readinessProbe": {"exec": {"command": ["true"]}}}
    template = json.dumps({"spec": {"containers": [{"name": "main", **own}]}})
    assert main_of(with_probes(job(template), Checks()))["readinessProbe"] == own["readinessProbe"]


def pods_of(spec: JobSpec) -> list[dict[str, object]]:
    replica = GangReplica(id=ReplicaId(RoleName("server"), 0), node=NodeName("n"))
    gang = Gang(id=GangId(JobId("j"), 1), spec=spec, replicas=(replica,))
    return list(gang_to_pods(gang, gang.replicas, Surroundings()))


def test_pod_of_a_service_has_its_port_where_the_command_says_and_waits_before_it_goes() -> None:
    pod = pods_of(with_probes(job(**{SERVICE_LABEL: "digits"}), Checks()))[0]
    container = pod["spec"]["containers"][0]  # type: ignore[index]
    assert container["command"] == list(COMMAND)
    assert container["lifecycle"]["preStop"] == {"sleep": {"seconds": 2}}
    assert pod["metadata"]["labels"]["gangline.dev/serves"] == "true"  # type: ignore[index]
    assert pod["metadata"]["annotations"]["gangline.dev/serving-port"] == "8080"  # type: ignore[index]


def test_command_of_any_other_job_is_taken_literally() -> None:
    pod = pods_of(job())[0]
    assert pod["spec"]["containers"][0]["command"][2] == "$$(PORT)"  # type: ignore[index]
    assert "gangline.dev/serves" not in pod["metadata"]["labels"]  # type: ignore[index]


def test_only_routers_of_the_installation_reach_a_service() -> None:
    def policy(spec: JobSpec) -> dict[str, object] | None:
        return gang_to_service_policy(Gang(id=GangId(JobId("j"), 1), spec=spec, replicas=()), Surroundings())

    assert policy(job()) is None
    found = policy(job(**{SERVICE_LABEL: "digits"}))
    assert found is not None
    (rule,) = found["spec"]["ingress"]  # type: ignore[index]
    (source,) = rule["from"]
    assert source["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "router"
    assert source["namespaceSelector"]["matchLabels"] == {"gangline.dev/controller": "gangline"}


def pod(ready: str = "True", message: str = "", ip: str = "10.1.0.2", going: bool = False) -> Pod:
    deletion = datetime(2026, 1, 1, tzinfo=UTC) if going else None
    metadata = Metadata(name="p", annotations={"gangline.dev/serving-port": "8080"}, deletion_timestamp=deletion)
    condition = Condition(type="Ready", status=ready, message=message)
    return Pod(metadata=metadata, status=PodStatus(pod_ip=ip, conditions=(condition,)))


@pytest.mark.parametrize(
    ("found", "want_refusal"),
    [
        pytest.param(pod(), "", id="ready"),
        pytest.param(pod("False", "containers with unready status: [main]"), "containers with", id="unready"),
        pytest.param(pod("False"), "its pod is not ready", id="unready without a word"),
        pytest.param(pod(going=True), "its pod is going", id="going though ready"),
        pytest.param(Pod(metadata=Metadata(name="p")), "its pod is not ready", id="new"),
    ],
)
def test_readiness_is_what_the_kubelet_says(found: Pod, want_refusal: str) -> None:
    assert why_not_ready(found).startswith(want_refusal)
    assert bool(why_not_ready(found)) is bool(want_refusal)


def test_address_is_that_of_the_pod() -> None:
    assert serving_address(pod()) == "10.1.0.2:8080"
    assert serving_address(pod(ip="fd00::1")) == "[fd00::1]:8080"
    assert not serving_address(pod(ip=""))
