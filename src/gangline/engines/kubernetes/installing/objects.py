"""Everything ``gangline install`` puts into a cluster, as plain objects in the order they are applied. Pure.

The Helm chart is rendered from the same list, so the two cannot drift apart. ``installer`` sends it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gangline.engines.kubernetes.installing.admission import job_policies, kubeflow_policies, record_policies
from gangline.engines.kubernetes.installing.api import api_objects
from gangline.engines.kubernetes.installing.router import ROUTER_NAME, router_objects
from gangline.engines.kubernetes.names import CONTROLLER, DOMAIN
from gangline.kinds import all_kinds
from gangline.kinds.model import MODEL

Plain = dict[str, Any]

NAME = "gangline"
CONTROLLER_NAME = "gangline-controller"
CACHE_CLAIM = "gangline-cache"
QUEUE_READER = "gangline-queue-reader"
PORT = 8080
PRIORITY = f"{DOMAIN}/priority"
SCRAPES = f"{DOMAIN}/scrapes"
"""On a namespace: its pods may read the controller's metrics."""
PRIORITY_CLASSES: Mapping[str, tuple[int, int]] = {
    # name: (the job's priority from which it applies, the value Kubernetes compares)
    "gangline-low": (0, -100),
    "gangline-normal": (50, 0),
    "gangline-high": (75, 1000),
    "gangline-critical": (100, 10_000),
}
_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What an administrator decides."""

    image: str
    namespace: str = "gangline-system"
    replicas: int = 2
    cache_claim: str = CACHE_CLAIM
    """On claims of this name movers keep what they fetched, in namespaces that have one."""
    api: bool = False
    """Whether a service for people outside of the cluster is added."""
    definitions: Sequence[Mapping[str, Any]] = ()
    """The custom resources; they belong to the store and are handed in. Those of another group are jobs that are to be
    run in place of their own operator: the controller's role follows from them."""


def installation_objects(wanted: Installation) -> list[Plain]:
    """Return every object, in the order in which they are applied; they are removed in the reverse."""
    return [
        _namespace(wanted),
        *(dict(definition) for definition in wanted.definitions),
        *_priority_classes(),
        _service_account(wanted),
        _controller_role(wanted),
        _cluster_binding(wanted),
        _lease_role(wanted),
        _lease_binding(wanted),
        *_user_roles(wanted),
        *_policies(wanted),
        _service(wanted),
        _network_policy(wanted),
        _disruption_budget(wanted),
        *router_objects(
            image=wanted.image,
            namespace=wanted.namespace,
            replicas=wanted.replicas,
            controllers=_SELECTOR,
            labels=_labels(),
        ),
        *(_api(wanted) if wanted.api else ()),
        _deployment(wanted),
    ]


def _api(wanted: Installation) -> list[Plain]:
    return api_objects(image=wanted.image, namespace=wanted.namespace, replicas=wanted.replicas, labels=_labels())


def _labels(**more: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": NAME, CONTROLLER: NAME, **more}


def _metadata(name: str, namespace: str | None = None, **labels: str) -> Plain:
    place = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "labels": _labels(**labels)}


def _namespace(wanted: Installation) -> Plain:
    metadata = _metadata(wanted.namespace, **{"pod-security.kubernetes.io/enforce": "restricted"})
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _priority_classes() -> list[Plain]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": _metadata(name, **{PRIORITY: str(priority)}),
            "value": value,
            "description": f"Gangline jobs of priority {priority} and above",
        }
        for name, (priority, value) in PRIORITY_CLASSES.items()
    ]


def _service_account(wanted: Installation) -> Plain:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(CONTROLLER_NAME, wanted.namespace)}


