"""How many replicas the load calls for: more at once, fewer only after a while."""

import math

from gangline.model import Timestamp
from gangline.model.kinds.service import ReplicaRange
from gangline.serving.sight import LoadSample, ServiceSight

_PARTS = 10
"""The window is divided into this many parts; the mean of the newest is the load now."""
_TOLERANCE = 0.1
"""How far the load may be above what the replicas are for: otherwise every sample would be a reason to change."""


def wanted_scale(rules: ReplicaRange, sight: ServiceSight, scale: int, now: Timestamp) -> int:
    """Return how many replicas there should be; ``scale`` is how many there should have been until now."""
    least = max(rules.min, 0 if _is_idle(rules, sight, now) else 1)
    if least == 0 and scale == 0:
        return 0
    means = _means(rules, sight.loads, now)
    wanted = max(scale, least)
    if means and means[-1] > wanted * rules.per_replica * (1 + _TOLERANCE):
        wanted = math.ceil(means[-1] / rules.per_replica)
    elif means and _is_whole(rules, sight, now):
        wanted = min(wanted, max(math.ceil(max(means) / rules.per_replica), least))
    return min(max(wanted, least), rules.most)


def _is_idle(rules: ReplicaRange, sight: ServiceSight, now: Timestamp) -> bool:
    """Whether nobody has asked for anything for long enough to sleep; who has just begun to look knows nothing."""
    if sight.held or sight.watched_since is None:
        return False
    last = sight.watched_since if sight.active_at is None else sight.active_at
    return now - last >= rules.idle_seconds


def _is_whole(rules: ReplicaRange, sight: ServiceSight, now: Timestamp) -> bool:
    return bool(sight.loads) and now - sight.loads[0].at >= rules.window_seconds * (1 - 1 / _PARTS)


def _means(rules: ReplicaRange, loads: tuple[LoadSample, ...], now: Timestamp) -> list[float]:
    """The mean load of each part of the window that has samples, the newest last."""
    length = max(rules.window_seconds / _PARTS, 0.001)
    parts: dict[int, list[float]] = {}
    for sample in loads:
        part = int((now - sample.at) / length)
        if part <= _PARTS:
            parts.setdefault(-part, []).append(sample.load)
    return [sum(parts[part]) / len(parts[part]) for part in sorted(parts)]
