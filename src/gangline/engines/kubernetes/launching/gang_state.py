"""What the engine remembers of each attempt while it lives. All of it can be found out again from the cluster."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from gangline.engines.kubernetes.manifests.moves import GangData, JobArchives
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.model import Gang, GangId, GangReplica, JobId

_ENDED_REMEMBERED = 10_000
_NEVER: tuple[int, frozenset[ReplicaKey]] = (-1, frozenset())


@dataclass(slots=True)
class GangState:
    """One attempt."""

    gang_id: GangId
    namespace: str = ""
    name: str = ""
    gang: Gang | None = None
    """The last order; None while nobody has ordered it in this life."""
    prepared: bool = False
    deferred: tuple[GangReplica, ...] = ()
    """Replicas that were left out of the last launch: their peers, or the end of their own last pod, come first."""
    refused: bool = False
    """Whether replicas of a gang that runs wait because the cluster would not have them yet."""
    job_archives: JobArchives | None = None
    """The files that travel with the job, once they were found."""
    data: GangData | None = None
    """What its moves name, once it was found."""
    created: set[ReplicaKey] = field(default_factory=set)
    seen: set[ReplicaKey] = field(default_factory=set)
    leaving: set[ReplicaKey] = field(default_factory=set)
    """Pods we asked to go."""
    kept: set[ReplicaKey] = field(default_factory=set)
    """Pods that stay when the attempt has ended, to be looked at."""
    refusals: dict[ReplicaKey, int] = field(default_factory=dict)
    """How often a kubelet turned a replica's pod away and it was tried again."""
    replaced: set[str] = field(default_factory=set)
    """Refused pods, by uid, in whose place another is created: what becomes of them is not news."""
    collected: set[ReplicaKey] = field(default_factory=set)
    """Pods whose log is kept or being kept."""
    told: set[tuple[ReplicaKey | None, str]] = field(default_factory=set)
    taking_down: "asyncio.Task[None] | None" = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def ordered(self) -> bool:
        """Whether somebody asked for this gang, or for its end, in this life."""
        return self.gang is not None or self.taking_down is not None

    @property
    def over(self) -> bool:
        """Whether the attempt was told to end or was reported as failed: nothing of it need be created any more."""
        return self.taking_down is not None or (None, "failed") in self.told

    def first(self, key: ReplicaKey | None, kind: str) -> bool:
        """Whether this is told for the first time; it is noted as told."""
        if (key, kind) in self.told:
            return False
        self.told.add((key, kind))
        return True


class Gangs:
    """Every attempt that is known, and those that ended lately."""

    def __init__(self) -> None:
        self._states: dict[GangId, GangState] = {}
        self._ended: dict[JobId, tuple[int, frozenset[ReplicaKey]]] = {}
        """The last attempt of each job that is gone, and what was left of it on purpose."""

    def state(self, gang_id: GangId) -> GangState:
        """Return what is known of an attempt, beginning with nothing."""
        return self._states.setdefault(gang_id, GangState(gang_id))

    def find(self, gang_id: GangId) -> GangState | None:
        """Return what is known of an attempt, if anything."""
        return self._states.get(gang_id)

    def all(self) -> Iterable[GangState]:
        """Return every known attempt."""
        return tuple(self._states.values())

    def end(self, gang_id: GangId) -> None:
        """Forget an attempt that is gone, but for the fact that it ended: a late pod of it must not live."""
        state = self._states.pop(gang_id, None)
        self._ended[gang_id.job_id] = (gang_id.attempt, frozenset(state.kept) if state is not None else frozenset())
        while len(self._ended) > _ENDED_REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def forget(self, job_id: JobId) -> None:
        """Forget a job of which nothing is left: one that bears its id again begins with its first attempt."""
        self._ended.pop(job_id, None)

    def is_kept(self, key: ReplicaKey) -> bool:
        """Whether a pod of an attempt that ended in this life was left on purpose."""
        return key in self._ended.get(key.gang_id.job_id, _NEVER)[1]

    def has_ended(self, gang_id: GangId) -> bool:
        """Whether the attempt was taken down in this life: it, or one after it."""
        return gang_id.attempt <= self._ended.get(gang_id.job_id, _NEVER)[0]
