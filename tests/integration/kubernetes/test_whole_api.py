"""``gangline install --api`` on a real cluster: accounts of the cluster use it as any team's service."""

import asyncio
import os
import re
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gangline.kube import NAMESPACES, GenericObject, KubeClient, Resource
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tools.cluster.build import binaries_folder
from tools.cluster.pytest_plugin import ClusterUnderTest

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = pytest.mark.alone

SYSTEM = "gangline-system"
RBAC = "rbac.authorization.k8s.io"
ACCOUNTS = Resource(plural="serviceaccounts", kind="ServiceAccount", type=GenericObject)
ROLE_BINDINGS = Resource(group=RBAC, plural="rolebindings", kind="RoleBinding", type=GenericObject)


@dataclass
class Person:
    """Somebody with a token of the cluster and a home without a kubeconfig."""

    home: Path

    def run(self, *words: str, want_code: int = 0) -> str:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GANGLINE_", "XDG_", "KUBE"))}
        done = subprocess.run(
            [sys.executable, "-m", "gangline.cli.main", *words],
            env={**kept, "HOME": str(self.home)},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == want_code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    async def __call__(self, *words: str, want_code: int = 0) -> str:
        return await asyncio.to_thread(lambda: self.run(*words, want_code=want_code))


@dataclass
class Api:
    """The service as an administrator installed it, and the way to it from outside."""

    admin: CommandLine
    fingerprint: str
    kubectl: list[str]

    @contextmanager
    def forwarded(self, port: int) -> Iterator[int]:
        """Lend a port of this machine that leads to one of its replicas."""
        command = [*self.kubectl, "port-forward", "-n", SYSTEM, "service/gangline-api", f":{port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
            assert forwarding.stdout is not None
            found = re.search(r"127\.0\.0\.1:(\d+)", forwarding.stdout.readline())
            assert found is not None
            try:
                yield int(found[1])
            finally:
                forwarding.terminate()

    def token(self, namespace: str, account: str) -> str:
        command = [*self.kubectl, "create", "token", account, "-n", namespace]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def api(
    kubernetes_cluster: ClusterUnderTest, kubernetes_gangline_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Api]:
    gangline = CommandLine(kubernetes_cluster, tmp_path_factory.mktemp("api"))
    done = gangline.run("install", "--api", "--image", kubernetes_gangline_image)
    assert done.returncode == 0, done.stderr
    assert "api: 2 of 2 replicas ready" in done.stderr
    found = re.search(r"fingerprint ([0-9a-f]{64})", done.stderr)
    assert found is not None, done.stderr
    kubectl = [str(binaries_folder() / "kubectl"), f"--kubeconfig={kubernetes_cluster.kubeconfig}"]
    yield Api(gangline, found[1], kubectl)
    done = gangline.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def tenants(kubernetes_client: KubeClient) -> AsyncIterator[tuple[str, str]]:
    """Two namespaces, each with an account called ``ci`` that may edit it."""
    mark = uuid.uuid4().hex[:8]
    names = (f"vision-{mark}", f"speech-{mark}")
    for name in names:
        await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
        await kubernetes_client.create(ACCOUNTS, {"metadata": {"name": "ci", "namespace": name}})
        binding = {
            "metadata": {"name": "ci", "namespace": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": "ci", "namespace": name}],
        }
        await kubernetes_client.create(ROLE_BINDINGS, binding)
    yield names
    for name in names:
        await release_jobs(kubernetes_client, name)
        await kubernetes_client.delete(NAMESPACES, name)


async def logged_in(api: Api, home: Path, namespace: str, address: str) -> Person:
    await asyncio.to_thread(home.mkdir)
    (home / "token").write_text(api.token(namespace, "ci"))
    person = Person(home)
    said = await person("login", address, "--token-file", "token", "--fingerprint", api.fingerprint)
    assert f"logged in as system:serviceaccount:{namespace}:ci (member of {namespace})" in said
    return person


@pytest.mark.parametrize(("scheme", "port"), [("https", 443), ("grpcs", 8471)])
async def test_accounts_train_in_their_own_namespace_and_nowhere_else(
    api: Api,
    kubernetes_gangline_image: str,
    tenants: tuple[str, str],
    tmp_path: Path,
    scheme: str,
    port: int,
) -> None:
    vision, speech = tenants
    with api.forwarded(port) as there:
        address = f"{scheme}://127.0.0.1:{there}"
        ada = await logged_in(api, tmp_path / "ada", vision, address)
        bob = await logged_in(api, tmp_path / "bob", speech, address)
        small = ("--cpu", "50m", "--memory", "64Mi", "--image", kubernetes_gangline_image)
        (ada.home / "code").mkdir()
        (ada.home / "code" / "train.py").write_text("print('trained', 40 + 2)\n")
        await ada("submit", "--name", "tour", "--code", "code", *small, "--", "python3", "train.py")
        await ada("wait", "tour", "--timeout", "120s")
        assert "trained 42" in await ada("logs", "tour")
        assert f"system:serviceaccount:{vision}:ci" in await ada("describe", "tour")
        await ada("submit", "--name", "long", *small, "--", "sleep", "600")
        await ada("cancel", "long")

        assert "tour" not in await bob("list")
        assert "may not read" in await bob("list", "--tenant", vision, want_code=5)
        assert "may not write" in await bob("cancel", "tour", "--tenant", vision, want_code=5)
        assert "may not administer" in await ada("token", "list", "--tenant", vision, want_code=5)
