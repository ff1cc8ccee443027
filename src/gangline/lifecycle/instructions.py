"""What the controller must carry out. Orders in the imperative; every one may be repeated without harm."""

from dataclasses import dataclass

from gangline.model import ACTIVE_PHASES, Clean, Gang, GangId, Job, JobId, Phase


@dataclass(frozen=True, slots=True)
class RunGang:
    """Make the gang's replicas exist exactly as listed: start what is missing, stop what is not listed."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class FinishGang:
    """The job has succeeded: stop the replicas that still serve it, then store its outputs."""

    gang: Gang


@dataclass(frozen=True, slots=True)
class StopGang:
    """Stop every replica, gracefully at first, and free what they held; ``clean`` says what stays to be looked at."""

    gang_id: GangId
    grace_seconds: float
    clean: Clean = Clean.ALL


@dataclass(frozen=True, slots=True)
class ForgetJob:
    """Remove everything the job left behind, then its record."""

    job_id: JobId


Instruction = RunGang | FinishGang | StopGang | ForgetJob


def standing(job: Job) -> tuple[Instruction, ...]:
    """Return the instructions this state calls for, whether or not they were carried out before.

    A controller that restarts gives these again for every job; so an instruction lost in a crash is never missed.
    """
    if job.holding:
        if job.phase is Phase.STORING:
            return (FinishGang(job.gang()),)
        if job.phase in ACTIVE_PHASES:
            return (RunGang(job.gang()),)
        # An attempt that another will follow leaves nothing behind, and neither does a job that is being deleted.
        clean = job.spec.policy.clean if job.finished and not job.deleting else Clean.ALL
        return (StopGang(job.gang_id, job.spec.policy.grace_seconds, clean),)
    if job.deleting:
        return (ForgetJob(job.id),)
    return ()
