"""What one cycle tells the next. A value: ``decide`` returns it and the next ``take_snapshot`` receives it.

Losing it (a restart of the controller) costs speed and a little patience, never correctness.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.model import JobId, QueueName, Timestamp
from gangline.scheduling.holdings import Holdings
from gangline.scheduling.placement import Needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """Somebody was stopped so that this job can start; it comes before all others until it has, or ``until``."""

    job_id: JobId
    until: Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Nominations in the order they are owed, decayed use per queue, and records and shapes to reuse.

    ``usage`` is the dominant share of each queue, averaged over the past with ever less weight; ``usage_at`` is when
    it was last brought up to date.
    """

    nominations: tuple[Nomination, ...] = ()
    usage: Mapping[QueueName, float] = field(default_factory=dict)
    usage_at: Timestamp | None = None
    holdings: Holdings | None = None
    needs: Needs | None = field(default=None, compare=False)
