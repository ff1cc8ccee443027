"""Puts Gangline into a cluster and takes it out again, for an administrator who watches it happen."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

import msgspec
import yaml

from gangline import __version__
from gangline.compose.cluster_router import READABLE_SECRETS
from gangline.compose.contexts import access_of, client_of, refusal_of
from gangline.compose.team.certificates import fingerprint_of_text, make_certificate
from gangline.engines.kubernetes import (
    CACHE_CLAIM,
    Installation,
    check_rights,
    install,
    installation_objects,
    uninstall,
    wait_until_available,
)
from gangline.engines.kubernetes.installing.api import API_NAME, API_SECRET
from gangline.errors import GanglineError, PermissionDeniedError
from gangline.kinds import all_kinds
from gangline.kinds.train_job import CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME
from gangline.kube import (
    CUSTOM_RESOURCE_DEFINITIONS,
    SECRETS,
    ForbiddenError,
    GenericObject,
    KubeClient,
    KubeError,
    NotFoundError,
    Resource,
    read_answer,
)
from gangline.storage.kubernetes import DEFINITIONS, JOBS, kserve_definitions, kubeflow_definitions, resource_of
from gangline.storage.kubernetes.definitions.kubeflow import CATEGORY

DEFAULT_IMAGE = f"gangline:{__version__}"
"""What deploy/Dockerfile builds; where it is found is for the administrator to say."""
DEFAULT_NAMESPACE = "gangline-system"
OLDEST = (1, 30)
"""The first whose admission policies are there without being asked for."""

_MERELY_THERE = frozenset(kind.plural for kind in (TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME))
"""Kinds of others that are no work of anybody's."""

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
    cache_claim: str = CACHE_CLAIM
    kubeflow: Kubeflow = Kubeflow.LEAVE
    kserve: bool = False
    """Whether InferenceServices are served here, in place of KServe."""
    api: bool = False
    """Whether a service for people outside of the cluster is added."""

    def objects(self) -> list[dict[str, Any]]:
        """Return every object in the order it is applied."""
        adopted: Sequence[dict[str, Any]] = ()
        if self.kubeflow is not Kubeflow.LEAVE:
            adopted = kubeflow_definitions(strict=self.kubeflow is Kubeflow.STRICT)
        if self.kserve:
            adopted = (*adopted, *kserve_definitions())
        return installation_objects(
            Installation(
                image=self.image,
                namespace=self.namespace,
                replicas=self.replicas,
                cache_claim=self.cache_claim,
                api=self.api,
                definitions=[*DEFINITIONS, *adopted],
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
                if self.api:
                    await keep_certificate(client, self.namespace, say)
                if wait and self.replicas:
                    await wait_until_available(client, objects[-1], say)
                    for served in (each for each in objects if self.api and is_api(each)):
                        await wait_until_available(client, served, say)
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
                kubeflow = Kubeflow.RUN if await _runs(client, kubeflow_definitions()) else Kubeflow.LEAVE
                installed = replace(self, kubeflow=kubeflow, kserve=await _runs(client, kserve_definitions()), api=True)
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
    """What people have put into an installation: jobs of every kind that is ours, and what else belongs to tenants."""

    jobs: int
    records: Mapping[str, int] = field(default_factory=dict)
    """How many there are of each other kind, by its name."""

    def __str__(self) -> str:
        counts = [counted(self.jobs, "job"), *(counted(many, name) for name, many in self.records.items() if many)]
        return " and ".join([", ".join(counts[:-1]), counts[-1]] if len(counts) > 1 else counts)


async def count_contents(client: KubeClient) -> Contents:
    """Count what tenants have in a cluster; kinds of Kubeflow that are not ours stay, and so do their jobs."""
    kinds = [JOBS]
    for definitions in (kubeflow_definitions(), kserve_definitions()):
        if await _runs(client, definitions):
            found = [_resource_of(definition) for definition in definitions]
            kinds += [resource for resource in found if resource.plural not in _MERELY_THERE]
    counts = [await _count(client, kind) for kind in kinds]
    own = [kind for kind in all_kinds() if kind.namespaced and not kind.foreign]
    return Contents(jobs=sum(counts), records={kind.name: await _count(client, resource_of(kind)) for kind in own})


def counted(many: int, noun: str) -> str:
    """Write a number of things."""
    return f"{many} {noun}" if many == 1 else f"{many} {noun}s"


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


async def _runs(client: KubeClient, definitions: Sequence[dict[str, Any]]) -> bool:
    """Whether kinds of others are ours to run: those of their own operator must survive our removal."""
    name = definitions[0]["metadata"]["name"]
    try:
        found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFoundError:
        return False
    return CATEGORY in (found.spec["names"].get("categories") or ())


def is_api(body: Mapping[str, Any]) -> bool:
    """Whether an object of the installation is what runs its service."""
    return bool(body["kind"] == "Deployment" and body["metadata"]["name"] == API_NAME)


async def keep_certificate(client: KubeClient, namespace: str, say: Say) -> None:
    """Make a certificate for the service, unless there is one, and say by what its users know it."""
    try:
        found = (await client.get(READABLE_SECRETS, API_SECRET, namespace=namespace)).data["tls.crt"]
    except NotFoundError:
        certificate, key = make_certificate([f"{API_NAME}.{namespace}.svc", f"{API_NAME}.{namespace}", API_NAME])
        found = base64.b64encode(certificate).decode()
        body = {
            "metadata": {"name": API_SECRET, "namespace": namespace},
            "type": "kubernetes.io/tls",
            "data": {"tls.crt": found, "tls.key": base64.b64encode(key).decode()},
        }
        await client.create(SECRETS, body)
        say(f"created Secret {API_SECRET}, with a certificate of its own")
    say(f"the service's certificate has the fingerprint {fingerprint_of_text(base64.b64decode(found).decode())}")


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
