"""What is seen of a service: its replicas' health, what the router counts, and what became of earlier replicas."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gangline.model import Phase, Timestamp
from gangline.model.kinds.service import Checks, Counters, RevisionTraffic


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What checks have found of one start of a replica."""

    started: bool = False
    ready: bool = False
    failures: int = 0
    """Of the check of readiness, in a row."""
    dead: int = 0
    """Failures of the check of life, in a row."""
    message: str = ""

    def after_ready(self, checks: Checks, refusal: str) -> "Health":
        """Note a check of readiness: one that holds counts at once, one that does not only if others follow."""
        if not refusal:
            return replace(self, started=True, ready=True, failures=0, message="")
        failures = self.failures + 1
        return replace(self, ready=self.ready and failures < checks.ready.failures, failures=failures, message=refusal)

    def after_live(self, refusal: str) -> "Health":
        """Note a check of life."""
        return replace(self, dead=self.dead + 1, message=refusal) if refusal else replace(self, dead=0)

    def must_restart(self, checks: Checks) -> bool:
        """Whether the check of life has failed too often."""
        return checks.live is not None and self.dead >= checks.live.failures


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSight:
    """One replica as it is now. ``idle``: it is known that the router sends it nothing, and that nothing is left."""

    ready: bool = False
    address: str = ""
    idle: bool = False
    message: str = ""


@dataclass(frozen=True, slots=True)
class LoadSample:
    """How much of the metric that a service scales by there was at one moment, over all its replicas."""

    at: Timestamp
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSight:
    """A service as it is now. ``counters`` are by revision, ``loads`` oldest first."""

    replicas: Mapping[int, ReplicaSight] = field(default_factory=dict)
    loads: tuple[LoadSample, ...] = ()
    held: int = 0
    active_at: Timestamp | None = None
    """When a request was last seen; None: not since anybody looks."""
    watched_since: Timestamp | None = None
    counters: Mapping[int, Counters] = field(default_factory=dict)
    traffic: tuple[RevisionTraffic, ...] | None = None
    """None: it was not measured yet."""
    router: str = ""
    """Where the router answers; empty if none runs."""
    problem: str = ""
    """What the router cannot do for it: a port that is in use."""

    def ready(self, number: int) -> bool:
        """Whether a replica takes requests."""
        return number in self.replicas and self.replicas[number].ready


@dataclass(frozen=True, slots=True)
class EndedReplica:
    """What stays of a replica whose job has ended."""

    number: int
    revision: int
    phase: Phase
    finished_at: Timestamp
    message: str
