"""A real S3 server as a Deployment of the test cluster, over a directory of this machine that its nodes see too."""

import asyncio
import base64
from dataclasses import dataclass
from pathlib import Path

from gangline.data.addresses import parse
from gangline.kinds.store import STORE
from gangline.kube import NAMESPACES, PODS, SECRETS, SERVICES, GenericObject, KubeClient, Resource
from gangline.model import Tenant
from gangline.model.kinds.data_store import DataStore
from gangline.model.record import NoStatus, Record, RecordId
from gangline.storage.interface import Store
from tests.data import proxy as proxy_module
from tests.data.servers import program
from tests.integration.kubernetes.world import eventually
from tools.cluster.images import Entry, Image
from tools.cluster.pytest_plugin import ClusterUnderTest

KEY, SECRET = "tester", "very secret"
DEPLOYMENTS = Resource(group="apps", plural="deployments", kind="Deployment", type=GenericObject)
_IMAGE = "gangline.local/versitygw:1"
_PORT = 7070
_LABELS = {"app": "s3"}
_PROXY_PORT = 7071
_PROXY = f"""
import os, sys, time
from pathlib import Path
sys.path.insert(0, "/code")
from proxy import Proxy

control = Path("/control")

def seen(kind):
    with (control / (kind + ".seen")).open("a") as file:
        file.write("x")

def refuse(number):
    if not (control / "refuse").exists():
        return False
    seen("refuse")
    return True

def faults(*names):
    def passed(total):
        for name in names:
            told = control / name
            try:
                limit = int(told.read_text())
            except (OSError, ValueError):
                continue
            if total < limit:
                continue
            seen(name)
            if name.startswith("die"):
                told.unlink()
                os._exit(1)
            while told.exists():
                time.sleep(0.05)
    return passed

proxy = Proxy({_PORT}, listen=("", {_PROXY_PORT}))
proxy.refuse = refuse
proxy.on_bytes, proxy.on_sent = faults("hold", "die while answering"), faults("die while receiving")
proxy.serve()
"""
"""What runs before the server, and does what ``ClusterS3.tell`` writes into a directory."""


@dataclass(frozen=True, slots=True)
class ClusterS3:
    """The server: ``folder`` holds its buckets as directories, of which ``bucket`` exists."""

    client: KubeClient
    namespace: str
    folder: Path
    control: Path | None = None
    """Where a proxy before the server is told what goes wrong."""

    @property
    def endpoint(self) -> str:
        """Where pods of every namespace find it."""
        return f"http://s3.{self.namespace}.svc:{_PORT}"

    def give(self, address: str, text: str) -> None:
        """Put a file into a bucket."""
        file = self.at(address)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def at(self, address: str) -> Path:
        """Where an object lies on this machine."""
        place = parse(address)
        return self.folder / place.place / place.path

    def tell(self, fault: str, after_bytes: int = 0) -> None:
        """Tell the proxy what to do from now on, or once so many bytes have passed.

        ``refuse`` with 503 and ``hold`` answers back, both until ``heal``; ``die while answering`` or ``die while
        receiving``, once.
        """
        assert self.control is not None
        (self.control / fault).write_text(str(after_bytes))

    def heal(self, fault: str) -> None:
        """Have no more of a fault."""
        assert self.control is not None
        (self.control / fault).unlink()

    async def met(self, fault: str) -> None:
        """Wait until somebody has met with a fault."""
        assert self.control is not None
        trace = self.control / f"{fault}.seen"

        async def is_there() -> bool:
            return await asyncio.to_thread(trace.exists)

        await eventually(is_there)

    async def scale(self, replicas: int) -> None:
        """Take the server away, or bring it back; return when that has happened."""
        body = {"spec": {"replicas": replicas}}
        await self.client.patch(DEPLOYMENTS, "s3", body, namespace=self.namespace)
        await self.until(replicas)

    async def until(self, replicas: int) -> None:
        """Wait until as many servers answer."""

        async def ready() -> bool:
            pods = (await self.client.list(PODS, namespace=self.namespace, labels=_LABELS)).items or ()
            conditions = [each for pod in pods for each in pod.status.conditions if each.type == "Ready"]
            return len(pods) == replicas and all(each.status == "True" for each in conditions)

        await eventually(ready)


