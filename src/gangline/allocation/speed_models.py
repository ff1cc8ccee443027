"""Speed as a function of size: two forms, each fitted by non-negative least squares to what was measured.

``ServerForm`` (Optimus, EuroSys'18) needs no more than progress per second; it knows parameter servers.
``AllReduceForm`` (Pollux, OSDI'21) knows the batch of a worker and the time of exchanging gradients, so that it can
say what another batch size would do. Both are optimistic where nothing was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from gangline.allocation.least_squares import Floats, non_negative_fit
from gangline.model.jobs.speed import SpeedSample

ACROSS_NODES = 1.1
"""Exchanging gradients across nodes takes at least this many times as long as inside one, until it was measured."""
OVERLAPS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""How far computing and exchanging overlap: 1 is one after the other, 10 is side by side."""
OVERLAP_PENALTY = 1e-3
"""What each step away from no overlap must gain in squared logarithmic error."""


@dataclass(frozen=True, slots=True)
class ServerForm:
    """Seconds per step: a part that is divided among the workers, one that is not, and what each worker and each
    server adds; workers wait for servers in proportion."""

    factors: tuple[float, ...]
    error: float
    """Typical relative error on what was measured."""

    def step_seconds(self, workers: int, servers: int) -> float:
        """Predict one step of the job."""
        return sum(factor * term for factor, term in zip(self.factors, _terms(workers, servers), strict=True))


def fit_servers(samples: Sequence[SpeedSample]) -> ServerForm:
    """Fit the form to samples of a job whose steps are divided among its workers."""
    columns = np.array([_terms(each.workers, each.servers) for each in samples]).T
    varied = columns.max(axis=1) > 0
    factors = np.zeros(len(columns))
    seconds = [each.step_seconds for each in samples]
    factors[varied] = non_negative_fit(columns[varied].tolist(), seconds)
    form = ServerForm(tuple(factors.tolist()), 0.0)
    logs = [log(form.step_seconds(each.workers, each.servers) / each.step_seconds) for each in samples]
    return ServerForm(form.factors, _rms(logs))


def _terms(workers: int, servers: int) -> tuple[float, ...]:
    """Divided work, fixed work, waiting for servers, and what every worker and every server costs."""
    if not servers:
        return (1.0 / workers, 1.0, 0.0, float(workers), 0.0)
    return (1.0 / workers, 1.0, workers / servers, float(workers), float(servers))


@dataclass(frozen=True, slots=True)
class AllReduceForm:
    """A pass computes for ``compute[0] + compute[1] * batch`` seconds; gradients are exchanged in ``local`` or
    ``across`` seconds, linear in the workers beyond two, and both overlap as ``overlap`` says."""

    compute: tuple[float, float]
    local: tuple[float, float] = (0.0, 0.0)
    across: tuple[float, float] = (0.0, 0.0)
    overlap: float = 1.0
    error: float = 0.0

    def pass_seconds(self, batch: Floats) -> Floats:
        """Seconds of a pass without an exchange."""
        return self.compute[0] + self.compute[1] * batch

    def sync_seconds(self, workers: int, nodes: int) -> float:
        """Seconds of an exchange by itself."""
        if workers < 2:
            return 0.0
        fixed, each = self.across if nodes > 1 else self.local
        return fixed + each * (workers - 2)

    def last_pass_seconds(self, workers: int, nodes: int, batch: Floats) -> Floats:
        """Seconds of a pass with the exchange."""
        computing, exchange = self.pass_seconds(batch), self.sync_seconds(workers, nodes)
        return np.asarray((computing**self.overlap + exchange**self.overlap) ** (1.0 / self.overlap))


def fit_all_reduce(samples: Sequence[SpeedSample]) -> AllReduceForm:
    """Fit the form to samples that know their batch."""
    computing = [
        (each.batch, max(each.step_seconds - (each.sync_seconds or 0.0), 1e-6 * each.step_seconds))
        for each in samples
        if each.workers == 1 or each.sync_seconds is not None
    ] or [(each.batch, each.step_seconds) for each in samples]
    # The part in proportion to the batch first: where one batch was seen, larger ones are taken to gain nothing.
    slope, fixed = non_negative_fit(
        [[float(batch) for batch, _ in computing], [1.0] * len(computing)], [seconds for _, seconds in computing]
    ).tolist()
    exchanging = [each for each in samples if each.workers > 1]
    found = AllReduceForm((fixed, slope))
    if not exchanging:
        return _judged(found, samples)
    candidates = [_with_overlap(found, exchanging, overlap) for overlap in OVERLAPS]
    return min(
        (_judged(each, samples) for each in candidates),
        key=lambda each: each.error**2 + OVERLAP_PENALTY * (each.overlap - 1.0) ** 2,
    )


def _with_overlap(form: AllReduceForm, samples: Sequence[SpeedSample], overlap: float) -> AllReduceForm:
    exchanges = {
        across: [
            (
                each.workers - 2,
                max(each.step_seconds**overlap - _computing(form, each) ** overlap, 0.0) ** (1 / overlap),
            )
            for each in samples
            if (each.nodes > 1) is across
        ]
        for across in (False, True)
    }
    local = _line(exchanges[False])
    across = _line(exchanges[True])
    if not exchanges[False]:
        local = tuple(each / ACROSS_NODES for each in across)
    if not exchanges[True]:
        across = tuple(each * ACROSS_NODES for each in local)
    return AllReduceForm(form.compute, (local[0], local[1]), (across[0], across[1]), overlap)


def _computing(form: AllReduceForm, sample: SpeedSample) -> float:
    if sample.sync_seconds is not None:
        return sample.step_seconds - sample.sync_seconds
    return form.compute[0] + form.compute[1] * sample.batch


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, ...]:
    seen = [(more, seconds) for more, seconds in points if seconds > 0]
    if not seen:
        return (0.0, 0.0)
    columns = [[1.0] * len(seen), [float(more) for more, _ in seen]]
    fixed, each = non_negative_fit(columns, [seconds for _, seconds in seen]).tolist()
    return (fixed, each)


def _judged(form: AllReduceForm, samples: Sequence[SpeedSample]) -> AllReduceForm:
    logs = [
        log(max(float(form.last_pass_seconds(each.workers, each.nodes, np.array(float(each.batch)))), 1e-12))
        - log(each.step_seconds)
        for each in samples
    ]
    return AllReduceForm(form.compute, form.local, form.across, form.overlap, _rms(logs))


def _rms(errors: Sequence[float]) -> float:
    return sqrt(sum(each * each for each in errors) / len(errors)) if errors else 0.0
