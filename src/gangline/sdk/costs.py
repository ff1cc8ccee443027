"""What jobs have used of the machines, and what that costs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangline.model import Job, Timestamp
from gangline.model.team.accounting import Use


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one job has used so far."""

    job: str
    tenant: str
    queue: str
    hours: float
    """How long it held its machines, all attempts together."""
    cpu_hours: float
    memory_gib_hours: float
    gpu_hours: float
    money: float

    @classmethod
    def of(cls, job: Job, now: Timestamp, prices: Mapping[str, float]) -> "Cost":
        """Add up the time that a job held machines, as the gang it is or last was."""
        use = Use.of(job)
        hours = sum(span.hours for span in use.spans(now) if span.held)
        amounts = {name: amount * hours for name, amount in use.amounts.items()}
        return cls(
            job=job.name,
            tenant=job.spec.tenant,
            queue=job.spec.queue,
            hours=hours,
            cpu_hours=amounts["cpu"],
            memory_gib_hours=amounts["memory"],
            gpu_hours=amounts["gpu"],
            money=sum(amounts[name] * price for name, price in prices.items()),
        )


def costs(jobs: Sequence[Job], now: Timestamp, prices: Mapping[str, float]) -> tuple[Cost, ...]:
    """Return what each job has used, in the order given."""
    return tuple(Cost.of(job, now, prices) for job in jobs)
