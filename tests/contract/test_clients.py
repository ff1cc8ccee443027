"""Every way to reach a service keeps the one contract of clients."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gangline.errors import NotFoundError
from gangline.model import JobSpec, ReplicaId
from gangline.sdk import Client
from gangline.sdk.transports.addresses import transport_to
from gangline.sdk.transports.background import start_service, stop_service
from gangline.settings import Settings
from gangline.testing.client import InMemoryClient, Outcome
from gangline.testing.client_suite import ClientSuite
from gangline.testing.sweep_client_suite import SweepClientSuite
from tests.compose.team.process import Team


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


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with tempfile.TemporaryDirectory(prefix="tm") as sockets:  # paths of sockets are short
        team = Team(tmp_path_factory.mktemp("team"), Path(sockets))
        try:
            team.start("--grpc", "127.0.0.1:0", "--trust-tenants")
            yield team
        finally:
            team.stop()


def client_of(team: Team, address: str) -> Client:
    """An operator: the suites look at several tenants."""
    token = team.type("root", "token", "create", f"suite-{address.partition(':')[0]}", "--operator").strip()
    transport = transport_to(address, token=lambda: token, fingerprint=team.fingerprint)
    return Client(context="", transport=transport, settings=Settings.load(team.environment("elsewhere")))


class TestTlsClient(ClientSuite, SweepClientSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, team: Team) -> Iterator[Client]:
        with client_of(team, team.address) as client:
            yield client


class TestGrpcClient(ClientSuite, SweepClientSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def client(cls, team: Team) -> Iterator[Client]:
        with client_of(team, team.rpc_address) as client:
            yield client


NOT_ENDING = ("sh -c echo serving", "sleep 1000")
OUTCOMES = {
    "echo out; echo err >&2": Outcome(output=["out"], errors=["err"]),
    "exit 7": Outcome(exit_code=7),
    "do echo $i; done": Outcome(output=["1", "2", "3"]),
    "runtime.report(loss=1 / (step + 1)": Outcome(metrics={"loss": [1.0, 1 / 2, 1 / 3]}),
    "package/train.py": Outcome(output=["trained"]),
}
"""What the suites' commands would do, by a part of each."""


def play(spec: JobSpec, replica: ReplicaId) -> Outcome | None:
    """The script of the suites' jobs."""
    command = spec.role(replica.role).command
    text = " ".join(command)
    if text.startswith(NOT_ENDING):
        return None
    if "runtime.report(loss=float(sys.argv[1])" in text:
        return Outcome(metrics={"loss": float(command[-1])})
    if command[:2] == ("sh", "say.sh"):
        return Outcome(output=[f"rate {command[-1]}"])
    return next((outcome for part, outcome in OUTCOMES.items() if part in text), Outcome())


class TestInMemoryClient(ClientSuite, SweepClientSuite):
    @pytest.fixture(scope="class")
    @classmethod
    def client(cls) -> Iterator[Client]:
        with InMemoryClient(script=play) as client:
            yield client
