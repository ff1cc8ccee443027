"""Jobs are completed with the wishes of their pods, and with those of pods that belong to no job."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from gangline.dialects import read
from gangline.engines.kubernetes.node_rules.affinity import PREFERRED, REQUIRED
from gangline.engines.kubernetes.node_rules.pod_affinity import AffinityCompletion, TenantNamespaces
from gangline.engines.kubernetes.watch.cluster_view import ClusterView
from gangline.model import AffinityKind, AffinityTerm, Job, NodePreference, NodeRequirement, NodeRule, Prefer, Tenant
from gangline.testing.builders import make_job, make_role, make_running_job, make_spec
from tests.engines.kubernetes.foreign.builders import NAMESPACE, make_kube_node, make_pod

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NOBODY_ELSE = (Tenant(NAMESPACE),)
IS_DB = NodeRequirement(key="app", values=("db",))


def anti_affinity(app: str = "db", key: str = HOST) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def template(labels: Mapping[str, str] | None = None, **spec: Any) -> str:
    return json.dumps({"metadata": {"labels": dict(labels or {})}, "spec": spec})


def waiting(text: str | None = None, job_id: str = "job-1", **fields: Any) -> Job:
    role = make_role(replicas=2, pod_template_json=text)
    return make_job(make_spec(roles=(role,), tenant=NAMESPACE, **fields), job_id=job_id)


class Cluster:
    """A view with three nodes in two zones, and who completes jobs by it."""

    def __init__(self, tenant_namespaces: TenantNamespaces | None = None) -> None:
        self.view = ClusterView(
            controller="gangline",
            changed_pod=lambda *_: None,
            changed_nodes=lambda: None,
            lost_node=lambda _: None,
            scheduler_name="another",
        )
        for name, zone in (("n0", "a"), ("n1", "a"), ("n2", "b")):
            self.view.apply_node(make_kube_node(name, labels={ZONE: zone}))
        self.affinity_completion = AffinityCompletion(
            self.view, controller="gangline", tenant_namespaces=tenant_namespaces or TenantNamespaces()
        )

    def rule(self, job: Job) -> NodeRule:
        """What the first role of a job is told to keep to."""
        (found,) = self.affinity_completion.complete([job])
        return found.spec.nodes_of(found.spec.roles[0])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_jobs_are_left_alone_where_nobody_wants_anything(cluster: Cluster) -> None:
    cluster.view.apply_watched(make_pod("db", node="n0", labels={"app": "db"}))
    jobs = (waiting(), waiting(template({"app": "db"}), "job-2"))
    assert cluster.affinity_completion.complete(jobs) is jobs


def test_a_template_says_whom_it_repels_and_where_those_are(cluster: Cluster) -> None:
    cluster.view.apply_watched(make_pod("db", node="n1", labels={"app": "db"}))
    cluster.view.apply_watched(make_pod("web", node="n2", labels={"app": "web"}))
    cluster.view.apply_watched(make_pod("late", labels={"app": "db"}))
    by_zone = cluster.rule(waiting(template({"app": "web"}, affinity=anti_affinity(key=ZONE))))
    assert by_zone.pod_affinity == (
        AffinityTerm(
            kind=AffinityKind.ANTI_AFFINITY, level="zone", labels=(IS_DB,), tenants=NOBODY_ELSE, present=("a",)
        ),
    )
    cluster.view.drop_watched(make_pod("db", node="n1", labels={"app": "db"}))
    again = cluster.rule(waiting(template({"app": "web"}, affinity=anti_affinity(key=ZONE))))
    assert again.pod_affinity[0].present == ()


def test_a_pod_that_ends_is_nobodys_neighbour(cluster: Cluster) -> None:
    hostile = {"node": "n0", "labels": {"app": "web"}, "affinity": anti_affinity()}
    job = waiting(template({"app": "db"}))
    cluster.view.apply_watched(make_pod("web", **hostile))
    assert cluster.rule(job).pod_affinity == (
        AffinityTerm(kind=AffinityKind.ANTI_AFFINITY, level="node", tenants=(), present=("n0",)),
    )
    cluster.view.apply_watched(make_pod("web", phase="Succeeded", **hostile))
    assert cluster.rule(job).pod_affinity == ()


@pytest.mark.parametrize(
    ("labels", "tenant"),
    [
        pytest.param({"app": "web"}, NAMESPACE, id="other labels"),
        pytest.param({"app": "db"}, "team-b", id="another namespace"),
    ],
)
def test_pods_of_others_keep_only_those_away_whom_they_mean(
    cluster: Cluster, labels: dict[str, str], tenant: str
) -> None:
    cluster.view.apply_watched(make_pod("web", node="n0", affinity=anti_affinity()))
    job = make_job(make_spec(roles=(make_role(pod_template_json=template(labels)),), tenant=Tenant(tenant)))
    assert cluster.rule(job).pod_affinity == ()


def test_everybody_goes_by_labels_once_somebody_looks_at_them(cluster: Cluster) -> None:
    choosy = waiting(template(affinity=anti_affinity()))
    plain = make_running_job(make_spec("plain", tenant=NAMESPACE), job_id="job-2")
    _, found = cluster.affinity_completion.complete([choosy, plain])
    assert found.spec.roles[0].labels == {
        "gangline.dev/controller": "gangline",
        "gangline.dev/job": "plain",
        "gangline.dev/job-id": "job-2",
        "gangline.dev/role": "worker",
    }
    assert found.replicas == plain.replicas


def test_what_has_not_changed_is_the_same_object(cluster: Cluster) -> None:
    jobs = [waiting(template(affinity=anti_affinity())), waiting(None, "job-2")]
    first = list(cluster.affinity_completion.complete(jobs))
    second = list(cluster.affinity_completion.complete(jobs))
    assert [one is other for one, other in zip(first, second, strict=True)] == [True, True]
    cluster.view.apply_watched(make_pod("db", node="n1", labels={"app": "db"}))
    third = list(cluster.affinity_completion.complete(jobs))
    assert [one is other for one, other in zip(first, third, strict=True)] == [False, True]


def test_a_plain_template_is_asked_for_nodes_and_the_job_has_its_own_word(cluster: Cluster) -> None:
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 3, "preference": ssd}]}}
    role = make_role(
        pod_template_json=template(nodeSelector={"pool": "a"}, affinity=affinity),
        placement=NodeRule(node_selector={"gpu": "yes"}),
    )
    rule = cluster.rule(make_job(make_spec(roles=(role,))))
    assert rule.node_selector == {"pool": "a", "gpu": "yes"}
    assert rule.preferences == (NodePreference(3, (NodeRequirement(key="disk", values=("ssd",)),)),)


def test_what_pods_of_one_kind_prefer_the_gang_prefers(cluster: Cluster) -> None:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}}
    spread = waiting(template({"app": "db"}, affinity={"podAntiAffinity": {PREFERRED: [term]}}))
    (found,) = cluster.affinity_completion.complete([spread])
    assert found.spec.placement.prefer is Prefer.SPREAD


TFJOB = """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist, namespace: team-a}
spec:
  tfReplicaSpecs:
    Chief: {template: {spec: {containers: [{name: tensorflow, image: a}]}}}
    Worker:
      replicas: 2
      template:
        spec:
          nodeSelector: {pool: a}
          containers: [{name: tensorflow, image: a}]
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
              - topologyKey: kubernetes.io/hostname
                labelSelector: {matchLabels: {training.kubeflow.org/job-name: mnist}}
