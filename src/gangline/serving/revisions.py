"""What a service runs: the job of each replica, made from its file and the model it names, in numbered revisions."""

from collections.abc import Iterable
from dataclasses import replace

from gangline.errors import ConflictError, NotFoundError
from gangline.model import DataMove, JobSpec, Policy, RoleName, Timestamp
from gangline.model.jobs.placement import Prefer
from gangline.model.jobs.spec import Restart, Retry, RoleSpec
from gangline.model.kinds.registered_model import Model, find_version, model_reference
from gangline.model.kinds.service import (
    HOST,
    PORT,
    REVISION_LABEL,
    SERVICE_LABEL,
    Logging,
    Revision,
    Rollout,
    Service,
    ServiceReplica,
    ServiceSpec,
    ServiceStatus,
)

_KEPT = 10
"""So many revisions can be rolled back to."""
_PORT = 8080
_SERVER = 'exec "${GANGLINE_PYTHON:-python3}" -m gangline.serve "$@"'
_MODEL_FOLDER = "$DATA_DIR/model"
_TTL_SECONDS = 3600.0
"""How long the record of a replica that is gone can be looked at, unless its template says something else."""
_ENDLESS = 1_000_000
_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 0.2, 2.0
"""A replica that dies is missed: it is started again soon, however often that happens."""


class UnknownModelError(NotFoundError):
    """A service names a model, a version or an alias that does not exist."""


def with_wanted_revision(service: Service, models: Iterable[Model], now: Timestamp) -> ServiceStatus:
    """Note what the file asks for now: a new revision begins its rollout, one that is known already goes on with it."""
    spec, status = service.spec, service.status
    try:
        version = _version(spec, models)
    except UnknownModelError as error:
        return replace(status, problem=str(error))
    status = replace(status, problem="")
    job = _template(spec, version)
    known = next((each for each in reversed(status.revisions) if each.job == job), None)
    if known is None:
        number = status.last_number + 1
        model = version.removeprefix("model://")
        known = Revision(number=number, job=job, model=model, created_at=now)
        status = replace(status, revisions=_kept(status, known), last_number=number)
        status = status.told(now, "RevisionCreated", f"revision {number}" + (f" serves {model}" if model else ""))
    if known.number == status.wanted:
        return status
    status = replace(status, wanted=known.number)
    if not status.current:
        return replace(status, current=known.number)
    return begin(status, known.number, now)


def begin(status: ServiceStatus, number: int, now: Timestamp) -> ServiceStatus:
    """Begin to roll a revision out; what was under way is given up for it."""
    if number == status.current:
        return replace(status, rollout=None)
    return begun(replace(status, rollout=Rollout(revision=number)), now)


def begun(status: ServiceStatus, now: Timestamp) -> ServiceStatus:
    """Note when a rollout began, unless that is known."""
    if status.rollout is None or status.rollout.begun_at is not None:
        return status
    message = f"from revision {status.current} to {status.rollout.revision}"
    return replace(status, rollout=replace(status.rollout, begun_at=now)).told(now, "RolloutBegun", message)


def roll_back(service: Service, number: int | None) -> ServiceStatus:
    """Go back: give up the rollout that is under way or, if none is, let an earlier revision take over at once."""
    status, rollout = service.status, service.status.rollout
    if rollout is not None and number in (None, status.current):
        return replace(status, rollout=replace(rollout, stopped=True))
    number = number or status.previous
    if number == status.current or status.revision(number) is None:
        kept = ", ".join(str(each.number) for each in status.revisions if each.number != status.current)
        which = f"revision {number}" if number else "earlier revision"
        raise ConflictError(f"service '{service.name}' has no {which} to go back to; it has {kept or 'no other'}")
    return replace(status, rollout=Rollout(revision=number, step=len(service.spec.rollout.steps)))


def replica_job(service: Service, revision: Revision, replica: ServiceReplica) -> JobSpec:
    """Return the job of one replica."""
    spec = revision.job
    labels = {**spec.labels, SERVICE_LABEL: service.name, REVISION_LABEL: str(revision.number)}
    return replace(spec, name=f"{service.name}-{revision.number}-{replica.number}", labels=labels)