async def deploy(
    client: KubeClient, cluster: ClusterUnderTest, namespace: str, folder: Path, *, proxy_image: str | None = None
) -> ClusterS3:
    """Start the server in a namespace of its own, which its caller removes; with an image for it, behind a proxy."""
    binary = program("versitygw")
    cluster.load(
        Image(name=_IMAGE, layers=[{"versitygw": Entry(source=binary, mode=0o755)}], entrypoint=["/versitygw"])
    )
    (folder / "bucket").mkdir(parents=True, exist_ok=True)
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    control = folder.with_name(f"{folder.name}-control") if proxy_image else None
    if control is not None:
        control.mkdir()
        control.chmod(0o777)
    await client.create(DEPLOYMENTS, _deployment(folder, control, proxy_image), namespace=namespace)
    service = {"selector": _LABELS, "ports": [{"port": _PORT, "targetPort": _PROXY_PORT if proxy_image else _PORT}]}
    await client.create(SERVICES, {"metadata": {"name": "s3"}, "spec": service}, namespace=namespace)
    server = ClusterS3(client, namespace, folder, control)
    await server.until(1)
    return server


def _deployment(folder: Path, control: Path | None, proxy_image: str | None) -> dict[str, object]:
    container = {
        "name": "s3",
        "image": _IMAGE,
        "args": ["--port", f":{_PORT}", "--quiet", "--keep-alive", "posix", "/buckets"],
        "env": [{"name": "ROOT_ACCESS_KEY", "value": KEY}, {"name": "ROOT_SECRET_KEY", "value": SECRET}],
        "volumeMounts": [{"name": "buckets", "mountPath": "/buckets"}],
        "readinessProbe": {"tcpSocket": {"port": _PORT}, "periodSeconds": 1},
    }
    containers, volumes = [container], [{"name": "buckets", "hostPath": {"path": str(folder)}}]
    if control is not None:
        proxy = {
            "name": "proxy",
            "image": proxy_image,
            "command": ["python3", "-u", "-c", _PROXY],
            "volumeMounts": [{"name": "control", "mountPath": "/control"}, {"name": "code", "mountPath": "/code"}],
            "readinessProbe": {"tcpSocket": {"port": _PROXY_PORT}, "periodSeconds": 1},
        }
        containers.append(proxy)
        code = Path(proxy_module.__file__ or "").parent
        volumes += [
            {"name": "control", "hostPath": {"path": str(control)}},
            {"name": "code", "hostPath": {"path": str(code)}},
        ]
    pod = {"containers": containers, "volumes": volumes, "terminationGracePeriodSeconds": 1}
    template = {"metadata": {"labels": _LABELS}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": _LABELS}, "template": template}
    return {"metadata": {"name": "s3"}, "spec": spec}


async def add_store(
    client: KubeClient,
    store: Store,
    tenant: str,
    server: ClusterS3,
    *,
    name: str = "lake",
    secret: str = SECRET,
    **fields: object,
) -> None:
    """Do what ``gangline store add`` does: a Secret with the keys, and a record that names it."""
    keys = f"gangline-store-{name}"
    data = {field: base64.b64encode(text.encode()).decode() for field, text in (("key", KEY), ("secret", secret))}
    await client.create(SECRETS, {"metadata": {"name": keys}, "data": data}, namespace=tenant)
    given = {"address": "s3://", "endpoint": server.endpoint, "keys": keys, **fields}
    spec = DataStore(name=name, tenant=Tenant(tenant), **given)
    record = Record(id=RecordId(f"{tenant}-{name}"), spec=spec, status=NoStatus(), created_at=0.0)
    await store.records(STORE).create(record)
