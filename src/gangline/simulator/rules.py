"""Sets of rules to compare with, by name: the classic ones, and ours."""

from collections.abc import Mapping
from dataclasses import replace

from gangline.scheduling import DEFAULT_POLICIES, Policies
from gangline.scheduling.plugins.orders import PriorityThenAge, ShortestFirst, Tiresias

_UNDISTURBED = Policies(
    preemption=False, reclaim=False, defragmentation=False, minimum_run_seconds=0.0, reserve_after_seconds=0.0
)
"""Whoever runs is left alone: the classic rules know no eviction."""

RULES: Mapping[str, Policies] = {
    "fifo": replace(_UNDISTURBED, job_order=PriorityThenAge(), in_order=True),
    "fifo+backfill": replace(_UNDISTURBED, job_order=PriorityThenAge()),
    "shortest-first": replace(_UNDISTURBED, job_order=ShortestFirst()),
    "least-attained-service": replace(_UNDISTURBED, preemption=True, reservation=False, job_order=Tiresias()),
    "ours": DEFAULT_POLICIES,
}
"""Strictly first come, first served; the same with backfill; shortest declared run time first; two queues by attained
service (Tiresias), with eviction; and what Gangline does unless it is told otherwise."""
