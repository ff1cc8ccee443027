"""Where the cluster is and how to get in: read from kubeconfig files or from a pod's service account.

``load_access`` is what callers use; it answers one frozen ``ClusterAccess`` and the client takes it from there.
Merging follows kubectl: of several files the first to name an entry wins, and paths are relative to their file.
"""

import ipaddress
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from gangline.kube.credentials import (
    ClientCertificate,
    Credential,
    CredentialSource,
    ExecPlugin,
    FixedCredential,
    PluginCommand,
    TokenFile,
    decode_inline,
)
from gangline.kube.errors import CredentialError, KubeconfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EMPTY: Mapping[str, Any] = {}
_YamlLoader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where PyYAML was built with it: every command reads a kubeconfig, and certificates are long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """One cluster, one user, one default namespace."""

    server: str
    credentials: CredentialSource = field(default_factory=FixedCredential)
    authority: bytes | None = None
    """PEM of the certificate authority; None trusts what the system trusts."""
    verify: bool = True
    server_name: str | None = None
    """The name the server's certificate must carry, when it is not the one in ``server``."""
    proxy: str | None = None
    namespace: str = "default"
    context: str = ""
    """What the configuration calls it; a pod's own account has no name."""
    impersonation: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Entry:
    """One named cluster, user or context, and the folder its paths are relative to."""

    values: Mapping[str, Any]
    folder: Path

    def data(self, inline: str, path: str) -> bytes | None:
        """Read what is given either inline as base64 or as a file; inline wins, as with kubectl."""
        if self.values.get(inline):
            return decode_inline(str(self.values[inline]), entry=inline)
        if not self.values.get(path):
            return None
        file = self.folder / str(self.values[path])
        try:
            return file.read_bytes()
        except OSError as error:
            raise KubeconfigError(f"{path} {file}: {error.strerror}") from error


@dataclass(slots=True)
class Kubeconfig:
    """The entries of all files, merged."""

    clusters: dict[str, _Entry] = field(default_factory=dict)
    users: dict[str, _Entry] = field(default_factory=dict)
    contexts: dict[str, _Entry] = field(default_factory=dict)
    current_context: str = ""

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "Kubeconfig":
        """Merge the files in order; one that does not exist is passed over, as kubectl does."""
        merged = cls()
        for path in paths:
            if path.exists():
                merged._add(path)
        return merged

    def access(self, context: str | None = None, *, environment: Mapping[str, str] | None = None) -> ClusterAccess:
        """Put together what a context names."""
        name = context or self.current_context
        if not name:
            raise KubeconfigError("no context is chosen and the configuration has no current-context")
        chosen = _named(self.contexts, name, "context")
        cluster = _named(self.clusters, str(chosen.values.get("cluster", "")), "cluster")
        user = _named(self.users, str(chosen.values.get("user", "")), "user") if chosen.values.get("user") else None
        server = str(cluster.values.get("server") or "").rstrip("/")
        if urlsplit(server).scheme not in ("http", "https"):
            raise KubeconfigError(f"cluster of context '{name}' has no usable server: {server or 'it is empty'}")
        return ClusterAccess(
            server=server,
            credentials=_credentials(user, cluster) if user else FixedCredential(),
            authority=cluster.data("certificate-authority-data", "certificate-authority"),
            verify=not cluster.values.get("insecure-skip-tls-verify", False),
            server_name=cluster.values.get("tls-server-name") or None,
            proxy=_proxy(cluster, server, os.environ if environment is None else environment),
            namespace=str(chosen.values.get("namespace") or "default"),
            context=name,
            impersonation=_impersonation(user),
        )

    def _add(self, path: Path) -> None:
        try:
            document = yaml.load(path.read_text(encoding="utf-8"), _YamlLoader) or {}
        except (OSError, UnicodeError, yaml.YAMLError) as error:
            raise KubeconfigError(f"{path} cannot be read: {error}") from error
        if not isinstance(document, dict):
            raise KubeconfigError(f"{path} is not a kubeconfig: its top level is not a mapping")
        folder = path.absolute().parent
        for plural, singular, into in (
            ("clusters", "cluster", self.clusters),
            ("users", "user", self.users),
            ("contexts", "context", self.contexts),
        ):
            for item in document.get(plural) or ():
                if not isinstance(item, dict) or "name" not in item:
                    raise KubeconfigError(f"{path}: an entry of {plural} has no name")
                into.setdefault(str(item["name"]), _Entry(item.get(singular) or {}, folder))
        self.current_context = self.current_context or str(document.get("current-context") or "")


