"""What a pod's state means to its gang. Pure: the same pod gives the same news, which is how news is repeated."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from gangline.data.moving import PERMANENT_FAILURE
from gangline.data.pod_mover import Registration, heard
from gangline.dialects.kubeflow.status import JOB_NAME_LABEL
from gangline.engines.kubernetes.manifests.pod import DEFAULT_CONTAINER, MAIN_CONTAINER
from gangline.engines.kubernetes.manifests.staging import INPUTS_CONTAINER, OUTPUTS_CONTAINER
from gangline.engines.kubernetes.names import ReplicaKey
from gangline.engines.kubernetes.refusals import HOPELESS_WAITS, Refusal, is_node_refusal
from gangline.engines.transfer_report import read_report
from gangline.kube import Pod
from gangline.kube.objects import Condition, ContainerState, ContainerStatus, ContainerTerminated
from gangline.lifecycle.events import (
    DownloadStarted,
    GangEvent,
    GangFailed,
    ReplicaExited,
    ReplicaLost,
    ReplicaStarted,
    TransferReported,
)
from gangline.model import Timestamp

COMMAND_NOT_FOUND = 127
COMMAND_NOT_RUNNABLE = 126
_TAKEN_AWAY = frozenset(
    {"Evicted", "NodeLost", "Shutdown", "NodeShutdown", "Terminated", "Preempting", "DeadlineExceeded"}
)
"""Why a kubelet ended a pod that did nothing wrong."""
_LONGEST_WORDS = 500
_TRACEBACK = "Traceback (most recent call last):"
_ROUTINE = re.compile(r"\b(?:DEBUG|INFO)\b")
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|.)")
"""What moves or colours a terminal."""
_START_FAILURES = frozenset({"StartError", "ContainerCannotRun"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """What must be known besides the pod itself."""

    now: Timestamp
    ordered_away: bool = False
    """Whether we asked for its deletion."""
    gone: bool = False
    """Whether the object is no longer there."""
    node_lost: bool = False
    node_open: bool = True
    """Whether its node is well and takes new pods."""


def pod_events(key: ReplicaKey, pod: Pod, around: PodContext) -> Iterator[GangEvent]:
    """Return all that this state says of the replica and its gang; callers leave out what they have told before."""
    state = main_state(pod)
    if (moment := _download_began(pod)) is not None:
        job_id, attempt = key.gang_id
        yield DownloadStarted(job_id=job_id, at=_at(moment, around.now), attempt=attempt)
        if (report := _fetched(key, pod, around)) is not None:
            yield report
    if state.running is not None:
        yield _started(key, pod, state.running.started_at, around)
    elif state.terminated is not None and state.terminated.started_at is not None and not _never_ran(state.terminated):
        yield _started(key, pod, state.terminated.started_at, around)
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


def _loss(pod: Pod, state: ContainerState, around: PodContext) -> str | None:
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


def _may_return(pod: Pod, around: PodContext) -> bool:
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


def _fetched(key: ReplicaKey, pod: Pod, around: PodContext) -> TransferReported | None:
    """What a mover that has succeeded says of the inputs."""
    ended = _state_of(INPUTS_CONTAINER, pod.status.init_container_statuses).terminated
    if ended is None or ended.exit_code:
        return None
    return read_report(heard(ended.message).report, key.gang_id, _at(ended.finished_at, around.now))


class Stored(NamedTuple):
    """What a mover says of outputs that it has stored: what was left out, the models they have become, a report."""

    note: str
    models: Mapping[int, Registration]
    report: str = ""


def stored(pod: Pod) -> Refusal | Stored:
    """What became of the outputs that the pod was told to store."""
    ended = _state_of(OUTPUTS_CONTAINER, pod.status.container_statuses).terminated
    if ended is None:
        return Stored("", {})
    if ended.exit_code:
        return _move_failure("OutputsFailed", ended)
    note, models, report = heard(ended.message)
    return Stored(_failure_line(note), models, report)


def is_storing(pod: Pod) -> bool:
    """Whether the pod has not yet said what became of its outputs."""
    return _state_of(OUTPUTS_CONTAINER, pod.status.container_statuses).terminated is None


def _state_of(name: str, statuses: Iterable[ContainerStatus]) -> ContainerState:
    return next((status.state for status in statuses if status.name == name), ContainerState())


def _move_failure(reason: str, ended: ContainerTerminated) -> Refusal:
    message = termination_message(ended) or f"{ended.reason}, exit code {ended.exit_code}"
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
        words = termination_message(ended)
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


def termination_message(ended: ContainerTerminated) -> str:
    """The reason that a program left behind, fit for a table; its kubelet tells the last 80 lines."""
    return _failure_line(ended.message)


def _failure_line(text: str) -> str:
    """Return the exception of the last traceback, else the last line that may say why a program ended.

    The keepers of the local engine have the same rule.
    """
    lines = _ESCAPES.sub("", text).splitlines()
    said = _raised(lines) or next((line for line in reversed(lines) if _is_telling(line.strip())), "")
    return "".join(sign if sign.isprintable() else " " for sign in said).strip()[:_LONGEST_WORDS]


def _raised(lines: list[str]) -> str:
    """Return the first line below the frames of the last traceback; some programs write a prefix before every line."""
    headers = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    prefix = lines[headers[-1]].partition(_TRACEBACK)[0] if headers else ""
    behind = lines[headers[-1] + 1 :] if headers else []
    return next((each for each in behind if each.removeprefix(prefix)[:1].strip()), "")


def _is_telling(line: str) -> bool:
    """Whether a line may say why a program ended.

    A container's two streams are mixed as they arrive: what it wrote to standard output before its last words can
    follow them, and it is often a message of its routine, or a line of something printed as JSON.
    """
    printed = line.startswith('"') or line.endswith(("{", "[", "(")) or not any(sign.isalnum() for sign in line)
    return not printed and _ROUTINE.search(line) is None


def exit_of(pod: Pod, ended: ContainerTerminated) -> tuple[int, str]:
    """The exit code as a shell would report it, and what is known beyond it."""
    message = termination_message(ended)
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


def _started(key: ReplicaKey, pod: Pod, moment: datetime | None, around: PodContext) -> ReplicaStarted:
    main = main_container_name(pod)
    return ReplicaStarted(
        job_id=key.gang_id.job_id,
        at=_at(moment, around.now),
        attempt=key.gang_id.attempt,
        replica=key.replica,
        incarnation=key.incarnation,
        image=next((each.image_id for each in pod.status.container_statuses if each.name == main), ""),
    )


def _exited(key: ReplicaKey, pod: Pod, ended: ContainerTerminated, around: PodContext) -> ReplicaExited:
    code, message = exit_of(pod, ended)
    return ReplicaExited(
        job_id=key.gang_id.job_id,
        at=_at(ended.finished_at, around.now),
        attempt=key.gang_id.attempt,
        replica=key.replica,
        incarnation=key.incarnation,
        exit_code=code,
        message=message if code else "",
        result="" if code else ended.message,
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
