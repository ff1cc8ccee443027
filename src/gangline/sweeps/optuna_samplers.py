"""Samplers of Optuna, asked and told: trials live in our own records, and the study is made from them again.

Optuna's samplers keep their state in random generators and in attributes of trials. A study is therefore rebuilt by
asking and telling once more in the order in which it happened, so that the next answer is the one there would have
been without a restart; and a search that runs one trial at a time tries what Optuna alone would try. Imported only
where a sweep names such a sampler.
"""

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from gangline.errors import InvalidInputError
from gangline.model.kinds.sweep import Goal, SweepSpec
from gangline.model.search.parameter import Parameter
from gangline.model.search.search_space import exists
from gangline.sweeps.samplers import Outcome, Search, Tried, Values, check_objective

_STUDIES_KEPT = 16
"""How many searches are remembered between two questions; any other is rebuilt."""

_UNSUITED = {
    "BaseSampler": "it is a base class",
    "BaseGASampler": "it is a base class",
    "GridSampler": "use grid",
    "BruteForceSampler": "use grid",
    "PartialFixedSampler": "use constants among the parameters",
}

_NEEDED = {"GPSampler": ("torch", "scipy"), "QMCSampler": ("scipy",), "CmaEsSampler": ("cmaes",)}
"""Packages that samplers import when the first of their trials have ended, and not before."""

_DIRECTIONS = {Goal.MAXIMIZE: StudyDirection.MAXIMIZE, Goal.MINIMIZE: StudyDirection.MINIMIZE}

optuna.logging.set_verbosity(optuna.logging.ERROR)


class OptunaSampler:
    """A sampler of Optuna by the name of its class. What it remembers only saves time."""

    def __init__(self, class_name: str) -> None:
        self._class_name = class_name
        self._studies: OrderedDict[str, _Study] = OrderedDict()

    def check(self, spec: SweepSpec) -> None:
        """Refuse what the sampler itself refuses: unknown settings, several objectives, packages that are missing."""
        check_objective(spec)
        made = _make(self._class_name, spec, seed=0)
        missing = [name for name in _NEEDED.get(self._class_name, ()) if find_spec(name) is None]
        if missing:
            raise InvalidInputError(
                f"{spec.sampler} needs what is not installed where the service runs: {', '.join(missing)}",
                field="spec.sampler",
                expected=f"pip install {' '.join(missing)}, or another sampler",
            )
        try:
            _Study(spec, made).ask(0, None)
        except Exception as error:  # whatever it finds wrong with settings, it says so in its own way
            raise InvalidInputError(f"Optuna refuses it: {error}", field="spec.sampler") from error

    def propose(self, search: Search, most: int) -> list[Values]:
        """Return what Optuna would try next."""
        study = self._studies.pop(search.id, None)
        if study is None or not study.precedes(search):
            study = _Study(search.spec, _make(self._class_name, search.spec, search.seed))
        study.catch_up(search)
        self._studies[search.id] = study
        if len(self._studies) > _STUDIES_KEPT:
            self._studies.popitem(last=False)
        begun = len(search.tried)
        return [study.proposal(number) for number in range(begun, begun + most)]


