"""Asks the scheduler for its decision, and goes on without a waiting job on which it fails.

A job that nobody thought of must not keep everybody else waiting. It is found by halving, set aside and told so, and
looked at again when its record changes. Gangs that hold machines are never left out: their machines would look free.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from gangline.model import Job, JobId, Node, Queue, QueueName, Timestamp
from gangline.scheduling import Constraint, CycleMemory, Decision, Explanation, Policies, decide, take_snapshot
from gangline.scheduling.cycle_memory import PastUse

_log = logging.getLogger(__name__)

_Among = Callable[[Collection[Job]], Decision]


class Decider:
    """Decides cycle by cycle."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._memory = CycleMemory()
        self._aside: dict[JobId, Job] = {}

    def recall(self, usage: Mapping[QueueName, PastUse]) -> None:
        """Go on with what queues had used before."""
        self._memory = replace(self._memory, usage=usage)

    @property
    def usage(self) -> Mapping[QueueName, PastUse]:
        """What queues have used, by the last decision."""
        return self._memory.usage

    def decide(
        self, jobs: Collection[Job], *, nodes: Sequence[Node], queues: Sequence[Queue], now: Timestamp
    ) -> Decision:
        """Return what is to be done now; raises what the scheduler raises if no waiting job is to blame."""

        def among(chosen: Collection[Job]) -> Decision:
            snapshot = take_snapshot(nodes=nodes, jobs=chosen, queues=queues, now=now, memory=self._memory)
            return decide(snapshot, self._policies)

        if self._aside:
            self._aside = {job.id: job for job in jobs if self._aside.get(job.id) == job}
        decision = self._without_culprits(jobs, among)
        self._memory = decision.memory
        if not self._aside:
            return decision
        why = Explanation(constraint=Constraint.DEFECT)
        return replace(decision, explanations={**decision.explanations, **dict.fromkeys(self._aside, why)})

    def _without_culprits(self, jobs: Collection[Job], among: _Among) -> Decision:
        sound = [job for job in jobs if job.id not in self._aside] if self._aside else jobs
        try:
            return among(sound)
        except Exception:
            # What is kept to be reused may have been left half changed.
            self._memory = replace(self._memory, holdings=None, needs=None)
            holding = [job for job in sound if job.holding]
            waiting = [job for job in sound if not job.holding]
            culprits = _culprits(holding, waiting, among) if _works(holding, among) else []
            if not culprits:
                raise
            names = ", ".join(sorted(job.name for job in culprits))
            _log.exception("the scheduler fails on %s, which must wait; the others go on", names)
        self._aside |= {job.id: job for job in culprits}
        return among([job for job in sound if job.id not in self._aside])


def _culprits(holding: Sequence[Job], waiting: Sequence[Job], among: _Among) -> list[Job]:
    """Find the waiting jobs on which the scheduler fails though nothing waits but they and their half."""
    if _works([*holding, *waiting], among):
        return []
    if len(waiting) == 1:
        return list(waiting)
    middle = len(waiting) // 2
    return [*_culprits(holding, waiting[:middle], among), *_culprits(holding, waiting[middle:], among)]


def _works(jobs: Sequence[Job], among: _Among) -> bool:
    try:
        among(jobs)
    except Exception:  # noqa: BLE001  # whatever it is, the question is only whether it is
        return False
    return True
