"""The engine contract, kept by the Kubernetes engine on a real cluster."""

from tests.contract.kubernetes import KubernetesEngineSuite


class TestKubernetesEngine(KubernetesEngineSuite):
    """Its subject is in ``conftest``."""
