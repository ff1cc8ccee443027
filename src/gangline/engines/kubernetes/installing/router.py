"""The routers of an installation: what sends requests to services, and may do nothing else. Pure.

They have no account of the API server. Where requests go is in a Secret that the controller writes; they begin with it
and are told of every change (``compose.cluster_router``).
"""

from typing import Any

from gangline.engines.kubernetes.names import CONTROLLER, ROUTER

Plain = dict[str, Any]

ROUTER_NAME = "gangline-router"
ROUTER_PORT, ROUTER_CONTROL_PORT = 8080, 8081
TABLE_KEY, TOKEN_KEY = "table.json", "token"  # names of keys
_LEAVING_SECONDS, _DRAIN_SECONDS = 3, 20
_HOME, _SECRET = "/home/gangline", "/etc/gangline-router"


def router_objects(*, image: str, namespace: str, replicas: int, controllers: Plain, labels: Plain) -> list[Plain]:
    """Return the objects; ``controllers`` are the labels of those who may tell routers what to do."""

    def metadata() -> Plain:
        return {"name": ROUTER_NAME, "namespace": namespace, "labels": labels}

    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(),
            "spec": {"selector": ROUTER, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(),
            "spec": {
                "podSelector": {"matchLabels": ROUTER},
                "policyTypes": ["Ingress"],
                "ingress": [
                    {"ports": [{"protocol": "TCP", "port": ROUTER_PORT}]},
                    {
                        "from": [{"podSelector": {"matchLabels": controllers}}],
                        "ports": [{"protocol": "TCP", "port": ROUTER_CONTROL_PORT}],
                    },
                ],
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": ROUTER}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": ROUTER},
                "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
                "template": {
                    "metadata": {"labels": {**labels, **ROUTER, CONTROLLER: labels[CONTROLLER]}},
                    "spec": _pod(image),
                },
            },
        },
    ]


def _pod(image: str) -> Plain:
    apart = {
        "weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": ROUTER}},
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": _LEAVING_SECONDS + _DRAIN_SECONDS + 5,
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(image)],
        "volumes": [
            {"name": "home", "emptyDir": {}},
            # There as soon as a controller has led once; until then the pod waits for it.
            {"name": "routes", "secret": {"secretName": ROUTER_NAME}},
        ],
    }


def _container(image: str) -> Plain:
    command = ["python3", "-m", "gangline.router", "--table", f"{_HOME}/table.json", "--control", f"{_HOME}/control"]
    command += ["--listen", f"0.0.0.0:{ROUTER_PORT}", "--metrics", f"0.0.0.0:{ROUTER_CONTROL_PORT}"]
    command += ["--token", f"{_SECRET}/{TOKEN_KEY}", "--first-table", f"{_SECRET}/{TABLE_KEY}"]
    return {
        "name": "router",
        "image": image,
        "command": [*command, "--drain", str(_DRAIN_SECONDS)],
        "ports": [
            {"name": "http", "containerPort": ROUTER_PORT},
            {"name": "control", "containerPort": ROUTER_CONTROL_PORT},
        ],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "control"}, "periodSeconds": 2},
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "control"},
            "periodSeconds": 5,
            "failureThreshold": 6,
        },
        # The proxies of all nodes must have heard that it goes before it accepts nothing more.
        "lifecycle": {"preStop": {"sleep": {"seconds": _LEAVING_SECONDS}}},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "home", "mountPath": _HOME},
            {"name": "home", "mountPath": "/tmp", "subPath": "tmp"},  # of the container
            {"name": "routes", "mountPath": _SECRET, "readOnly": True},
        ],
    }
