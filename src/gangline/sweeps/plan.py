"""What should happen to a sweep now: which trials begin, which are cancelled, whether it is over."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gangline.errors import InvalidInputError
from gangline.model import JobId, Phase, Timestamp
from gangline.model.kinds.queue import QueueLoad
from gangline.model.kinds.sweep import Assignment, Copy, End, EndReason, Sweep
from gangline.model.search.search_space import completed
from gangline.model.search.stopping import Mark
from gangline.sweeps.ending import ended, next_look
from gangline.sweeps.past import Past, joined
from gangline.sweeps.population import copy_to_assignment
from gangline.sweeps.samplers import Outcome, Search, Tried, sampler_named
from gangline.sweeps.sharing import Sharing, share
from gangline.sweeps.stopping import Curve, furthest, judge, passed
from gangline.sweeps.trials import Trial, is_stopped, stopped_numbers, tried

MOST_WAITING = 100
"""How many trials of a sweep wait for machines at a time: enough to fill what becomes free, and nobody who submits
after a sweep of thousands waits behind all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do next. ``begun`` counts all trials so far; ``over``: nothing runs and nothing is left to try."""

    begun: int
    added_begun: int = 0
    start: tuple[Assignment, ...] = ()
    cancel: tuple[JobId, ...] = ()
    halt: tuple[JobId, ...] = ()
    resume: tuple[JobId, ...] = ()
    marks: tuple[Mark, ...] = ()
    pruned: tuple[int, ...] = ()
    yielded: tuple[int, ...] = ()
    over: bool = False
    end: End | None = None
    again_at: Timestamp | None = None


def plan(
    sweep: Sweep,
    trials: Sequence[Trial],
    now: Timestamp,
    curves: Mapping[int, Curve] | None = None,
    load: QueueLoad | None = None,
    *,
    past: Past | None = None,
) -> Plan:
    """Decide what the sweep needs now. Calling it again after its plan was carried out finds nothing more to do.

    ``trials`` are sorted by number. There may be thousands that have ended: those are in the ``past``.
    """
    status, past = sweep.status, past or Past()
    unfinished = [trial for trial in trials if trial.tried is None and not trial.ended]
    begun = max(status.begun, past.begun, trials[-1].number + 1 if trials else 0)
    noted = (trial.added + 1 for trial in trials if trial.added is not None) if status.added else ()
    added = max(status.added_begun, past.added, *noted)
    so_far = Plan(begun=begun, added_begun=added, marks=status.marks, pruned=status.pruned)
    end = status.end or (None if status.stopped else ended(sweep, trials, now, past))
    if end is not None or status.stopped:
        return replace(so_far, cancel=tuple(trial.job.id for trial in unfinished), over=not unfinished, end=end)
    stopped = stopped_numbers(sweep)
    active = [each for each in unfinished if each.job.phase is not Phase.HALTED or not is_stopped(each, stopped)]
    free = _room(sweep, [each for each in active if each.number not in status.yielded])
    shared = share(sweep, active, load, free)
    free = free if shared.room is None else min(free, shared.room)
    everybody = sorted([*past.members, *trials], key=lambda trial: trial.number) if past.members else trials
    judged = judge(sweep, everybody, curves or {}, free)
    resume = tuple(each for each in judged.resume if not _gives_way(each, shared, unfinished))
    fresh = set(resume) - {trial.job.id for trial in active}
    room = max(0, free - len(fresh))
    copied = _copies(sweep, judged.copies[:room], begun, everybody)
    wanted = _wanted(sweep, begun, added, room)
    found = [trial.tried or tried(sweep, trial, stopped) for trial in trials]
    search = _search(sweep, past, found, (*copied, *wanted), added=added + len(wanted), begun=begun)
    proposed, end = _proposed(search, room - len(wanted) - len(copied))
    start = (*copied, *wanted, *proposed)
    if end is not None and (active or start or resume):
        end = None  # what runs may still change what there is to say
    marks = judged.marks
    if end is not None and not past.completed and not any(trial.job.phase is Phase.COMPLETED for trial in trials):
        best = furthest(marks)
        if best is not None:
            # Nothing was run to its end: the best does, so that there is a result.
            marks, end = passed(marks, {(best.trial, best.step)}), None
    return Plan(
        begun=begun + len(start),
        added_begun=added + len(wanted),
        start=start,
        cancel=judged.cancel,
        halt=(*judged.halt, *shared.halt),
        resume=(*resume, *shared.resume),
        marks=marks,
        pruned=judged.pruned,
        yielded=shared.yielded,
        over=end is not None and not unfinished,
        end=end,
        again_at=next_look(sweep, trials, [trial.job for trial in unfinished], now, past),
    )


def _gives_way(job_id: JobId, shared: Sharing, unfinished: Sequence[Trial]) -> bool:
    return any(trial.job.id == job_id and trial.number in shared.yielded for trial in unfinished)


def _room(sweep: Sweep, running: Sequence[Trial]) -> int:
    """How many more trials may begin."""
    room = MOST_WAITING - sum(1 for trial in running if trial.job.placeable)
    if sweep.spec.parallelism is not None:
        room = min(room, sweep.spec.parallelism - len(running))
    return max(0, room)


def _wanted(sweep: Sweep, begun: int, added: int, room: int) -> tuple[Assignment, ...]:
    """Return what was added by hand and can begin."""
    pending = sweep.status.added[added : added + room]
    return tuple(
        Assignment(number=begun + index, values=completed(sweep.spec.parameters, each.values), added=added + index)
        for index, each in enumerate(pending)
    )


def _copies(sweep: Sweep, copies: Sequence[Copy], begun: int, trials: Sequence[Trial]) -> tuple[Assignment, ...]:
    """Return the trials that begin with a copy of another's checkpoint."""
    found = list[Assignment]()
    for copy in copies:
        made = copy_to_assignment(sweep.spec, seed_of(sweep), copy, begun + len(found), trials)
        found += [] if made is None else [made]
    return tuple(found)


