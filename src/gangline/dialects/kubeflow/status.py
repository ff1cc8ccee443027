"""A job's life in upstream's words: conditions with their reasons and order, replica statuses, times.

The conditions are replayed from the job's history by upstream's own rules, so that a client that watches sees the
sequence it knows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gangline.dialects.kubeflow.kinds import KINDS, V2BETA1, Kind
from gangline.model import Job, Phase, PhaseEntry, ReplicaState, ReplicaStatus, RoleName, RoleSpec, Timestamp
from gangline.model.jobs.spec import LEAD_ROLES

JOB_NAME_LABEL = "training.kubeflow.org/job-name"
OPERATOR_LABEL = "training.kubeflow.org/operator-name"
REPLICA_TYPE_LABEL = "training.kubeflow.org/replica-type"
REPLICA_INDEX_LABEL = "training.kubeflow.org/replica-index"
JOB_ROLE_LABEL = "training.kubeflow.org/job-role"

_LEAD_TYPES = frozenset(LEAD_ROLES)
_NAMESPACED = frozenset({"TFJob", "JAXJob"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a job's status; every change of ours is a transition, so one time says both."""

    type: str
    status: bool
    reason: str
    message: str
    at: Timestamp

    def plain(self) -> dict[str, object]:
        """Write it as the API does."""
        return {
            "type": self.type,
            "status": "True" if self.status else "False",
            "reason": self.reason,
            "message": self.message,
            "lastUpdateTime": time_text(self.at),
            "lastTransitionTime": time_text(self.at),
        }


def job_to_status(job: Job, kind: str | None = None) -> dict[str, object]:
    """Return the ``status`` of a job; ``kind`` defaults to the kind the job was translated from."""
    described = KINDS[kind or (job.spec.origin or "").rpartition(" ")[2]]
    status: dict[str, object] = {
        "conditions": [condition.plain() for condition in job_conditions(job, described)],
        "replicaStatuses": _replica_statuses(job, described),
        "lastReconcileTime": time_text(job.history[-1].at),
    }
    if job.started_at is not None:
        status["startTime"] = time_text(job.started_at)
    if job.finished_at is not None:
        status["completionTime"] = time_text(job.finished_at)
    return status


def job_conditions(job: Job, kind: Kind) -> tuple[Condition, ...]:
    """Replay the history of a job as conditions."""
    words = _Words(job=job, kind=kind)
    conditions = _with((), _condition("Created", words, "Created", words.created(), job.created_at))
    for entry in job.history:
        step = _STEPS.get(entry.phase)
        if step is not None:
            conditions = step(conditions, words, entry)
    return conditions


def selector_labels(name: str, kind: Kind, role: RoleName) -> dict[str, str]:
    """The labels that pick the pods of one replica type."""
    return {JOB_NAME_LABEL: name, OPERATOR_LABEL: kind.controller, REPLICA_TYPE_LABEL: role}


def time_text(at: Timestamp) -> str:
    """Write a time as the API does: RFC 3339, whole seconds, UTC."""
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    """Reasons and messages as each kind phrases them."""

    job: Job
    kind: Kind

    @property
    def version_two(self) -> bool:
        return (self.job.spec.origin or "").startswith(V2BETA1)

    @property
    def full_name(self) -> str:
        return f"{self.kind.name} {self.job.spec.tenant}/{self.job.name}"

    @property
    def short_name(self) -> str:
        return f"{self.kind.name} {self.job.name}"

    @property
    def namespaced(self) -> bool:
        """Whether this kind names the namespace: TFJob and JAXJob always, others when no lead replica decides."""
        has_lead = any(role.name in _LEAD_TYPES for role in self.job.spec.roles)
        return self.version_two or self.kind.name in _NAMESPACED or not has_lead

    def reason(self, word: str) -> str:
        return f"{self.kind.name}{word}"

    def created(self) -> str:
        return f"{self.full_name if self.version_two else self.short_name} is created."

    def running(self) -> str:
        return f"{self.full_name if self.namespaced else self.short_name} is running."

    def succeeded(self) -> str:
        if self.namespaced:
            return f"{self.full_name} successfully completed."
        return f"{self.short_name} is successfully completed."

    def restarting(self, entry: PhaseEntry) -> str:
        who = self._failed_replicas()
        if not who:
            return f"{self.short_name} is restarting: {entry.message or entry.reason}."
        return f"{self.short_name} is restarting because {who} replica(s) failed."

    def failed(self, entry: PhaseEntry) -> str:
        if entry.reason == "DeadlineExceeded":
            return f"Job {self.job.name} has failed because it was active longer than specified deadline"
        who = self._failed_replicas()
        if entry.reason == "RestartLimitReached" or (who and self._is_out_of_attempts(entry)):
            return f"Job {self.job.name} has failed because it has reached the specified backoff limit"
        if entry.phase is Phase.CANCELLED or not who:
            return f"{self.short_name} has failed: {entry.message or entry.reason}."
        if self.kind.name == "TFJob":
            return f"{self.full_name} has failed because {who} replica(s) failed."
        return f"{self.short_name} is failed because {who} replica(s) failed."

    def _is_out_of_attempts(self, entry: PhaseEntry) -> bool:
        return entry.phase is Phase.FAILED and 1 < self.job.spec.policy.max_attempts <= self.job.failures

    def _failed_replicas(self) -> str:
        """The first replica type with failures, such as ``1 Worker``."""
        for role in self.job.spec.roles:
            count = _count(self.job, role, _FAILED)
            if count:
                return f"{count} {self.kind.type_of(role.name)}"
        return ""


