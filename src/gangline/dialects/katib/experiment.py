"""An Experiment read: every field in Katib's words, or refused with its path and what is allowed there."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from gangline.dialects import document
from gangline.dialects.katib.algorithms import Algorithm, read_algorithm
from gangline.dialects.katib.collectors import Collector, read_collector
from gangline.dialects.katib.conditions import PathError, parse
from gangline.dialects.katib.space import Dimension, read_space
from gangline.dialects.katib.templates import TrialTemplate, read_template, resolved
from gangline.dialects.value import Value
from gangline.model import DEFAULT_TENANT, Tenant
from gangline.model.kinds.sweep import Goal

API_VERSION = "kubeflow.org/v1beta1"
KIND = "Experiment"
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_SPEC = (
    "parameters",
    "objective",
    "algorithm",
    "earlyStopping",
    "trialTemplate",
    "parallelTrialCount",
    "maxTrialCount",
    "maxFailedTrialCount",
    "metricsCollectorSpec",
    "nasConfig",
    "resumePolicy",
)
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = 40
_PARALLEL = 3
_MOST_TRIALS = 100_000


class Strategy(StrEnum):
    """Which of the values that a trial reported counts."""

    MIN = "min"
    MAX = "max"
    LATEST = "latest"


class ResumePolicy(StrEnum):
    """Whether an Experiment that has used its trials goes on when it is given more."""

    NEVER = "Never"
    LONG_RUNNING = "LongRunning"
    FROM_VOLUME = "FromVolume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What trials are compared by, and what else is collected."""

    metric: str
    goal: Goal
    target: float | None = None
    additional: tuple[str, ...] = ()
    strategies: Mapping[str, Strategy] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Every metric that is collected, the objective first."""
        return (self.metric, *self.additional)


@dataclass(frozen=True, slots=True, kw_only=True)
class Medianstop:
    """Stops a trial whose best value is worse than the median of what others had on average at ``start_step``."""

    min_trials: int = 3
    start_step: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A whole Experiment."""

    name: str
    tenant: Tenant
    space: tuple[Dimension, ...]
    objective: Objective
    algorithm: Algorithm
    medianstop: Medianstop | None
    parallel: int
    max_trials: int | None
    max_failed: int | None
    resume: ResumePolicy
    collector: Collector
    template: TrialTemplate


@lru_cache(maxsize=256)
def experiment_of(manifest_json: str, template_json: str = "") -> Experiment:
    """Read a document that was accepted before; ``template_json`` is what its ConfigMap holds, if it names one."""
    experiment = read_experiment(document.plain(json.loads(manifest_json)))
    if not template_json:
        return experiment
    (found,) = document.parse(template_json, file="the template in the ConfigMap")
    return replace(experiment, template=resolved(experiment.template, found))


def read_experiment(value: Value) -> Experiment:
    """Read a document; what is wrong is refused with its path."""
    top = value.fields(_TOP)
    for name in ("metadata", "spec"):
        if name not in top:
            raise value.missing(name, "a mapping")
    if "apiVersion" in top:
        top["apiVersion"].one_of((API_VERSION,))
    if "kind" in top:
        top["kind"].one_of((KIND,))
    metadata = top["metadata"].fields()
    name = _name(top["metadata"], metadata)
    spec = top["spec"]
    given = spec.fields(_SPEC)
    if "nasConfig" in given:
        raise given["nasConfig"].wrong("searches of architectures are not supported", expected="spec.parameters")
    for needed in ("parameters", "objective", "algorithm", "trialTemplate"):
        if needed not in given:
            raise spec.missing(needed, "it must be specified")
    space = read_space(given["parameters"])
    parallel, most, failed = _budget(given)
    return Experiment(
        name=name,
        tenant=Tenant(metadata["namespace"].text()) if "namespace" in metadata else DEFAULT_TENANT,
        space=space,
        objective=_objective(given["objective"]),
        algorithm=read_algorithm(given["algorithm"], space, parallel),
        medianstop=_medianstop(given["earlyStopping"]) if "earlyStopping" in given else None,
        parallel=parallel,
        max_trials=most,
        max_failed=failed,
        resume=given["resumePolicy"].choice(ResumePolicy) if "resumePolicy" in given else ResumePolicy.NEVER,
        collector=read_collector(given.get("metricsCollectorSpec")),
        template=_template(given["trialTemplate"], space),
    )


def _template(value: Value, space: tuple[Dimension, ...]) -> TrialTemplate:
    template = read_template(value, tuple(each.name for each in space))
    for name, path in (("successCondition", template.success), ("failureCondition", template.failure)):
        try:
            parse(path)
        except PathError as error:
            raise value.wrong(f"'{path}' is not a GJSON path: {error}", expected="GJSON", below=f".{name}") from error
    return template


