"""Writes down why jobs wait, where anybody who may read a job can read it. Only the leader does.

A write costs the whole cluster, so a job's reason is written when it changed, each job's at most every few seconds, and
a predicted start that merely drifts with the clock is no change.
"""

import asyncio
import logging
from dataclasses import replace

from gangline.controller import Controller
from gangline.errors import StorageError
from gangline.model import JobId
from gangline.operations import word_reason
from gangline.scheduling import Explanation
from gangline.storage.kubernetes import KubernetesStore, ToldExplanation

_log = logging.getLogger(__name__)
_EVERY_SECONDS = 2.0
_MOST_AT_ONCE = 50
"""A crowd that waits for the same reason is told over several rounds, so that jobs are never kept waiting by it."""
_DRIFT_SECONDS = 60.0


async def tell_why_jobs_wait(store: KubernetesStore, controller: Controller) -> None:
    """Keep the reasons of all waiting jobs up to date, for ever."""
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
        if why is None or not differs(told_facts(store, job.id), why):
            continue
        reason = await word_reason(store, job.spec.tenant, why)
        await store.explain(job.id, ToldExplanation(sentences=reason.sentences, facts=why))
        written += 1
        if written >= _MOST_AT_ONCE:
            return


def told_facts(store: KubernetesStore, job_id: JobId) -> Explanation | None:
    """Return what was last told about a job."""
    told = store.explanation(job_id)
    return told.facts if told is not None else None


def differs(before: Explanation | None, after: Explanation) -> bool:
    """Whether there is anything new to tell."""
    if before is None or replace(before, predicted_start=None) != replace(after, predicted_start=None):
        return True
    old, new = before.predicted_start, after.predicted_start
    if old is None or new is None:
        return old != new
    return abs(old - new) > _DRIFT_SECONDS
