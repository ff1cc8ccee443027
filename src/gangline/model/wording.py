"""Numbers, times and jobs as people write them; what the command line prints and the dashboard shows alike."""

from collections import Counter

from gangline.model.clock import Timestamp
from gangline.model.explanation import amount_text
from gangline.model.jobs.job import Job, ReplicaState
from gangline.model.jobs.phase import Phase
from gangline.model.jobs.transfer import TransferProgress
from gangline.model.resources import NamedAmounts, Resources

_UNITS = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))
_ALIVE = frozenset({ReplicaState.RUNNING, ReplicaState.SUCCEEDED})


def counted(number: int, noun: str) -> str:
    """Write a count of something: '1 job', '2 jobs'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """Write a duration with its two largest units: 45s, 3m 20s, 2h 5m, 4d 3h."""
    rest = max(0.0, seconds)
    if rest < 10:
        return f"{rest:.1f}s".replace(".0s", "s")
    parts = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count:.0f}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def ago(at: Timestamp | None, now: Timestamp) -> str:
    """Write a time as people speak of it; clocks that differ a little do not lead into the future."""
    if at is None:
        return "-"
    elapsed = now - at
    if elapsed < 1:
        return "now"
    for unit, size in _UNITS:
        if elapsed >= 2 * size or unit == "s":
            return f"{elapsed // size:.0f}{unit} ago"
    return "now"


def cpu(millis: int) -> str:
    """Write CPUs."""
    return f"{millis / 1000:.2f}".rstrip("0").rstrip(".")


def memory(mib: int) -> str:
    """Write an amount of memory."""
    return f"{mib / 1024:.1f} GiB".replace(".0 ", " ") if mib >= 1024 else f"{mib} MiB"


def amount(resources: Resources) -> str:
    """Write what a replica needs or a node has."""
    parts = [f"{cpu(resources.cpu_millis)} CPU"]
    if resources.memory_mib:
        parts.append(memory(resources.memory_mib))
    if resources.gpu_millis:
        parts.append(f"{resources.gpus:g} GPU")
    if resources.gpu_memory_mib:
        parts.append(f"{resources.gpu_memory_mib} MiB GPU memory")
    parts += [amount_text(name, count) for name, count in resources.extended.items()]
    return ", ".join(parts)


def named_amounts(named: NamedAmounts) -> str:
    """Write amounts of which only those count that are named."""
    return ", ".join(amount_text(name, count) for name, count in named.amounts.items()) or "none"


def number(value: float) -> str:
    """Write a metric."""
    return f"{value:.6g}"


def size(count: float) -> str:
    """Write a number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def replicas_text(job: Job) -> str:
    """Write how many replicas are alive (or done) of how many there should be."""
    scale = dict(job.scale)
    wanted = len(job.replicas) or sum(scale.get(role.name, role.replicas) for role in job.spec.roles)
    counts = job.holding or job.finished
    return f"{sum(1 for status in job.replicas if counts and status.state in _ALIVE)}/{wanted}"


def ran_text(job: Job, now: Timestamp) -> str:
    """Write how long the job has run or ran."""
    if job.started_at is None:
        return "-"
    return duration((job.finished_at or now) - job.started_at)


def reason_text(job: Job) -> str:
    """Write why the job is where it is; while its data moves, how far that is; of one that runs, what was noticed."""
    if job.phase is Phase.PROCESSING and (noticed := _noticed(job)):
        return noticed
    message = job.message if job.transfer is None else transfer_text(job.transfer)
    return f"{job.reason}: {message}" if message else job.reason


def _noticed(job: Job) -> str:
    """Write which running replicas have stalled or fall behind, the first of them in full."""
    found = [each for each in job.replicas if each.state is ReplicaState.RUNNING and each.message]
    if not found:
        return ""
    others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{found[0].id} {found[0].message}{others}"


def transfer_text(progress: TransferProgress) -> str:
    """Write how far data is: bytes, rate and time left."""
    which = f"{progress.move}/{progress.moves}: " if progress.moves > 1 else ""
    moved, total, rate = map(size, (progress.moved_bytes, progress.total_bytes, progress.bytes_per_second))
    left = progress.seconds_left
    rest = "" if left is None else f", {duration(left)} left"
    return f"{which}{moved} of {total}, {rate}/s{rest}"


def state_counts(job: Job) -> dict[str, str]:
    """Write, by role, how many replicas are in which state."""
    counted = {role.name: Counter[str]() for role in job.spec.roles}
    for status in job.replicas:
        counted.setdefault(status.id.role, Counter())[status.state.value] += 1
    return {
        role: ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "not started"
        for role, counts in counted.items()
    }
