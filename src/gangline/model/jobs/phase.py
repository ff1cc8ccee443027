"""Where a job is in its life. docs/lifecycle.md says what each phase means and what leaves it."""

from enum import StrEnum


class Phase(StrEnum):
    """The phases of a job, in the order a smooth run passes through them, then the others."""

    QUEUED = "QUEUED"
    STARTING = "STARTING"
    DOWNLOADING = "DOWNLOADING"
    PROCESSING = "PROCESSING"
    STORING = "STORING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    HALTING = "HALTING"
    HALTED = "HALTED"
    RESUMED = "RESUMED"
    RESTARTING = "RESTARTING"


FINAL_PHASES = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED})
"""Nothing leaves these."""

WAITING_PHASES = frozenset({Phase.QUEUED, Phase.RESUMED, Phase.RESTARTING})
"""The scheduler may place a job in these, once it holds no machines of an earlier attempt."""

ACTIVE_PHASES = frozenset({Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING, Phase.STORING})
"""The gang has its machines."""
