"""Writes down why jobs wait, where anybody who may read a job can read it. Only the leader does.

A write costs the whole cluster, so a job's reason is written when it changed, each job's at most every few seconds, and
neither a predicted start that merely drifts with the clock nor one place less of a hundred is a change.
"""

import asyncio
import logging
from dataclasses import replace

from gangline.controller import Controller
from gangline.errors import StorageError
from gangline.model import Explanation, PlaceInLine
from gangline.operations import word_reason
from gangline.storage.kubernetes import KubernetesStore

_log = logging.getLogger(__name__)
_EVERY_SECONDS = 2.0
_MOST_AT_ONCE = 50
"""Many jobs that wait for the same reason are told over several rounds, so that jobs are never kept waiting by it."""
_DRIFT_SECONDS = 60.0


async def tell_why_jobs_wait(store: KubernetesStore, controller: Controller) -> None:
    """Keep the reasons of all waiting jobs up to date, forever."""
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        try:
            await tell_changed(store, controller)
        except StorageError as error:
            _log.warning("%s; trying again", error)


async def tell_changed(store: KubernetesStore, controller: Controller) -> None:
    """Write every reason that differs from what was told."""
    written = 0
    for job in store.waiting():
        why = controller.explanation(job.id)
        if why is None or not differs(store.explanation(job.id), why):
            continue
        await store.explain(job.id, await word_reason(store, job.spec.tenant, why))
        written += 1
        if written >= _MOST_AT_ONCE:
            return


def differs(before: Explanation | None, after: Explanation) -> bool:
    """Whether there is anything new to tell."""
    if before is None or _facts(before) != _facts(after):
        return True
    if _moved(before.line, after.line):
        return True
    old, new = before.predicted_start_at, after.predicted_start_at
    if old is None or new is None:
        return old != new
    return abs(old - new) > _DRIFT_SECONDS


def _facts(why: Explanation) -> Explanation:
    return replace(why, sentences=(), predicted_start_at=None, line=None)


def _moved(before: PlaceInLine | None, after: PlaceInLine | None) -> bool:
    """Whether a place in line is another one, to a tenth: whenever anybody starts, everybody moves up by one."""
    if before is None or after is None:
        return before is not after
    return 10 * abs(before.place - after.place) >= max(before.place, after.place)
