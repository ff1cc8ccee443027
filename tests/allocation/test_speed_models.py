"""Both forms find what made the measurements, and are optimistic where there are none."""

import random
from itertools import combinations

import numpy as np
import pytest

from gangline.allocation.least_squares import non_negative_fit
from gangline.allocation.speed_curve import speed_curve
from gangline.allocation.speed_models import AllReduceForm, fit_all_reduce, fit_servers
from gangline.model.jobs.speed import BatchRange, SpeedRecord, SpeedSample


@pytest.mark.parametrize("seed", range(40))
def test_no_non_negative_factors_are_closer_than_those_found(seed: int) -> None:
    rng = random.Random(seed)
    columns = [[rng.uniform(0, 3) for _ in range(6)] for _ in range(3)]
    wanted = [rng.uniform(0.5, 3) for _ in range(6)]
    found = non_negative_fit(columns, wanted)
    assert (found >= 0).all()

    def error(factors: np.ndarray) -> float:
        return float((((np.array(columns).T @ factors - wanted) / wanted) ** 2).sum())

    for _ in range(300):
        other = np.maximum(found + np.array([rng.gauss(0, 0.1) for _ in columns]), 0)
        assert error(found) <= error(other) + 1e-9


def server_seconds(workers: int, servers: int) -> float:
    return 8.0 / workers + 0.5 + 0.2 * workers / servers + 0.05 * workers + 0.1 * servers


def test_the_server_form_predicts_sizes_that_were_not_seen() -> None:
    seen = [(1, 1), (2, 1), (4, 1), (4, 2), (8, 2), (8, 4)]
    samples = [SpeedSample(workers=w, servers=p, step_seconds=server_seconds(w, p)) for w, p in seen]
    form = fit_servers(samples)
    assert form.error < 1e-6
    for workers, servers in ((6, 3), (16, 4), (3, 1)):
        assert form.step_seconds(workers, servers) == pytest.approx(server_seconds(workers, servers), rel=1e-4)


def test_one_size_alone_is_taken_to_scale_in_proportion() -> None:
    form = fit_servers([SpeedSample(workers=2, step_seconds=3.0)])
    assert form.step_seconds(4, 0) == pytest.approx(1.5)


def test_the_all_reduce_form_predicts_batches_and_sizes_that_were_not_seen() -> None:
    truth = AllReduceForm((0.02, 0.001), (0.01, 0.002), (0.05, 0.004), 2.0)

    def sample(workers: int, nodes: int, batch: int) -> SpeedSample:
        whole = float(truth.last_pass_seconds(workers, nodes, np.array(float(batch))))
        computing = float(truth.pass_seconds(np.array(float(batch))))
        return SpeedSample(
            workers=workers, nodes=nodes, batch=batch, step_seconds=whole, sync_seconds=whole - computing
        )

    sizes = ((1, 1), (2, 1), (4, 1), (8, 2), (16, 4))
    form = fit_all_reduce([sample(w, n, batch) for w, n in sizes for batch in (32, 128)])
    assert form.overlap == truth.overlap
    for workers, nodes, batch in ((3, 1, 64), (12, 3, 256), (32, 8, 96)):
        want = sample(workers, nodes, batch).step_seconds
        assert float(form.last_pass_seconds(workers, nodes, np.array(float(batch)))) == pytest.approx(want, rel=0.02)


def test_exchange_costs_nothing_until_it_was_seen() -> None:
    form = fit_all_reduce([SpeedSample(workers=1, batch=64, step_seconds=0.5, sync_seconds=0.0)])
    assert form.sync_seconds(2, 1) == form.sync_seconds(8, 2) == 0.0


def test_exchange_across_nodes_is_dearer_than_inside_one_until_it_was_seen() -> None:
    samples = [
        SpeedSample(workers=2, batch=64, step_seconds=0.6, sync_seconds=0.1),
        SpeedSample(workers=4, batch=64, step_seconds=0.7, sync_seconds=0.2),
    ]
    form = fit_all_reduce(samples)
    for workers in (4, 8):
        assert form.sync_seconds(workers, 2) == pytest.approx(1.1 * form.sync_seconds(workers, 1))


BATCHES = BatchRange(base=128, most=4096, least_local=16, most_local=512)


def adaptive(noise: float | None) -> SpeedRecord:
    samples = tuple(
        SpeedSample(
            workers=w, batch=batch, step_seconds=0.01 + 0.001 * batch + 0.05 * (w > 1), sync_seconds=0.05 * (w > 1)
        )
        for w in (1, 2)
        for batch in (32, 128)
    )
    return SpeedRecord(samples=samples, batches=BATCHES, noise=noise)


def test_more_noise_calls_for_larger_batches_and_makes_more_workers_worth_having() -> None:
    quiet, loud = speed_curve(adaptive(10.0)), speed_curve(adaptive(10_000.0))
    assert quiet is not None
    assert loud is not None
    few, many = quiet.at(4), loud.at(4)
    assert 4 * few.batch * few.passes < 4 * many.batch * many.passes
    assert loud.speed(4) / loud.speed(1) > quiet.speed(4) / quiet.speed(1)


def test_the_batch_stays_what_it_was_tuned_for_until_the_noise_is_known() -> None:
    curve = speed_curve(adaptive(None))
    assert curve is not None
    assert curve.at(4).batch * curve.at(4).passes * 4 == BATCHES.base


def test_uncertainty_grows_beyond_what_was_tried() -> None:
    samples = tuple(SpeedSample(workers=w, step_seconds=4.0 / w + 1.0) for w in (1, 2, 4))
    curve = speed_curve(SpeedRecord(samples=samples))
    assert curve is not None
    known, beyond = curve.at(4), curve.at(16)
    assert known.low < known.speed < known.high
    assert (beyond.high - beyond.low) / beyond.speed > (known.high - known.low) / known.speed
    assert beyond.low <= curve.speed(4)
    assert beyond.high >= 4 * curve.speed(4)


def test_nothing_is_predicted_of_a_job_that_reported_nothing() -> None:
    assert speed_curve(SpeedRecord()) is None


def test_fits_do_not_depend_on_the_order_of_reports() -> None:
    samples = [SpeedSample(workers=w, servers=1, step_seconds=server_seconds(w, 1)) for w in (1, 2, 4)]
    for pair in combinations(range(3), 2):
        swapped = list(samples)
        swapped[pair[0]], swapped[pair[1]] = swapped[pair[1]], swapped[pair[0]]
        assert fit_servers(swapped).step_seconds(8, 1) == pytest.approx(fit_servers(samples).step_seconds(8, 1))
