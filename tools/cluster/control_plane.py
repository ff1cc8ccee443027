"""The control plane: command lines, name server configuration and the objects it needs. Pure, but for ``write``."""

from pathlib import Path
from typing import Any

from tools.cluster.layout import API_PORT, POD_RANGE, SERVICE_DNS, SERVICE_RANGE, Layout

GRACE_SECONDS = 16
"""After this a silent node is lost: soon, so that tests need not wait long."""


def etcd(layout: Layout, binaries: Path) -> list[str]:
    """Spell etcd's command line; it does not wait for the disk, since nothing here outlives the machine."""
    return [
        str(binaries / "etcd"),
        f"--data-dir={layout.folder}/etcd",
        "--unsafe-no-fsync",
        f"--listen-client-urls={_etcd(layout)}",
        f"--advertise-client-urls={_etcd(layout)}",
        f"--listen-peer-urls=http://{layout.inner_address}:2380",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def api_server(layout: Layout, binaries: Path) -> list[str]:
    """Spell the API server's command line."""
    pki = layout.pki
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers={_etcd(layout)}",
        f"--secure-port={API_PORT}",
        f"--advertise-address={layout.control_address}",
        *_confined_to_the_host(layout),
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/kube-apiserver.crt",
        f"--tls-private-key-file={pki}/kube-apiserver.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        # Node names do not resolve here; without this, logs and exec fail.
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-account.pub",
        f"--service-account-signing-key-file={pki}/service-account.key",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        # Kubernetes' own PodGroups, which are not on by default yet.
        "--feature-gates=GenericWorkload=true",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    ]


def _etcd(layout: Layout) -> str:
    return f"http://{layout.inner_address}:2379"


def _confined_to_the_host(layout: Layout) -> list[str]:
    """Listen where only the host can ask, if there are no nodes; such an address cannot be that of a service."""
    return [] if layout.nodes else [f"--bind-address={layout.control_address}", "--endpoint-reconciler-type=none"]


def controller_manager(layout: Layout, binaries: Path, *, grace_seconds: int = GRACE_SECONDS) -> list[str]:
    """Spell the controller manager's command line; silent nodes count as lost after the grace."""
    pki = layout.pki
    kubeconfig = f"{pki}/kube-controller-manager.kubeconfig"
    return [
        str(binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={pki}/service-account.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--use-service-account-credentials=true",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--leader-elect=false",
        # It would make its default folder on the host.
        f"--flex-volume-plugin-dir={layout.folder}/volume-plugins",
        "--node-monitor-period=1s",
        f"--node-monitor-grace-period={grace_seconds}s",
        f"--bind-address={layout.inner_address}",
    ]


def scheduler(layout: Layout, binaries: Path) -> list[str]:
    """Spell the scheduler's command line."""
    kubeconfig = f"{layout.pki}/kube-scheduler.kubeconfig"
    return [
        str(binaries / "kube-scheduler"),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--leader-elect=false",
        f"--bind-address={layout.inner_address}",
    ]


def name_server(layout: Layout, binaries: Path) -> list[str]:
    """Spell the name server's command line; its configuration is written by ``write``."""
    return [str(binaries / "coredns"), "-conf", f"{layout.folder}/Corefile"]


def write(layout: Layout) -> None:
    """Write the name server's configuration; it answers for pods that are not ready, as a gang that meets needs."""
    text = f"""
.:53 {{
    bind {layout.control_address}
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {layout.pki}/coredns.kubeconfig
        ttl 0
    }}
}}
"""
    (layout.folder / "Corefile").write_text(text, encoding="utf-8")


def objects(layout: Layout) -> list[tuple[str, dict[str, Any]]]:
    """List what the cluster needs besides its components: roles, and the name server as a service."""
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": "system:coredns"}, "rules": rules}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:coredns"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "system:coredns"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "system:coredns"}],
    }
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": SERVICE_DNS, "ports": ports},
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns"},
        },
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [{"addresses": [layout.control_address], "conditions": {"ready": True}}],
    }
    return [
        (f"/apis/{rbac}/v1/clusterroles", role),
        (f"/apis/{rbac}/v1/clusterrolebindings", binding),
        ("/api/v1/namespaces/kube-system/services", service),
        ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", endpoints),
    ]


def proxy(layout: Layout, binaries: Path, node: int) -> list[str]:
    """Spell the command line of a node's service proxy; it leaves the host's connection tracking limits alone."""
    return [
        str(binaries / "kube-proxy"),
        f"--kubeconfig={layout.pki}/kube-proxy.kubeconfig",
        "--proxy-mode=nftables",
        f"--cluster-cidr={POD_RANGE}",
        f"--hostname-override={layout.node_name(node)}",
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]