def controller_rules() -> list[Plain]:
    """What the controller may do, and nothing else: it reads nodes and pods and writes what its jobs consist of."""
    return [
        _rule("", ["nodes"], _READ),
        _rule("", ["pods"], [*_READ, "create", "patch", "delete"]),
        _rule("", ["pods/log"], ["get"]),
        _rule("", ["pods/binding"], ["create"]),
        _rule("", ["pods/status"], ["patch"]),
        _rule("", ["persistentvolumeclaims"], ["get", "patch"]),
        _rule("", ["persistentvolumes"], ["get", "list", "patch"]),
        _rule("storage.k8s.io", ["storageclasses"], ["get"]),
        _rule("scheduling.volcano.sh", ["podgroups"], _READ),
        # Volcano's definition has no subresource for the status.
        _rule("scheduling.volcano.sh", ["podgroups", "podgroups/status"], ["patch"]),
        _rule("scheduling.x-k8s.io", ["podgroups"], _READ),
        _rule("scheduling.x-k8s.io", ["podgroups/status"], ["patch"]),
        _rule("scheduling.k8s.io", ["podgroups", "workloads"], _READ),
        _rule("scheduling.k8s.io", ["podgroups/status"], ["patch"]),
        _rule("", ["services"], ["list", "create", "delete"]),
        _rule("", ["configmaps"], ["get", "list", "create", "patch", "delete", "deletecollection"]),
        # Never to be read: the controller makes the key of an MPI job and takes it away again.
        _rule("", ["secrets"], ["create", "delete"]),
        _rule("", ["events"], ["create", "list"]),
        _rule("networking.k8s.io", ["networkpolicies"], ["list", "create", "delete"]),
        _rule("scheduling.k8s.io", ["priorityclasses"], ["list"]),
        _rule("metrics.k8s.io", ["nodes", "pods"], ["get", "list"]),
        _rule(DOMAIN, ["jobs"], [*_READ, "create", "patch", "delete"]),
        _rule(DOMAIN, ["jobs/status"], ["update", "patch"]),
        _rule(DOMAIN, _plurals(namespaced=False), [*_READ, "create", "patch"]),
        _rule(DOMAIN, _plurals(namespaced=True), [*_READ, "patch", "delete"]),
        # What jobs leave is registered as models, which are made with their first version.
        _rule(DOMAIN, [MODEL.plural], ["create"]),
    ]


def _plurals(*, namespaced: bool) -> list[str]:
    """The kinds whose records belong to tenants, or to nobody."""
    return [kind.plural for kind in all_kinds() if kind.namespaced is namespaced and not kind.foreign]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Plain:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _controller_role(wanted: Installation) -> Plain:
    rules = controller_rules()
    for group, plurals in _adopted_kinds(wanted).items():
        rules += [
            _rule(group, plurals, [*_READ, "create", "patch", "delete"]),
            _rule(group, [f"{plural}/status" for plural in plurals], ["update", "patch"]),
            # What a pod's reference to its owner needs, where a cluster checks that.
            _rule(group, [f"{plural}/finalizers" for plural in plurals], ["update"]),
        ]
    return _role("ClusterRole", _metadata(CONTROLLER_NAME), rules)


def _adopted_kinds(wanted: Installation, *scopes: str) -> dict[str, list[str]]:
    """The kinds of other groups that this installation runs, by group: of these scopes, or all of them."""
    found: dict[str, list[str]] = {}
    for definition in wanted.definitions:
        spec = definition["spec"]
        if spec["group"] != DOMAIN and (not scopes or spec["scope"] in scopes):
            found.setdefault(spec["group"], []).append(spec["names"]["plural"])
    return found


def _lease_role(wanted: Installation) -> Plain:
    routes = {**_rule("", ["secrets"], ["get", "patch"]), "resourceNames": [ROUTER_NAME]}
    rules = [_rule("coordination.k8s.io", ["leases"], ["get", "create", "update"]), routes]
    return _role("Role", _metadata(CONTROLLER_NAME, wanted.namespace), rules)


def _role(kind: str, metadata: Plain, rules: list[Plain]) -> Plain:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}


def _cluster_binding(wanted: Installation) -> Plain:
    return _binding("ClusterRoleBinding", "ClusterRole", _metadata(CONTROLLER_NAME), wanted)


def _lease_binding(wanted: Installation) -> Plain:
    return _binding("RoleBinding", "Role", _metadata(CONTROLLER_NAME, wanted.namespace), wanted)


def _binding(kind: str, role: str, metadata: Plain, wanted: Installation) -> Plain:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": role, "name": CONTROLLER_NAME},
        "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER_NAME, "namespace": wanted.namespace}],
    }