def _proposed(search: Search, room: int) -> tuple[tuple[Assignment, ...], End | None]:
    """Return what the sampler would try now, or why nothing is left to try."""
    spec, limit = search.spec, search.spec.budget.trials
    if limit is not None and search.proposed >= limit:
        return (), End(reason=EndReason.TRIALS_USED, message=f"all {limit} trials of its budget were tried")
    if limit is not None:
        room = min(room, limit - search.proposed)
    if room <= 0:
        return (), None  # a sampler that learns is asked as late as possible
    try:
        found = sampler_named(spec.sampler).propose(search, room)
    except InvalidInputError as error:
        return (), End(reason=EndReason.SAMPLER_FAILED, message=str(error))
    except Exception as error:  # noqa: BLE001  # somebody else's code: the sweep ends with its reason and never hangs
        message = f"the sampler {spec.sampler} failed: {type(error).__name__}: {error}"
        return (), End(reason=EndReason.SAMPLER_FAILED, message=message)
    if not found:
        return (), End(reason=EndReason.EXHAUSTED, message="everything was tried")
    numbered = enumerate(found[:room], len(search.tried))
    return tuple(Assignment(number=number, values=values) for number, values in numbered), None


def seed_of(sweep: Sweep) -> int:
    """Return what makes the search repeatable."""
    return sweep.spec.seed if sweep.spec.seed is not None else zlib.crc32(sweep.id.encode())


def _search(
    sweep: Sweep, past: Past, found: Sequence[Tried], others: Sequence[Assignment], *, added: int, begun: int
) -> Search:
    """Return everything the sampler may know: what others chose, and that there were trials whose jobs are gone."""
    begun += len(others)
    chosen = (Tried(number=each.number, values=each.values, outcome=Outcome.RUNNING, proposed=False) for each in others)
    every: Sequence[Tried] = (*joined(past, found), *chosen)
    proposed = past.proposed + sum(each.proposed for each in found)
    if len(every) < begun:
        known = {each.number: each for each in every}
        lost = added - sum(not each.proposed for each in every)  # added by hand, and their jobs are gone
        for index, number in enumerate([number for number in range(begun) if number not in known]):
            known[number] = Tried(number=number, values={}, outcome=Outcome.FAILED, proposed=index >= lost)
        every = tuple(known[number] for number in range(begun))
        proposed = sum(each.proposed for each in every)
    return Search(id=sweep.id, spec=sweep.spec, seed=seed_of(sweep), tried=tuple(every), proposed=proposed)
