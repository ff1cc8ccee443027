"""The exact choice: one option for each of many jobs, such that all of them fit and are worth most together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Option(NamedTuple):
    """One size that a job may have: what it takes of the capacity, and what it is worth."""

    cost: int
    worth: float


def choose(jobs: Sequence[Sequence[Option]], capacity: int) -> list[int] | None:
    """Return the number of one option per job, worth most in total and together within the capacity.

    None if not even the cheapest options fit. A multiple-choice knapsack by dynamic programming: exact, and linear in
    jobs, options and capacity.
    """
    floor = [min(option.cost for option in options) for options in jobs]
    spare = capacity - sum(floor)
    if spare < 0:
        return None
    # What everybody needs at least is set aside, so the table has only what there is to choose about; and whoever can
    # take little comes first, so that it stays short for long.
    useful = [_useful(options, least, spare) for options, least in zip(jobs, floor, strict=True)]
    order = sorted(range(len(jobs)), key=lambda job: useful[job][-1][0])
    table = np.zeros(1)
    taken: list[np.ndarray] = []
    for job in order:
        length = min(len(table) + useful[job][-1][0], spare + 1)
        best = np.full(length, -np.inf)
        which = np.zeros(length, dtype=np.int16)
        for extra, worth, number in useful[job]:
            end = min(extra + len(table), length)
            offered = table[: end - extra] + worth
            better = offered > best[extra:end]
            np.copyto(best[extra:end], offered, where=better)
            np.copyto(which[extra:end], number, where=better)
        table = best
        taken.append(which)
    left = int(np.argmax(table))
    numbers = [0] * len(jobs)
    for job, which in zip(reversed(order), reversed(taken), strict=True):
        numbers[job] = int(which[left])
        left -= jobs[job][numbers[job]].cost - floor[job]
    return numbers


def _useful(options: Sequence[Option], least: int, spare: int) -> list[tuple[int, float, int]]:
    """Options that fit and are worth more than every cheaper one: what each takes beyond the least, worth, number."""
    found: list[tuple[int, float, int]] = []
    order = sorted(range(len(options)), key=lambda number: (options[number].cost, -options[number].worth))
    for number in order:
        extra, worth = options[number].cost - least, options[number].worth
        if extra <= spare and (not found or worth > found[-1][1]):
            found.append((extra, worth, number))
    return found
