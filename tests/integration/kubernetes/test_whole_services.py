"""A service on a real cluster: it answers through the routers whatever is rolled out, killed or drained."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
import yaml

from gangline.kube import NAMESPACES, PODS, KubeClient, Pod
from tests.integration.kserve.test_kserve_client import play
from tests.integration.kubernetes.command_line import CommandLine
from tests.integration.kubernetes.conftest import release_jobs
from tests.integration.kubernetes.world import eventually
from tools.cluster.build import binaries_folder
from tools.cluster.pytest_plugin import ClusterUnderTest

# As for test_whole_installation: nobody else may use the custom resources meanwhile, and the name puts it last.
pytestmark = pytest.mark.alone

SYSTEM = "gangline-system"
PROGRAM = """
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = sys.argv[1].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

ThreadingHTTPServer(("0.0.0.0", int(sys.argv[2])), Handler).serve_forever()
"""
LOAD = """
import json, sys, threading, time, urllib.request
from collections import Counter
answers, lock = Counter(), threading.Lock()

def ask():
    try:
        with urllib.request.urlopen(sys.argv[1], timeout=60) as answer:
            said = answer.read().decode()
    except Exception as error:
        said = repr(error)
    with lock:
        answers[said] += 1

while True:
    threading.Thread(target=ask, daemon=True).start()
    time.sleep(0.05)
    with lock:
        print(json.dumps(answers), flush=True)
