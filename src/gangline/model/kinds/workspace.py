"""A workspace: a notebook, a TensorBoard or another program in a browser. What a file says, and how far it has come.

``gangline.workspaces`` decides when it runs; ``gangline.web.gateway`` lets people in.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_QUEUE, DEFAULT_TENANT, QueueName, Tenant, check_name
from gangline.model.kinds.service import SERVICE_LABEL
from gangline.model.record import Record
from gangline.model.resources import Resources
from gangline.model.team.access import Right

WORKSPACE_LABEL = "gangline.dev/workspace"
"""The label of jobs that are runs of a workspace."""
TOKEN_VARIABLE = "GANGLINE_WORKSPACE_TOKEN"  # noqa: S105  # the name of a variable
"""Tells the program what the gateway shows it with every request; nobody else knows it."""
DIRECTORY_VARIABLE = "GANGLINE_WORKSPACE"
"""Tells the program where its files are kept."""
_LONGEST_NAME = 50
_MOST_SECONDS = 30 * 86400.0


def listens(labels: Mapping[str, str]) -> bool:
    """Whether a job with these labels answers requests, so that an engine gives it a port that nobody else has."""
    return SERVICE_LABEL in labels or WORKSPACE_LABEL in labels


class Tool(StrEnum):
    """What runs in a workspace."""

    NOTEBOOK = "notebook"
    """JupyterLab."""
    TENSORBOARD = "tensorboard"
    PROGRAM = "program"
    """The command, which answers HTTP at $(PORT)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSpec:
    """What a file of kind Workspace says."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    tool: Annotated[Tool, "What runs in it."] = Tool.NOTEBOOK
    command: Annotated[tuple[str, ...], "The program, where the tool is one; it answers HTTP at $(PORT)."] = ()
    queue: Annotated[QueueName, "Where it gets its machine from."] = DEFAULT_QUEUE
    priority: Annotated[int, "As that of a job."] = 50
    preemptible: Annotated[bool, "Whether it may be stopped for others; it starts again with its files."] = False
    resources: Annotated[Resources, "What it needs, GPUs among it."] = field(
        default_factory=lambda: Resources(cpu_millis=1000, memory_mib=1024)
    )
    image: Annotated[str, "The image, on a cluster."] = ""
    env: Annotated[Mapping[str, str], "Variables."] = field(default_factory=dict)
    code: Annotated[str, "A directory that is copied into it when it starts; what is there already stays."] = ""
    volumes: Annotated[Mapping[str, str], "Volumes by name, and the path of each."] = field(default_factory=dict)
    jobs: Annotated[tuple[str, ...], "The jobs that a TensorBoard shows."] = ()
    logs: Annotated[tuple[str, ...], "Further directories of event files that a TensorBoard shows."] = ()
    idle_seconds: Annotated[float, "It is stopped after this long without use; 0s: never."] = 3600.0
    warning_seconds: Annotated[float, "How long before that people are warned."] = 300.0
    size: Annotated[str, "How much its own files may be, on a cluster."] = "10Gi"

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if len(self.name) > _LONGEST_NAME:
            raise InvalidInputError(f"'{self.name}' is too long", field="metadata.name", expected="50 letters at most")
        if (self.tool is Tool.PROGRAM) != bool(self.command):
            raise InvalidInputError(
                "tool and command do not fit", field="spec.command", expected="a command with tool: program"
            )
        if (self.jobs or self.logs) and self.tool is not Tool.TENSORBOARD:
            raise InvalidInputError("only a TensorBoard shows jobs", field="spec.jobs", expected="tool: tensorboard")
        for name, seconds in (("idle", self.idle_seconds), ("warning", self.warning_seconds)):
            if not 0 <= seconds <= _MOST_SECONDS:
                raise InvalidInputError("the time does not fit", field=f"spec.{name}", expected="0s to 30d")
        for volume, path in self.volumes.items():
            check_name(volume, "spec.volumes")
            if not path.startswith("/"):
                raise InvalidInputError(
                    f"'{path}' is not an absolute path", field="spec.volumes", expected="for example data=/data"
                )

    @property
    def claim(self) -> str:
        """The volume claim that keeps its files, and the Secret that keeps its token."""
        return f"workspace-{self.name}"

    @property
    def right_to_open(self) -> Right:
        """What opening it needs: a TensorBoard only shows, everything else runs what one types."""
        return Right.READ if self.tool is Tool.TENSORBOARD else Right.WRITE


def tensorboard_of(tenant: Tenant, jobs: Sequence[str], logs: Sequence[str] = ()) -> WorkspaceSpec:
    """Return the TensorBoard of some jobs: the same name for the same ones, so that what is there is used again."""
    digest = hashlib.sha256("\0".join((*sorted(jobs), "", *sorted(logs))).encode()).hexdigest()
    return WorkspaceSpec(
        name=f"tensorboard-{digest[:8]}",
        tenant=tenant,
        tool=Tool.TENSORBOARD,
        resources=Resources(cpu_millis=250, memory_mib=512),
        jobs=tuple(jobs),
        logs=tuple(logs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceEvent:
    """Something that a person may want to know later."""

    at: Timestamp
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStatus:
    """How far a workspace has come. Each time it is started is a run: a job with that number."""

    wanted: bool = True
    """Whether it should run."""
    run: int = 1
    ready: bool = False
    used_at: Timestamp | None = None
    """When it was last used, or became ready: exact to half a minute."""
    warned_at: Timestamp | None = None
    ended: bool = False
    """Whether nothing of the last run is left."""
    problem: str = ""
    notice: str = ""
    """That it will be stopped, and when; or what it waits for."""
    events: tuple[WorkspaceEvent, ...] = ()

    @property
    def state(self) -> str:
        """Where it is, in one word."""
        if self.wanted:
            return "ready" if self.ready else "starting"
        if not self.ended:
            return "stopping"
        return "failed" if self.problem else "stopped"

    @property
    def settled(self) -> bool:
        """Whether nothing is done for it until somebody starts it again."""
        return not self.wanted and self.ended

    def told(self, at: Timestamp, reason: str, message: str) -> "WorkspaceStatus":
        """Keep what happened; the oldest is forgotten."""
        event = WorkspaceEvent(at=at, reason=reason, message=message)
        return replace(self, events=(*self.events, event)[-_EVENTS:])


_EVENTS = 20

Workspace = Record[WorkspaceSpec, WorkspaceStatus]
