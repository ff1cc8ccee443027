"""Points of a Sobol sequence, by their index: the same point whenever it is asked for.

The direction numbers are those that Joe and Kuo published in 2008 (``new-joe-kuo-6``), the first dimensions of them.
"""

from collections.abc import Sequence
from functools import cache

_BITS = 32

_PRIMITIVE: tuple[tuple[int, tuple[int, ...]], ...] = (
    (0, (1,)),
    (1, (1, 3)),
    (1, (1, 3, 1)),
    (2, (1, 1, 1)),
    (1, (1, 1, 3, 3)),
    (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)),
    (4, (1, 1, 5, 5, 5)),
    (7, (1, 1, 7, 11, 19)),
    (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)),
    (14, (1, 3, 5, 5, 31)),
    (1, (1, 3, 3, 9, 7, 49)),
    (13, (1, 1, 1, 15, 21, 21)),
    (16, (1, 3, 1, 13, 27, 49)),
    (19, (1, 1, 1, 15, 7, 5)),
    (22, (1, 3, 1, 15, 13, 25)),
    (25, (1, 1, 5, 5, 19, 61)),
    (1, (1, 3, 7, 11, 23, 15, 103)),
    (4, (1, 3, 7, 13, 13, 15, 69)),
)
"""The second dimension and those after it: the inner coefficients of a primitive polynomial, and first numbers."""

MOST_DIMENSIONS = len(_PRIMITIVE) + 1


def sobol_point(index: int, shift: Sequence[int]) -> list[float]:
    """Return the point of that index, one coordinate from 0 to below 1 for each of the shifts, which are 32 bits."""
    gray = index ^ (index >> 1)
    found = []
    for dimension, moved in enumerate(shift):
        number = moved
        for bit, direction in enumerate(_directions(dimension)):
            if gray >> bit & 1:
                number ^= direction
        found.append(number / 2**_BITS)
    return found


@cache
def _directions(dimension: int) -> tuple[int, ...]:
    if dimension == 0:
        return tuple(1 << (_BITS - 1 - bit) for bit in range(_BITS))
    coefficients, first = _PRIMITIVE[dimension - 1]
    degree = len(first)
    found = [number << (_BITS - 1 - bit) for bit, number in enumerate(first)]
    for bit in range(degree, _BITS):
        number = found[bit - degree] ^ (found[bit - degree] >> degree)
        for term in range(1, degree):
            if coefficients >> (degree - 1 - term) & 1:
                number ^= found[bit - term]
        found.append(number)
    return tuple(found)