def _name(where: Value, metadata: Mapping[str, Value]) -> str:
    if "name" not in metadata:
        raise where.missing("name", "the name of the Experiment")
    name = metadata["name"].text()
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise metadata["name"].wrong(
            f"'{name}' is not a name",
            expected="lower-case letters, digits and '-', beginning with a letter, at most 40 characters",
        )
    return name


def _budget(given: Mapping[str, Value]) -> tuple[int, int | None, int | None]:
    parallel = given["parallelTrialCount"].integer(1) if "parallelTrialCount" in given else _PARALLEL
    most = given["maxTrialCount"].integer(1, _MOST_TRIALS) if "maxTrialCount" in given else None
    failed = given["maxFailedTrialCount"].integer(0) if "maxFailedTrialCount" in given else None
    if most is not None and failed is not None and failed > most:
        raise given["maxFailedTrialCount"].wrong(f"{failed} is too large", expected=f"at most maxTrialCount ({most})")
    if most is not None and parallel > most and "parallelTrialCount" in given:
        raise given["parallelTrialCount"].wrong(f"{parallel} is too large", expected=f"at most maxTrialCount ({most})")
    return parallel, most, failed


def _objective(value: Value) -> Objective:
    given = value.fields(("type", "goal", "objectiveMetricName", "additionalMetricNames", "metricStrategies"))
    for needed in ("type", "objectiveMetricName"):
        if needed not in given:
            raise value.missing(needed, "it must be specified")
    goal, metric = given["type"].choice(Goal), given["objectiveMetricName"].text()
    if not metric:
        raise given["objectiveMetricName"].wrong("it is empty", expected="the name of a metric")
    more = given.get("additionalMetricNames")
    additional = tuple(each.text() for each in more.items()) if more is not None else ()
    if more is not None and metric in additional:
        raise more.wrong(f"'{metric}' is the objective already", expected="other metrics")
    target = given["goal"].converted(_finite, "a number") if "goal" in given else None
    return Objective(
        metric=metric,
        goal=goal,
        target=target,
        additional=additional,
        strategies=_strategies(given.get("metricStrategies"), (metric, *additional), goal),
    )


def _finite(data: str | float) -> float:
    number = float(data)
    if not math.isfinite(number):
        raise ValueError("is not a number")
    return number


def _strategies(value: Value | None, metrics: tuple[str, ...], goal: Goal) -> dict[str, Strategy]:
    default = Strategy.MAX if goal is Goal.MAXIMIZE else Strategy.MIN
    found = dict.fromkeys(metrics, default)
    for each in value.items() if value is not None else []:
        given = each.fields(("name", "value"))
        if "name" not in given or "value" not in given:
            raise each.missing("value" if "name" in given else "name", "name and value")
        found[given["name"].one_of(metrics)] = given["value"].choice(Strategy)
    return found


def _medianstop(value: Value) -> Medianstop:
    given = value.fields(("algorithmName", "algorithmSettings"))
    if "algorithmName" not in given:
        raise value.missing("algorithmName", "medianstop")
    given["algorithmName"].one_of(("medianstop",))
    numbers = {"min_trials_required": Medianstop().min_trials, "start_step": Medianstop().start_step}
    for each in given["algorithmSettings"].items() if "algorithmSettings" in given else []:
        setting = each.fields(("name", "value"))
        if "name" not in setting or "value" not in setting:
            raise each.missing("value" if "name" in setting else "name", "name and value")
        numbers[setting["name"].one_of(numbers)] = setting["value"].converted(_whole, "a whole number above 0")
    return Medianstop(min_trials=numbers["min_trials_required"], start_step=numbers["start_step"])


def _whole(data: str | float) -> int:
    number = int(data)
    if number < 1:
        raise ValueError("is too small")
    return number


def with_defaults(manifest: Mapping[str, Any], experiment: Experiment) -> dict[str, Any]:
    """Return the ``spec`` of a document with what Katib fills in where its author said nothing."""
    spec = dict(manifest.get("spec") or {})
    objective = dict(spec.get("objective") or {})
    objective["metricStrategies"] = [
        {"name": name, "value": strategy.value} for name, strategy in experiment.objective.strategies.items()
    ]
    template = dict(spec.get("trialTemplate") or {})
    template.setdefault("successCondition", experiment.template.success)
    template.setdefault("failureCondition", experiment.template.failure)
    collecting = dict(spec.get("metricsCollectorSpec") or {})
    collecting.setdefault("collector", {"kind": experiment.collector.kind.value})
    return {
        **spec,
        "objective": objective,
        "trialTemplate": template,
        "metricsCollectorSpec": collecting,
        "parallelTrialCount": experiment.parallel,
        "resumePolicy": experiment.resume.value,
    }
