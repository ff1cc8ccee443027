"""The kind Service: replicas that answer requests, in revisions that never change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gangline.errors import ConflictError, InvalidInputError
from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Column, Kind, NewJob, Owned, Plan, Verb
from gangline.kinds.model import MODEL
from gangline.model import Job, JobSpec, Metric, Timestamp
from gangline.model.kinds.service import REVISION_LABEL, ScaleMetric, Service, ServiceSpec, ServiceStatus
from gangline.serving import EndedReplica, ServiceSight, number_of, plan, roll_back


def plan_service(service: Service, owned: Owned, now: Timestamp) -> Plan[ServiceStatus]:
    """Say which replicas begin and end now. Until somebody has looked at them, nothing is decided."""
    sight = owned.sight
    if not isinstance(sight, ServiceSight):
        return Plan(status=replace(service.status, problem="nobody here looks after services"))
    wanted = plan(service, owned.jobs, sight, now, ended=owned.ended, models=owned.related)
    return Plan(
        status=wanted.status,
        create=tuple(NewJob(service.job_id(number), job) for number, job in wanted.start),
        cancel=tuple(service.job_id(number) for number in wanted.stop),
        again_at=wanted.again_at,
    )


def ended_replica(service: Service, job: Job, _: Sequence[Metric]) -> EndedReplica:
    """Keep of a replica that has ended what the plan asks for."""
    return EndedReplica(
        number=number_of(job),
        revision=int(job.spec.labels.get(REVISION_LABEL, "0")),
        phase=job.phase,
        finished_at=job.finished_at or job.created_at,
        message=job.message,
    )


def promote(service: Service) -> Service:
    """Let the revision that is rolled out take over now, whatever steps are left."""
    rollout = service.status.rollout
    if rollout is None:
        raise ConflictError(f"nothing is being rolled out by service '{service.name}'")
    last = replace(rollout, step=len(service.spec.rollout.steps), since=None, paused=False)
    return replace(service, status=replace(service.status, rollout=last))


def rollback(service: Service, values: Mapping[str, str]) -> Service:
    """Go back to an earlier revision, or give up the rollout that is under way."""
    return replace(service, status=roll_back(service, _number(values, "revision")))


def pause(service: Service) -> Service:
    """Let a rollout stay at its step."""
    return _paused(service, paused=True)


def resume(service: Service) -> Service:
    """Let a rollout go on."""
    return _paused(service, paused=False)


def _paused(service: Service, *, paused: bool) -> Service:
    rollout = service.status.rollout
    if rollout is None:
        raise ConflictError(f"nothing is being rolled out by service '{service.name}'")
    return replace(service, status=replace(service.status, rollout=replace(rollout, paused=paused)))


def scale(service: Service, values: Mapping[str, str]) -> Service:
    """Have this many replicas, or a number between two."""
    rules, least, most = service.spec.replicas, _number(values, "min"), _number(values, "max")
    least = rules.min if least is None else least
    return replace(service, spec=replace(service.spec, replicas=replace(rules, min=least, max=most)))


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name, "")
    if text and not text.isdecimal():
        raise InvalidInputError(f"'{text}' is not a number", field=name, expected="a number")
    return int(text) if text else None


def _each_template(spec: ServiceSpec, change: Callable[[JobSpec], JobSpec]) -> ServiceSpec:
    return spec if spec.job is None else replace(spec, job=change(spec.job))


def _revision(service: Service) -> str:
    status = service.status
    return f"{status.current} -> {status.rollout.revision}" if status.rollout is not None else str(status.current)


def _what(service: Service) -> str | None:
    revision = service.status.revision(service.status.current)
    return (revision.model if revision is not None else "") or getattr(service.spec, "model", "") or None


def _last(service: Service) -> str | None:
    if service.status.problem or service.status.notice:
        return service.status.problem or service.status.notice
    return service.status.events[-1].message if service.status.events else None


def _related(spec: ServiceSpec) -> tuple[Kind[Any, Any, Any], ...]:
    return (MODEL,) if spec.model else ()


SERVICE: Kind[ServiceSpec, ServiceStatus, Service] = Kind(
    name="service",
    plural="services",
    summary="Roll out, scale and query services.",
    description="Replicas that answer requests; each is a job of its own.",
    spec=ServiceSpec,
    status=ServiceStatus,
    answer=Service,
    format=derived_format(ServiceSpec, "Service", "What answers requests, and how it is scaled and replaced."),
    editable=True,
    columns=(
        Column("STATE", lambda service: service.state),
        Column("READY", lambda service: f"{service.status.ready}/{service.status.scale}"),
        Column("REVISION", _revision),
        Column("MODEL", _what),
        Column("ADDRESS", lambda service: service.status.address or None),
        Column("LAST", _last, last=True),
    ),
    verbs=(
        Verb("promote", "Let the revision that is rolled out take over now.", promote),
        Verb("rollback", "Go back to an earlier revision.", rollback, "revision=NUMBER"),
        Verb("pause", "Let a rollout stay at its step.", pause),
        Verb("resume", "Let a rollout go on.", resume),
        Verb("scale", "Have more or fewer replicas.", scale, "min=NUMBER max=NUMBER"),
    ),
    plan=plan_service,
    digest=ended_replica,
    reads_metrics=lambda spec: spec.replicas.metric is ScaleMetric.REPORTED,
    related=_related,
    each_template=_each_template,
    files=lambda spec: tuple(file for file in (spec.access.certificate, spec.access.key) if file),
)
