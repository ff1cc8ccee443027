"""Looks ahead for the pages: what is planned, and what would be. It works in a thread, for one page at a time.

A look ahead costs seconds of processor time where much waits, and pages ask every second: what is planned is kept for
many times as long as it took to find out.
"""

import asyncio
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import web

from gangline import operations
from gangline.forecast.course import Forecast, State, forecast
from gangline.forecast.whatif import Answer, what_if
from gangline.model import JobId, Tenant, Timestamp
from gangline.model.wording import duration
from gangline.operations import OperationContext
from gangline.storage.interface import Store

_CYCLES = 200
_MOST_JOBS = 5000
_LEAST_SECONDS = 5.0
_WORTH = 20.0
"""For how many times its cost a plan is kept."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What is expected of those who wait now. ``beyond``: so much waits that nobody looked."""

    launches: dict[JobId, Timestamp]
    beyond: bool = False


class Forecaster:
    """Looks ahead for the pages of one service, with what whoever asks may see of it (``web.unfinished``)."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._planned: WeakKeyDictionary[Store, tuple[Planned, float]] = WeakKeyDictionary()

    async def planned(self, context: OperationContext) -> Planned:
        """Return when everybody who waits should start; a few seconds old."""
        async with self._turn:
            began = context.clock.now()
            known, good_until = self._planned.get(context.store, (None, 0.0))
            if known is None or began >= good_until:
                known = await self._plan(context)
                ended = context.clock.now()
                self._planned[context.store] = known, ended + max(_LEAST_SECONDS, _WORTH * (ended - began))
            return known

    async def _plan(self, context: OperationContext) -> Planned:
        state = await operations.state_now(context)
        if len(state.jobs) > _MOST_JOBS:
            return Planned({}, beyond=True)
        if not any(job.placeable for job in state.jobs):
            return Planned({})
        found: Forecast = await asyncio.to_thread(forecast, state, policies=context.policies, cycles=_CYCLES)
        return Planned({job_id: launch.at for job_id, launch in found.launches.items()}, beyond=found.exhausted)

    async def what_if(self, context: OperationContext, state: State, **changes: Any) -> Answer:
        """Return what would happen if some things were others; see ``gangline.forecast.whatif``."""
        async with self._turn:
            return await asyncio.to_thread(what_if, state, policies=context.policies, **changes)


FORECASTER: web.AppKey[Forecaster] = web.AppKey("forecaster", Forecaster)


def effects_of(context: OperationContext, tenant: Tenant, state: State, answer: Answer) -> list[str]:
    """Say in sentences what would become of the jobs that are there already."""
    names = operations.names_for(context, tenant, state.jobs)
    names |= {prospect.job.id: prospect.job.name for prospect in answer.prospects}
    found = []
    for each in answer.stops:
        stop = each.stop
        what = "would be stopped" if stop.whole else "would lose surplus replicas"
        reason = f" for {names[stop.beneficiary]}" if stop.beneficiary in names else ""
        again = "" if each.resumes_at is None else f", and start again {until(each.resumes_at, state.now)}"
        found.append(f"{names[stop.job_id]} {what} {until(stop.at, state.now)}{reason}{again}.")
    for effect in answer.effects:
        name = names[effect.job.id]
        before, after = until(effect.starts_at, state.now), until(effect.would_start_at, state.now)
        found.append(f"{name} would start {after} instead of {before}.")
    return found


def until(at: Timestamp | None, now: Timestamp) -> str:
    """When something is expected."""
    if at is None:
        return "nobody knows when"
    return "now" if at - now < 1 else f"in {duration(at - now)}"
