"""What came of a simulation: waiting, completion, utilisation, fairness, evictions; as values and as text."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from gangline.model import ACTIVE_PHASES, WAITING_PHASES, Job, Node, Phase
from gangline.simulator.run import Outcome

LONG_WAIT_SECONDS = 15 * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run in numbers. Times are seconds; shares lie between 0 and 1.

    A wait ends with the first launch; completion counts from submission to the last exit. ``long_waits`` is the
    share of jobs that waited for more than 15 minutes. ``fairness`` is Jain's index of the mean slowdown per queue:
    1 when all queues are slowed down alike. ``mean_queue`` is how many jobs waited at a time, on average over the
    makespan, and ``longest_queue`` how many at most.
    """

    jobs: int
    completed: int
    mean_wait: float
    median_wait: float
    p99_wait: float
    long_waits: float
    mean_completion: float
    median_completion: float
    p99_completion: float
    makespan: float
    utilisation: float
    fairness: float
    evictions: int
    mean_queue: float
    longest_queue: int


def summarise(outcome: Outcome, nodes: Sequence[Node]) -> Summary:
    """Reduce a run to its numbers."""
    waits = waiting_times(outcome) or [0.0]
    done = [job for job in outcome.jobs if job.phase is Phase.COMPLETED]
    completions = completion_times(outcome) or [0.0]
    begun = min((job.created_at for job in outcome.jobs), default=outcome.ended_at)
    makespan = max((ended_at(job) for job in done), default=begun) - begun
    gpus = sum(node.capacity.gpus for node in nodes)
    queue = queue_lengths(outcome)
    return Summary(
        jobs=len(outcome.jobs),
        completed=len(done),
        mean_wait=statistics.fmean(waits),
        median_wait=statistics.median(waits),
        p99_wait=_percentile(waits, 0.99),
        long_waits=sum(wait > LONG_WAIT_SECONDS for wait in waits) / len(waits),
        mean_completion=statistics.fmean(completions),
        median_completion=statistics.median(completions),
        p99_completion=_percentile(completions, 0.99),
        makespan=makespan,
        utilisation=sum(map(gpu_seconds, outcome.jobs)) / (gpus * makespan) if gpus and makespan else 0.0,
        fairness=_fairness(done),
        evictions=sum(entry.phase is Phase.RESUMED for job in outcome.jobs for entry in job.history),
        mean_queue=sum(count * (end - at) for (at, count), (end, _) in pairwise(queue)) / makespan if makespan else 0.0,
        longest_queue=max((count for _, count in queue), default=0),
    )


def waiting_times(outcome: Outcome) -> list[float]:
    """How long each job that was launched had waited, shortest first."""
    return sorted(_wait(job) for job in outcome.jobs if job.started_at is not None)


def completion_times(outcome: Outcome) -> list[float]:
    """How long each completed job took from its submission on, shortest first."""
    return sorted(ended_at(job) - job.created_at for job in outcome.jobs if job.phase is Phase.COMPLETED)


def queue_lengths(outcome: Outcome) -> list[tuple[float, int]]:
    """How many jobs waited, from each moment on at which that changed; seconds since the first submission."""
    begun = min((job.created_at for job in outcome.jobs), default=outcome.ended_at)
    changes: Counter[float] = Counter()
    for job in outcome.jobs:
        ends = (*(entry.at for entry in job.history[1:]), outcome.ended_at)
        for entry, end in zip(job.history, ends, strict=True):
            if entry.phase in WAITING_PHASES:
                changes[entry.at - begun] += 1
                changes[end - begun] -= 1
    moments = sorted(at for at, change in changes.items() if change)
    return list(zip(moments, accumulate(changes[at] for at in moments), strict=True))


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[int(share * (len(ordered) - 1))]


def gpu_seconds(job: Job) -> float:
    """GPU time a finished job has held."""
    seconds = sum(
        following.at - entry.at
        for entry, following in zip(job.history, job.history[1:], strict=False)
        if entry.phase in ACTIVE_PHASES
    )
    return seconds * sum(role.resources.gpus * role.replicas for role in job.spec.roles)


def ended_at(job: Job) -> float:
    """When the work was done: the last replica's exit, before results were stored and machines freed."""
    exits = [status.finished_at for status in job.replicas if status.finished_at is not None]
    return max(exits, default=job.history[-1].at)


def _wait(job: Job) -> float:
    first = next(entry.at for entry in job.history if entry.phase in ACTIVE_PHASES)
    return first - job.created_at


def _fairness(jobs: Sequence[Job]) -> float:
    slowdowns: dict[str, list[float]] = defaultdict(list)
    for job in jobs:
        ran = max(
            sum(b.at - a.at for a, b in zip(job.history, job.history[1:], strict=False) if a.phase in ACTIVE_PHASES),
            1.0,
        )
        slowdowns[job.spec.queue].append((ended_at(job) - job.created_at) / ran)
    means = [statistics.fmean(values) for values in slowdowns.values()]
    squares = sum(mean * mean for mean in means)
    # Where nothing took any time, all were treated alike.
    return sum(means) ** 2 / (len(means) * squares) if squares else 1.0


COLUMNS: Mapping[str, str] = {
    "jobs": "{:d}",
    "completed": "{:d}",
    "mean_wait": "{:.0f} s",
    "median_wait": "{:.0f} s",
    "p99_wait": "{:.0f} s",
    "long_waits": "{:.1%}",
    "mean_completion": "{:.0f} s",
    "median_completion": "{:.0f} s",
    "p99_completion": "{:.0f} s",
    "makespan": "{:.0f} s",
    "utilisation": "{:.1%}",
    "fairness": "{:.3f}",
    "evictions": "{:d}",
    "mean_queue": "{:.1f}",
    "longest_queue": "{:d}",
}


def table(summaries: Mapping[str, Summary]) -> str:
    """Runs side by side, one column each."""
    lines = [["", *summaries]]
    for name, pattern in COLUMNS.items():
        lines.append([name.replace("_", " "), *(pattern.format(getattr(each, name)) for each in summaries.values())])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
