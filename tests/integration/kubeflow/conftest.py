"""A local service with its kubeconfig, and the unmodified Kubeflow Training SDK in an environment of its own."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from gangline.cli.connection.kubeconfig import kubeconfig, write_kubeconfig
from gangline.errors import NotFoundError
from gangline.sdk import Client
from gangline.sdk.transports.embedded import EmbeddedTransport
from tests.integration.kubeflow.training_sdk import sdk_environment


@dataclass(frozen=True)
class LocalService:
    """A running service: our own client to it, and the kubeconfig for everybody else's."""

    client: Client
    kubeconfig: Path


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    place = tmp_path_factory.mktemp("service")
    transport = EmbeddedTransport(home=place / "home")
    client = Client(settings=transport.settings, transport=transport)
    write_kubeconfig(kubeconfig(transport.settings.kubernetes_file, namespace="default"), place / "kubeconfig")
    yield LocalService(client=client, kubeconfig=place / "kubeconfig")
    for job in client.list(limit=None):
        with suppress(NotFoundError):  # it was on its way out already
            client.delete(job.id)
    client.close()


@pytest.fixture(scope="session")
def sdk_python() -> Path:
    """The interpreter of an environment that has the SDK."""
    return sdk_environment()
