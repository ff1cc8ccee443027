"""The plan of a service: which replicas begin, drain and end now, and how its rollout goes on.

Asked again after its plan was carried out, it finds nothing more to do until something is seen to have changed.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from gangline.model import Backoff, Job, JobSpec, Phase, Timestamp
from gangline.model.kinds.registered_model import Model, model_reference
from gangline.model.kinds.service import Service, ServiceReplica, ServiceStatus
from gangline.serving.revisions import begun, replica_job, with_wanted_revision
from gangline.serving.rollout import Candidate, advance, given_up, number_of, returns
from gangline.serving.routes import route_name
from gangline.serving.scaling import wanted_scale
from gangline.serving.sight import EndedReplica, ServiceSight
from gangline.serving.troubles import blocking, hindering

_LOOK_SECONDS = 1.0
_MODEL_SECONDS = 5.0
_BACKOFF = Backoff(2.0, 60.0)
"""How long a revision whose replicas fail for good waits before it gets the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """What should happen now: jobs by the numbers of their replicas."""

    status: ServiceStatus
    start: tuple[tuple[int, JobSpec], ...] = ()
    stop: tuple[int, ...] = ()
    again_at: Timestamp | None = None


def plan(
    service: Service,
    jobs: Iterable[Job],
    sight: ServiceSight,
    now: Timestamp,
    *,
    ended: Collection[EndedReplica] = (),
    models: Iterable[Model] = (),
) -> ServicePlan:
    """Say what should happen to a service."""
    running = {number_of(job): job for job in jobs if not job.finished}
    gone = {each.number for each in ended} - running.keys()
    status = begun(with_wanted_revision(service, models, now), now)
    status = replace(
        status,
        scale=wanted_scale(service.spec.replicas, sight, status.scale, now),
        replicas=tuple(each for each in status.replicas if not _is_over(each, running, gone)),
    )
    if status.rollout is not None:
        failed = [each for each in ended if each.revision == status.rollout.revision and each.phase is Phase.FAILED]
        status = _advanced(replace(service, status=status), running, failed, sight, now)
    status = _sized(replace(service, status=status), ended, sight, now)
    present = [each for each in status.replicas if each.revision == status.current and each.draining_at is None]
    status = replace(
        status,
        ready=sum(sight.ready(each.number) for each in present),
        traffic=status.traffic if sight.traffic is None else sight.traffic,
        address=f"{sight.router}/services/{route_name(service)}" if sight.router else status.address,
    )
    made = replace(service, status=status)
    made = replace(made, status=_with_troubles(made, service.status, running, sight, now))
    return ServicePlan(
        status=made.status,
        start=tuple(_missing_jobs(made, running)),
        stop=tuple(each.number for each in status.replicas if _may_stop(made, each, sight, now)),
        again_at=_again_at(made, sight, now),
    )


def _with_troubles(
    service: Service, before: ServiceStatus, running: Mapping[int, Job], sight: ServiceSight, now: Timestamp
) -> ServiceStatus:
    """Say what is wrong for as long as it is; that it began to be is kept."""
    status = service.status
    problem = status.problem or blocking(service, before.problem, running, sight, now)
    notice = hindering(service, running, sight, now)
    for known, text, reason in ((before.problem, problem, "NotReady"), (before.notice, notice, "Hindered")):
        if text and text != known:
            status = status.told(now, reason, text)
    return replace(status, problem=problem, notice=notice)


def _is_over(replica: ServiceReplica, running: Mapping[int, Job], gone: Collection[int]) -> bool:
    """Whether nothing of a replica is left; one that is to live and has no job gets one."""
    return replica.number in gone or (replica.draining_at is not None and replica.number not in running)


def _advanced(
    service: Service, running: Mapping[int, Job], failed: list[EndedReplica], sight: ServiceSight, now: Timestamp
) -> ServiceStatus:
    status, rollout = service.status, service.status.rollout
    assert rollout is not None
    mine = [each for each in status.replicas if each.revision == rollout.revision and each.draining_at is None]
    present = [each for each in status.replicas if each.revision == status.current and each.draining_at is None]
    recent = [each for each in failed if each.finished_at >= (rollout.begun_at or now)]
    if recent:
        return given_up(status, f"a replica failed: {recent[-1].message}", now)
    candidate = Candidate(
        jobs=tuple(running[each.number] for each in mine if each.number in running),
        ready=sum(sight.ready(each.number) for each in mine),
        wanted=_share(service, status.scale),
        present=sum(
            sight.ready(each.number)
            or (each.number in running and returns(running[each.number], service.spec.health.within_seconds, now))
            for each in present
        ),
        sight=sight,
    )
    return advance(service, candidate, now)


