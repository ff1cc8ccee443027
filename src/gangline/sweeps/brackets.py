"""Hyperband by a parameter that says how far a trial runs (epochs, say): the best of a rung are tried again, further.

Unlike the stopping rule of the same name it needs nothing of the training code: no trial is paused, each runs to its
end with the resource it was given, and what goes on begins again. It is what Katib calls hyperband.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from gangline.errors import InvalidInputError
from gangline.model.kinds.sweep import SweepSpec
from gangline.sweeps.samplers import Outcome, RandomSampler, Search, Tried, Values


class BracketSampler:
    """Brackets of trials: many that get little, then few that get more, as the settings say.

    ``resource`` names the parameter, ``most`` is its value for a whole run, ``factor`` divides the trials of a rung.
    """

    def check(self, spec: SweepSpec) -> None:
        """Refuse settings that are missing."""
        names = [each.name for each in spec.parameters]
        if spec.settings.get("resource") not in names:
            raise InvalidInputError(
                "hyperband needs to know which parameter says how far a trial runs",
                field="spec.sampler.resource",
                expected=f"one of {', '.join(names)}",
            )
        if spec.objective is None:
            raise InvalidInputError("hyperband learns from results", field="spec.objective", expected="a metric")
        if not _number(spec, "most", 0) >= 1 or _number(spec, "factor", 3) < 2:
            raise InvalidInputError(
                "there are no rungs", field="spec.sampler.most", expected="1 or more, and a factor of 2 or more"
            )

    def propose(self, search: Search, most: int) -> Sequence[Values]:
        """Return what the rung that is due still lacks; nothing while one below it has trials that run."""
        chosen = [each for each in search.tried if each.proposed]
        name, position, before = str(search.spec.settings["resource"]), 0, list[Tried]()
        for rung, count, resource in rungs(search.spec):
            mine = chosen[position : position + count]
            if len(mine) == count:
                position, before = position + count, mine
                continue
            if rung and any(each.outcome is Outcome.RUNNING for each in before):
                return []
            best: list[Values] = [each.values for each in _ranked(search, before)[:count]] if rung else []
            # Where too many failed, the rung is filled up, so that the sequence stays what it is.
            fresh = RandomSampler().at(search, range(position + len(best), position + count))
            return [{**values, name: resource} for values in (*best, *fresh)][len(mine) :][:most]
        return []


def rungs(spec: SweepSpec) -> Iterator[tuple[int, int, str]]:
    """Return each rung of each bracket: its position, how many trials it has, and what each of them gets."""
    most, factor = _number(spec, "most", 1), int(_number(spec, "factor", 3))
    last = int(math.log(most) / math.log(factor) + 1e-9)
    for bracket in range(last, -1, -1):
        count = math.ceil((last + 1) * factor**bracket / (bracket + 1))
        for rung in range(bracket + 1):
            yield rung, max(1, math.ceil(count / factor**rung)), str(max(1, int(most * factor ** (rung - bracket))))


def _ranked(search: Search, trials: Sequence[Tried]) -> list[Tried]:
    objective = search.spec.objective
    sign = objective.sign if objective is not None else 1.0
    known = [each for each in trials if each.results]
    return sorted(known, key=lambda each: (-sign * each.results[0], each.number))


def _number(spec: SweepSpec, name: str, default: float) -> float:
    settings: Mapping[str, object] = spec.settings
    found = settings.get(name, default)
    return float(found) if isinstance(found, int | float | str) else default
