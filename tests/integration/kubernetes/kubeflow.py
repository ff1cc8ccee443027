"""Kubeflow jobs on the real cluster: objects as people write them, and replicas that do as they are told."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gangline.dialects.kubeflow import KINDS
from gangline.kube import (
    EVENTS,
    PODS,
    SERVICES,
    GenericObject,
    KubeClient,
    KubeError,
    NotFoundError,
    Pod,
    Resource,
    Service,
)
from gangline.model import Job, JobId
from gangline.storage.interface import Store
from tests.integration.kubernetes.world import PATIENCE_SECONDS, World, eventually
from tools.cluster import BUSYBOX

OBEY = "trap 'exit 143' TERM; until [ -e /tmp/exit ]; do sleep 0.1; done; exit $(cat /tmp/exit)"
"""What an obedient replica runs: it exits with the code it is told."""

Plain = dict[str, Any]
RESOURCES = {
    name: Resource(group="kubeflow.org", plural=kind.plural, kind=name, type=GenericObject)
    for name, kind in KINDS.items()
}


def replica(
    kind: str, count: int = 1, *, restart: str = "Never", script: str = OBEY, image: str = BUSYBOX, **pod: object
) -> Plain:
    """One replica spec."""
    container = {"name": KINDS[kind].container or "mpi", "image": image, "command": ["sh", "-c", script]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **pod}}
    return {"replicas": count, "restartPolicy": restart, "template": template}


def job_object(kind: str, name: str, replicas: Plain, *, annotations: Plain | None = None, **spec: object) -> Plain:
    """A whole object."""
    field = KINDS[kind].replicas_field
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {**spec, field: replicas}}


@dataclass(frozen=True)
class Seat:
    """From where a play is watched: a client with the rights of a user, beside a controller that may have fewer."""

    client: KubeClient
    namespace: str
    store: Store


class Play:
    """One Kubeflow job and its replicas, seen through the API server alone."""

    def __init__(self, world: World | Seat, kind: str, name: str) -> None:
        self.world = world
        self.kind = kind
        self.name = name
        self.uid = ""

    @classmethod
    async def begin(cls, world: World | Seat, kind: str, name: str, replicas: Plain, **spec: Any) -> "Play":
        """Apply a job."""
        play = cls(world, kind, name)
        body = job_object(kind, name, replicas, **spec)
        applied = await world.client.apply(RESOURCES[kind], body, namespace=world.namespace)
        play.uid = applied.metadata.uid
        return play

    async def object(self) -> GenericObject:
        """The job object as it is now."""
        return await self.world.client.get(RESOURCES[self.kind], self.name, namespace=self.world.namespace)

    async def patch(self, patch: Plain) -> None:
        """Change the object as a user would."""
        await self.world.client.patch(RESOURCES[self.kind], self.name, patch, namespace=self.world.namespace)

    async def delete(self) -> None:
        """Delete the object as a user would."""
        await self.world.client.delete(RESOURCES[self.kind], self.name, namespace=self.world.namespace)

    async def until(self, holds: Callable[[GenericObject], bool], seconds: float = PATIENCE_SECONDS) -> GenericObject:
        """Wait until the object looks as it should; fails with its status."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            found = await self.object()
            if holds(found):
                return found
            if asyncio.get_running_loop().time() > deadline:
                pods = {name: pod.status.phase for name, pod in (await self.pods()).items()}
                raise AssertionError(f"not in {seconds:g} s: {json.dumps(found.status)} {pods}")
            await asyncio.sleep(0.05)

    async def condition(self, type_: str, *, holds: bool = True) -> GenericObject:
        """Wait for a condition."""
        return await self.until(lambda found: conditions(found).get(type_) == str(holds))

    async def done(self, type_: str, seconds: float = PATIENCE_SECONDS) -> GenericObject:
        """Wait for a final condition, and until nothing of the job holds a machine."""
        return await self.until(
            lambda found: conditions(found).get(type_) == "True" and not state(found)["holding"], seconds
        )

    async def until_replaced(self, replica: str, uid: str) -> None:
        """Wait until another pod runs in the place of the one with this uid."""

        async def replaced() -> bool:
            pod = (await self.pods()).get(replica)
            return pod is not None and pod.metadata.uid != uid and pod.status.phase == "Running"

        await eventually(replaced)

    async def until_running(self, *replicas: str) -> None:
        """Wait until the pods of these replicas run and no others: a kubelet tells a pod's phase after its end."""

        async def as_wanted() -> bool:
            return {name for name, pod in (await self.pods()).items() if pod.status.phase == "Running"} == set(replicas)

        await eventually(as_wanted)

    async def job(self) -> Job:
        """The job as Gangline's own store has it."""
        return await self.world.store.get(JobId(self.uid))

    async def pods(self) -> dict[str, Pod]:
        """The job's pods by what follows the job's name."""
        return {name.removeprefix(f"{self.name}-"): pod for name, pod in (await self._all(PODS)).items()}

    async def services(self) -> dict[str, Service]:
        """The job's services by what follows the job's name."""
        return {name.removeprefix(f"{self.name}-"): item for name, item in (await self._all(SERVICES)).items()}

    async def _all(self, resource: Any) -> dict[str, Any]:
        labels = {"training.kubeflow.org/job-name": self.name}
        found = await self.world.client.list(resource, namespace=self.world.namespace, labels=labels)
        return {item.metadata.name: item for item in found.items or ()}

    async def reasons(self) -> set[str]:
        """The reasons of all events about the job object."""
        found = await self.world.client.list(
            EVENTS, namespace=self.world.namespace, fields={"involvedObject.name": self.name}
        )
        return {event.reason for event in found.items or () if event.involved_object.kind == self.kind}

    async def ask(self, replica: str, *command: str) -> str:
        """Run something inside a replica, as soon as that is possible."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while True:
            try:
                result = await self.world.client.execute(
                    f"{self.name}-{replica}", command, namespace=self.world.namespace
                )
                if result.exit_code == 0:
                    return result.stdout.decode()
            except (KubeError, NotFoundError):
                pass
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"{replica} does not answer: {(await self.object()).status}")
            await asyncio.sleep(0.1)

    async def environment(self, replica: str) -> dict[str, str]:
        """The environment of a replica's program."""
        lines = (await self.ask(replica, "env")).splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    async def tell_to_exit(self, replica: str, code: int) -> None:
        """Have a replica exit with a code."""
        # In one step: a replica that finds the file before the code is in it would exit with 0.
        await self.ask(replica, "sh", "-c", f"echo {code} > /tmp/code && mv /tmp/code /tmp/exit")


def conditions(found: GenericObject) -> dict[str, str]:
    """The conditions of an object, in their order."""
    return {each["type"]: each["status"] for each in found.status.get("conditions") or ()}


def state(found: GenericObject) -> Plain:
    """Gangline's own record in an object."""
    text = (found.status.get("gangline") or {}).get("record")
    kept: Plain = json.loads(text)["state"] if text else {"holding": False, "attempt": 0}
    return kept
