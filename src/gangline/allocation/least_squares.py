"""Non-negative least squares for a handful of unknowns, solved exactly by trying every set that may be positive."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TIE = 1e-9
"""Solutions this close are equally good; the one with fewer and earlier unknowns is taken."""


def non_negative_fit(columns: Sequence[Sequence[float]], wanted: Sequence[float]) -> Floats:
    """Return factors, none negative, that bring the sum of the columns closest to what is wanted, relative to it.

    Earlier columns are preferred where the data cannot tell: callers list the optimistic explanations first.
    """
    target = np.asarray(wanted, dtype=np.float64)
    # Every equation is divided by what it should give: a step of a minute counts no more than one of a second.
    matrix = np.asarray(columns, dtype=np.float64).T / target[:, None]
    ones = np.ones(len(target))
    count = matrix.shape[1]
    best, least = np.zeros(count), float(len(target))
    for size in range(1, min(count, len(target)) + 1):
        for chosen in combinations(range(count), size):
            part = matrix[:, chosen]
            factors = np.linalg.lstsq(part, ones, rcond=None)[0]
            if (factors < 0).any():
                continue
            error = float(((part @ factors - ones) ** 2).sum())
            if error < least - TIE * len(target):
                best, least = np.zeros(count), error
                best[list(chosen)] = factors
    return best
