"""Replicas that are terminating: their job counts on them no longer, but their nodes have not released what they held.

A pod whose program has ended, or that was told to go, takes its place until its kubelet is done with it, and whoever
is placed there before that is refused. An engine that knows of such replicas shows them to the scheduler as a gang of
their own that is on its way out: nobody starts there yet, and whoever is next in line is promised the place. Their
queue no longer pays for them.
"""

from collections.abc import Iterable
from dataclasses import replace

from gangline.model import Job, JobId, Phase, PhaseEntry, ReplicaStatus

_MARK = "/terminating"
"""No job's own id has a slash."""


def terminating_gang(job: Job, replicas: Iterable[ReplicaStatus]) -> Job:
    """What the scheduler is shown of a job's replicas that are terminating; never saved."""
    entry = PhaseEntry(phase=Phase.HALTING, at=job.history[-1].at, reason="Terminating")
    history = (*job.history, entry)
    # What is here will not wait again, whatever becomes of the job itself.
    return replace(
        job, id=JobId(job.id + _MARK), history=history, replicas=tuple(replicas), holding=True, requeue=False
    )


def is_terminating(job_id: JobId) -> bool:
    """Whether an id stands for replicas that are terminating, and not for a job."""
    return job_id.endswith(_MARK)


def owner_of(job_id: JobId) -> JobId:
    """The job that terminating replicas belonged to; any other id is a job's own."""
    return JobId(job_id.removesuffix(_MARK))
