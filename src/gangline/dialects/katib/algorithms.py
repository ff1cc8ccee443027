"""``spec.algorithm``: which sampler of a sweep an algorithm is, and what its settings mean there."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from gangline.dialects.katib.space import Dimension, Distribution, ParameterType, sweep_name
from gangline.dialects.value import Value
from gangline.model.kinds.sweep import GRID, Setting

_REFUSED = {
    "enas": "it searches architectures of networks, which needs a controller network of its own",
    "darts": "it searches architectures of networks within one training, and not with many trials",
}
_GRID_ONLY_WHOLE = "a grid cannot try every number of a range"
_DEFAULT_ETA = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """Who chooses values, in the words of a sweep. ``name`` and ``given`` are Katib's own."""

    name: str
    given: Mapping[str, str] = field(default_factory=dict)
    sampler: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    seed: int | None = None
    note: str = ""


Reader = Callable[[str], Setting]


def _count(text: str) -> int:
    number = int(float(text))
    if number != float(text) or number < 1:
        raise ValueError("is not a whole number above 0")
    return number


def _positive(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number <= 0:
        raise ValueError("is not a number above 0")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError("is not a number from 0 to 1")
    return number


def _seed(text: str) -> int:
    number = int(text)
    if not 0 <= number < 2**32:
        raise ValueError("is not a seed")
    return number


def _text(text: str) -> str:
    return text


_STATE = {"random_state": _seed}
_SETTINGS: Mapping[str, Mapping[str, Reader]] = {
    "random": _STATE,
    "grid": _STATE,
    "sobol": _STATE,
    "tpe": {**_STATE, "gamma": _positive, "prior_weight": _positive, "n_EI_candidates": _count},
    "multivariate-tpe": {**_STATE, "n_startup_trials": _count, "n_ei_candidates": _count},
    "cmaes": {**_STATE, "sigma": _positive, "restart_strategy": _text},
    "bayesianoptimization": {
        **_STATE,
        "base_estimator": _text,
        "n_initial_points": _count,
        "acq_func": _text,
        "acq_optimizer": _text,
    },
    "hyperband": {"eta": _count, "r_l": _positive, "resource_name": _text},
    "pbt": {
        "suggestion_trial_dir": _text,
        "n_population": _count,
        "resample_probability": _share,
        "truncation_threshold": _share,
    },
}
_SAMPLERS = {"random": "random", "grid": GRID, "sobol": "sobol", "tpe": "tpe", "multivariate-tpe": "tpe"}


def read_algorithm(value: Value, space: Sequence[Dimension], parallel: int) -> Algorithm:
    """Read ``spec.algorithm``; an algorithm that is not supported is refused with the reason."""
    given = value.fields(("algorithmName", "algorithmSettings"))
    if "algorithmName" not in given:
        raise value.missing("algorithmName", f"one of {', '.join(_SETTINGS)}")
    name = given["algorithmName"].text()
    if name in _REFUSED:
        raise given["algorithmName"].wrong(
            f"{name} is not supported: {_REFUSED[name]}", expected=f"one of {', '.join(_SETTINGS)}"
        )
    given["algorithmName"].one_of(_SETTINGS)
    settings, texts = _read_settings(given.get("algorithmSettings"), name)
    seed = settings.pop("random_state", None)
    made = _made(given["algorithmName"], name, settings, space, parallel)
    return Algorithm(
        name=name,
        given=texts,
        sampler=made.sampler,
        settings=made.settings,
        seed=int(seed) if seed is not None else None,
        note=made.note,
    )


def _read_settings(value: Value | None, name: str) -> tuple[dict[str, Setting], dict[str, str]]:
    known = _SETTINGS[name]
    settings, texts = dict[str, Setting](), dict[str, str]()
    for each in value.items() if value is not None else []:
        given = each.fields(("name", "value"))
        if "name" not in given or "value" not in given:
            raise each.missing("value" if "name" in given else "name", "name and value")
        setting = given["name"].text()
        if setting not in known:
            raise given["name"].wrong(
                f"unknown setting '{setting}' for algorithm {name}", expected=f"one of {', '.join(known)}"
            )
        texts[setting] = given["value"].text_or_number()
        if texts[setting] in ("None", "null"):
            continue
        try:
            settings[setting] = known[setting](texts[setting])
        except ValueError as error:
            why = f"{error}" if str(error).startswith("is not") else "is not a number"
            raise given["value"].wrong(f"'{texts[setting]}' {why}", expected=f"a value of {setting}") from error
    return settings, texts


def _made(
    where: Value, name: str, settings: Mapping[str, Setting], space: Sequence[Dimension], parallel: int
) -> Algorithm:
    match name:
        case "grid":
            _check_grid(where, space)
        case "multivariate-tpe":
            return Algorithm(name=name, sampler="tpe", settings={"multivariate": True, **settings})
        case "tpe":
            candidates = {"n_ei_candidates": settings["n_EI_candidates"]} if "n_EI_candidates" in settings else {}
            return Algorithm(name=name, sampler="tpe", settings={"multivariate": False, **candidates})
        case "cmaes":
            note = "sigma and restart_strategy are not used: the sampler chooses its own" if settings else ""
            return Algorithm(name=name, sampler="cma-es", note=note)
        case "bayesianoptimization":
            return _bayesian(name, settings)
        case "hyperband":
            return _hyperband(where, name, settings, space, parallel)
        case "pbt":
            return _population(name, settings)
    return Algorithm(name=name, sampler=_SAMPLERS[name])


def _check_grid(where: Value, space: Sequence[Dimension]) -> None:
    for each in space:
        if each.type is ParameterType.DOUBLE and each.step is None and each.low != each.high:
            raise where.wrong(
                f"{_GRID_ONLY_WHOLE}: '{each.name}' has no step", expected="feasibleSpace.step, or a list"
            )
        if not each.values and each.distribution is not Distribution.UNIFORM:
            raise where.wrong(f"a grid has no {each.distribution}: '{each.name}'", expected="distribution uniform")


def _bayesian(name: str, settings: Mapping[str, Setting]) -> Algorithm:
    initial = {"n_startup_trials": settings["n_initial_points"]} if "n_initial_points" in settings else {}
    if find_spec("torch") is not None and find_spec("scipy") is not None:
        return Algorithm(name=name, sampler="gp", settings=initial)
    note = "its Gaussian process needs PyTorch and SciPy, which are not installed: a Parzen estimator (TPE) is used"
    return Algorithm(name=name, sampler="tpe", settings={"multivariate": True, **initial}, note=note)


def _hyperband(
    where: Value, name: str, settings: Mapping[str, Setting], space: Sequence[Dimension], parallel: int
) -> Algorithm:
    for needed in ("r_l", "resource_name"):
        if needed not in settings:
            raise where.wrong(f"{needed} must be set", expected=f"a setting {needed} of hyperband")
    resource = str(settings["resource_name"])
    names = [each.name for each in space]
    if resource not in names:
        raise where.wrong(
            f"the resource '{resource}' is not a parameter", expected=f"resource_name one of {', '.join(names)}"
        )
    most, factor = float(settings["r_l"]), max(2, int(settings.get("eta", _DEFAULT_ETA)))
    largest = factor ** int(math.log(most) / math.log(factor) + 1e-9) if most >= 1 else 1
    if parallel < largest:
        raise where.wrong(
            f"the first bracket has {largest} trials at once", expected=f"parallelTrialCount of {largest} or more"
        )
    position = names.index(resource)
    wanted: dict[str, Setting] = {"resource": sweep_name(position), "most": most, "factor": factor}
    return Algorithm(name=name, sampler="katib-hyperband", settings=wanted)


def _population(name: str, settings: Mapping[str, Setting]) -> Algorithm:
    wanted = {
        "population": settings.get("n_population", 40),
        "truncation": settings.get("truncation_threshold", 0.2),
    }
    if "resample_probability" in settings:
        wanted["resample"] = settings["resample_probability"]
    return Algorithm(name=name, sampler="katib-pbt", settings=wanted)