class _Study:
    """A study in memory, and which of its trials are which of ours."""

    def __init__(self, spec: SweepSpec, sampler: optuna.samplers.BaseSampler) -> None:
        self._spec = spec
        found = ((each.name, _distribution(each)) for each in spec.parameters)
        self._distributions = {name: distribution for name, distribution in found if distribution is not None}
        self._asked: dict[int, tuple[optuna.Trial, Values]] = {}
        self._others: set[int] = set()
        """Trials that were not chosen here: added by hand, or chosen in an order that nobody knows any more."""
        self._told: dict[int, Tried] = {}
        directions = [_DIRECTIONS[each.goal] for each in spec.objectives]
        self._study = optuna.create_study(sampler=sampler, directions=directions)
        for known in spec.known:
            self._add(known.values, [known.results[each.metric] for each in spec.objectives])

    def precedes(self, search: Search) -> bool:
        """Whether the search is this one some time later, and not another or one that has lost trials."""
        tried = search.tried
        if search.spec != self._spec or len(tried) < len(self._told):
            return False
        return all(_follows(tried[number], told) for number, told in self._told.items()) and all(
            number >= len(tried) or (tried[number].proposed and tried[number].values == self._asked[number][1])
            for number in self._asked.keys() - self._told.keys() - self._others
        )

    def catch_up(self, search: Search) -> None:
        """Ask for what began and tell what ended, in the order in which it happened."""
        news = [each for each in search.tried if self._told.get(each.number) is not each]
        begun = ((each.began_at or 0.0, 1, each) for each in news if not self._knows(each.number))
        ended = (
            (each.ended_at or each.began_at or 0.0, 0, each)
            for each in news
            if each.outcome is not Outcome.RUNNING and self._is_news(each)
        )
        for _, kind, trial in sorted((*begun, *ended), key=lambda event: (event[0], event[1], event[2].number)):
            self.ask(trial.number, trial)
            if kind == 0:
                self._tell(trial)

    def proposal(self, number: int) -> Values:
        """Return the values of a trial that has not begun; the same until it does."""
        self.ask(number, None)
        return self._asked[number][1]

    def ask(self, number: int, trial: Tried | None) -> None:
        """Let Optuna choose the values of a trial, unless it has or somebody else did."""
        if self._knows(number):
            return
        if trial is not None and not trial.proposed:
            self._others.add(number)
            return
        asked = self._study.ask()
        values = self._suggest(asked)
        self._asked[number] = (asked, values)
        if trial is not None and values != trial.values:
            self._study.tell(asked, state=TrialState.FAIL)
            self._others.add(number)

    def _knows(self, number: int) -> bool:
        return number in self._asked or number in self._others

    def _suggest(self, trial: optuna.Trial) -> Values:
        values = dict[str, str]()
        for parameter in self._spec.parameters:
            if exists(parameter, values):
                values[parameter.name] = _suggested(trial, parameter)
        return values

    def _is_news(self, trial: Tried) -> bool:
        told = self._told.get(trial.number)
        return told is None or (told.outcome is Outcome.STOPPED and trial.outcome is Outcome.COMPLETED)

    def _tell(self, trial: Tried) -> None:
        if trial.number in self._told:
            self._others.add(trial.number)  # it rested, went on and completed: one point more
        self._told[trial.number] = trial
        if trial.number in self._others:
            if trial.outcome is Outcome.COMPLETED:
                self._add(trial.values, trial.results)
            return
        asked, _ = self._asked[trial.number]
        if trial.outcome is Outcome.COMPLETED:
            self._study.tell(asked, list(trial.results))
        elif trial.outcome is Outcome.STOPPED and len(trial.results) == 1:
            asked.report(trial.results[0], step=1)
            self._study.tell(asked, state=TrialState.PRUNED)
        else:
            self._study.tell(asked, state=TrialState.FAIL)

    def _add(self, values: Values, results: Sequence[float]) -> None:
        varied = {
            name: _read(distribution, values[name])
            for name, distribution in self._distributions.items()
            if name in values
        }
        distributions = {name: self._distributions[name] for name in varied}
        self._study.add_trial(create_trial(params=varied, distributions=distributions, values=list(results)))


def _follows(trial: Tried, told: Tried) -> bool:
    """Whether this is what was told, or the same trial gone on from where it rested."""
    return trial is told or trial == told or (told.outcome is Outcome.STOPPED and trial.values == told.values)


def _distribution(parameter: Parameter) -> BaseDistribution | None:
    """Return a parameter as Optuna has it; None for a constant, which nobody needs to choose."""
    if parameter.count == 1:
        return None
    found = parameter.range
    if found is None:
        return CategoricalDistribution(parameter.values)
    if found.whole:
        return IntDistribution(int(found.low), int(found.high), log=found.log, step=int(found.step or 1))
    return FloatDistribution(found.low, found.high, log=found.log, step=found.step)


def _suggested(trial: optuna.Trial, parameter: Parameter) -> str:
    found, name = parameter.range, parameter.name
    if parameter.count == 1:
        return parameter.at(0.0)
    if found is None:
        return str(trial.suggest_categorical(name, parameter.values))
    if found.whole:
        step = int(found.step or 1)
        return found.text(trial.suggest_int(name, int(found.low), int(found.high), log=found.log, step=step))
    return found.text(trial.suggest_float(name, found.low, found.high, log=found.log, step=found.step))


def _read(distribution: BaseDistribution, text: str) -> str | int | float:
    if isinstance(distribution, CategoricalDistribution):
        return text
    return int(float(text)) if isinstance(distribution, IntDistribution) else float(text)


def _make(class_name: str, spec: SweepSpec, seed: int) -> optuna.samplers.BaseSampler:
    made: Callable[..., optuna.samplers.BaseSampler] | None = getattr(optuna.samplers, class_name, None)
    if made is None or class_name in _UNSUITED:
        said = f"Optuna's {class_name} is not for sweeps" if made else f"Optuna has no {class_name}"
        raise InvalidInputError(said, field="spec.sampler", expected=_UNSUITED.get(class_name, "another name"))
    settings: Mapping[str, object] = spec.settings
    if "seed" in inspect.signature(made).parameters:
        settings = {"seed": seed, **settings}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return made(**settings)
    except ImportError as error:
        raise InvalidInputError(
            f"{class_name} needs a package that is not installed: {error}", field="spec.sampler"
        ) from error
    except Exception as error:
        raise InvalidInputError(f"{error}", field="spec.sampler", expected=f"settings of {class_name}") from error
