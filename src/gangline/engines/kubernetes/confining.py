"""Keeps jobs to the nodes that reach their volumes, before the scheduler places them.

A volume that exists on some nodes alone leaves a job no other choice, though nothing in its spec says so; one that only
one node at a time may use keeps the replicas that share it together. Claims are read when a job with one waits, and
again every few seconds while it does: a cluster without such jobs pays nothing.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from gangline.engines.kubernetes.claims import Grip, claims_by_role, confined
from gangline.engines.kubernetes.errands import Errands
from gangline.engines.kubernetes.foreign.volumes import VolumeError, Volumes
from gangline.engines.kubernetes.node_terms import selector_to_terms
from gangline.errors import InvalidInputError
from gangline.kube import KubeError
from gangline.model import Job, RoleName, Tenant

_log = logging.getLogger(__name__)
_AGAIN_SECONDS = 3.0
_TICKS_REMEMBERED = 20
"""After how many looks it is asked anew which jobs still wait."""

Claim = tuple[str, str]
"""A namespace and the name of a claim in it."""


class Confinement:
    """Knows what the claims of waiting jobs leave of the nodes. ``changed`` is called when that becomes different."""

    def __init__(
        self,
        volumes: Volumes,
        errands: Errands,
        *,
        namespace_of: Callable[[Tenant], str],
        changed: Callable[[], None],
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        self._volumes = volumes
        self._errands = errands
        self._namespace_of = namespace_of
        self._changed = changed
        self._again_seconds = again_seconds
        self._known: dict[Claim, Grip] = {}
        self._looking: asyncio.Task[None] | None = None

    async def confine(self, jobs: Collection[Job]) -> Collection[Job]:
        """Return the same jobs; those that may be placed and have volumes, with what these leave of the nodes."""
        claims = {job.id: claims_by_role(job.spec) for job in jobs if _may_be_placed(job)}
        claims = {job_id: by_role for job_id, by_role in claims.items() if by_role}
        if not claims:
            self._known = {}
            return jobs
        wanted = {claim for job in jobs if job.id in claims for claim in self._of(job, claims[job.id])}
        self._known = {claim: grip for claim, grip in self._known.items() if claim in wanted}
        await self._look(wanted - self._known.keys())
        if self._looking is None or self._looking.done():
            self._looking = self._errands.spawn(self._look_again(), name="claims of waiting jobs")
        return [self._confined(job, claims[job.id]) if job.id in claims else job for job in jobs]

    def _of(self, job: Job, by_role: dict[RoleName, tuple[str, ...]]) -> Iterable[Claim]:
        namespace = self._namespace_of(job.spec.tenant)
        return {(namespace, name) for names in by_role.values() for name in names}

    def _confined(self, job: Job, by_role: dict[RoleName, tuple[str, ...]]) -> Job:
        namespace = self._namespace_of(job.spec.tenant)
        grips = {
            name: grip
            for name in {name for names in by_role.values() for name in names}
            if (grip := self._known.get((namespace, name), Grip())) != Grip()
        }
        return replace(job, spec=confined(job.spec, job.id, by_role, grips)) if grips else job

    async def _look(self, claims: Iterable[Claim]) -> None:
        claims = tuple(claims)
        found = await asyncio.gather(*(self._grip(namespace, name) for namespace, name in claims))
        self._known |= {claim: grip for claim, grip in zip(claims, found, strict=True) if grip is not None}

    async def _grip(self, namespace: str, name: str) -> Grip | None:
        """Read what one claim leaves: nothing while it does not exist, or waits for a volume and not for a node."""
        try:
            reach = await self._volumes.reach(namespace, name)
        except VolumeError as error:
            return Grip(lacking=str(error))
        except KubeError as error:
            _log.debug("claim %s/%s is looked at again later: %s", namespace, name, error)
            return None
        try:
            terms = tuple(term for selector in reach.choices for term in selector_to_terms(selector))
        except (InvalidInputError, ValueError) as error:
            _log.warning("the volume of claim %s/%s says no usable word of its nodes: %s", namespace, name, error)
            return Grip(sharing=reach.sharing)
        return Grip(terms, reach.sharing)

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


def _may_be_placed(job: Job) -> bool:
    return job.placeable or any(role.elastic for role in job.spec.roles)
