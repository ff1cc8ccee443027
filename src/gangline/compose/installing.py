"""Puts Gangline into a cluster and takes it out again, for an administrator who watches it happen."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import msgspec
import yaml

from gangline import __version__
from gangline.compose.contexts import access_of, client_of, refusal_of
from gangline.engines.kubernetes import (
    Installation,
    check_rights,
    install,
    installation_objects,
    uninstall,
    wait_until_available,
)
from gangline.errors import GanglineError, PermissionDeniedError
from gangline.kube import (
    CUSTOM_RESOURCE_DEFINITIONS,
    ForbiddenError,
    GenericObject,
    KubeClient,
    KubeError,
    NotFoundError,
    Resource,
    read_answer,
)
from gangline.storage.kubernetes import DEFINITIONS, JOBS, SWEEPS, kubeflow_definitions
from gangline.storage.kubernetes.kubeflow_definitions import CATEGORY

DEFAULT_IMAGE = f"gangline:{__version__}"
"""What deploy/Dockerfile builds; where it is found is for the administrator to say."""
DEFAULT_NAMESPACE = "gangline-system"
OLDEST = (1, 30)
"""The first whose admission policies are there without being asked for."""

Say = Callable[[str], None]


class Kubeflow(StrEnum):
    """What becomes of Kubeflow's training jobs (TFJob, PyTorchJob and their kin)."""

    LEAVE = "leave"
    """They are none of ours."""
    RUN = "run"
    """Gangline defines their kinds and runs them, in place of the training operator."""
    STRICT = "strict"
    """The same, with upstream's behaviour to the letter for jobs that do not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInstallation:
    """Gangline in the cluster of one context, as an administrator wants it."""

    context: str
    image: str = DEFAULT_IMAGE
    namespace: str = DEFAULT_NAMESPACE
    replicas: int = 2
    kubeflow: Kubeflow = Kubeflow.LEAVE

    def objects(self) -> list[dict[str, Any]]:
        """Return every object in the order it is applied."""
        adopted: Sequence[dict[str, Any]] = ()
        if self.kubeflow is not Kubeflow.LEAVE:
            adopted = kubeflow_definitions(strict=self.kubeflow is Kubeflow.STRICT)
        return installation_objects(
            Installation(
                image=self.image, namespace=self.namespace, replicas=self.replicas, definitions=[*DEFINITIONS, *adopted]
            )
        )

    def text(self) -> str:
        """Write every object as YAML: what ``kubectl apply -f -`` would take."""
        # By way of JSON, so that equal parts are written out each time and not as references.
        plain = json.loads(json.dumps(self.objects()))
        return "---\n".join(yaml.safe_dump(body, sort_keys=False, width=120) for body in plain)

    @property
    def called(self) -> str:
        """The name of the context, also where the current one is meant."""
        return access_of(self.context).context

    async def install(self, say: Say, *, wait: bool) -> None:
        """Apply everything, and see the controller started; may be repeated, and then upgrades."""
        async with client_of(access_of(self.context)) as client:
            try:
                say(f"cluster {client.access.server}: Kubernetes {await checked_version(client)}")
                objects = self.objects()
                await self._check_rights(client, objects)
                await install(client, objects, say)
                if wait and self.replicas:
                    await wait_until_available(client, objects[-1], say)
            except KubeError as error:
                raise refusal_of(error, context=self.context) from error

    async def contents(self) -> "Contents":
        """Count what an uninstallation would delete besides Gangline itself."""
        async with client_of(access_of(self.context)) as client:
            try:
                return await count_contents(client)
            except KubeError as error:
                raise refusal_of(error, context=self.context) from error

    async def uninstall(self, say: Say) -> None:
        """Remove everything, jobs included, and wait until it is gone."""
        async with client_of(access_of(self.context)) as client:
            try:
                adopted = await _runs_kubeflow(client)
                installed = replace(self, kubeflow=Kubeflow.RUN if adopted else Kubeflow.LEAVE)
                await uninstall(client, installed.objects(), say)
            except KubeError as error:
                raise refusal_of(error, context=self.context) from error

    async def _check_rights(self, client: KubeClient, objects: list[dict[str, Any]]) -> None:
        try:
            await check_rights(client, objects)
        except ForbiddenError as error:
            raise PermissionDeniedError(
                "installing needs an administrator of the cluster (ClusterRole cluster-admin); nothing was changed: "
                f"{error.message}"
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What people have put into an installation: jobs of every kind that is ours, and sweeps."""

    jobs: int
    sweeps: int

    def __str__(self) -> str:
        jobs = f"{self.jobs} {'job' if self.jobs == 1 else 'jobs'}"
        return f"{jobs} and {self.sweeps} {'sweep' if self.sweeps == 1 else 'sweeps'}" if self.sweeps else jobs


async def count_contents(client: KubeClient) -> Contents:
    """Count the jobs and sweeps of a cluster; kinds of Kubeflow that are not ours stay, and so do their jobs."""
    kinds = [JOBS]
    if await _runs_kubeflow(client):
        kinds += [_resource_of(definition) for definition in kubeflow_definitions()]
    counts = [await _count(client, kind) for kind in kinds]
    return Contents(jobs=sum(counts), sweeps=await _count(client, SWEEPS))


async def _count(client: KubeClient, resource: Resource[GenericObject]) -> int:
    try:
        return len((await client.list(resource)).items or ())
    except NotFoundError:
        return 0  # the kind is not defined


def _resource_of(definition: dict[str, Any]) -> Resource[GenericObject]:
    spec = definition["spec"]
    stored = next(version["name"] for version in spec["versions"] if version["storage"])
    names = spec["names"]
    return Resource(group=spec["group"], version=stored, plural=names["plural"], kind=names["kind"], type=GenericObject)


async def _runs_kubeflow(client: KubeClient) -> bool:
    """Whether the kinds of Kubeflow are ours: those of its own operator must survive our removal."""
    name = kubeflow_definitions()[0]["metadata"]["name"]
    try:
        found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFoundError:
        return False
    return CATEGORY in (found.spec["names"].get("categories") or ())


class _Version(msgspec.Struct):
    major: str
    minor: str
    git_version: str = msgspec.field(name="gitVersion")


class Readable(Protocol):
    """What is asked of a server before anything is sent to it."""

    async def raw(self, path: str) -> bytes:
        """Read a path."""
        ...


async def checked_version(client: Readable) -> str:
    """Return the cluster's version; raises GanglineError if it is too old for what we apply."""
    found = read_answer(await client.raw("/version"), msgspec.json.Decoder(_Version))
    # Some providers write the minor version as "29+".
    number = (int(found.major), int(found.minor.rstrip("+")))
    if number < OLDEST:
        raise GanglineError(
            f"Kubernetes {found.git_version} is too old: 1.{OLDEST[1]} or newer is needed; nothing was changed"
        )
    return found.git_version.removeprefix("v")
