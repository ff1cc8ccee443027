"""The Kubernetes engine as the contract suite sees it."""

from gangline.compose import SystemClock
from gangline.engines.kubernetes import KubernetesEngine
from gangline.kube import KubeClient
from gangline.model import NodeName, Resources, RoleSpec
from gangline.testing.engine_suite import EngineSubject, NewsReader, Program
from tools.cluster import BUSYBOX

SMALL = Resources(cpu_millis=50, memory_mib=32)
"""Little enough for several tests to share the cluster's two cores."""


class KubernetesSubject(EngineSubject):
    """An engine whose label and namespace no other test shares."""

    engine: KubernetesEngine

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self._open()

    async def restart(self) -> None:
        await self.close()
        self._open()

    async def close(self) -> None:
        await self.news.close()
        await self.engine.close()

    async def node(self) -> NodeName:
        return next(node.name for node in await self.engine.nodes() if node.ready and not node.taints)

    def role(self, name: str, program: Program, replicas: int = 1, **fields: object) -> RoleSpec:
        fields.setdefault("image", BUSYBOX)
        fields.setdefault("resources", SMALL)
        return super().role(name, program, replicas, **fields)

    def _open(self) -> None:
        self.engine = KubernetesEngine(
            self.client, clock=SystemClock(), controller=self.namespace, namespace=self.namespace
        )
        self.news = NewsReader(self.engine)
