"""Samplers choose the values of the next trials. One verb; a sampler sees the spec and what has been tried."""

from collections.abc import Mapping, Sequence
from itertools import islice, product
from typing import Protocol

from gangline.model.sweep import Assignment, SweepSpec


class Sampler(Protocol):
    """Chooses what to try next."""

    def propose(
        self, spec: SweepSpec, tried: Sequence[Assignment], results: Mapping[int, float], most: int | None = None
    ) -> list[Assignment]:
        """Return the next trials in the order to try them; an empty list means that nothing is left to try.

        ``tried`` are all trials begun so far; ``results`` has the objective of those that have ended; ``most`` says how
        many can begin now, so that nobody lists what may never be tried. A sampler that learns returns as many as it
        can choose now. Numbers go on from those tried.
        """
        ...


class GridSampler:
    """Every combination, the last parameter varying fastest, in the order the values are written."""

    def propose(
        self, spec: SweepSpec, tried: Sequence[Assignment], results: Mapping[int, float], most: int | None = None
    ) -> list[Assignment]:
        """Return the combinations that have not been tried."""
        names = [parameter.name for parameter in spec.parameters]
        begun = {assignment.number for assignment in tried}
        combinations = product(*(parameter.values for parameter in spec.parameters))
        untried = (
            Assignment(number=number, values=dict(zip(names, values, strict=True)))
            for number, values in enumerate(combinations)
            if number not in begun
        )
        return list(islice(untried, most))


SAMPLERS: Mapping[str, Sampler] = {"grid": GridSampler()}
"""The seam for other samplers: add one here and name it in ``spec.sampler``."""
