"""Sweeps on the wire: the sweep file that would submit the sweep again, and its status with every trial."""

from datetime import datetime

import msgspec

from gangline.api.schemas.moment import moment, moment_or_none
from gangline.dialects.native import sweep_to_plain
from gangline.operations import SweepReport
from gangline.sweeps import Trial, best_trial


class TrialSchema(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One trial: its values, the newest value of the objective, and where its job is."""

    number: int
    values: dict[str, str]
    job: str
    job_id: str
    phase: str
    reason: str
    created_at: datetime
    result: float | None = None
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class SweepStatusSchema(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything that is known of a sweep."""

    id: str
    state: str
    created_at: datetime
    begun: int
    trials: list[TrialSchema]
    best: int | None = None
    """The number of the trial with the best result so far."""
    finished_at: datetime | None = None


class SweepSchema(msgspec.Struct, kw_only=True, rename="camel"):
    """A sweep: ``metadata`` and ``spec`` are those of its file."""

    api_version: object
    kind: object
    metadata: object
    spec: object
    status: SweepStatusSchema


def sweep_to_schema(report: SweepReport) -> SweepSchema:
    """Write a sweep."""
    sweep = report.sweep
    plain = sweep_to_plain(sweep.spec)
    best = best_trial(sweep.spec.objective, report.trials)
    return SweepSchema(
        api_version=plain["apiVersion"],
        kind=plain["kind"],
        metadata=plain["metadata"],
        spec=plain["spec"],
        status=SweepStatusSchema(
            id=sweep.id,
            state=sweep.state.value,
            created_at=moment(sweep.created_at),
            begun=sweep.begun,
            trials=[_trial(trial) for trial in report.trials],
            best=None if best is None else best.assignment.number,
            finished_at=moment_or_none(sweep.finished_at),
        ),
    )


def _trial(trial: Trial) -> TrialSchema:
    job = trial.job
    return TrialSchema(
        number=trial.assignment.number,
        values=dict(trial.assignment.values),
        job=job.name,
        job_id=job.id,
        phase=job.phase.value,
        reason=job.reason,
        created_at=moment(job.created_at),
        result=trial.result,
        message=job.message,
        started_at=moment_or_none(job.started_at),
        finished_at=moment_or_none(job.finished_at),
    )
