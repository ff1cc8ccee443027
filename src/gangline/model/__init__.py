"""The vocabulary of Gangline: frozen values that every other part speaks in.

Values validate themselves when they are made. Nothing here reads a clock, a file or a socket, and nothing
here imports another part of Gangline but its errors.
"""

from gangline.model.backoff import Backoff
from gangline.model.clock import Clock, Timestamp
from gangline.model.explanation import Ahead, Constraint, Excluded, Explanation, PlaceInLine
from gangline.model.identity import (
    DEFAULT_QUEUE,
    DEFAULT_TENANT,
    JobId,
    NodeName,
    QueueName,
    ReplicaId,
    RoleName,
    Tenant,
)
from gangline.model.jobs.code import CodeLimits
from gangline.model.jobs.gang import Gang, GangId, GangReplica, ResumePoint
from gangline.model.jobs.job import Job, PhaseEntry, ReplicaState, ReplicaStatus
from gangline.model.jobs.metric import CHECKPOINT_METRIC, Metric
from gangline.model.jobs.phase import ACTIVE_PHASES, FINAL_PHASES, WAITING_PHASES, Phase
from gangline.model.jobs.placement import (
    AffinityKind,
    AffinityTerm,
    Match,
    NodePreference,
    NodeRequirement,
    NodeRule,
    NodeTerm,
    PlacementRule,
    Prefer,
    Toleration,
    TopologySpread,
    Within,
)
from gangline.model.jobs.spec import (
    Clean,
    DataMove,
    Framework,
    JobSpec,
    NanAction,
    NanRule,
    Policy,
    Processes,
    Restart,
    Retry,
    RoleSpec,
    Sizing,
    StallAction,
    StallRule,
    Success,
)
from gangline.model.kinds.queue import Queue, QueueStatus
from gangline.model.node import Node, Taint
from gangline.model.observation import (
    JobPage,
    JournalRecord,
    LogLine,
    MetricPage,
    NodeUsage,
    ReplicaUsage,
    Stream,
    Usage,
)
from gangline.model.resources import NamedAmounts, Resources

__all__ = [
    "ACTIVE_PHASES",
    "CHECKPOINT_METRIC",
    "DEFAULT_QUEUE",
    "DEFAULT_TENANT",
    "FINAL_PHASES",
    "WAITING_PHASES",
    "AffinityKind",
    "AffinityTerm",
    "Ahead",
    "Backoff",
    "Clean",
    "Clock",
    "CodeLimits",
    "Constraint",
    "DataMove",
    "Excluded",
    "Explanation",
    "Framework",
    "Gang",
    "GangId",
    "GangReplica",
    "Job",
    "JobId",
    "JobPage",
    "JobSpec",
    "JournalRecord",
    "LogLine",
    "Match",
    "Metric",
    "MetricPage",
    "NamedAmounts",
    "NanAction",
    "NanRule",
    "Node",
    "NodeName",
    "NodePreference",
    "NodeRequirement",
    "NodeRule",
    "NodeTerm",
    "NodeUsage",
    "Phase",
    "PhaseEntry",
    "PlaceInLine",
    "PlacementRule",
    "Policy",
    "Prefer",
    "Processes",
    "Queue",
    "QueueName",
    "QueueStatus",
    "ReplicaId",
    "ReplicaState",
    "ReplicaStatus",
    "ReplicaUsage",
    "Resources",
    "Restart",
    "ResumePoint",
    "Retry",
    "RoleName",
    "RoleSpec",
    "Sizing",
    "StallAction",
    "StallRule",
    "Stream",
    "Success",
    "Taint",
    "Tenant",
    "Timestamp",
    "Toleration",
    "TopologySpread",
    "Usage",
    "Within",
]