_Conditions = tuple[Condition, ...]


def _condition(type_: str, words: _Words, reason: str, message: str, at: Timestamp) -> Condition:
    return Condition(type=type_, status=True, reason=words.reason(reason), message=message, at=at)


def _with(present: _Conditions, new: Condition) -> _Conditions:
    """Add a condition by upstream's rules: one of each type, Running and Restarting exclude each other."""
    old = next((condition for condition in present if condition.type == new.type), None)
    if old is not None and (old.status, old.reason) == (new.status, new.reason):
        return present
    rivals = {"Restarting": "Running", "Running": "Restarting"}
    kept = [condition for condition in present if condition.type not in (new.type, rivals.get(new.type))]
    if new.type in ("Failed", "Succeeded"):
        kept = [replace(condition, status=False) if condition.type == "Running" else condition for condition in kept]
    return (*kept, new)


def _holds(present: _Conditions, kind: str) -> bool:
    return any(condition.type == kind and condition.status for condition in present)


def _run(present: _Conditions, words: _Words, entry: PhaseEntry) -> _Conditions:
    return _with(present, _condition("Running", words, "Running", words.running(), entry.at))


def _restart(present: _Conditions, words: _Words, entry: PhaseEntry) -> _Conditions:
    return _with(present, _condition("Restarting", words, "Restarting", words.restarting(entry), entry.at))


def _succeed(present: _Conditions, words: _Words, entry: PhaseEntry) -> _Conditions:
    return _with(present, _condition("Succeeded", words, "Succeeded", words.succeeded(), entry.at))


def _fail(present: _Conditions, words: _Words, entry: PhaseEntry) -> _Conditions:
    return _with(present, _condition("Failed", words, "Failed", words.failed(entry), entry.at))


def _suspend(present: _Conditions, words: _Words, entry: PhaseEntry) -> _Conditions:
    message = f"{words.short_name} is suspended."
    if _holds(present, "Running"):
        stopped = _condition("Running", words, "Suspended", message, entry.at)
        present = _with(present, replace(stopped, status=False))
    return _with(present, _condition("Suspended", words, "Suspended", message, entry.at))


def _resume(present: _Conditions, words: _Words, entry: PhaseEntry) -> _Conditions:
    """Wake a suspended job; what was preempted was never suspended by its user, and is restarting instead."""
    if not _holds(present, "Suspended"):
        return _restart(present, words, entry)
    awake = _condition("Suspended", words, "Resumed", f"{words.short_name} is resumed.", entry.at)
    return _with(present, replace(awake, status=False))


_STEPS: Mapping[Phase, Callable[[_Conditions, _Words, PhaseEntry], _Conditions]] = {
    Phase.DOWNLOADING: _run,
    Phase.PROCESSING: _run,
    Phase.RESTARTING: _restart,
    Phase.COMPLETED: _succeed,
    Phase.FAILED: _fail,
    Phase.CANCELLED: _fail,
    Phase.HALTED: _suspend,
    Phase.RESUMED: _resume,
}

_ACTIVE = frozenset({ReplicaState.RUNNING, ReplicaState.BACKING_OFF})
"""A replica that is started again in place is one that runs, to upstream's clients."""
_FAILED = frozenset({ReplicaState.FAILED, ReplicaState.LOST})


def _replica_statuses(job: Job, kind: Kind) -> dict[str, dict[str, object]]:
    statuses = {}
    for role in job.spec.roles:
        active = _count(job, role, _ACTIVE)
        succeeded = _count(job, role, frozenset({ReplicaState.SUCCEEDED}))
        if job.phase is Phase.COMPLETED:
            # What was still running when the job succeeded was stopped by us: upstream counts it as succeeded.
            succeeded += sum(1 for status in job.replicas if status.id.role == role.name and outlived(job, status))
        counts = {"active": active, "succeeded": succeeded, "failed": _count(job, role, _FAILED)}
        labels = sorted(selector_labels(job.name, kind, role.name).items())
        statuses[kind.type_of(role.name)] = {
            **{name: count for name, count in counts.items() if count},
            "selector": ",".join(f"{name}={value}" for name, value in labels),
        }
    return statuses


def outlived(job: Job, replica: ReplicaStatus) -> bool:
    """Whether a replica was still there when the fate of its attempt was decided: its end was then our doing."""
    decided = None
    for entry in reversed(job.history):
        if entry.phase in _UNDER_WAY:
            break
        decided = entry
    if decided is None or replica.state is ReplicaState.SUCCEEDED:
        return False
    if replica.finished_at is None:
        return replica.state in (ReplicaState.PENDING, ReplicaState.RUNNING)
    return replica.finished_at > decided.at


_UNDER_WAY = frozenset({Phase.STARTING, Phase.DOWNLOADING, Phase.PROCESSING})


def _count(job: Job, role: RoleSpec, states: frozenset[ReplicaState]) -> int:
    """How many replicas are in these states, those aside that only ended because the attempt was over."""
    present = [replica for replica in job.replicas if replica.id.role == role.name and not outlived(job, replica)]
    return sum(1 for replica in present if replica.state in states)
