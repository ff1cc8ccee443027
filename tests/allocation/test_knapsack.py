"""The exact choice against every choice there is."""

import random
from itertools import product

import pytest

from gangline.allocation.knapsack import Option, choose


def best_of_all(jobs: list[list[Option]], capacity: int) -> float | None:
    totals = [
        sum(option.worth for option in chosen)
        for chosen in product(*jobs)
        if sum(option.cost for option in chosen) <= capacity
    ]
    return max(totals, default=None)


@pytest.mark.parametrize("seed", range(150))
def test_no_choice_is_worth_more_than_the_one_made(seed: int) -> None:
    rng = random.Random(seed)
    jobs = [
        [Option(rng.randint(0, 9), rng.choice([-1.0, 0.0, 0.5, rng.random()])) for _ in range(rng.randint(1, 4))]
        for _ in range(rng.randint(1, 5))
    ]
    capacity = rng.randint(0, 24)
    chosen, want = choose(jobs, capacity), best_of_all(jobs, capacity)
    if want is None:
        assert chosen is None
        return
    assert chosen is not None
    options = [job[number] for job, number in zip(jobs, chosen, strict=True)]
    assert sum(option.cost for option in options) <= capacity
    assert sum(option.worth for option in options) == pytest.approx(want)


def test_nothing_is_taken_that_is_worth_nothing_more() -> None:
    assert choose([[Option(1, 1.0), Option(2, 1.0), Option(4, 1.0)]], 10) == [0]


def test_capacity_is_used_to_the_last_unit_where_that_pays() -> None:
    jobs = [[Option(1, 0.0), Option(4, 1.0)], [Option(1, 0.0), Option(2, 0.4), Option(3, 0.9)]]
    assert choose(jobs, 7) == [1, 2]
    assert choose(jobs, 6) == [1, 1]
    assert choose(jobs, 5) == [1, 0]
    assert choose(jobs, 4) == [0, 2]


def test_no_jobs_need_no_choice() -> None:
    assert choose([], 3) == []
