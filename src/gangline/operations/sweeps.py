"""Sweeps: taking one in, looking at its trials, stopping and deleting it. The sweep driver carries it out."""

import asyncio
import difflib
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import replace

from gangline.errors import ConflictError, GanglineError, NotFoundError, StaleVersionError
from gangline.model import JobId, Tenant
from gangline.model.identity import check_name
from gangline.model.sweep import Sweep, SweepId, SweepSpec
from gangline.operations.desk import Desk
from gangline.operations.submission import check_spec
from gangline.storage.trials import read_trials
from gangline.sweeps import Trial, best_trial, check_references
from gangline.wire import SweepStatus, TrialStatus

_TRIES = 8
_LOOK_SECONDS = 1.0
"""How often a watched sweep is read even if no trial changes phase: reported numbers announce themselves nowhere."""


async def submit_sweep(desk: Desk, sweep_id: SweepId, spec: SweepSpec) -> SweepStatus:
    """Record a new sweep, or return the one that this very submission made before."""
    desk.caller.check(spec.tenant)
    check_name(sweep_id, "id")
    check_references(spec)
    known = await _known(desk, spec.tenant, spec.name)
    if known is None:
        await check_spec(desk, spec.template)
        sweep = Sweep(id=sweep_id, spec=spec, created_at=desk.clock.now())
        with suppress(ConflictError):  # lost a race: whoever won it is found below
            await _send(desk, await desk.store.create_sweep(sweep))
        known = await _known(desk, spec.tenant, spec.name)
    if known is None or known.id != sweep_id or known.spec != spec:
        raise ConflictError(
            f"tenant '{spec.tenant}' already has a sweep named '{spec.name}', or another one with the same id; "
            f"delete it (gangline sweep delete {spec.name}) or use another name"
        )
    desk.sweep_link.changed()
    return await _report(desk, known)


async def _send(desk: Desk, sweep: Sweep) -> None:
    """Send once what all trials need to where they will run; a sweep that cannot be sent was never submitted."""
    if desk.courier is None:
        return
    try:
        await desk.courier.send_code(JobId(sweep.id), sweep.spec.template)
    except GanglineError:
        await desk.store.remove_sweep(sweep.tenant, sweep.name)
        raise


async def list_sweeps(desk: Desk, tenant: Tenant) -> tuple[SweepStatus, ...]:
    """Return the tenant's sweeps with their trials, newest first."""
    desk.caller.check(tenant)
    return tuple([await _report(desk, sweep) for sweep in await desk.store.sweeps(tenant)])


async def get_sweep(desk: Desk, tenant: Tenant, name: str) -> SweepStatus:
    """Return one sweep with its trials."""
    desk.caller.check(tenant)
    return await _report(desk, await _find(desk, tenant, name))


async def stop_sweep(desk: Desk, tenant: Tenant, name: str) -> SweepStatus:
    """Start no further trial and cancel those that run; what ended before is kept, a finished sweep stays finished."""
    return await _change(
        desk, tenant, name, lambda sweep: sweep if sweep.finished_at is not None else replace(sweep, stopped=True)
    )


async def delete_sweep(desk: Desk, tenant: Tenant, name: str) -> SweepStatus:
    """Make a sweep disappear with the jobs of all its trials, stopping them first if they run."""
    return await _change(desk, tenant, name, lambda sweep: replace(sweep, deleting=True))


async def watch_sweep(desk: Desk, tenant: Tenant, name: str) -> AsyncGenerator[SweepStatus, None]:
    """Return a sweep as it is and whenever something of it has changed; ends with its removal."""
    report = await get_sweep(desk, tenant, name)
    sweep_id = report.id
    changes = desk.link.watch()
    waiting = asyncio.ensure_future(anext(changes))
    yield report
    try:
        while True:
            await asyncio.wait({waiting}, timeout=_LOOK_SECONDS)
            if waiting.done():
                changed = waiting.result()
                waiting = asyncio.ensure_future(anext(changes))
                if not changed.startswith(f"{sweep_id}-"):
                    continue
            known = await _known(desk, tenant, name)
            if known is None or known.id != sweep_id:
                return
            current = await _report(desk, known)
            if current != report:
                report = current
                yield report
    finally:
        waiting.cancel()


async def _change(desk: Desk, tenant: Tenant, name: str, changed: Callable[[Sweep], Sweep]) -> SweepStatus:
    desk.caller.check(tenant)
    for _ in range(_TRIES):
        sweep = await _find(desk, tenant, name)
        wanted = sweep if sweep.deleting else changed(sweep)
        try:
            saved = sweep if wanted == sweep else await desk.store.save_sweep(wanted)
        except StaleVersionError:
            continue
        desk.sweep_link.changed()
        return await _report(desk, saved)
    raise ConflictError(f"sweep '{name}' changes faster than this request can be recorded; try again")


async def _find(desk: Desk, tenant: Tenant, name: str) -> Sweep:
    found = await _known(desk, tenant, name)
    if found is None:
        names = [sweep.name for sweep in await desk.store.sweeps(tenant)]
        nearest = difflib.get_close_matches(name, names, n=1)
        raise NotFoundError("sweep", name, hint=f"did you mean '{nearest[0]}'?" if nearest else None)
    return found


async def _known(desk: Desk, tenant: Tenant, name: str) -> Sweep | None:
    return next((sweep for sweep in await desk.store.sweeps(tenant) if sweep.name == name), None)


async def _report(desk: Desk, sweep: Sweep) -> SweepStatus:
    trials = await read_trials(desk.store, sweep)
    best = best_trial(sweep.spec.objective, trials)
    return SweepStatus(
        id=sweep.id,
        spec=sweep.spec,
        state=sweep.state,
        created_at=sweep.created_at,
        trials=tuple(_trial_status(trial) for trial in trials),
        begun=sweep.begun,
        best=None if best is None else best.assignment.number,
        finished_at=sweep.finished_at,
    )


def _trial_status(trial: Trial) -> TrialStatus:
    job = trial.job
    return TrialStatus(
        number=trial.assignment.number,
        values=trial.assignment.values,
        job=job.name,
        job_id=job.id,
        phase=job.phase,
        reason=job.reason,
        message=job.message,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        result=trial.result,
    )
