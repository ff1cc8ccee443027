"""What a pod's state means to its gang. Pure: the same pod gives the same news, which is how news is repeated."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from gangline.dialects.kubeflow.status import JOB_NAME_LABEL
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.pod import DEFAULT_CONTAINER, MAIN_CONTAINER
from gangline.engines.kubernetes.refusals import HOPELESS_WAITS, Refusal, is_node_refusal
from gangline.engines.kubernetes.staging import INPUTS_CONTAINER, OUTPUTS_CONTAINER
from gangline.kube import Pod
from gangline.kube.objects import Condition, ContainerState, ContainerStatus, ContainerTerminated
from gangline.lifecycle.events import (
    DownloadStarted,
    GangEvent,
    GangFailed,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
)
from gangline.model import Timestamp
from gangline.runtime.moving import PERMANENT_FAILURE

COMMAND_NOT_FOUND = 127
COMMAND_NOT_RUNNABLE = 126
_TAKEN_AWAY = frozenset(
    {"Evicted", "NodeLost", "Shutdown", "NodeShutdown", "Terminated", "Preempting", "DeadlineExceeded"}
)
"""Why a kubelet ended a pod that did nothing wrong."""
_LONGEST_WORDS = 500
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
"""What moves or colours a terminal."""
_START_FAILURES = frozenset({"StartError", "ContainerCannotRun"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What must be known besides the pod itself."""

    now: Timestamp
    ordered_away: bool = False
    """Whether we asked for its deletion."""
    gone: bool = False
    """Whether the object is no longer there."""
    node_lost: bool = False
    node_open: bool = True
    """Whether its node is well and takes new pods."""


def pod_news(key: ReplicaKey, pod: Pod, around: Circumstances) -> Iterator[GangEvent]:
    """Return all that this state says of the replica and its gang; callers leave out what they have told before."""
    state = main_state(pod)
    if (moment := _download_began(pod)) is not None:
        job_id, attempt = key.gang_id
        yield DownloadStarted(job_id=job_id, at=_at(moment, around.now), attempt=attempt)
    if state.running is not None:
        yield _started(key, state.running.started_at, around)
    elif state.terminated is not None and state.terminated.started_at is not None and not _never_ran(state.terminated):
        yield _started(key, state.terminated.started_at, around)
    if (loss := _loss(pod, state, around)) is not None:
        yield replica_lost(key, loss, at=around.now, in_place=_may_return(pod, around))
    elif state.terminated is not None:
        if around.gone or around.node_lost or not _is_phase_behind(pod):
            yield _exited(key, pod, state.terminated, around)
    elif (failure := _hopeless(pod)) is not None and not around.ordered_away:
        yield GangFailed(
            job_id=key.gang_id.job_id,
            at=around.now,
            attempt=key.gang_id.attempt,
            reason=failure.reason,
            message=f"{key.replica}: {failure.message}",
            permanent=failure.permanent,
        )


def _is_phase_behind(pod: Pod) -> bool:
    """Whether clients of Kubeflow would still believe that a pod has not begun although all of it has ended.

    A kubelet tells the end of a short program first and the phase that follows from it moments later. Clients that
    waited for the job's end skip pods that are Pending when they read logs, so that job has not ended yet.
    """
    return (
        pod.status.phase == "Pending"
        and JOB_NAME_LABEL in pod.metadata.labels
        and pod.metadata.deletion_timestamp is None
        and all(container.state.terminated is not None for container in pod.status.container_statuses)
    )


def refused_by_node(pod: Pod) -> bool:
    """Whether the kubelet turned the pod away because its place was taken meanwhile."""
    return pod.status.phase == "Failed" and is_node_refusal(pod.status.reason)


def main_container_name(pod: Pod) -> str:
    """The container that trains."""
    return pod.metadata.annotations.get(DEFAULT_CONTAINER, MAIN_CONTAINER)


def main_state(pod: Pod) -> ContainerState:
    """How the container that trains is."""
    return _state_of(main_container_name(pod), pod.status.container_statuses)


def _loss(pod: Pod, state: ContainerState, around: Circumstances) -> str | None:
    """Why the replica is gone through no fault of its own; None if it is not."""
    if pod.status.phase == "Failed" and is_node_refusal(pod.status.reason):
        return f"{pod.spec.node_name} refused it: {pod.status.message or pod.status.reason}"
    if pod.status.phase == "Failed" and pod.status.reason in _TAKEN_AWAY:
        return f"{pod.status.reason} on {pod.spec.node_name}: {pod.status.message}"
    if around.ordered_away:
        return None
    if pod.metadata.deletion_timestamp is not None:
        return None if _ended_before_deletion(pod, state) else _deletion_reason(pod)
    if state.terminated is not None:
        return None
    if around.gone:
        return "its pod is gone"
    if around.node_lost:
        return f"node {pod.spec.node_name} does not answer"
    return None


def _may_return(pod: Pod, around: Circumstances) -> bool:
    """Whether a replica whose pod somebody deleted may be started again where it was: nobody else is to have it."""
    disruption = _disruption(pod)
    asked = disruption is None or disruption.reason == "EvictionByEvictionAPI"
    return around.node_open and not around.node_lost and not pod.status.reason and asked


def _ended_before_deletion(pod: Pod, state: ContainerState) -> bool:
    """Whether the program had ended by itself when the deletion was asked for (the stamp is when it will be forced)."""
    deletion, grace = pod.metadata.deletion_timestamp, pod.spec.termination_grace_period_seconds or 0
    if state.terminated is None or state.terminated.finished_at is None or deletion is None:
        return False
    return (deletion - state.terminated.finished_at).total_seconds() > grace