def _user_roles(wanted: Installation) -> list[Plain]:
    """What people may do in their own namespace follows from the cluster's own roles view and edit.

    Queues belong to no namespace, and every submission names one: whoever is known to the cluster may read them, and
    what other kinds there are of everybody's.
    """
    common, own = _plurals(namespaced=False), ["jobs", *_plurals(namespaced=True)]
    view = [_rule(DOMAIN, [*own, *common], _READ)]
    edit = [
        _rule(DOMAIN, own, [*_READ, "create", "update", "patch", "delete"]),
        _rule(DOMAIN, ["jobs/status"], ["update", "patch"]),
        # By which the files of a job that runs are looked at, for who may make pods anyway.
        _rule("", ["pods/ephemeralcontainers"], ["patch"]),
    ]
    for group, plurals in _adopted_kinds(wanted, "Namespaced").items():
        view.append(_rule(group, plurals, _READ))
        edit.append(_rule(group, plurals, [*_READ, "create", "update", "patch", "delete", "deletecollection"]))
        edit.append(_rule(group, [f"{plural}/scale" for plural in plurals], ["get", "update", "patch"]))
        edit.append(_rule(group, [f"{plural}/status" for plural in plurals], ["get", "update", "patch"]))
    shared = [_rule(group, plurals, _READ) for group, plurals in _adopted_kinds(wanted, "Cluster").items()]
    everybody = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
    return [
        _role("ClusterRole", _metadata("gangline-view", **{f"{_RBAC}/aggregate-to-view": "true"}), view),
        _role("ClusterRole", _metadata("gangline-edit", **{f"{_RBAC}/aggregate-to-edit": "true"}), edit),
        _role("ClusterRole", _metadata(QUEUE_READER), [_rule(DOMAIN, common, _READ), *shared]),
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": _metadata(QUEUE_READER),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": QUEUE_READER},
            "subjects": [everybody],
        },
    ]


def _policies(wanted: Installation) -> list[Plain]:
    policies = job_policies(_metadata("gangline-jobs")) + record_policies(_metadata("gangline-records"))
    for group, plurals in _adopted_kinds(wanted, "Namespaced").items():
        policies += kubeflow_policies(_metadata(f"gangline-{group.replace('.', '-')}"), group, plurals)
    return policies


_SELECTOR = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "controller"}


def _service(wanted: Installation) -> Plain:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(CONTROLLER_NAME, wanted.namespace),
        "spec": {"selector": _SELECTOR, "ports": [{"name": "http", "port": PORT, "targetPort": "http"}]},
    }


def _network_policy(wanted: Installation) -> Plain:
    """Let nobody at the controller but those who ask how it is; its kubelet's probes come in as ever."""
    scrapers = [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {SCRAPES: "true"}}}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(CONTROLLER_NAME, wanted.namespace),
        "spec": {
            "podSelector": {"matchLabels": _SELECTOR},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": scrapers, "ports": [{"protocol": "TCP", "port": PORT}]}],
        },
    }


def _disruption_budget(wanted: Installation) -> Plain:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(CONTROLLER_NAME, wanted.namespace),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": _SELECTOR}},
    }


def _deployment(wanted: Installation) -> Plain:
    labels = _labels(**{"app.kubernetes.io/component": "controller"})
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(CONTROLLER_NAME, wanted.namespace),
        "spec": {
            "replicas": wanted.replicas,
            "selector": {"matchLabels": _SELECTOR},
            "template": {"metadata": {"labels": labels}, "spec": _controller_pod(wanted)},
        },
    }


def _controller_pod(wanted: Installation) -> Plain:
    apart = {
        "weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": _SELECTOR}},
    }
    return {
        "serviceAccountName": CONTROLLER_NAME,
        # The controller is then not process 1, to which the kernel delivers no signal before it is handled: one that
        # is told to stop while it starts would sit out the whole grace period.
        "shareProcessNamespace": True,
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_controller_container(wanted)],
        "volumes": [{"name": "home", "emptyDir": {}}],
    }


def _controller_container(wanted: Installation) -> Plain:
    def probe(path: str) -> Plain:
        return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": 5}

    return {
        "name": "controller",
        "image": wanted.image,
        "command": [
            "gangline",
            "controller",
            "run",
            "--in-cluster",
            f"--listen=:{PORT}",
            "--job-image=$(GANGLINE_IMAGE)",
            f"--cache-claim={wanted.cache_claim}",
        ],
        "env": [
            {"name": "GANGLINE_HOME", "value": "/home/gangline"},
            {"name": "GANGLINE_IMAGE", "value": wanted.image},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "ports": [{"name": "http", "containerPort": PORT}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "readinessProbe": probe("/readyz"),
        "livenessProbe": {**probe("/healthz"), "failureThreshold": 6},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "home", "mountPath": "/home/gangline"}, {"name": "home", "mountPath": "/tmp"}],
    }
