"""How a job lives: events go in, a new job and instructions come out.

``advance`` is the only way a job changes. It is a pure function over one table of transitions; the controller
feeds it and carries out what it returns. ``standing`` gives the instructions a job's present state calls for,
which is how a restarted controller picks up every thread. docs/lifecycle.md explains the table to people.
"""

from gangline.lifecycle.events import Event
from gangline.lifecycle.instructions import (
    FinishGang,
    ForgetJob,
    Instruction,
    RunGang,
    StopGang,
    standing,
)
from gangline.lifecycle.invariants import check_invariants
from gangline.lifecycle.outcome import NOTHING_TO_DO, Outcome
from gangline.lifecycle.submission import new_job
from gangline.lifecycle.timers import Timer, timers
from gangline.lifecycle.transitions import TRANSITIONS, advance

__all__ = [
    "NOTHING_TO_DO",
    "TRANSITIONS",
    "Event",
    "FinishGang",
    "ForgetJob",
    "Instruction",
    "Outcome",
    "RunGang",
    "StopGang",
    "Timer",
    "advance",
    "check_invariants",
    "new_job",
    "standing",
    "timers",
]
