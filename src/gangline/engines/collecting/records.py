"""One number that was found."""

from typing import NamedTuple


class Found(NamedTuple):
    """A number by its name; ``at`` None if what was read does not say when."""

    name: str
    value: float
    step: int | None = None
    at: float | None = None
