"""The service of a team in a cluster: what ``gangline install --api`` adds. Pure.

Its account may ask the API server who a token is and what they may do (the cluster's own role system:auth-delegator),
and nothing else: requests are carried out with the tokens that they bring. The certificate is a Secret that its
administrator gives, or that ``gangline install`` makes; pods wait for it.
"""

from typing import Any

Plain = dict[str, Any]

API_NAME = "gangline-api"
API_SECRET = "gangline-api-tls"  # noqa: S105  # the name of a Secret
API_DATABASE = "gangline-api-database"
"""A Secret whose key ``address`` is a postgresql:// address, if there is one."""
API_PORT, API_RPC_PORT = 8470, 8471
_SELECTOR = {"app.kubernetes.io/name": "gangline", "app.kubernetes.io/component": "api"}
_HOME, _TLS = "/home/gangline", "/etc/gangline-api"
_LEAVING_SECONDS = 3
_AFFINITY_SECONDS = 3600
_RBAC = "rbac.authorization.k8s.io"


def api_objects(*, image: str, namespace: str, replicas: int, labels: Plain) -> list[Plain]:
    """Return the objects, in the order in which they are applied."""

    def metadata(*, within: bool = True) -> Plain:
        return {"name": API_NAME, **({"namespace": namespace} if within else {}), "labels": labels}

    ports = {"https": (443, API_PORT), "grpc": (API_RPC_PORT, API_RPC_PORT)}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata()},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata(within=False),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "system:auth-delegator"},
            "subjects": [{"kind": "ServiceAccount", "name": API_NAME, "namespace": namespace}],
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(),
            "spec": {
                "selector": _SELECTOR,
                # Code is sent before the job that names it: both go to one replica.
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}},
                "ports": [{"name": name, "port": port, "targetPort": name} for name, (port, _) in ports.items()],
            },
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(),
            "spec": {
                "podSelector": {"matchLabels": _SELECTOR},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": [{"protocol": "TCP", "port": port} for _, port in ports.values()]}],
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(),
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": _SELECTOR}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata(),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": _SELECTOR},
                "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
                "template": {"metadata": {"labels": {**labels, **_SELECTOR}}, "spec": _pod(image)},
            },
        },
    ]


def _pod(image: str) -> Plain:
    apart = {
        "weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": _SELECTOR}},
    }
    return {
        "serviceAccountName": API_NAME,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
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
            {"name": "tls", "secret": {"secretName": API_SECRET, "defaultMode": 0o440}},
        ],
    }


def _container(image: str) -> Plain:
    probe = {"httpGet": {"path": "/api/v1/login", "port": "https", "scheme": "HTTPS"}, "periodSeconds": 5}
    command = ["gangline", "server", "run", "--in-cluster", f"--listen=0.0.0.0:{API_PORT}"]
    command += [f"--grpc=0.0.0.0:{API_RPC_PORT}", f"--cert={_TLS}/tls.crt", f"--key={_TLS}/tls.key"]
    database = {"name": API_DATABASE, "key": "address", "optional": True}
    return {
        "name": "api",
        "image": image,
        "command": command,
        "env": [
            {"name": "GANGLINE_HOME", "value": f"{_HOME}/home"},
            {"name": "GANGLINE_RUNTIME_DIRECTORY", "value": f"{_HOME}/run"},
            {"name": "GANGLINE_DATABASE", "valueFrom": {"secretKeyRef": database}},
        ],
        "ports": [{"name": "https", "containerPort": API_PORT}, {"name": "grpc", "containerPort": API_RPC_PORT}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "readinessProbe": {**probe, "periodSeconds": 2},
        "livenessProbe": {**probe, "failureThreshold": 6},
        # The proxies of all nodes must have heard that it goes before it accepts nothing more.
        "lifecycle": {"preStop": {"sleep": {"seconds": _LEAVING_SECONDS}}},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "home", "mountPath": _HOME},
            {"name": "home", "mountPath": "/tmp", "subPath": "tmp"},  # of the container
            {"name": "tls", "mountPath": _TLS, "readOnly": True},
        ],
    }
