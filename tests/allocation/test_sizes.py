"""Which sizes are chosen, and that nobody is harmed by what somebody else reports."""

import random
from itertools import product

import pytest

from gangline.allocation.sizes import SERVED_GPU_SECONDS, Candidate, Goodput, MarginalGain
from gangline.model.jobs.speed import SpeedRecord, SpeedSample


def record(serial: float = 0.1, per_worker: float = 0.0, tried: int = 16, **facts: float) -> SpeedRecord:
    """What a job reported whose step takes so long beside the part that is divided."""
    counts = [size for size in (1, 2, 4, 8, 16) if size <= tried]
    samples = tuple(SpeedSample(workers=w, step_seconds=1.0 / w + serial + per_worker * w) for w in counts)
    return SpeedRecord(samples=samples, **facts)  # type: ignore[arg-type]


def candidate(name: str, speed: SpeedRecord | None = None, **facts: object) -> Candidate:
    usual: dict[str, object] = {"least": 1, "most": 64, "per_node": 4, "age_seconds": 3600.0, "changes": 1}
    return Candidate(name=name, record=speed, **{**usual, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_no_other_sizes_are_worth_more(seed: int) -> None:
    rng = random.Random(seed)
    policy = Goodput()
    jobs = [
        candidate(
            f"job-{n}",
            record(rng.uniform(0, 1), rng.uniform(0, 0.05), rng.choice([1, 2, 4])),
            present=rng.choice([0, 1, 2]),
            least=rng.choice([1, 1, 2]),
            units=rng.choice([1, 1, 2]),
            age_seconds=rng.uniform(0, 5000),
        )
        for n in range(4)
    ]
    capacity = rng.randint(10, 24)
    chosen = policy.sizes(jobs, capacity)
    worth = {
        (each.name, size): w
        for each in jobs
        for size, w in zip(each.sizes(), policy.worths(each, each.sizes()), strict=True)
    }
    totals = [
        sum(worth[each.name, size] for each, size in zip(jobs, sizes, strict=True))
        for sizes in product(*(each.sizes() for each in jobs))
        if sum(size * each.units for each, size in zip(jobs, sizes, strict=True)) <= capacity
    ]
    assert sum(chosen[each.name] * each.units for each in jobs) <= capacity
    assert sum(worth[each.name, chosen[each.name]] for each in jobs) == pytest.approx(max(totals))


def test_who_scales_better_gets_more() -> None:
    sizes = Goodput().sizes([candidate("good", record(0.01)), candidate("bad", record(1.0))], 12)
    assert sizes["good"] > sizes["bad"] >= 1


def test_a_job_that_gets_slower_with_more_workers_keeps_few() -> None:
    sizes = Goodput().sizes([candidate("slower", record(0.1, per_worker=1.0))], 64)
    assert sizes == {"slower": 1}


def test_nothing_is_known_of_a_job_that_reports_nothing_so_it_has_its_least() -> None:
    sizes = Goodput().sizes([candidate("silent", None, least=2), candidate("known", record())], 32)
    assert sizes["silent"] == 2
    assert sizes["known"] > 2


def test_a_size_is_at_most_doubled() -> None:
    assert Goodput().sizes([candidate("new", record(0.0, tried=1))], 64) == {"new": 2}
    assert Goodput().sizes([candidate("new", record(0.0, tried=4))], 64) == {"new": 8}


def test_what_its_user_allows_need_not_be_whole_nodes() -> None:
    def chosen(tried: int, **facts: int) -> int:
        each = candidate("job", record(0.0, tried=tried), per_node=8, limit=13, **{"most": 13, **facts})
        return Goodput().sizes([each], 24)["job"]

    assert chosen(8) == 13
    assert chosen(4) == 8  # at most doubled
    assert chosen(8, most=11) == 8  # what a queue leaves for now is no size to move to


def test_a_restart_must_pay() -> None:
    fresh = candidate("job", record(2.0), present=1, age_seconds=40.0)
    old = candidate("job", record(2.0), present=1, age_seconds=40_000.0)
    assert Goodput().sizes([fresh], 4) == {"job": 1}
    assert Goodput().sizes([old], 4)["job"] > 1


def test_the_same_question_has_the_same_answer_once_it_was_followed() -> None:
    jobs = [candidate("a", record(0.2)), candidate("b", record(0.4)), candidate("c", record(0.8))]
    first = Goodput().sizes(jobs, 16)
    followed = [candidate(each.name, each.record, present=first[each.name]) for each in jobs]
    assert Goodput().sizes(followed, 16) == first


def test_who_has_had_much_counts_half() -> None:
    jobs = [candidate("old", record(0.1, replica_seconds=SERVED_GPU_SECONDS)), candidate("new", record(0.1))]
    sizes = Goodput().sizes(jobs, 7)
    assert sizes["new"] > sizes["old"]


def test_a_liar_gets_more_only_of_what_it_could_have_anyway_and_never_somebody_elses_least() -> None:
    lies = tuple(SpeedSample(workers=w, step_seconds=1.0 / w**3) for w in (1, 2, 4, 8, 16))
    jobs = [candidate("liar", SpeedRecord(samples=lies), most=8), candidate("honest", record(0.1), least=2)]
    sizes = Goodput().sizes(jobs, 10)
    assert sizes["liar"] <= 8
    assert sizes["honest"] >= 2


def test_what_cannot_fit_is_not_chosen() -> None:
    assert Goodput().sizes([candidate("a", least=3), candidate("b", least=3)], 5) == {}


def test_who_may_not_change_keeps_what_it_has() -> None:
    jobs = [candidate("busy", record(0.01), present=3, free=False), candidate("other", record(0.5))]
    assert Goodput().sizes(jobs, 16)["busy"] == 3


def test_optimus_gives_to_whoever_has_most_left_to_gain() -> None:
    nearly = record(0.1, progress=0.99)
    begun = record(0.1, progress=0.0)
    sizes = MarginalGain().sizes([candidate("nearly", nearly), candidate("begun", begun)], 8)
    assert sizes["begun"] > sizes["nearly"]
    assert sum(sizes.values()) <= 8
