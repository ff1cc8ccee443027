"""The unmodified ``kfp.Client`` drives the local service: what its samples show, and every verb that it has."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.cli.connection.kubeconfig import read_endpoint
from gangline.sdk.transports.embedded import EmbeddedTransport
from tests.environments import environment_with
from tests.pipelines.compiled import KFP

SCENARIOS = Path(__file__).with_name("scenarios.py")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    transport = EmbeddedTransport(home=tmp_path_factory.mktemp("service") / "home")
    endpoint = read_endpoint(transport.settings.kubernetes_file)
    yield f"{endpoint['address']}/{endpoint['token']}"
    transport.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [
        "conditions",
        "nested_conditions",
        "loops",
        "parallelism",
        "exit_handler",
        "retries",
        "execution_order",
        "output_a_directory",
        "resource_spec",
        "pipelines_and_versions",
        "experiments_and_lists",
        "terminating",
        "recurring_runs",
    ],
)
def test_the_client_drives_the_service(host: str, tmp_path: Path, scenario: str) -> None:
    done = subprocess.run(
        [environment_with(KFP), SCENARIOS, host, tmp_path, scenario], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