"""


@pytest.fixture(scope="module")
def admin(
    kubernetes_cluster: ClusterUnderTest, kubernetes_python_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CommandLine]:
    """An administrator who has installed Gangline, and removes it afterwards."""
    gangline = CommandLine(kubernetes_cluster, tmp_path_factory.mktemp("services"))
    done = gangline.run("install", "--kserve", "--image", kubernetes_python_image)
    assert done.returncode == 0, done.stderr
    yield gangline
    done = gangline.run("uninstall", "--yes")
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def tenant(kubernetes_client: KubeClient) -> AsyncIterator[str]:
    name = f"services-{uuid.uuid4().hex[:8]}"
    await kubernetes_client.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await release_jobs(kubernetes_client, name)
    await kubernetes_client.delete_all(PODS, labels=None, namespace=name, grace_seconds=0)
    await kubernetes_client.delete(NAMESPACES, name)


def manifest(tenant: str, image: str, word: str) -> str:
    job = {
        "image": image,
        "resources": {"cpu": "50m", "memory": "64Mi"},
        "command": ["python3", "-c", PROGRAM, word, "$(PORT)"],
        "policy": {"grace": "1s"},
    }
    spec = {
        "job": job,
        "replicas": {"min": 2},
        "checks": {"ready": {"http": "/ready"}},
        "rollout": {"steps": [50], "pause": "1s"},
        "access": {"drain": "10s"},
    }
    return yaml.safe_dump(
        {
            "apiVersion": "gangline.dev/v1",
            "kind": "Service",
            "metadata": {"name": "hello", "tenant": tenant},
            "spec": spec,
        }
    )


async def replicas(client: KubeClient, tenant: str) -> list[Pod]:
    pods = (await client.list(PODS, namespace=tenant, labels="gangline.dev/serves=true")).items or []
    return [pod for pod in pods if pod.metadata.deletion_timestamp is None]


async def test_no_request_is_lost_while_replicas_are_replaced_killed_and_drained(
    admin: CommandLine,
    kubernetes_cluster: ClusterUnderTest,
    kubernetes_client: KubeClient,
    kubernetes_python_image: str,
    tenant: str,
) -> None:
    client, image = kubernetes_client, kubernetes_python_image
    file = admin.folder / "hello.yaml"
    file.write_text(manifest(tenant, image, "one"))
    of_tenant = ("--tenant", tenant)
    await admin("service", "create", "-f", str(file), *of_tenant)
    await admin.until(lambda said: '"ready": 2' in said, "service", "get", "hello", "-o", "json", *of_tenant)
    shown = json.loads(await admin("service", "get", "hello", "-o", "json", *of_tenant))
    address = shown["status"]["address"]
    assert address == f"http://gangline-router.{SYSTEM}.svc/services/hello.{tenant}"

    await client.create(PODS, load_pod(image, f"{address}/x"), namespace=tenant)

    async def answers() -> dict[str, int]:
        lines = [line async for line in client.logs("load", namespace=tenant, tail_lines=1)]
        return json.loads(lines[-1]) if lines else {}

    async def answered(word: str, more: int = 20) -> None:
        before = (await answers()).get(word, 0)

        async def enough() -> bool:
            return (await answers()).get(word, 0) >= before + more

        await eventually(enough)

    async def load_runs() -> bool:
        return (await client.get(PODS, "load", namespace=tenant)).status.phase == "Running"

    await eventually(load_runs)
    await answered("one")
    kubectl = [str(binaries_folder() / "kubectl"), f"--kubeconfig={kubernetes_cluster.kubeconfig}"]

    async def run(*words: str) -> int:
        return await (await asyncio.create_subprocess_exec(*kubectl, *words)).wait()

    host = (await client.get(PODS, "load", namespace=tenant)).spec.node_name
    assert await run("cordon", host) == 0  # so that none of the next replicas is where the load comes from

    file.write_text(manifest(tenant, image, "two"))
    await admin("service", "edit", "hello", "-f", str(file), *of_tenant)
    await admin("service", "rollout", "hello", "--watch", *of_tenant)
    await answered("two")

    victim = (await replicas(client, tenant))[0].metadata.name
    await client.execute(victim, ["sh", "-c", "kill -9 $(pgrep -f serve_forever)"], namespace=tenant)
    await answered("two")

    async def whole() -> bool:
        pods = await replicas(client, tenant)
        return len([pod for pod in pods if all(each.ready for each in pod.status.container_statuses)]) == 2

    await eventually(whole)
    assert await run("uncordon", host) == 0
    emptied = (await replicas(client, tenant))[0].spec.node_name
    assert emptied != host
    try:
        assert await run("drain", emptied, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s") == 0
        await answered("two")
        await eventually(whole)
        assert all(pod.spec.node_name != emptied for pod in await replicas(client, tenant))
    finally:
        await run("uncordon", emptied)
    assert (await answers()).keys() == {"one", "two"}
    await client.delete(PODS, "load", namespace=tenant, grace_seconds=0)
    await admin("service", "delete", "hello", *of_tenant)


async def test_kserve_client_waits_for_an_inference_service_that_answers(
    admin: CommandLine,
    kubernetes_cluster: ClusterUnderTest,
    kubernetes_client: KubeClient,
    kubernetes_python_image: str,
    tenant: str,
) -> None:
    seen = await asyncio.to_thread(play, str(kubernetes_cluster.kubeconfig), kubernetes_python_image, tenant, "cluster")
    status = seen["container"]
    assert {each["type"]: each["status"] for each in status["conditions"]}["Ready"] == "True"
    assert status["observedGeneration"] == 1
    assert status["url"] == f"http://gangline-router.{SYSTEM}.svc/services/words-predictor.{tenant}"
    labels = "app.kubernetes.io/component=router"
    routers = (await kubernetes_client.list(PODS, namespace=SYSTEM, labels=labels)).items or []
    for router in routers:
        async with (
            kubernetes_client.port_forward(router.metadata.name, 8080, namespace=SYSTEM) as port,
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{port}/services/words-predictor.{tenant}/") as answer,
        ):
            assert (answer.status, await answer.text()) == (200, "one")
    assert len(routers) == 2
    await admin("inferenceservice", "delete", "words", "--tenant", tenant)
    await admin.until(lambda said: "words" not in said, "inferenceservice", "list", "--tenant", tenant)


def load_pod(image: str, address: str) -> dict[str, object]:
    container = {
        "name": "main",
        "image": image,
        "command": ["python3", "-c", LOAD, address],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "metadata": {"name": "load"},
        "spec": {"restartPolicy": "Never", "containers": [container], "securityContext": security},
    }
