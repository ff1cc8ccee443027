"""Jobs in every phase, and the events that tests of the lifecycle let happen to them."""

from gangline.lifecycle import advance
from gangline.lifecycle import events as e
from gangline.lifecycle.invariants import check_invariants, check_step
from gangline.model import (
    DataMove,
    Job,
    Phase,
    Policy,
    ReplicaId,
    RoleName,
    Timestamp,
)
from gangline.testing.builders import START, make_job, make_placement, make_running_job, make_spec

OUT = (DataMove("$RESULT_DIR", "/results"),)
CHIEF = ReplicaId(RoleName("chief"), 0)
PS = ReplicaId(RoleName("ps"), 0)


def worker(index: int = 0) -> ReplicaId:
    return ReplicaId(RoleName("worker"), index)


def exited(job: Job, replica: ReplicaId, code: int, *, after: float = 1, incarnation: int = 0) -> e.ReplicaExited:
    return e.ReplicaExited(
        job_id=job.id,
        at=Timestamp(START + after),
        attempt=job.attempt,
        replica=replica,
        exit_code=code,
        incarnation=incarnation,
    )


def stopped(job: Job, *, after: float = 2) -> e.GangStopped:
    return e.GangStopped(job_id=job.id, at=Timestamp(START + after), attempt=job.attempt)


def placed(job: Job, *, after: float = 3) -> e.GangPlaced:
    return e.GangPlaced(job_id=job.id, at=Timestamp(START + after), placement=make_placement(job.spec))


def ask(kind: type[e.Event], job: Job, *, after: float = 1, **fields: object) -> e.Event:
    return kind(job_id=job.id, at=Timestamp(START + after), **fields)


def step(job: Job, *steps: e.Event) -> Job:
    for event in steps:
        after = advance(job, event).job
        check_invariants(after)
        check_step(job, after)
        job = after
    return job


def job_in(phase: Phase) -> Job:
    """A job that reached a phase by the shortest honest way."""
    spec = make_spec(policy=Policy(max_attempts=3, deadline_seconds=60), outputs=OUT)
    running = make_running_job(spec)
    halting = step(running, ask(e.HaltRequested, running))
    ways = {
        Phase.QUEUED: lambda: make_job(spec),
        Phase.STARTING: lambda: step(make_job(spec), placed(make_job(spec))),
        Phase.DOWNLOADING: lambda: step(
            job_in(Phase.STARTING), e.DownloadStarted(job_id=running.id, at=Timestamp(START + 3), attempt=1)
        ),
        Phase.PROCESSING: lambda: running,
        Phase.STORING: lambda: step(running, exited(running, worker(), 0)),
        Phase.COMPLETED: lambda: step(
            job_in(Phase.STORING), e.OutputsStored(job_id=running.id, at=Timestamp(START + 2), attempt=1)
        ),
        Phase.FAILED: lambda: step(make_running_job(), exited(make_running_job(), worker(), 1)),
        Phase.CANCELLED: lambda: step(running, ask(e.CancelRequested, running)),
        Phase.HALTING: lambda: halting,
        Phase.HALTED: lambda: step(halting, stopped(halting)),
        Phase.RESUMED: lambda: step(job_in(Phase.HALTED), ask(e.ResumeRequested, running)),
        Phase.RESTARTING: lambda: step(running, exited(running, worker(), 1)),
    }
    job = ways[phase]()
    assert job.phase is phase
    return job
