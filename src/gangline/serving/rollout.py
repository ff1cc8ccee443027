"""How a rollout goes on: to its next step, to the end, or not at all. Every way out says why."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gangline.model import Job, Phase, ReplicaId, Timestamp
from gangline.model.kinds.service import Counters, RevisionTraffic, Rollout, Service, ServiceStatus
from gangline.model.routing import LATENCY_BOUNDS
from gangline.serving.sight import ServiceSight

_FEWEST_ERRORS = 3
_FEWEST_ANSWERS = 20
"""Fewer say nothing of latency."""
_PATIENCE = 4.0
"""A step of which too few answers are known lasts this many times as long."""
_SLOWER, _NEVER_SLOW_SECONDS = 3.0, 0.25
_CRASHES_BEFORE_READY, _CRASHES = 3, 6
_QUANTILE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is seen of the revision that is rolled out, and of the one it is to replace."""

    jobs: tuple[Job, ...]
    ready: int
    wanted: int
    """How many ready replicas its step needs."""
    present: int
    """How many replicas of the present one answer, or have only just died and will again."""
    sight: ServiceSight


def advance(service: Service, candidate: Candidate, now: Timestamp) -> ServiceStatus:
    """Take a rollout one step further, if it is time, or give it up."""
    status, rollout, rules = service.status, service.status.rollout, service.spec.rollout
    assert rollout is not None
    if failure := _failure(service, rollout, candidate, now):
        return given_up(status, failure, now)
    if rollout.paused:
        return status
    if rollout.step >= len(rules.steps):
        return _completed(status, rollout, now) if candidate.ready >= candidate.wanted else status
    if not candidate.present and candidate.ready and status.scale:
        # Nobody else answers or soon will: most requests would wait for a revision that has no replicas.
        return _moved(status, rollout, candidate, len(rules.steps), now)
    if rollout.since is None:
        if candidate.ready < candidate.wanted:
            return status
        return replace(status, rollout=_counting(status, rollout, candidate.sight, now))
    patience = 1.0 if _has_answered(status, rollout, candidate.sight) else _PATIENCE
    if now - rollout.since < rules.pause_seconds * patience:
        return status
    return _moved(status, rollout, candidate, rollout.step + 1, now)


def _counting(status: ServiceStatus, rollout: Rollout, sight: ServiceSight, now: Timestamp) -> Rollout:
    """The step has its replicas; from the first one on, answers count."""
    if rollout.counting:
        return replace(rollout, since=now)
    before, present = (sight.counters.get(each, Counters()) for each in (rollout.revision, status.current))
    return replace(rollout, since=now, counting=True, before=before, present_before=present)


def _has_answered(status: ServiceStatus, rollout: Rollout, sight: ServiceSight) -> bool:
    """Whether enough is known of the revision to trust it with more, as far as there are any requests at all."""
    own = sight.counters.get(rollout.revision, Counters()).since(rollout.before)
    present = sight.counters.get(status.current, Counters()).since(rollout.present_before)
    return own.requests >= _FEWEST_ANSWERS or own.requests + present.requests == 0


def _moved(status: ServiceStatus, rollout: Rollout, candidate: Candidate, step: int, now: Timestamp) -> ServiceStatus:
    counting = _counting(status, rollout, candidate.sight, now)
    return replace(status, rollout=replace(counting, step=step, begun_at=now, since=None))


def _completed(status: ServiceStatus, rollout: Rollout, now: Timestamp) -> ServiceStatus:
    revisions = tuple(
        replace(each, failed="") if each.number == rollout.revision else each for each in status.revisions
    )
    status = replace(status, current=rollout.revision, previous=status.current, rollout=None, revisions=revisions)
    return status.told(now, "RolledOut", f"revision {rollout.revision} gets all requests")