def _share(service: Service, scale: int) -> int:
    """How many replicas the present step of a rollout needs."""
    rollout, steps = service.status.rollout, service.spec.rollout.steps
    assert rollout is not None
    part = steps[rollout.step] / 100 if rollout.step < len(steps) else 1.0
    return max(1, math.ceil(scale * part))


def _sized(service: Service, ended: Collection[EndedReplica], sight: ServiceSight, now: Timestamp) -> ServiceStatus:
    """Add and drain replicas until every revision has what it should have."""
    status = service.status
    for revision, count in _targets(service, sight).items():
        mine = [each for each in status.replicas if each.revision == revision and each.draining_at is None]
        if len(mine) < count and not _backs_off(revision, ended, now):
            status = _grown(status, revision, count - len(mine))
        elif len(mine) > count:
            # Those go first that answer nothing yet, and the youngest among the others.
            order = sorted(mine, key=lambda each: (sight.ready(each.number), -each.number))
            status = _drained(status, {each.number for each in order[: len(mine) - count]}, now)
    return status


def _targets(service: Service, sight: ServiceSight) -> dict[int, int]:
    """How many replicas each revision should have; one that is neither present nor rolled out has none."""
    status, rollout = service.status, service.status.rollout
    targets = dict.fromkeys((each.revision for each in status.replicas), 0)
    if not status.current:
        return targets
    targets[status.current] = status.scale
    if rollout is None:
        return targets
    wanted = _share(service, status.scale)
    if rollout.step < len(service.spec.rollout.steps):
        return {**targets, rollout.revision: wanted}
    # It takes over: one of the others goes for each of its own that answers.
    alive = [each for each in status.replicas if each.draining_at is None]
    mine = [each for each in alive if each.revision == rollout.revision]
    others = sum(each.revision == status.current for each in alive)
    ready = sum(sight.ready(each.number) for each in mine)
    room = status.scale + service.spec.rollout.surge - others
    return {
        **targets,
        status.current: min(status.scale, max(0, status.scale - ready)),
        rollout.revision: min(wanted, max(len(mine), room, 1)),
    }


def _grown(status: ServiceStatus, revision: int, count: int) -> ServiceStatus:
    numbers = range(status.last_replica + 1, status.last_replica + 1 + count)
    added = tuple(ServiceReplica(number=number, revision=revision) for number in numbers)
    return replace(status, replicas=(*status.replicas, *added), last_replica=status.last_replica + count)


def _drained(status: ServiceStatus, numbers: Collection[int], now: Timestamp) -> ServiceStatus:
    replicas = tuple(replace(each, draining_at=now) if each.number in numbers else each for each in status.replicas)
    return replace(status, replicas=replicas)


def _backs_off(revision: int, ended: Collection[EndedReplica], now: Timestamp) -> bool:
    failed = [each.finished_at for each in ended if each.revision == revision and each.phase is Phase.FAILED]
    return bool(failed) and now < max(failed) + _BACKOFF.pause(len(failed))


def _missing_jobs(service: Service, running: Mapping[int, Job]) -> Iterable[tuple[int, JobSpec]]:
    for each in service.status.replicas:
        revision = service.status.revision(each.revision)
        if each.number not in running and each.draining_at is None and revision is not None:
            yield each.number, replica_job(service, revision, each)


def _may_stop(service: Service, replica: ServiceReplica, sight: ServiceSight, now: Timestamp) -> bool:
    """Whether a replica that drains has nothing left to answer, or has had its time."""
    if replica.draining_at is None:
        return False
    seen = sight.replicas.get(replica.number)
    late = now - replica.draining_at >= service.spec.access.drain_seconds
    return seen is None or seen.idle or not seen.address or late


def _again_at(service: Service, sight: ServiceSight, now: Timestamp) -> Timestamp | None:
    """When time alone may give it something to do."""
    status, rules = service.status, service.spec.replicas
    unready = any(not sight.ready(each.number) for each in status.replicas)
    leaving = any(each.draining_at is not None for each in status.replicas)
    if status.rollout is not None or unready or leaving or rules.min != rules.most or len(status.replicas) < rules.min:
        return Timestamp(now + _LOOK_SECONDS)
    reference = model_reference(service.spec.model)
    # Somebody may register the next version, or move the alias, where nobody tells us.
    return Timestamp(now + _MODEL_SECONDS) if reference is not None and reference.number is None else None
