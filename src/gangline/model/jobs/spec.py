"""What a user asks for: the job file as values. ``dialects/native`` reads it from YAML and writes it back."""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from gangline.errors import InvalidInputError
from gangline.model.identity import DEFAULT_QUEUE, DEFAULT_TENANT, QueueName, RoleName, Tenant, check_name
from gangline.model.jobs.metric_source import MetricSource
from gangline.model.jobs.placement import NodeRule, PlacementRule, Within
from gangline.model.jobs.source import Source
from gangline.model.resources import Resources


class Framework(StrEnum):
    """Which environment the replicas get, so that the framework finds its peers by itself."""

    NONE = "none"
    TENSORFLOW = "tensorflow"
    PYTORCH = "pytorch"
    MPI = "mpi"
    JAX = "jax"
    XGBOOST = "xgboost"
    PADDLE = "paddle"
    PARAMETER_SERVER = "parameter-server"


class Restart(StrEnum):
    """What happens when a replica of a role fails."""

    GANG = "gang"
    REPLICA = "replica"
    NEVER = "never"


class Retry(StrEnum):
    """Which ends of a replica deserve another try."""

    ANY = "any"
    SIGNALS = "signals"
    """Only exits above 127 (signals and the shell's way of reporting them); 1 to 127 are the program's verdict."""
    ALWAYS = "always"
    """Every failure, and an exit with 0 too: the replica serves the others, or everybody, and should never end."""


class Success(StrEnum):
    """When a job has succeeded."""

    LEAD = "lead"
    """The lead replica (the first chief, master or launcher, else worker 0) exited with 0."""
    ALL = "all"
    """Every replica of every role that is not a service role exited with 0."""


class Processes(StrEnum):
    """How many processes torchrun starts in a replica, where it shall count by itself."""

    AUTO = "auto"
    """As many as there are GPUs or, without any, CPUs."""
    GPU = "gpu"
    CPU = "cpu"


class Clean(StrEnum):
    """Which replicas of a finished job are removed, where an engine can keep them to be looked at."""

    ALL = "all"
    RUNNING = "running"
    """Those that still run; what has ended stays."""
    NONE = "none"
    """None: those that still run are ended, and stay to be looked at."""
    LEAVE = "leave"
    """None, and those that still run go on and hold their machines."""


class Sizing(StrEnum):
    """Who says how many replicas an elastic job has."""

    ASKED = "asked"
    """Its user: as many as were asked for, and more while machines are free."""
    AUTO = "auto"
    """The scheduler, between the role's min and max, by what was measured."""


class StallAction(StrEnum):
    """What becomes of a job that has stalled."""

    TELL = "tell"
    """It is told, and its stacks are kept; it goes on if it can."""
    RESTART = "restart"
    """The whole gang is started again from its checkpoint, as often as ``max_attempts`` allows."""
    FAIL = "fail"


class NanAction(StrEnum):
    """What becomes of a job whose loss is no longer a finite number."""

    FAIL = "fail"
    HALT = "halt"
    """It is stopped and keeps its checkpoints; its user may resume it from an earlier one."""


MOST_REPLICAS = 100_000
"""The most replicas of a role: about what the largest clusters hold, and little enough to count one by one."""
MOST_SECONDS = 100 * 365 * 86400.0
"""The longest time until a deadline or a deletion, a hundred years: a date that calendars know."""
MOST_FACTOR = 1000.0
"""The most that a pause may grow by with every failure."""
MOST_AMOUNT = 2**53
"""The most of anything that a whole job may need: sums of many such jobs still fit into a machine's integers."""
_LAUNCHED = (Framework.PYTORCH, Framework.MPI)
LEAD_ROLES = (RoleName("chief"), RoleName("master"), RoleName("launcher"))
SERVICE_ROLES = frozenset({RoleName("ps"), RoleName("evaluator"), RoleName("tensorboard")})
"""Roles that serve the others and are stopped when those are done; their own exit decides nothing unless it fails."""


