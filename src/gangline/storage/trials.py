"""Reading a sweep's trials out of a store: its jobs by label, with the newest values of its objective."""

from dataclasses import replace

from gangline.model import Job
from gangline.model.sweep import SWEEP_LABEL, Sweep
from gangline.storage.interface import JobQuery, Store
from gangline.sweeps import Trial, trials_of

_PAGE = 500


async def read_trials(store: Store, sweep: Sweep) -> tuple[Trial, ...]:
    """Return every trial of the sweep that is kept, in the order of their numbers."""
    jobs: list[Job] = []
    query = JobQuery(tenant=sweep.tenant, labels=((SWEEP_LABEL, sweep.name),), limit=_PAGE)
    while True:
        page = await store.list(query)
        jobs += page.jobs
        if page.next is None:
            break
        query = replace(query, after=page.next)
    metrics = await store.latest_metrics([job.id for job in jobs]) if sweep.spec.objective else ()
    return trials_of(sweep, jobs, metrics)
