"""Which gang runs where, who makes room, and why the rest waits: a pure function of a snapshot.

The controller calls ``take_snapshot`` and ``decide`` and carries the decision out. Nothing here reads a clock, a
socket or a disk. docs/scheduling.md states the rules.
"""

from gangline.model.explanation import Constraint, Excluded, Explanation
from gangline.scheduling.cycle import decide
from gangline.scheduling.cycle_memory import CycleMemory
from gangline.scheduling.decision import Decision, Eviction, Grow, Shrink, Start
from gangline.scheduling.gangs.terminating import terminating_gang
from gangline.scheduling.place_in_line import Line
from gangline.scheduling.policies import BUILT_IN, DEFAULT_POLICIES, Policies, policies_from
from gangline.scheduling.snapshot import Snapshot, take_snapshot

__all__ = [
    "BUILT_IN",
    "DEFAULT_POLICIES",
    "Constraint",
    "CycleMemory",
    "Decision",
    "Eviction",
    "Excluded",
    "Explanation",
    "Grow",
    "Line",
    "Policies",
    "Shrink",
    "Snapshot",
    "Start",
    "decide",
    "policies_from",
    "take_snapshot",
    "terminating_gang",
]
