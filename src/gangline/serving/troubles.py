"""What keeps a service from answering, or a rollout from going on, in words for its user."""

from collections.abc import Mapping, Sequence

from gangline.model import Job, ReplicaId, Timestamp
from gangline.model.kinds.service import Service
from gangline.serving.rollout import number_of
from gangline.serving.sight import ServiceSight

_CRASHES = 3
_PATIENCE_SECONDS = 5.0
"""Shorter waits for a machine are the ordinary course of things."""


def blocking(service: Service, before: str, running: Mapping[int, Job], sight: ServiceSight, now: Timestamp) -> str:
    """Say why nobody answers and nobody will soon; empty if somebody does, or may yet. Nothing is given up for it.

    ``before`` is what was said last: a replica that was started once more is not news. A rollout has its own end
    (``rollout``): what is present goes on answering meanwhile.
    """
    status = service.status
    mine = [each.number for each in status.replicas if each.revision == status.current and each.draining_at is None]
    if any(sight.ready(number) for number in mine):
        return ""
    for job in (running[number] for number in mine if number in running):
        what, why = _unready(service, job, sight, now)
        if what:
            return before if before.startswith(what) else what + why
    return ""


def _unready(service: Service, job: Job, sight: ServiceSight, now: Timestamp) -> tuple[str, str]:
    """What is wrong with a replica that has had its chance, and what is known of it now."""
    lead, within = job.replica(ReplicaId(job.spec.lead_role, 0)), service.spec.health.within_seconds
    if lead is not None and lead.restarts >= _CRASHES:
        how = f", last with {lead.exit_code}" if lead.exit_code is not None else ""
        return f"replica {job.name} exits again and again", f"{how}: {lead.message}" if lead.message else how
    if job.started_at is not None and now - job.started_at > within:
        seen = sight.replicas.get(number_of(job))
        said = f": {seen.message}" if seen is not None and seen.message else ""
        return f"replica {job.name} was not ready within {within:g} s", said
    return "", ""


def hindering(service: Service, running: Mapping[int, Job], sight: ServiceSight, now: Timestamp) -> str:
    """Say what is wrong although it may answer: replicas without machines, a router that cannot do as it was told."""
    waiting: list[Job] = [
        running[each.number]
        for each in service.status.replicas
        if each.number in running and each.draining_at is None and _waits(running[each.number], now)
    ]
    return "; ".join(filter(None, (sight.problem, _without_machines(service, waiting))))


def _waits(job: Job, now: Timestamp) -> bool:
    return job.placeable and now - job.created_at >= _PATIENCE_SECONDS


def _without_machines(service: Service, waiting: Sequence[Job]) -> str:
    if not waiting:
        return ""
    rollout = service.status.rollout
    names = ", ".join(job.name for job in waiting)
    what = f"replicas wait for machines: {names}" if len(waiting) > 1 else f"{names} waits for a machine"
    return f"the rollout of revision {rollout.revision} waits: {what}" if rollout is not None else what
