"""Object stores that tests of this folder share."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.data import servers
from tests.data.servers import Server

STARTS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "s3": servers.s3_server,
    "az": servers.az_server,
    "gs": servers.gs_server,
}


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An S3 server for the whole run; each test has a folder of its own in the bucket."""
    with servers.s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module", params=STARTS)
def any_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Every kind of store."""
    with STARTS[request.param](tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture(scope="module")
def gs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that speaks as Google's store does, for reading."""
    with servers.gs_server(tmp_path_factory.mktemp("gs")) as server:
        yield server
