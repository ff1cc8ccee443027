"""Every way to reach a service keeps the one contract of clients."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gangline.errors import NotFoundError
from gangline.sdk import Client
from gangline.sdk.background import start_service, stop_service
from gangline.settings import Settings
from gangline.testing.client_suite import ClientSuite
from gangline.testing.sweep_client_suite import SweepClientSuite


class TestEmbeddedClient(ClientSuite, SweepClientSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def client(cls) -> Iterator[Client]:
        with Client.embedded() as client:
            yield client


class TestSocketClient(ClientSuite, SweepClientSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
        place: Path = tmp_path_factory.mktemp("service")
        settings = Settings.load({}, home=place / "home", runtime_directory=place / "run")
        settings.home.mkdir(parents=True)
        start_service(settings)
        try:
            with Client(f"unix:{settings.socket}", settings=settings) as client:
                yield client
                for job in client.list(limit=None):
                    with suppress(NotFoundError):  # it was on its way out already
                        client.delete(job.id)
        finally:
            stop_service(settings)