def first_replicas(spec: ServiceSpec) -> tuple[JobSpec, ...]:
    """Return the jobs of the fewest replicas that a service has while it is asked for anything, before it exists."""
    template = _template(spec, "")
    return tuple(
        replace(template, name=f"{spec.name}-1-{number}", labels={**template.labels, SERVICE_LABEL: spec.name})
        for number in range(1, max(1, spec.replicas.min) + 1)
    )


def _kept(status: ServiceStatus, added: Revision) -> tuple[Revision, ...]:
    """Forget the oldest, but none that has replicas or is pointed at."""
    used = {status.current, status.previous, status.wanted, *(each.revision for each in status.replicas)}
    old = [each for each in status.revisions if each.number not in used]
    dropped = {each.number for each in old[: max(0, len(status.revisions) + 1 - _KEPT)]}
    return (*(each for each in status.revisions if each.number not in dropped), added)


def _version(spec: ServiceSpec, models: Iterable[Model]) -> str:
    """The address of the very version that is served; empty for what is not a model."""
    reference = model_reference(spec.model) if spec.model else None
    if reference is None:
        return ""
    model = next((each for each in models if each.name == reference.name), None)
    if model is None:
        raise UnknownModelError("model", reference.name)
    try:
        found = find_version(model, reference.number, reference.alias)
    except NotFoundError as error:
        raise UnknownModelError("version", spec.model, hint=str(error)) from error
    return f"model://{model.name}:{found.number}"


def is_wanted(spec: ServiceSpec, status: ServiceStatus) -> bool:
    """Whether the revision that a service is at, or on its way to, is what its file says now."""
    wanted = status.revision(status.wanted)
    return wanted is not None and wanted.job == _template(spec, f"model://{wanted.model}" if wanted.model else "")


def _template(spec: ServiceSpec, version: str) -> JobSpec:
    """The job that all replicas of a revision run: it never ends by itself and is started again wherever it dies."""
    job = spec.job or _model_server(spec)
    inputs = (DataMove(version, _MODEL_FOLDER), *job.inputs) if version else job.inputs
    policy = replace(
        job.policy,
        restart=Restart.REPLICA,
        retry=Retry.ALWAYS,
        max_attempts=_ENDLESS,
        max_replica_restarts=_ENDLESS,
        backoff_seconds=_BACKOFF_SECONDS,
        backoff_limit_seconds=_LONGEST_BACKOFF_SECONDS,
        deadline_seconds=None,
        ttl_seconds=_TTL_SECONDS if job.policy.ttl_seconds is None else job.policy.ttl_seconds,
        preemptible=False,
    )
    placement = replace(
        job.placement,
        prefer=job.placement.prefer or Prefer.SPREAD,
        away={**job.placement.away, **({SERVICE_LABEL: spec.name} if spec.apart else {})},
    )
    return replace(
        job,
        name=spec.name,
        tenant=spec.tenant,
        queue=spec.queue,
        priority=spec.priority,
        inputs=inputs,
        policy=policy,
        placement=placement,
        roles=tuple(_listening(role) for role in job.roles),
    )


def _listening(role: RoleSpec) -> RoleSpec:
    """Tell a role where to listen, as a cluster has it; an engine that shares one address gives out ports itself."""
    port = role.port if role.port != RoleSpec.__dataclass_fields__["port"].default else _PORT
    return replace(role, port=port, env={PORT: str(port), HOST: "0.0.0.0", **role.env})


def model_server_command(name: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that serve the model in ``$DATA_DIR/model`` by a name."""
    command = ("sh", "-c", _SERVER, "serve", "--model", f"{name}=$(DATA_DIR)/model")
    return (*command, "--host", f"$({HOST})", "--port", f"$({PORT})", *arguments)


def logging_arguments(logging: Logging, name: str) -> tuple[str, ...]:
    """Return the options of the model server that log as a service says."""
    words = ("--log-to", logging.to, "--log-sample", f"{logging.sample:g}", "--log-mode", logging.mode.value)
    return (*words, "--log-name", name)


def _model_server(spec: ServiceSpec) -> JobSpec:
    logging = logging_arguments(spec.logging, spec.name) if spec.logging is not None else ()
    command = model_server_command(spec.name, (*logging, *spec.arguments))
    role = RoleSpec(name=RoleName("server"), command=command, resources=spec.resources)
    return JobSpec(name=spec.name, roles=(role,), image=spec.image or None, policy=Policy(grace_seconds=30.0))
