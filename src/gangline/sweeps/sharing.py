"""How a sweep shares its queue: while others wait there, it holds no more than its share, and the rest of it rests."""

from collections.abc import Sequence
from dataclasses import dataclass

from gangline.model import JobId, JobSpec, Phase, Resources
from gangline.model.kinds.queue import QueueLoad
from gangline.model.kinds.sweep import Sweep
from gangline.sweeps.trials import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Which trials rest so that others get their machines, and how many more may begin (None: no limit).

    ``yielded`` is kept before anything is halted: whoever finds a trial halted must know that it is to go on.
    """

    yielded: tuple[int, ...] = ()
    halt: tuple[JobId, ...] = ()
    resume: tuple[JobId, ...] = ()
    room: int | None = None


def share(sweep: Sweep, active: Sequence[Trial], load: QueueLoad | None, room: int) -> Sharing:
    """Decide who gives way. ``active`` are trials that run, wait or gave way; ``room`` is for how many more."""
    before = set(sweep.status.yielded)
    resting = [trial for trial in active if trial.number in before and trial.job.phase is Phase.HALTED]
    holding = [trial.number for trial in active if trial.job.holding]
    limit = allowed(sweep, len(holding), load)
    if limit is None:
        limit = len(active) - len(resting) + room
    elif resting:
        # What was given up may not have been taken yet, and seems to be nobody's: it is no reason to give up more.
        limit = max(limit, len(set(holding) - before))
    kept = {trial.number for trial in active[:limit]}
    yielded = [
        trial.number
        for trial in active
        if trial.number not in kept or (trial.number in before and trial.job.phase in (Phase.HALTED, Phase.HALTING))
    ]
    if not yielded and load is None:
        return Sharing()
    return Sharing(
        yielded=tuple(yielded),
        halt=tuple(
            trial.job.id
            for trial in active
            if trial.number in before - kept and trial.job.phase not in (Phase.HALTED, Phase.HALTING)
        ),
        resume=tuple(trial.job.id for trial in resting if trial.number in kept),
        room=max(0, limit - len(active)),
    )


def allowed(sweep: Sweep, holding: int, load: QueueLoad | None) -> int | None:
    """Return how many trials may have machines while others wait; at least one, and no limit if nobody waits."""
    if sweep.spec.share is None or load is None or not load.waiting:
        return None
    own, others = demand(sweep.spec.template).amounts(), load.used.amounts()
    fractions = [
        sweep.spec.share * (holding * amount + others.get(name, 0)) / amount for name, amount in own.items() if amount
    ]
    return max(1, int(min(fractions, default=1.0)))


def demand(spec: JobSpec) -> Resources:
    """Return what a whole gang asks for."""
    return sum((role.resources * role.replicas for role in spec.roles), Resources())