@dataclass(frozen=True, slots=True)
class DataMove:
    """Copy ``source`` to ``target`` before the replicas start (inputs) or after they succeeded (outputs).

    ``store`` names the credentials for an object store; without it the engine's own surroundings must have some.
    ``include`` and ``exclude`` are patterns of paths below a folder; ``unpack`` means the content of an archive.
    """

    source: str
    target: str
    store: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unpack: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it says no more than from where and to where."""
        return self == DataMove(self.source, self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRule:
    """Where ``gangline.runtime.Checkpoints`` also writes checkpoints, how many stay, and how often one is due."""

    to: str
    store: str | None = None
    keep: int | None = None
    every_seconds: float | None = None

    def __post_init__(self) -> None:
        _at_least("checkpoints.keep", 1 if self.keep is None else self.keep, 1)
        _at_least("checkpoints.every", self.every_seconds or 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StallRule:
    """How long a replica may show no sign of life, and what happens then."""

    after_seconds: float
    action: StallAction = StallAction.TELL

    def __post_init__(self) -> None:
        _at_least("policy.stalled.after", self.after_seconds, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NanRule:
    """What happens when a reported metric is NaN or infinite; without ``metric``, any whose name ends in ``loss``."""

    action: NanAction
    metric: str | None = None

    def __post_init__(self) -> None:
        if self.metric == "":
            raise InvalidInputError("it is empty", field="policy.nan.metric", expected="the name of a metric")

    def covers(self, metric: str) -> bool:
        """Whether the rule is about this metric."""
        return metric == self.metric if self.metric is not None else metric.lower().endswith("loss")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a job is retried, limited and cleaned up. ``max_attempts`` counts tries that failed, not preemptions.

    Within ``retry_for_seconds`` of the first start an attempt that failed may have another; None sets no such limit.
    """

    max_attempts: int = 1
    max_replica_restarts: int = 100
    restart: Restart = Restart.GANG
    retry: Retry = Retry.ANY
    success: Success | None = None
    backoff_seconds: float = 1.0
    backoff_factor: float = 2.0
    backoff_limit_seconds: float = 300.0
    retry_for_seconds: float | None = None
    deadline_seconds: float | None = None
    ttl_seconds: float | None = None
    grace_seconds: float = 30.0
    expected_seconds: float | None = None
    preemptible: bool = True
    clean: Clean = Clean.ALL
    replicas: Sizing = Sizing.ASKED
    stalled: StallRule | None = None
    """Watch over the job, and by which rule; None: nobody does."""
    nan: NanRule | None = None

    def __post_init__(self) -> None:
        _at_least("policy.max_attempts", self.max_attempts, 1)
        _at_least("policy.max_replica_restarts", self.max_replica_restarts, 0)
        for name in ("backoff_seconds", "backoff_limit_seconds", "grace_seconds"):
            _at_least(f"policy.{name.removesuffix('_seconds')}", getattr(self, name), 0)
        if not 0 < self.backoff_factor <= MOST_FACTOR:
            raise InvalidInputError(
                "the factor is not in range",
                field="policy.backoff_factor",
                expected=f"above 0, at most {MOST_FACTOR:g}",
            )
        limits = ("retry_for_seconds", "deadline_seconds", "ttl_seconds", "expected_seconds")
        for name in limits:
            value = getattr(self, name)
            if value is not None:
                _at_least(f"policy.{name.removesuffix('_seconds')}", value, 0)
        for name in ("backoff_limit_seconds", *limits):
            if (getattr(self, name) or 0) > MOST_SECONDS:
                raise InvalidInputError(
                    "the time is too long",
                    field=f"policy.{name.removesuffix('_seconds')}",
                    expected="at most 100 years",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """One role: how many replicas, what they run and what they need. Memory of zero means no limit.

    ``replicas`` start together; the gang may live with ``minimum`` of them and grow to ``maximum``.
    ``placement`` narrows down what the job says of nodes, for this role alone. ``labels`` are what its replicas go by
    for the ``pod_affinity`` of others; engines fill them in, no job file has them.

    ``groups`` divides the replicas into this many parts of consecutive indexes, equal in size and in minimum,
    such as the stages of a pipeline. Each group stays ``within`` one domain of every level named there. Replicas beyond
    the minimum are given up by ``priority`` (None: that of the job), the lowest first; ``preemptible`` (None: as the
    job's policy says) is whether any are, and the gang stops as a whole only if that is so of all its roles.
    """

    name: RoleName
    replicas: int = 1
    minimum: int | None = None
    maximum: int | None = None
    command: tuple[str, ...] = ()
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=lambda: Resources(cpu_millis=1000))
    restart: Restart | None = None
    retry: Retry | None = None
    port: int = 2222
    placement: NodeRule | None = None
    pod_template_json: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    groups: int = 1
    within: tuple[Within, ...] = ()
    priority: int | None = None
    preemptible: bool | None = None

    def __post_init__(self) -> None:
        where = f"roles.{self.name}"
        check_name(self.name, where)
        _at_least(f"{where}.replicas", self.replicas, 1)
        # Python does not check types, and each letter of a text would be a word.
        if isinstance(self.command, str):  # type: ignore[unreachable]  # see above
            raise InvalidInputError(
                f"'{self.command}' is one text", field=f"{where}.command", expected="a list of words"
            )
        if not self.command and self.pod_template_json is None:
            raise InvalidInputError("the role has no command", field=f"{where}.command", expected="a list of words")
        _at_least(f"{where}.min", self.least, 0)
        if self.least > self.replicas:
            raise InvalidInputError(
                f"min {self.least} is more than replicas {self.replicas}",
                field=f"{where}.min",
                expected=f"at most {self.replicas}",
            )
        if self.most < self.replicas:
            raise InvalidInputError(
                f"max {self.most} is less than replicas {self.replicas}",
                field=f"{where}.max",
                expected=f"at least {self.replicas}",
            )
        _at_most(f"{where}.max" if self.maximum else f"{where}.replicas", self.most, MOST_REPLICAS)
        for name, amount in self.resources.amounts().items():
            _at_most(f"{where}.resources.{name}", amount * self.most, MOST_AMOUNT)
        if self.resources.gpu_memory_mib and self.resources.gpu_millis % 1000:
            raise InvalidInputError(
                "a part of a GPU is asked for twice",
                field=f"{where}.resources.gpu_memory",
                expected="either it or a part in gpu",
            )
        if self.groups != 1:
            self._check_groups(where)
        if not 1 <= self.port <= 65535:
            raise InvalidInputError(f"{self.port} is not a port", field=f"{where}.port", expected="1 to 65535")

    def _check_groups(self, where: str) -> None:
        _at_least(f"{where}.groups", self.groups, 1)
        for name, count in (("replicas", self.replicas), ("min", self.least)):
            if count % self.groups:
                raise InvalidInputError(
                    f"{count} cannot be divided into {self.groups} equal groups",
                    field=f"{where}.{name}",
                    expected=f"a multiple of {self.groups}",
                )
        if self.most != self.replicas:
            raise InvalidInputError(
                "a role of several groups does not grow beyond its replicas", field=f"{where}.max", expected="no max"
            )

    def has_enough(self, indexes: Collection[int]) -> bool:
        """Whether the gang can live with these replicas of the role: with the minimum of each of its groups."""
        size = self.replicas // self.groups
        present = Counter(index // size for index in indexes) if self.groups > 1 else {0: len(indexes)}
        return all(present.get(group, 0) >= self.least // self.groups for group in range(self.groups))

    @property
    def least(self) -> int:
        """The fewest replicas the gang can live with."""
        return self.replicas if self.minimum is None else self.minimum

    @property
    def most(self) -> int:
        """The most replicas the role may grow to."""
        return self.replicas if self.maximum is None else self.maximum

    @property
    def elastic(self) -> bool:
        """Whether the role may shrink or grow while the job runs."""
        return self.least != self.most


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A whole job as its user wrote it.

    ``code`` is a directory before submission and ``sha256:<digest>`` of its archive afterwards.
    ``processes`` says how many processes run in each training replica, for frameworks whose launcher starts them.
    ``origin`` names the dialect and kind the job was translated from, for example ``kubeflow.org/v1 TFJob``;
    ``manifest_json`` is that document as its user wrote it, for clients that want it back.
    ``source`` is what its submitter's machine knew of where the code comes from.
    ``metrics`` are files in which the program writes numbers in a form of its own.
    """

    name: str
    roles: tuple[RoleSpec, ...]
    tenant: Tenant = DEFAULT_TENANT
    queue: QueueName = DEFAULT_QUEUE
    priority: int = 50
    labels: Mapping[str, str] = field(default_factory=dict)
    framework: Framework = Framework.NONE
    processes: int | Processes | None = None
    image: str | None = None
    code: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[DataMove, ...] = ()
    outputs: tuple[DataMove, ...] = ()
    policy: Policy = field(default_factory=Policy)
    placement: PlacementRule = field(default_factory=PlacementRule)
    origin: str | None = None
    manifest_json: str | None = None
    source: Source | None = None
    metrics: tuple[MetricSource, ...] = ()
    checkpoints: CheckpointRule | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        check_name(self.queue, "metadata.queue")
        if not self.roles:
            raise InvalidInputError("the job has no roles", field="spec.roles", expected="at least one role")
        names = [role.name for role in self.roles]
        if len(set(names)) != len(names):
            raise InvalidInputError("two roles have the same name", field="spec.roles", expected="unique names")
        _check_processes(self.processes, self.framework)

    def role(self, name: RoleName) -> RoleSpec:
        """Return the role of that name; asking for another one is a programming error."""
        return next(role for role in self.roles if role.name == name)

    def with_texts(self, change: Callable[[str], str]) -> "JobSpec":
        """Return the job with its commands, variables and addresses put through a function."""
        return replace(
            self,
            env=_changed(self.env, change),
            roles=tuple(
                replace(
                    role,
                    command=tuple(map(change, role.command)),
                    env=_changed(role.env, change),
                    pod_template_json=_changed_json(role.pod_template_json, change),
                )
                for role in self.roles
            ),
            inputs=tuple(replace(move, source=change(move.source)) for move in self.inputs),
            outputs=tuple(replace(move, target=change(move.target)) for move in self.outputs),
        )

    @property
    def lead_role(self) -> RoleName:
        """The role whose first replica speaks for the job."""
        names = [role.name for role in self.roles]
        for name in (*LEAD_ROLES, RoleName("worker")):
            if name in names:
                return name
        return next((name for name in names if name not in SERVICE_ROLES), names[0])

    @property
    def success(self) -> Success:
        """When the job has succeeded: as its policy says, else by its lead if it has one, else when all are done."""
        if self.policy.success is not None:
            return self.policy.success
        return Success.LEAD if self.lead_role in LEAD_ROLES else Success.ALL

    def restart_of(self, role: RoleName) -> Restart:
        """What a failure of this role restarts: the role's own rule, else the job's."""
        return self.role(role).restart or self.policy.restart

    def retry_of(self, role: RoleName) -> Retry:
        """Which failures of this role deserve another try: the role's own rule, else the job's."""
        return self.role(role).retry or self.policy.retry

    def is_endless(self, role: RoleName) -> bool:
        """Whether a replica of this role is started again however it ends, so that its end never ends the job well."""
        return self.retry_of(role) is Retry.ALWAYS and self.restart_of(role) is not Restart.NEVER

    def priority_of(self, role: RoleSpec) -> int:
        """How important replicas of a role are that the gang can do without: as it says, but no more than the job."""
        return self.priority if role.priority is None else min(role.priority, self.priority)

    def is_preemptible(self, role: RoleSpec) -> bool:
        """Whether replicas of a role may be stopped for others: the role's own word, else the job's."""
        return self.policy.preemptible if role.preemptible is None else role.preemptible

    def nodes_of(self, role: RoleSpec) -> NodeRule:
        """Which nodes the replicas of a role may use: what the job says and, if it has one, the role's own rule."""
        return self.placement if role.placement is None else self.placement.narrowed(role.placement)


def _changed(env: Mapping[str, str], change: Callable[[str], str]) -> dict[str, str]:
    return {name: change(text) for name, text in env.items()}


def _changed_json(template: str | None, change: Callable[[str], str]) -> str | None:
    """Put every text of a JSON document through a function; names of fields stay."""
    if template is None:
        return None

    def changed(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: changed(each) for name, each in part.items()}
        if isinstance(part, list):
            return [changed(each) for each in part]
        return change(part) if isinstance(part, str) else part

    return json.dumps(changed(json.loads(template)), separators=(",", ":"), sort_keys=True)


def _check_processes(processes: int | Processes | None, framework: Framework) -> None:
    if processes is None:
        return
    if framework not in _LAUNCHED:
        raise InvalidInputError(
            f"framework {framework} has no launcher that starts several processes in a replica",
            field="spec.processes",
            expected=f"framework {' or '.join(_LAUNCHED)}",
        )
    if not isinstance(processes, Processes):
        _at_least("spec.processes", processes, 1)
    elif framework is Framework.MPI:
        raise InvalidInputError(f"mpirun does not count '{processes}'", field="spec.processes", expected="a number")


def _at_least(field_name: str, value: float, least: float) -> None:
    if not (math.isfinite(value) and value >= least):
        raise InvalidInputError(f"{value:g} does not fit", field=field_name, expected=f"{least:g} or more")


def _at_most(field_name: str, value: int, most: int) -> None:
    if value > most:
        raise InvalidInputError(f"{value} is too large", field=field_name, expected=f"at most {most}")
