"""The cluster's certificates, made by ``openssl``: one authority, and one certificate per component.

Every component has its own identity, so that the API server's role-based rules hold as in a real cluster. Keys are
readable by their owner alone.
"""

import base64
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tools.cluster.errors import ClusterError
from tools.cluster.host import program
from tools.cluster.layout import SERVICE_API, Layout

_DAYS = "30"
_CONFIGURATION = """
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign, digitalSignature
subjectKeyIdentifier = hash
[leaf]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")

IDENTITIES = {
    "admin": "/O=system:masters/CN=admin",
    "kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",
    "kube-controller-manager": "/CN=system:kube-controller-manager",
    "kube-scheduler": "/CN=system:kube-scheduler",
    "kube-proxy": "/CN=system:kube-proxy",
    "coredns": "/CN=system:coredns",
    "kwok": "/O=system:masters/CN=kwok",
}


def create(layout: Layout) -> None:
    """Make every certificate, and a kubeconfig for each component that talks to the API server."""
    layout.pki.mkdir(mode=0o700)
    configuration = layout.pki / "openssl.cnf"
    configuration.write_text(_CONFIGURATION, encoding="utf-8")
    _certificate(layout.pki, "ca", "/CN=gangline-test-cluster", section="authority")
    api_names = [f"DNS:{name}" for name in ("localhost", *_SERVICE_NAMES)]
    api_names += [f"IP:{address}" for address in ("127.0.0.1", layout.control_address, SERVICE_API)]
    wanted: list[tuple[str, str, Sequence[str]]] = [("kube-apiserver", "/CN=kube-apiserver", api_names)]
    wanted += [(name, subject, ()) for name, subject in IDENTITIES.items()]
    for node in range(1, layout.nodes + 1):
        name = layout.node_name(node)
        names = [f"DNS:{name}", f"IP:{layout.node_address(node)}"]
        wanted.append((name, f"/O=system:nodes/CN=system:node:{name}", names))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda entry: _certificate(layout.pki, entry[0], entry[1], names=entry[2]), wanted))
    _run("genrsa", "-out", "service-account.key", "2048", folder=layout.pki)
    _run("rsa", "-in", "service-account.key", "-pubout", "-out", "service-account.pub", folder=layout.pki)
    for name in [*IDENTITIES, *(layout.node_name(node) for node in range(1, layout.nodes + 1))]:
        _write_private(layout.pki / f"{name}.kubeconfig", kubeconfig(layout, name))
    _write_private(layout.kubeconfig, kubeconfig(layout, "admin"))


def kubeconfig(layout: Layout, identity: str) -> str:
    """Spell a kubeconfig that holds everything it needs, so that it can be copied anywhere."""
    authority, chain, key = (
        base64.b64encode((layout.pki / name).read_bytes()).decode()
        for name in ("ca.crt", f"{identity}.crt", f"{identity}.key")
    )
    name = f"gangline-{layout.name}"
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": layout.server, "certificate-authority-data": authority}}],
        "users": [{"name": identity, "user": {"client-certificate-data": chain, "client-key-data": key}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": identity}}],
        "current-context": name,
    }
    return yaml.safe_dump(document)


def _certificate(folder: Path, name: str, subject: str, *, section: str = "leaf", names: Sequence[str] = ()) -> None:
    command = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", _DAYS]
    command += ["-config", "openssl.cnf", "-extensions", section, "-subj", subject]
    command += ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
    if section == "leaf":
        command += ["-CA", "ca.crt", "-CAkey", "ca.key"]
    if names:
        command += ["-addext", f"subjectAltName={','.join(names)}"]
    _run(*command, folder=folder)
    (folder / f"{name}.key").chmod(0o600)


def _run(*arguments: str, folder: Path) -> None:
    command = [program("openssl"), *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ClusterError(f"openssl {arguments[0]} failed: {result.stderr.strip()}")


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
