"""The fixtures through which tests reach a real cluster. Loaded by pytest (``-p``), imported by nothing.

``GANGLINE_TEST_KUBECONFIG`` names a cluster to use instead of starting one. Where neither is possible the tests are
skipped and the last lines of the run say why; with ``CI=true`` that is a failure.
"""

import os
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.cluster.errors import UnsupportedMachineError
from tools.cluster.images import GANGLINE, PYTHON, Image

if TYPE_CHECKING:
    from gangline.kube import KubeClient
    from tools.cluster.cluster import Cluster

_SKIPPED = "the Kubernetes suite was skipped: "


@dataclass(frozen=True, slots=True)
class ClusterUnderTest:
    """A cluster to test against; ``machines`` is None when it is somebody else's and must not be broken."""

    kubeconfig: Path
    machines: "Cluster | None"

    def load(self, image: Image) -> None:
        """Load an image into the nodes; somebody else's cluster must have it already."""
        if self.machines is not None:
            self.machines.load(image)

    def require_machines(self) -> "Cluster":
        """Return the cluster whose components may be stopped, or skip the test."""
        if self.machines is None:
            pytest.skip("stops components of the cluster, which is not ours")
        return self.machines


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let tests that change the whole of a cluster run side by side."""
    parser.addoption("--own-clusters", action="store_true", help="every process of the run starts a cluster of its own")


@pytest.fixture(scope="session")
def kubernetes_cluster(request: pytest.FixtureRequest) -> Iterator[ClusterUnderTest]:
    """A real cluster for the whole run, shared by the run's processes unless ``--own-clusters`` is given."""
    named = os.environ.get("GANGLINE_TEST_KUBECONFIG")
    if named:
        yield ClusterUnderTest(Path(named), None)
        return
    cluster = _start(request.config)
    try:
        yield ClusterUnderTest(cluster.kubeconfig, cluster)
    finally:
        _stop(request.config, cluster)


@pytest.fixture(scope="session")
def kubernetes_python_image(kubernetes_cluster: ClusterUnderTest) -> str:
    """The name of an image with Python, Gangline and what it needs, present on every node."""
    from tools.cluster.python_image import python_image

    kubernetes_cluster.load(python_image())
    return PYTHON


@pytest.fixture(scope="session")
def kubernetes_gangline_image(kubernetes_cluster: ClusterUnderTest) -> str:
    """The name of Gangline's own image, which moves data, present on every node."""
    from tools.cluster.python_image import gangline_image

    kubernetes_cluster.load(gangline_image())
    return GANGLINE


@pytest.fixture(scope="session")
def helm_program(request: pytest.FixtureRequest) -> Path:
    """Helm itself, built on first use."""
    from tools.cluster.upstream import HELM, ensure_upstream

    with _skipped_where_unsupported():
        return ensure_upstream(HELM, lambda line: _tell(request.config, line)) / "helm"


@pytest.fixture
async def kubernetes_client(kubernetes_cluster: ClusterUnderTest) -> AsyncIterator["KubeClient"]:
    """A client with the administrator's rights."""
    from gangline.kube import KubeClient, load_access

    async with KubeClient(load_access(path=kubernetes_cluster.kubeconfig)) as client:
        yield client


@pytest.fixture
async def kubernetes_namespace(kubernetes_client: "KubeClient") -> AsyncIterator[str]:
    """A namespace of the test's own, deleted with all that is in it."""
    from gangline.kube import NAMESPACES, PODS

    name = f"test-{uuid.uuid4().hex[:10]}"
    await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
    kubernetes_client.namespace = name
    yield name
    await kubernetes_client.delete_all(PODS, labels=None, namespace=name, grace_seconds=0)
    await kubernetes_client.delete(NAMESPACES, name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the last lines of the run that, and why, there was no cluster."""
    reasons = {
        str(report.longrepr[2]).partition(_SKIPPED)[2]
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple) and _SKIPPED in report.longrepr[2]
    }
    for reason in sorted(reasons):
        terminalreporter.write_line(f"{_SKIPPED}{reason}", yellow=True, bold=True)


def _start(config: pytest.Config) -> "Cluster":
    from tools.cluster import sharing

    began = time.monotonic()
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}")[:12]
    if config.getoption("own_clusters"):
        run = f"{run}-{os.environ.get('PYTEST_XDIST_WORKER', '')}"
    with _skipped_where_unsupported():
        cluster = sharing.acquire(run, lambda line: _tell(config, line))
    _tell(config, f"Kubernetes cluster up after {time.monotonic() - began:.1f} s")
    return cluster


@contextmanager
def _skipped_where_unsupported() -> Iterator[None]:
    try:
        yield
    except UnsupportedMachineError as error:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"the Kubernetes suite cannot run, and CI must run it: {error}", pytrace=False)
        pytest.skip(f"{_SKIPPED}{error}")


def _stop(config: pytest.Config, cluster: "Cluster") -> None:
    from tools.cluster import sharing

    began = time.monotonic()
    if sharing.release(cluster):
        _tell(config, f"Kubernetes cluster down after {time.monotonic() - began:.1f} s")


def _tell(config: pytest.Config, line: str) -> None:
    """Show progress at once, past pytest's capture: a first build takes minutes."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        print(f"\n{line}", file=sys.__stderr__, flush=True)
        return
    with capture.global_and_fixture_disabled():
        print(f"\n{line}", file=sys.__stderr__, flush=True)
