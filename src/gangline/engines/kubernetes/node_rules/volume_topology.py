"""Keeps jobs to the nodes that reach their volumes, and from all while something they need is missing.

A volume that exists on some nodes alone leaves a job no other choice, though nothing in its spec says so; one that only
one node at a time may use keeps the replicas that share it together. Claims are read when a job with one waits, and
again every few seconds while it does: a cluster without such jobs pays nothing.

Whether a ConfigMap or a Secret is there is asked without reading it, which the controller may not do with Secrets: its
creation is tried without effect (a dry run), which the API server refuses if there is one.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gangline.engines.kubernetes.background_tasks import BackgroundTasks
from gangline.engines.kubernetes.node_rules.node_terms import selector_to_terms
from gangline.engines.kubernetes.node_rules.references import Reference
from gangline.engines.kubernetes.node_rules.volume_claims import Need, VolumeConstraint, confined, needs_by_role
from gangline.engines.kubernetes.node_rules.volumes import VolumeError, Volumes
from gangline.errors import InvalidInputError
from gangline.kube import CONFIG_MAPS, SECRETS, AlreadyExistsError, ApiError, KubeClient, KubeError, Resource
from gangline.model import Job, RoleName, Tenant

_log = logging.getLogger(__name__)
_AGAIN_SECONDS = 3.0
_TICKS_REMEMBERED = 20
"""After how many looks it is asked anew which jobs still wait."""

_KINDS: Mapping[str, Resource[Any]] = {each.kind: each for each in (CONFIG_MAPS, SECRETS)}

Place = tuple[str, Need]
"""A namespace and what is needed in it."""


class VolumeTopology:
    """Knows what the claims of waiting jobs leave of the nodes. ``changed`` is called when that becomes different."""

    def __init__(
        self,
        client: KubeClient,
        volumes: Volumes,
        background: BackgroundTasks,
        *,
        namespace_of: Callable[[Tenant], str],
        changed: Callable[[], None],
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._client = client
        self._volumes = volumes
        self._background = background
        self._namespace_of = namespace_of
        self._changed = changed
        self._again_seconds = again_seconds
        self._known: dict[Place, VolumeConstraint] = {}
        self._looking: asyncio.Task[None] | None = None

    async def confine(self, jobs: Collection[Job]) -> Collection[Job]:
        """Return the same jobs; those that may be placed and have volumes, with what these leave of the nodes."""
        claims = {job.id: needs_by_role(job.spec) for job in jobs if _may_be_placed(job)}
        claims = {job_id: by_role for job_id, by_role in claims.items() if by_role}
        if not claims:
            self._known = {}
            return jobs
        wanted = {claim for job in jobs if job.id in claims for claim in self._of(job, claims[job.id])}
        self._known = {claim: constraint for claim, constraint in self._known.items() if claim in wanted}
        await self._look(wanted - self._known.keys())
        if self._looking is None or self._looking.done():
            self._looking = self._background.spawn(self._look_again(), name="claims of waiting jobs")
        return [self._confined(job, claims[job.id]) if job.id in claims else job for job in jobs]

    def _of(self, job: Job, by_role: dict[RoleName, tuple[Need, ...]]) -> Iterable[Place]:
        namespace = self._namespace_of(job.spec.tenant)
        return {(namespace, name) for names in by_role.values() for name in names}

    def _confined(self, job: Job, by_role: dict[RoleName, tuple[Need, ...]]) -> Job:
        namespace = self._namespace_of(job.spec.tenant)
        constraints = {
            name: constraint
            for name in {name for names in by_role.values() for name in names}
            if (constraint := self._known.get((namespace, name), VolumeConstraint())) != VolumeConstraint()
        }
        return replace(job, spec=confined(job.spec, job.id, by_role, constraints)) if constraints else job

    async def _look(self, claims: Iterable[Place]) -> None:
        claims = tuple(claims)
        found = await asyncio.gather(*(self._constraint(namespace, name) for namespace, name in claims))
        self._known |= {
            claim: constraint for claim, constraint in zip(claims, found, strict=True) if constraint is not None
        }

    async def _constraint(self, namespace: str, name: Need) -> VolumeConstraint | None:
        """Read what one claim leaves: nothing while it does not exist, or waits for a volume and not for a node."""
        try:
            if isinstance(name, Reference):
                missing = await is_missing(self._client, namespace, name)
                return VolumeConstraint(lacking=f"{name.kind} '{name.name}' does not exist" if missing else "")
            reach = await self._volumes.reach(namespace, name)
        except VolumeError as error:
            return VolumeConstraint(lacking=str(error))
        except KubeError as error:
            _log.debug("claim %s/%s is looked at again later: %s", namespace, name, error)
            return None
        try:
            terms = () if reach.nodes is None else selector_to_terms(reach.nodes)
        except (InvalidInputError, ValueError) as error:
            _log.warning("the volume of claim %s/%s says no usable word of its nodes: %s", namespace, name, error)
            return VolumeConstraint(sharing=reach.sharing)
        lacking = "" if terms or reach.nodes is None else f"no node reaches a volume for claim '{name}'"
        return VolumeConstraint(terms, reach.sharing, lacking)

    async def _look_again(self) -> None:
        """Notice volumes that come, go or are taken while jobs wait for them; nobody sends news of it."""
        for tick in itertools.count(1):
            await asyncio.sleep(self._again_seconds)
            before = dict(self._known)
            if tick % _TICKS_REMEMBERED == 0:
                self._known = {}  # whoever still waits has them looked up in the cycle that this brings about
            else:
                await self._look(before)
            if before != self._known:
                self._changed()
            if not before:
                return


async def is_missing(client: KubeClient, namespace: str, reference: Reference) -> bool:
    """Whether a ConfigMap or a Secret certainly does not exist."""
    body = {"metadata": {"name": reference.name}}
    try:
        await client.create(_KINDS[reference.kind], body, namespace=namespace, dry_run=True)
    except ApiError as error:
        if not isinstance(error, AlreadyExistsError):
            _log.debug("whether there is a %s '%s' cannot be asked: %s", *reference, error)
        return False  # where a rule of the cluster is in the way, the pods will tell
    return True


def _may_be_placed(job: Job) -> bool:
    return job.placeable or any(role.elastic for role in job.spec.roles)
