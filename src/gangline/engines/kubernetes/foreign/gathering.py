"""Which pods make a gang: the rule that PodGroups are kept by. Pure.

A group needs ``least`` pods at once. Those of them that have a node count; what is missing to ``least`` must start
together. Every pod beyond that is a gang of its own and competes on its own: so is one that its owner made anew while
the others run, and so is a pod that names no group.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gangline.engines.kubernetes.foreign.groups import Group, task_of
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod, is_bound, waits

_LONG_AGO = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The group waits for its own pods; ``message`` says for how many."""

    message: str


def gather(
    group: Group | None, pods: Sequence[WatchedPod], recorded: Collection[str]
) -> list[tuple[WatchedPod, ...]] | Incomplete:
    """Divide the waiting pods of one group into gangs.

    ``recorded`` are the uids that have a record already; while such a pod waits, the group's fate is being decided and
    nothing is added to it.
    """
    waiting = sorted((pod for pod in pods if waits(pod)), key=_age)
    fresh = [pod for pod in waiting if pod.metadata.uid not in recorded]
    if group is None:
        return [(pod,) for pod in fresh]
    placed = [pod for pod in pods if is_bound(pod) and pod.status.phase != "Failed"]
    gang = _missing(group, placed, waiting)
    if isinstance(gang, Incomplete):
        return gang
    if not gang:
        return [(pod,) for pod in fresh]
    return [] if len(fresh) < len(waiting) else [tuple(gang)]


def _missing(
    group: Group, placed: Sequence[WatchedPod], waiting: Sequence[WatchedPod]
) -> list[WatchedPod] | Incomplete:
    """Return the pods that must start together for the group to have what it needs; none if it has it."""
    there = Counter(task_of(pod) for pod in placed)
    chosen: list[WatchedPod] = []
    for task, least in group.least_of_task.items():
        lacking = max(0, least - there[task])
        found = [pod for pod in waiting if task_of(pod) == task][:lacking]
        if len(found) < lacking:
            return Incomplete(f"{there[task] + len(found)} of the {least} '{task}' pods that {group.name} needs exist")
        chosen += found
    lacking = max(0, group.least - len(placed) - len(chosen))
    rest = [pod for pod in waiting if all(pod is not each for each in chosen)][:lacking]
    if len(rest) < lacking:
        present = len(placed) + len(waiting)
        return Incomplete(f"{present} of the {group.least} pods that {group.name} needs exist")
    return sorted([*chosen, *rest], key=_age)


def _age(pod: WatchedPod) -> tuple[datetime, str]:
    return pod.metadata.creation_timestamp or _LONG_AGO, pod.metadata.name
