"""Population-based training by generations of trials, as Katib has it: each goes on from what one before it had saved.

Unlike the stopping rule of that kind no trial is paused: each runs to its end, and when its whole generation has, the
next one begins with values that were copied from the best, or changed a little. ``PARENT`` among the values of a trial
is the number of the one whose checkpoint it goes on from.
"""

import random
from collections.abc import Sequence

from gangline.model.kinds.sweep import SweepSpec
from gangline.model.search.parameter import Parameter
from gangline.sweeps.samplers import Outcome, RandomSampler, Search, Tried, Values

PARENT = "parent"
_FACTORS = (0.8, 1.2)


class GenerationSampler:
    """Generations of ``population`` trials; of each the worst ``truncation`` give way to copies of the best."""

    def check(self, spec: SweepSpec) -> None:
        """Accept every space."""

    def propose(self, search: Search, most: int) -> Sequence[Values]:
        """Return what the generation that is due still lacks; nothing while the one before has trials that run."""
        chosen = [each for each in search.tried if each.proposed]
        size = max(1, int(search.spec.settings.get("population", 1)))
        begun = len(chosen) // size * size
        due = range(len(chosen), begun + size)
        if not begun:
            return RandomSampler().at(search, due)[:most]
        before = chosen[begun - size : begun]
        if any(each.outcome is Outcome.RUNNING for each in before):
            return []
        return [self._descendant(search, before, index) for index in due][:most]

    def _descendant(self, search: Search, before: Sequence[Tried], index: int) -> Values:
        source = random.Random(f"{search.seed}/{index}")  # repeatable, and no secret
        objective = search.spec.objective
        sign = objective.sign if objective is not None else 1.0
        ranked = sorted((each for each in before if each.results), key=lambda each: -sign * each.results[0])
        own = before[index % len(before)]
        if not ranked:
            return RandomSampler().at(search, [index])[0]
        share = float(search.spec.settings.get("truncation", 0.2))
        few = max(1, int(len(ranked) * share))
        if own not in ranked or own in ranked[len(ranked) - few :]:
            best = source.choice(ranked[:few])
            return {**best.values, PARENT: str(best.number)}
        resample = search.spec.settings.get("resample")
        changed = {
            each.name: _changed(each, own.values[each.name], source, None if resample is None else float(resample))
            for each in search.spec.parameters
        }
        return {**changed, PARENT: str(own.number)}


def _changed(parameter: Parameter, value: str, source: random.Random, resample: float | None) -> str:
    """Return another value: drawn anew with a probability, or else a little more or less than it was."""
    if resample is not None:
        return parameter.at(source.random()) if source.random() < resample else value
    if parameter.range is None:
        place = parameter.values.index(value) + source.choice((-1, 1))
        return parameter.values[min(max(place, 0), len(parameter.values) - 1)]
    found = parameter.range
    number = min(max(float(value) * source.choice(_FACTORS), found.low), found.high)
    if found.spacing is None:
        return found.text(number)
    return found.nth(round((number - found.low) / found.spacing))