"""


def test_kubeflow_jobs_go_by_the_labels_that_their_operator_gives(cluster: Cluster) -> None:
    (translation,) = read(TFJOB)
    (found,) = cluster.affinity_completion.complete([make_job(translation.spec)])
    chief, worker = found.spec.roles
    named = {
        "training.kubeflow.org/job-name": "mnist",
        "training.kubeflow.org/operator-name": "tfjob-controller",
    }
    assert named.items() <= worker.labels.items()
    assert worker.labels["training.kubeflow.org/replica-type"] == "worker"
    assert chief.labels["training.kubeflow.org/job-role"] == "master"
    (pod_affinity,) = found.spec.nodes_of(worker).pod_affinity
    assert pod_affinity.means(chief.labels, Tenant(NAMESPACE))
    assert pod_affinity.means(worker.labels, Tenant(NAMESPACE))
    assert found.spec.nodes_of(worker).node_selector == {"pool": "a"}


@pytest.mark.parametrize(
    ("tenant_namespaces", "want_tenants"),
    [
        pytest.param(TenantNamespaces(), (Tenant("team-a"), Tenant("x")), id="a namespace is a tenant"),
        pytest.param(TenantNamespaces(prefix="team-"), (Tenant("a"),), id="with a prefix before it"),
        pytest.param(TenantNamespaces(namespace="team-a"), None, id="all live in one of them"),
        pytest.param(TenantNamespaces(namespace="elsewhere"), (), id="all live elsewhere"),
    ],
)
def test_tenants_are_found_by_their_namespaces(tenant_namespaces: TenantNamespaces, want_tenants: object) -> None:
    assert tenant_namespaces.tenants_of(frozenset({"team-a", "x"})) == want_tenants
