"""When a workspace runs: it begins when it is asked for, and ends when it is told to, fails, or nobody uses it.

Asked again after its plan was carried out, it finds nothing more to do until something is seen to have changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gangline.errors import ConflictError
from gangline.model import Job, Phase, Timestamp
from gangline.model.kinds.workspace import Tool, Workspace, WorkspaceStatus
from gangline.model.wording import duration

LOOK_SECONDS = 1.0
USE_SECONDS = 30.0
"""How exactly it is kept when a workspace was used: each change of that is written."""
MISSING = 127
"""The exit code of a program of ours that lacks what it should run, as a shell has it."""
_PACKAGES = {Tool.NOTEBOOK: "jupyterlab", Tool.TENSORBOARD: "tensorboard"}

_ENDINGS = ("Idle", "Ended", "Failed", "Stopped")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSight:
    """What is seen of the program of a workspace now. ``used_at`` is None where nobody has used it since we look."""

    ready: bool = False
    used_at: Timestamp | None = None
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePlan:
    """What should happen now: the runs that begin and end, by number."""

    status: WorkspaceStatus
    start: int | None = None
    stop: tuple[int, ...] = ()
    again_at: Timestamp | None = None


def plan(workspace: Workspace, jobs: Iterable[Job], sight: WorkspaceSight, now: Timestamp) -> WorkspacePlan:
    """Say what should happen to a workspace."""
    by_number = {int(job.id.rpartition("-")[2]): job for job in jobs}
    job, status = by_number.get(workspace.status.run), workspace.status
    running = tuple(number for number, each in by_number.items() if not each.finished)
    if status.wanted and job is not None and job.finished:
        status = _ended_by_itself(workspace, job, now)
    elif status.wanted:
        status = _seen(workspace, job, sight, now)
    if not status.wanted:
        return WorkspacePlan(status=_ending(status, now, ended=not running), stop=running)
    return WorkspacePlan(
        status=status,
        start=status.run if job is None else None,
        stop=tuple(number for number in running if number != status.run),
        again_at=_again_at(workspace, status, now),
    )


def _seen(workspace: Workspace, job: Job | None, sight: WorkspaceSight, now: Timestamp) -> WorkspaceStatus:
    """Note whether it answers and when it was used; warn, then stop, where that is long ago."""
    status = workspace.status
    ready = sight.ready and job is not None and job.phase is Phase.PROCESSING
    if not ready:
        return replace(status, ready=False, notice=_waiting_for(job, sight), warned_at=None, used_at=None)
    if not status.ready:
        # Time in the queue, or after a preemption, is nobody's idleness.
        return replace(status, ready=True, used_at=now, notice="", problem="").told(now, "Ready", "it can be opened")
    if sight.used_at is not None and sight.used_at >= (status.used_at or 0.0) + USE_SECONDS:
        status = replace(status, used_at=sight.used_at)
    return _idling(workspace, status, max(status.used_at or now, sight.used_at or 0.0), now)


def _idling(workspace: Workspace, status: WorkspaceStatus, used_at: float, now: Timestamp) -> WorkspaceStatus:
    limit = workspace.spec.idle_seconds
    if not limit:
        return replace(status, warned_at=None, notice="")
    if now >= used_at + limit:
        message = f"nobody has used it for {duration(limit)}; its files are kept"
        return replace(status, wanted=False).told(now, "Idle", message)
    if now < used_at + max(0.0, limit - workspace.spec.warning_seconds):
        return replace(status, warned_at=None, notice="")
    if status.warned_at is not None:
        return status
    notice = f"nobody uses it: it is stopped in {duration(used_at + limit - now)} unless somebody does"
    return replace(status, warned_at=now, notice=notice).told(now, "IdleWarning", notice)


def _waiting_for(job: Job | None, sight: WorkspaceSight) -> str:
    if job is None or job.phase is not Phase.PROCESSING:
        return "it waits for a machine" if job is not None and job.placeable else ""
    return sight.message


def _ended_by_itself(workspace: Workspace, job: Job, now: Timestamp) -> WorkspaceStatus:
    """Its program ended, or somebody cancelled its job."""
    status = replace(workspace.status, wanted=False)
    if job.phase is not Phase.FAILED:
        return status.told(now, "Ended", "its program has ended; its files are kept")
    problem = job.message or "its program failed"
    package = _PACKAGES.get(workspace.spec.tool)
    if package is not None and any(each.exit_code == MISSING for each in job.replicas):
        problem = f"{package} is not installed where it runs; type 'pip install {package}' there and start it again"
    return replace(status, problem=problem).told(now, "Failed", problem)


def _ending(status: WorkspaceStatus, now: Timestamp, *, ended: bool) -> WorkspaceStatus:
    """Note that nothing is left of its run; that somebody stopped it is told where nothing else ended it."""
    last = status.events[-1].reason if status.events else ""
    if ended and not status.ended and last not in _ENDINGS:
        status = status.told(now, "Stopped", "somebody stopped it; its files are kept")
    return replace(status, ready=False, notice="", warned_at=None, ended=ended)


def _again_at(workspace: Workspace, status: WorkspaceStatus, now: Timestamp) -> Timestamp | None:
    """When time alone may give it something to do."""
    limit = workspace.spec.idle_seconds
    if not status.ready:
        return Timestamp(now + LOOK_SECONDS)
    if not limit or status.used_at is None:
        return None
    due = status.used_at + limit - (0.0 if status.warned_at is not None else workspace.spec.warning_seconds)
    return Timestamp(max(now + LOOK_SECONDS, due))


def started(workspace: Workspace) -> Workspace:
    """Ask for another run, with the files of those before; one that runs goes on."""
    status = workspace.status
    if status.wanted:
        return workspace
    if not status.ended:
        raise ConflictError(f"workspace '{workspace.name}' is being stopped; start it again in a moment")
    fresh = WorkspaceStatus(run=status.run + 1, events=status.events)
    return replace(workspace, status=fresh)


def stopped(workspace: Workspace) -> Workspace:
    """End the present run; files are kept."""
    if not workspace.status.wanted:
        return workspace
    return replace(workspace, status=replace(workspace.status, wanted=False))
