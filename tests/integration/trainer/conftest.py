"""A local service with its kubeconfig."""

from tests.integration.kubeflow.conftest import LocalService, service

__all__ = ["LocalService", "service"]
