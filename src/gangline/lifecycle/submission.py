"""How a job begins."""

from gangline.model import Job, JobId, JobSpec, Phase, PhaseEntry, Timestamp


def new_job(job_id: JobId, spec: JobSpec, at: Timestamp, *, halted: bool = False) -> Job:
    """Return a job that was submitted just now; ``halted`` ones wait for their user's word before they queue."""
    history = [PhaseEntry(phase=Phase.QUEUED, at=at, reason="Submitted")]
    if halted:
        history.append(PhaseEntry(phase=Phase.HALTED, at=at, reason="SubmittedHalted", message="waits to be resumed"))
    return Job(id=job_id, spec=spec, created_at=at, history=tuple(history))