def given_up(status: ServiceStatus, why: str, now: Timestamp) -> ServiceStatus:
    """Stop a rollout and keep the reason with its revision; the present one has all requests again."""
    assert status.rollout is not None
    number = status.rollout.revision
    revisions = tuple(replace(each, failed=why) if each.number == number else each for each in status.revisions)
    return replace(status, rollout=None, revisions=revisions).told(now, "RolledBack", f"revision {number}: {why}")


def _failure(service: Service, rollout: Rollout, candidate: Candidate, now: Timestamp) -> str:
    """Say what is wrong with the revision; empty if nothing is known to be."""
    if rollout.stopped:
        return "a user gave it up"
    for job in candidate.jobs:
        if why := _job_failure(service, rollout, job, candidate, now):
            return why
    counters = candidate.sight.counters
    own = counters.get(rollout.revision, Counters()).since(rollout.before)
    limit = service.spec.rollout.errors
    if own.errors >= _FEWEST_ERRORS and own.errors > limit * own.requests:
        return f"{own.errors} of {own.requests} answers were errors; at most {limit:.0%} may be"
    present = counters.get(service.status.current, Counters()).since(rollout.present_before)
    slow, allowed = quantile(own), service.spec.rollout.latency_seconds
    if allowed is None:
        allowed = _SLOWER * max(quantile(present), _NEVER_SLOW_SECONDS)
    if own.requests >= _FEWEST_ANSWERS and slow > allowed:
        return f"95 of 100 answers took up to {slow:g} s; {allowed:g} s are allowed"
    return ""


def returns(job: Job, within_seconds: float, now: Timestamp) -> bool:
    """Whether a replica that is not ready will be: it runs, has not died too often, and had little time yet."""
    lead = job.replica(ReplicaId(job.spec.lead_role, 0))
    if job.finished or lead is None or lead.restarts >= _CRASHES_BEFORE_READY:
        return False
    began = lead.started_at or job.started_at
    return began is not None and now - began <= within_seconds


def _job_failure(service: Service, rollout: Rollout, job: Job, candidate: Candidate, now: Timestamp) -> str:
    if job.phase is Phase.FAILED:
        return f"a replica failed: {job.message}"
    lead = job.replica(ReplicaId(job.spec.lead_role, 0))
    never = rollout.since is None and candidate.ready < candidate.wanted
    if lead is not None and lead.restarts >= (_CRASHES_BEFORE_READY if never else _CRASHES):
        how = f", last with {lead.exit_code}" if lead.exit_code is not None else ""
        return f"replica {job.name} exits again and again{how}"
    within = service.spec.health.within_seconds
    if never and job.started_at is not None and now - max(job.started_at, rollout.begun_at or now) > within:
        seen = candidate.sight.replicas.get(number_of(job))
        if seen is None or not seen.ready:
            said = f": {seen.message}" if seen is not None and seen.message else ""
            return f"replica {job.name} was not ready within {within:g} s{said}"
    return ""


def number_of(job: Job) -> int:
    """Return the number of the replica that a job is."""
    return int(job.id.rpartition("-")[2])


def traffic_of(
    counters: Mapping[int, Counters], before: Mapping[int, Counters], seconds: float
) -> tuple[RevisionTraffic, ...]:
    """Say what revisions were asked between two looks."""
    new = {number: found.since(before.get(number, Counters())) for number, found in counters.items()}
    return tuple(
        RevisionTraffic(
            revision=number,
            per_second=round(each.requests / seconds, 1),
            errors=round(each.errors / each.requests, 3),
            median_seconds=min(quantile(each, 0.5), LATENCY_BOUNDS[-1]),
            p95_seconds=min(quantile(each), LATENCY_BOUNDS[-1]),
        )
        for number, each in sorted(new.items())
        if each.requests
    )


def quantile(counters: Counters, part: float = _QUANTILE) -> float:
    """Return within how many seconds this part of the answers came, rounded up to the bound of a bucket."""
    total, seen = sum(counters.latency), 0
    for count, bound in zip(counters.latency, (*LATENCY_BOUNDS, math.inf), strict=False):
        seen += count
        if total and seen >= part * total:
            return bound
    return 0.0
