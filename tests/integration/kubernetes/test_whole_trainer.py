"""Functions on a real cluster: by the client of Kubeflow Trainer, unmodified, and from a notebook by one line."""

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gangline.kube import NAMESPACES, KubeClient
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.test_data import VOLUMES
from tests.integration.kubernetes.test_kubeflow_sdk import image_with_bash
from tests.integration.kubernetes.test_whole_katib import make_shared_claim
from tests.integration.trainer import test_trainer_client as laptop
from tools.cluster.pytest_plugin import ClusterUnderTest

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def image(kubernetes_cluster: ClusterUnderTest) -> str:
    described = image_with_bash()
    kubernetes_cluster.load(described)
    return described.name


@pytest.fixture(scope="module")
def admin(
    kubernetes_cluster: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory, image: str
) -> Iterator[CommandLine]:
    """An administrator with an installation that runs Kubeflow's kinds, and its controller as a process."""
    place = tmp_path_factory.mktemp("trainer")
    gangline = CommandLine(kubernetes_cluster, place)
    done = gangline.run("install", "--replicas", "0", "--image", image, "--kubeflow", "run")
    assert done.returncode == 0, done.stderr
    with (place / "controller.log").open("wb") as log:
        controller = subprocess.Popen(
            [*gangline._command()[:3], "controller", "run", "--listen", "127.0.0.1:0", "--job-image", image],
            env=gangline.environment,
            cwd=place,
            stdout=log,
            stderr=log,
        )
        yield gangline
        controller.terminate()
        controller.wait()
    print((place / "controller.log").read_text()[-6000:])
    done = gangline.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def tenant(kubernetes_client: KubeClient) -> AsyncIterator[str]:
    """A namespace of this test's own."""
    name = f"trainer-{uuid.uuid4().hex[:8]}"
    await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await release_jobs(kubernetes_client, name)
    await kubernetes_client.delete(NAMESPACES, name)


async def test_the_trainer_client_drives_the_cluster(
    admin: CommandLine,
    kubernetes_client: KubeClient,
    kubernetes_cluster: ClusterUnderTest,
    image: str,
    tenant: str,
    tmp_path: Path,
) -> None:
    del admin
    (tmp_path / "numbers.txt").write_text("1 2 3\n")
    await make_shared_claim(kubernetes_client, tenant, "numbers", tmp_path)
    saw: dict[str, Any] = await asyncio.to_thread(
        laptop.play, kubernetes_cluster.kubeconfig, "pvc://numbers", "", image, tenant
    )
    await kubernetes_client.delete(VOLUMES, tenant)
    laptop.test_a_function_trains_as_a_gang_from_its_start_to_its_deletion(saw)
    laptop.test_the_status_has_the_end_and_the_progress_that_the_code_reported(saw)
    laptop.test_each_framework_finds_its_peers_by_its_own_variables(saw)
    laptop.test_a_failure_and_a_deadline_are_told_by_their_conditions(saw)
    laptop.test_an_initializer_fetches_data_to_where_its_users_look_for_it(saw)
    laptop.test_a_suspended_train_job_rests_until_it_is_resumed(saw)
    assert {kind for kind, _ in saw["function"]["events"]} == {"Job", "Pod"}


NOTEBOOK = Path(__file__).parents[3] / "examples" / "notebooks" / "gang.ipynb"
CELLS = """
import json, linecache, sys
from pathlib import Path

cells = [each for each in json.loads(Path(sys.argv[1]).read_text())["cells"] if each["cell_type"] == "code"]
for number, cell in enumerate(cells):
    text, name = "".join(cell["source"]), f"<cell of a notebook {number}>"
    line = f"gangline.run(train, client=gangline.Client(context={sys.argv[2]!r}), image={sys.argv[3]!r}, "
    text = text.replace("gangline.run(train, ", line)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), globals())
print(json.dumps([here, there, sorted({str(metric.replica) for metric in losses})]))
"""
"""Executes the notebook as one is, with the line changed that says where it trains."""


async def test_the_function_of_a_notebook_trains_as_a_gang_of_four_by_changing_one_line(
    admin: CommandLine, kubernetes_cluster: ClusterUnderTest, image: str, tenant: str, tmp_path: Path
) -> None:
    del admin
    user = CommandLine(kubernetes_cluster, tmp_path, namespace=tenant)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CELLS, str(NOTEBOOK), user.context, image),
        env=user.environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    here, there, replicas = json.loads(output.splitlines()[-1])
    assert here == [pytest.approx(3.0), 1]
    assert there == [pytest.approx(3.0), 4]
    assert replicas == [f"worker-{index}" for index in range(4)]
