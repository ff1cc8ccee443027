"""Samplers choose the values of the next trials. One verb; a sampler sees the sweep and what has been tried.

Grid, random and Sobol are here. Those of Optuna and those of other packages are found by name when they are used.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.kinds.sweep import GRID, SweepSpec
from gangline.model.record import RecordId
from gangline.model.search.search_space import combinations, exists
from gangline.sweeps.sobol import MOST_DIMENSIONS, sobol_point

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "gangline.samplers"

Values = Mapping[str, str]


class Outcome(StrEnum):
    """What a sampler learns of a trial."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    """It failed, or ended without a number for every objective."""
    STOPPED = "stopped"
    """It was not worth while to go on; its results are those of where it was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One trial that has begun. One whose job was deleted has no values and counts as failed."""

    number: int
    values: Values
    outcome: Outcome
    results: tuple[float, ...] = ()
    """One number for each objective, if it completed or was stopped."""
    proposed: bool = True
    """Whether the sampler chose it; others were added by hand."""
    began_at: Timestamp | None = None
    ended_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Everything a sampler may look at. The same search always has the same answer."""

    id: RecordId
    spec: SweepSpec
    seed: int
    tried: tuple[Tried, ...] = ()
    """By number, without gaps."""
    proposed: int = -1
    """How many trials the sampler has chosen so far; counted if it is not given."""

    def __post_init__(self) -> None:
        if self.proposed < 0:
            object.__setattr__(self, "proposed", sum(map(attrgetter("proposed"), self.tried)))


class Sampler(Protocol):
    """Chooses what to try next."""

    def check(self, spec: SweepSpec) -> None:
        """Refuse, with an InvalidInputError, a sweep that this sampler cannot search."""
        ...

    def propose(self, search: Search, most: int) -> Sequence[Values]:
        """Return the values of the next trials in the order to try them, at most this many.

        None means that nothing is left to try. It is asked again, with the same search, if the service was killed
        before the trials began, and must then say the same.
        """
        ...


class GridSampler:
    """Every combination, the last parameter varying fastest, in the order the values are written."""

    def check(self, spec: SweepSpec) -> None:
        """Accept what the sweep itself accepts."""

    def propose(self, search: Search, most: int) -> list[Values]:
        """Return the combinations that have not been tried."""
        begun = search.proposed
        return list(islice(combinations(search.spec.parameters), begun, begun + most))


class RandomSampler:
    """Every value as likely as any other, on the scale of its range."""

    def check(self, spec: SweepSpec) -> None:
        """Accept every space."""

    def propose(self, search: Search, most: int) -> list[Values]:
        """Return points that follow from the seed and from how many there were before."""
        return self.at(search, range(search.proposed, search.proposed + most))

    def at(self, search: Search, indexes: Iterable[int]) -> list[Values]:
        """Return the points at these places of the sequence."""
        return [self._values(search, index) for index in indexes]

    def _values(self, search: Search, index: int) -> Values:
        source = random.Random(f"{search.seed}/{index}")  # repeatable, and no secret
        return _at(search.spec, [source.random() for _ in search.spec.parameters])


class SobolSampler:
    """Points that fill the space evenly: a Sobol sequence, shifted by the seed."""

    def check(self, spec: SweepSpec) -> None:
        """Refuse more parameters than the sequence has dimensions."""
        if len(spec.parameters) > MOST_DIMENSIONS:
            raise InvalidInputError(
                f"{len(spec.parameters)} parameters",
                field="spec.parameters",
                expected=f"at most {MOST_DIMENSIONS} for sobol",
            )

    def propose(self, search: Search, most: int) -> list[Values]:
        """Return the next points of the sequence."""
        source = random.Random(str(search.seed))  # repeatable, and no secret
        shift = [source.getrandbits(32) for _ in search.spec.parameters]
        begun = search.proposed
        return [_at(search.spec, sobol_point(index, shift)) for index in range(begun, begun + most)]


def _at(spec: SweepSpec, point: Iterable[float]) -> Values:
    """Return the values at a point of the unit cube, without the parameters that do not exist there."""
    values = dict[str, str]()
    for parameter, fraction in zip(spec.parameters, point, strict=True):
        if exists(parameter, values):
            values[parameter.name] = parameter.at(fraction)
    return values


SAMPLERS: dict[str, Sampler] = {GRID: GridSampler(), "random": RandomSampler(), "sobol": SobolSampler()}
"""The samplers of the base installation."""

_KATIB_SAMPLERS: Mapping[str, tuple[str, str]] = {
    "katib-hyperband": ("gangline.sweeps.brackets", "BracketSampler"),
    "katib-pbt": ("gangline.sweeps.generations", "GenerationSampler"),
}
"""Those of Katib's algorithms that work by whole trials; a sweep has rules for stopping in their place."""

OPTUNA_SAMPLERS: Mapping[str, str] = {
    "tpe": "TPESampler",
    "cma-es": "CmaEsSampler",
    "gp": "GPSampler",
    "nsga-ii": "NSGAIISampler",
    "nsga-iii": "NSGAIIISampler",
    "qmc": "QMCSampler",
}
"""Short names of samplers of Optuna; the others go by the names of their classes."""


def sampler_names() -> tuple[str, ...]:
    """Return every sampler that can be named, whether or not what it needs is installed."""
    return (*SAMPLERS, *OPTUNA_SAMPLERS, *_entry_points())


def may_take_long(name: str) -> bool:
    """Whether a sampler may compute for a while: Optuna's do when a long study is rebuilt, others' are unknown."""
    return name not in SAMPLERS


def check_objective(spec: SweepSpec) -> None:
    """Refuse a search that learns from results where nothing says which; known without Optuna being installed."""
    of_optuna = spec.sampler in OPTUNA_SAMPLERS or spec.sampler.endswith("Sampler")
    if spec.objective is None and of_optuna and spec.sampler not in _entry_points():
        raise InvalidInputError(
            f"the sampler {spec.sampler} learns from results",
            field="spec.objective",
            expected="a metric and a goal",
        )


def sampler_named(name: str) -> Sampler:
    """Return a sampler; raises InvalidInputError for one that nobody has or that is not installed."""
    if name in SAMPLERS:
        return SAMPLERS[name]
    if name in _KATIB_SAMPLERS:
        module, made = _KATIB_SAMPLERS[name]
        sampler: Sampler = getattr(import_module(module), made)()
        return sampler
    if name in _entry_points():
        return _loaded(name)
    if name not in OPTUNA_SAMPLERS and not name.endswith("Sampler"):
        from difflib import get_close_matches

        raise InvalidInputError(
            f"'{name}' is not known",
            field="spec.sampler",
            expected=f"one of {', '.join(sampler_names())}",
            suggestion=next(iter(get_close_matches(name, sampler_names(), n=1)), None),
        )
    return _optuna(OPTUNA_SAMPLERS.get(name, name))


@cache
def _entry_points() -> "Mapping[str, EntryPoint]":
    from importlib import metadata  # a tenth of what ``gangline --help`` may take

    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}


@cache
def _loaded(name: str) -> Sampler:
    sampler: Sampler = _entry_points()[name].load()
    return sampler


@cache
def _optuna(class_name: str) -> Sampler:
    try:
        module = import_module("gangline.sweeps.optuna_samplers")
    except ImportError as error:
        raise InvalidInputError(
            "samplers of Optuna are not installed where the service runs",
            field="spec.sampler",
            expected=f"pip install 'gangline[tune]', or one of {', '.join(SAMPLERS)}",
        ) from error
    sampler: Sampler = module.OptunaSampler(class_name)
    return sampler