def load_access(
    *,
    path: Path | None = None,
    context: str | None = None,
    environment: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClusterAccess:
    """Find the cluster: the named file, else ``KUBECONFIG``, else ``~/.kube/config``, else the pod's own account."""
    environment = os.environ if environment is None else environment
    if path is not None:
        if not path.exists():
            raise KubeconfigError(f"{path} does not exist")
        return Kubeconfig.read([path]).access(context, environment=environment)
    listed = environment.get("KUBECONFIG", "")
    paths = [Path(part) for part in listed.split(os.pathsep) if part]
    if not paths:
        paths = [Path(environment.get("HOME", "/")) / ".kube" / "config"]
    merged = Kubeconfig.read(paths)
    if not merged.contexts and context is None and "KUBERNETES_SERVICE_HOST" in environment:
        return in_cluster_access(environment=environment, service_account=service_account)
    if not merged.contexts:
        raise KubeconfigError(f"no Kubernetes configuration in {', '.join(map(str, paths))}, and not inside a pod")
    return merged.access(context, environment=environment)


def in_cluster_access(
    *, environment: Mapping[str, str] | None = None, service_account: Path = SERVICE_ACCOUNT
) -> ClusterAccess:
    """Use the service account that Kubernetes mounts into a pod."""
    environment = os.environ if environment is None else environment
    try:
        host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
        authority = (service_account / "ca.crt").read_bytes()
        namespace = (service_account / "namespace").read_text(encoding="utf-8").strip()
    except KeyError as error:
        raise KubeconfigError("not inside a pod: KUBERNETES_SERVICE_HOST is not set") from error
    except OSError as error:
        raise KubeconfigError(f"the pod has no service account: {error.filename}: {error.strerror}") from error
    return ClusterAccess(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=TokenFile(service_account / "token"),
        authority=authority,
        namespace=namespace,
    )


def _named(entries: Mapping[str, _Entry], name: str, kind: str) -> _Entry:
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise KubeconfigError(f"the configuration has no {kind} '{name}' (it has: {known})")
    return entries[name]


def _credentials(user: _Entry, cluster: _Entry) -> CredentialSource:
    values = user.values
    if values.get("auth-provider"):
        raise CredentialError("auth-provider entries are gone from Kubernetes; use an exec credential plug-in")
    chain, key = user.data("client-certificate-data", "client-certificate"), user.data("client-key-data", "client-key")
    certificate = ClientCertificate(chain, key) if chain and key else None
    if values.get("exec"):
        return ExecPlugin(_plugin(values["exec"], user.folder, cluster))
    if values.get("tokenFile"):
        return TokenFile(user.folder / str(values["tokenFile"]), certificate=certificate)
    return FixedCredential(Credential(token=values.get("token") or None, certificate=certificate))


def _plugin(entry: Mapping[str, Any], folder: Path, cluster: _Entry) -> PluginCommand:
    command = str(entry.get("command") or "")
    if not command:
        raise KubeconfigError("an exec credential plug-in names no command")
    if "/" in command:
        command = str(folder / command)
    information = None
    if entry.get("provideClusterInfo"):
        names = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
        information = {name: cluster.values[name] for name in names if name in cluster.values}
    return PluginCommand(
        command=command,
        arguments=tuple(str(argument) for argument in entry.get("args") or ()),
        environment={str(pair["name"]): str(pair["value"]) for pair in entry.get("env") or ()},
        api_version=str(entry.get("apiVersion") or "client.authentication.k8s.io/v1"),
        interactive_mode=str(entry.get("interactiveMode") or "IfAvailable"),
        install_hint=str(entry.get("installHint") or "").strip(),
        cluster_information=information,
    )


def _impersonation(user: _Entry | None) -> tuple[tuple[str, str], ...]:
    values = user.values if user else _EMPTY
    headers = [("Impersonate-User", str(values["as"]))] if values.get("as") else []
    headers += [("Impersonate-Group", str(group)) for group in values.get("as-groups") or ()]
    return tuple(headers)


def _proxy(cluster: _Entry, server: str, environment: Mapping[str, str]) -> str | None:
    """Choose the proxy: the cluster's own, else the environment's unless it excepts this server."""
    explicit = cluster.values.get("proxy-url")
    if explicit:
        if urlsplit(str(explicit)).scheme not in ("http", "https"):
            raise KubeconfigError(f"proxy-url {explicit}: only http and https proxies are supported")
        return str(explicit)
    target = urlsplit(server)
    name = f"{target.scheme}_proxy"
    proxy = environment.get(name) or environment.get(name.upper())
    excepted = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    if not proxy or _excepted(target.hostname or "", excepted):
        return None
    return proxy


def _excepted(host: str, exceptions: str) -> bool:
    """Whether ``NO_PROXY`` names the host: by name, by domain suffix or by address range; loopback always is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address and address.is_loopback):
        return True
    for exception in filter(None, (part.strip() for part in exceptions.split(","))):
        if exception == "*" or host == exception.lstrip("."):
            return True
        if address is None and host.endswith("." + exception.lstrip("*").lstrip(".")):
            return True
        if address is not None and "/" in exception and address in ipaddress.ip_network(exception, strict=False):
            return True
    return False
