"""What a PodGroup's status says, in the words of whoever defined it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gangline.engines.kubernetes.foreign.groups import Group, GroupKind
from gangline.engines.kubernetes.watch.watched_pods import WatchedPod, is_bound, moment_text
from gangline.model import Timestamp

_SCHEDULED = "PodGroupScheduled"


def status_of(group: Group, pods: Sequence[WatchedPod], *, recorded: bool, now: Timestamp) -> dict[str, Any]:
    """Write the part of the status that a scheduler answers for; empty where there is none.

    ``recorded`` says that the group has all its pods and waits for machines.
    """
    phases = [pod.status.phase for pod in pods if is_bound(pod)]
    counts = {name: phases.count(name.capitalize()) for name in ("running", "succeeded", "failed")}
    bound = len(phases) - counts["failed"]
    match group.name.kind:
        case GroupKind.VOLCANO:
            return {"phase": _volcano_phase(group, counts, recorded=recorded), **counts}
        case GroupKind.PLUGINS:
            phase = _plugins_phase(group, counts, bound, recorded=recorded)
            return {"phase": phase, "scheduled": bound, **counts}
        case GroupKind.NATIVE:
            return {"conditions": [_condition(now, scheduled=bound >= group.least)]}
        case GroupKind.WORKLOAD:
            return {}


def differs(status: Mapping[str, Any], present: Mapping[str, Any]) -> bool:
    """Whether writing it would change anything; counts that are not there are none."""
    return any(_plain(value) != _plain(present.get(name) or type(value)()) for name, value in status.items())


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [{name: item.get(name) for name in ("type", "status")} for item in value]
    return value


def _volcano_phase(group: Group, counts: Mapping[str, int], *, recorded: bool) -> str:
    if counts["succeeded"] >= group.least:
        return "Completed"
    if counts["running"] + counts["succeeded"] >= group.least:
        return "Running"
    return "Inqueue" if recorded or counts["running"] else "Pending"


def _plugins_phase(group: Group, counts: Mapping[str, int], bound: int, *, recorded: bool) -> str:
    if counts["succeeded"] >= group.least:
        return "Finished"
    if counts["running"] + counts["succeeded"] >= group.least:
        return "Running"
    if bound >= group.least:
        return "Scheduled"
    return "Scheduling" if recorded or bound else "Pending"


def _condition(now: Timestamp, *, scheduled: bool) -> dict[str, Any]:
    return {
        "type": _SCHEDULED,
        "status": "True" if scheduled else "False",
        "reason": "Scheduled" if scheduled else "Unschedulable",
        "message": "",
        "lastTransitionTime": moment_text(now),
    }