def _deletion_reason(pod: Pod) -> str:
    disruption = _disruption(pod)
    if disruption is not None:
        return f"{disruption.reason}: {disruption.message}"
    return "its pod was deleted by somebody else"


def _disruption(pod: Pod) -> Condition | None:
    return next((item for item in pod.status.conditions if item.type == "DisruptionTarget"), None)


def _download_began(pod: Pod) -> datetime | None:
    """When the pod began to fetch its inputs; None if it did not."""
    state = _state_of(INPUTS_CONTAINER, pod.status.init_container_statuses)
    ran = state.running or state.terminated
    return ran.started_at if ran is not None else None


def stored(pod: Pod) -> Refusal | str:
    """What became of the outputs that the pod was told to store: a refusal, or what was left out of them."""
    ended = _state_of(OUTPUTS_CONTAINER, pod.status.container_statuses).terminated
    if ended is None:
        return ""
    return _move_failure("OutputsFailed", ended) if ended.exit_code else last_words(ended)


def is_storing(pod: Pod) -> bool:
    """Whether the pod has not yet said what became of its outputs."""
    return _state_of(OUTPUTS_CONTAINER, pod.status.container_statuses).terminated is None


def _state_of(name: str, statuses: Iterable[ContainerStatus]) -> ContainerState:
    return next((status.state for status in statuses if status.name == name), ContainerState())


def _move_failure(reason: str, ended: ContainerTerminated) -> Refusal:
    message = last_words(ended) or f"{ended.reason}, exit code {ended.exit_code}"
    return Refusal(reason=reason, message=message, permanent=ended.exit_code == PERMANENT_FAILURE)


def _hopeless(pod: Pod) -> Refusal | None:
    """Why the pod will not start by itself."""
    restarted = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
    for status in pod.status.init_container_statuses:
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0 or status.name in restarted:
            continue  # a sidecar that ended is started again by its kubelet
        if status.name == INPUTS_CONTAINER:
            return _move_failure("InputsFailed", ended)
        words = last_words(ended)
        message = f"{status.name} exited with {ended.exit_code}" + (f": {words}" if words else "")
        return Refusal(reason="InitContainerFailed", message=message, permanent=False)
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if (reason := _hopeless_wait(status)) is not None:
            return reason
    return None


def _hopeless_wait(status: ContainerStatus) -> Refusal | None:
    waiting = status.state.waiting
    if waiting is None or waiting.reason not in HOPELESS_WAITS:
        return None
    message = f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
    return Refusal(reason=HOPELESS_WAITS[waiting.reason], message=message, permanent=False)


def _never_ran(ended: ContainerTerminated) -> bool:
    return ended.reason in _START_FAILURES


def last_words(ended: ContainerTerminated) -> str:
    """The last line that a program left behind, fit for a table: its kubelet tells the last 80, whatever is in them."""
    lines = [line.strip() for line in _ESCAPES.sub("", ended.message).splitlines()]
    last = next((line for line in reversed(lines) if line), "")[-_LONGEST_WORDS:]
    return "".join(sign if sign.isprintable() else " " for sign in last)


def exit_of(pod: Pod, ended: ContainerTerminated) -> tuple[int, str]:
    """The exit code as a shell would report it, and what is known beyond it."""
    message = last_words(ended)
    if _never_ran(ended):
        code = COMMAND_NOT_FOUND if _is_missing(message) else COMMAND_NOT_RUNNABLE
        return code, f"the command cannot be run: {message}"
    if ended.reason == "OOMKilled":
        limit = _memory_limit(pod)
        return ended.exit_code, "out of memory" + (f": it used more than its {limit}" if limit else "")
    code = 128 + ended.signal if ended.signal and not ended.exit_code else ended.exit_code
    return code, message


def _is_missing(message: str) -> bool:
    return "executable file not found" in message or "no such file or directory" in message


def _memory_limit(pod: Pod) -> str:
    name = main_container_name(pod)
    limits = [container.resources.limits for container in pod.spec.containers if container.name == name]
    return limits[0].get("memory", "") if limits else ""


def _at(moment: datetime | None, now: Timestamp) -> Timestamp:
    """When something happened by its node's clock; one that is ahead must not make a back-off or a deadline longer."""
    return Timestamp(min(moment.timestamp(), now)) if moment is not None else now


def _started(key: ReplicaKey, moment: datetime | None, around: Circumstances) -> ReplicaStarted:
    return ReplicaStarted(
        job_id=key.gang_id.job_id,
        at=_at(moment, around.now),
        attempt=key.gang_id.attempt,
        replica=key.replica,
        incarnation=key.incarnation,
    )


def _exited(key: ReplicaKey, pod: Pod, ended: ContainerTerminated, around: Circumstances) -> ReplicaExited:
    code, message = exit_of(pod, ended)
    return ReplicaExited(
        job_id=key.gang_id.job_id,
        at=_at(ended.finished_at, around.now),
        attempt=key.gang_id.attempt,
        replica=key.replica,
        incarnation=key.incarnation,
        exit_code=code,
        message=message if code else "",
    )


def replica_lost(key: ReplicaKey, message: str, *, at: Timestamp, in_place: bool = False) -> ReplicaLost:
    """Write the news that a replica's pod is gone, or as good as gone."""
    return ReplicaLost(
        job_id=key.gang_id.job_id,
        at=at,
        attempt=key.gang_id.attempt,
        replica=key.replica,
        incarnation=key.incarnation,
        message=message,
        in_place=in_place,
    )
