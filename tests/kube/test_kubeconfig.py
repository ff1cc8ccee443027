"""Kubeconfig files as kubectl reads them."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangline.kube import CredentialError, Kubeconfig, KubeconfigError, in_cluster_access, load_access
from gangline.kube.credentials import ClientCertificate

NOWHERE: dict[str, str] = {}


def write(path: Path, **document: Any) -> Path:
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **document}), encoding="utf-8")
    return path


def entry(kind: str, name: str, **values: Any) -> dict[str, Any]:
    return {"name": name, kind: values}


def single(path: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
    return write(
        path,
        clusters=[entry("cluster", "c", **{"server": "https://c:6443", **(cluster or {})})],
        users=[entry("user", "u", **(user or {}))],
        contexts=[entry("context", "x", cluster="c", user="u", namespace="team")],
        **{"current-context": "x"},
    )


def test_first_file_wins_and_others_add(tmp_path: Path) -> None:
    first = write(
        tmp_path / "first",
        clusters=[entry("cluster", "c", server="https://first")],
        contexts=[entry("context", "x", cluster="c")],
        **{"current-context": "x"},
    )
    second = write(
        tmp_path / "second",
        clusters=[entry("cluster", "c", server="https://second"), entry("cluster", "d", server="https://d")],
        contexts=[entry("context", "y", cluster="d")],
        **{"current-context": "y"},
    )
    environment = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    assert load_access(environment=environment).server == "https://first"
    assert load_access(environment=environment, context="y").server == "https://d"


def test_default_file_is_in_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    single(tmp_path / ".kube" / "config")
    assert load_access(environment={"HOME": str(tmp_path)}).namespace == "team"


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"authority")
    (tmp_path / "client.pem").write_bytes(b"chain")
    (tmp_path / "key.pem").write_bytes(b"key")
    path = single(
        tmp_path / "config",
        cluster={"certificate-authority": "ca.pem", "tls-server-name": "api.example"},
        user={"client-certificate": "client.pem", "client-key": "key.pem"},
    )
    access = load_access(path=path, environment=NOWHERE)
    assert (access.authority, access.server_name, access.verify) == (b"authority", "api.example", True)


async def test_inline_data_wins_over_files(tmp_path: Path) -> None:
    encoded = {name: base64.b64encode(name.encode()).decode() for name in ("chain", "key", "ca")}
    user = {
        "client-certificate": "does-not-exist",
        "client-certificate-data": encoded["chain"],
        "client-key-data": encoded["key"],
    }
    path = single(tmp_path / "config", cluster={"certificate-authority-data": encoded["ca"]}, user=user)
    access = load_access(path=path, environment=NOWHERE)
    assert access.authority == b"ca"
    assert (await access.credentials.current()).certificate == ClientCertificate(b"chain", b"key")
    assert "key'" not in repr(await access.credentials.current())


def test_verification_can_be_given_up(tmp_path: Path) -> None:
    assert load_access(path=single(tmp_path / "c", cluster={"insecure-skip-tls-verify": True})).verify is False


def test_impersonation_becomes_headers(tmp_path: Path) -> None:
    access = load_access(path=single(tmp_path / "c", user={"as": "ann", "as-groups": ["a", "b"]}))
    assert access.impersonation == (
        ("Impersonate-User", "ann"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    )


@pytest.mark.parametrize(
    ("server", "environment", "want"),
    [
        pytest.param("https://api.example", {"HTTPS_PROXY": "http://p:1"}, "http://p:1", id="environment"),
        pytest.param("https://api.example", {"https_proxy": "http://p:1", "no_proxy": "example"}, None, id="domain"),
        pytest.param("https://example", {"https_proxy": "http://p:1", "no_proxy": ".example"}, None, id="exact"),
        pytest.param(
            "https://notexample", {"https_proxy": "http://p:1", "no_proxy": "example"}, "http://p:1", id="other"
        ),
        pytest.param("https://10.1.2.3", {"https_proxy": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None, id="range"),
        pytest.param(
            "https://11.1.2.3", {"https_proxy": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "http://p:1", id="outside"
        ),
        pytest.param("https://127.0.0.1:1", {"https_proxy": "http://p:1"}, None, id="loopback"),
        pytest.param("https://api.example", {"https_proxy": "http://p:1", "no_proxy": "*"}, None, id="everything"),
    ],
)
def test_proxy_of_the_environment(tmp_path: Path, server: str, environment: dict[str, str], want: str | None) -> None:
    path = single(tmp_path / "config", cluster={"server": server})
    assert load_access(path=path, environment=environment).proxy == want


def test_proxy_of_the_cluster_wins(tmp_path: Path) -> None:
    path = single(tmp_path / "config", cluster={"proxy-url": "http://own:1"})
    assert load_access(path=path, environment={"HTTPS_PROXY": "http://other:1"}).proxy == "http://own:1"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param({"contexts": []}, "no Kubernetes configuration", id="nothing in it"),
        pytest.param(
            {"contexts": [entry("context", "x", cluster="c")], "current-context": "y"}, "no context 'y'", id="context"
        ),
        pytest.param(
            {"contexts": [entry("context", "x", cluster="c")], "current-context": "x"}, "no cluster 'c'", id="cluster"
        ),
        pytest.param({"contexts": [entry("context", "x")]}, "no current-context", id="no choice"),
        pytest.param(
            {
                "contexts": [entry("context", "x", cluster="c")],
                "clusters": [entry("cluster", "c", server="ftp://c")],
                "current-context": "x",
            },
            "no usable server",
            id="server",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, document: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "config", **document)
    with pytest.raises(KubeconfigError, match=message):
        load_access(environment={"KUBECONFIG": str(path)})


@pytest.mark.parametrize("text", ["]", "just a word", "- a\n- list", "clusters: [{}]"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KubeconfigError, match=str(path)):
        Kubeconfig.read([path])


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="does not exist"):
        load_access(path=tmp_path / "config")


def test_removed_ways_of_signing_in_say_so(tmp_path: Path) -> None:
    with pytest.raises(CredentialError, match="auth-provider"):
        load_access(path=single(tmp_path / "c", user={"auth-provider": {"name": "old"}}))
    with pytest.raises(KubeconfigError, match="only http and https"):
        load_access(path=single(tmp_path / "c", cluster={"proxy-url": "socks5://p:1"}))
    with pytest.raises(CredentialError, match="base64"):
        load_access(path=single(tmp_path / "c", cluster={"certificate-authority-data": "!"}))


async def test_account_of_a_pod(tmp_path: Path) -> None:
    for name, text in (("ca.crt", "authority"), ("namespace", "team\n"), ("token", "secret\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}
    access = load_access(environment=environment, service_account=tmp_path)
    assert (access.server, access.namespace) == ("https://[fd00::1]:443", "team")
    assert (await access.credentials.current()).token == "secret"


def test_outside_a_pod_there_is_no_account(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="not inside a pod"):
        in_cluster_access(environment={}, service_account=tmp_path)
    with pytest.raises(KubeconfigError, match="no service account"):
        in_cluster_access(environment={"KUBERNETES_SERVICE_HOST": "h"}, service_account=tmp_path)
