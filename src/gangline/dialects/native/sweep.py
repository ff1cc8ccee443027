"""The sweep file: what to vary, and the job to try it with. It reads like a job file with one level more."""

from collections.abc import Mapping, Sequence

from gangline.dialects import quantities
from gangline.dialects.native import fields
from gangline.dialects.native.job import NO_SIZES, job_from_parts, job_to_plain
from gangline.dialects.value import Value
from gangline.model import Resources
from gangline.model.kinds.sweep import GRID, Budget, Goal, KnownTrial, Objective, Setting, SweepSpec
from gangline.model.search.parameter import Parameter, Range
from gangline.model.search.stopping import Rule, Stopping, Unit

SWEEP_KIND = "Sweep"

DOCUMENT = ("apiVersion", "kind", "metadata", "spec")
SPEC = ("sampler", "seed", "parallelism", "share", "objective", "budget", "stopping", "parameters", "known", "template")
OBJECTIVE = ("metric", "goal", "target")
BUDGET = ("trials", "time", "gpu_hours", "failures")
STOPPING = ("rule", "unit", "first", "factor", "last", "percentile", "min_trials", "patience")
KNOWN = ("values", "results")
_TIMES = ("first", "last", "patience")
"""The settings of a stopping rule that are durations where its unit is time."""
TEMPLATE = ("metadata", "spec")
PARAMETER = ("values", "type", "min", "max", "step", "log", "when")
TYPES = ("float", "int")


def sweep_from_value(value: Value, *, sizes: Mapping[str, Resources] = NO_SIZES) -> SweepSpec:
    """Read one document."""
    top = value.fields(DOCUMENT)
    if "apiVersion" in top:
        top["apiVersion"].one_of((fields.API_VERSION,))
    if "kind" in top:
        top["kind"].one_of((SWEEP_KIND,))
    for name in ("metadata", "spec"):
        if name not in top:
            raise value.missing(name, "a mapping")
    metadata = top["metadata"].fields(fields.METADATA)
    if "name" not in metadata:
        raise top["metadata"].missing("name", "the name of the sweep")
    given = top["spec"].fields(SPEC)
    for name, expected in (("parameters", "a mapping of names to lists"), ("template", "a job without a name")):
        if name not in given:
            raise top["spec"].missing(name, expected)
    name = metadata["name"].text_or_number()
    template = given["template"].fields(TEMPLATE)
    if "spec" not in template:
        raise given["template"].missing("spec", "the job's spec")
    own = template["metadata"].fields(fields.METADATA) if "metadata" in template else {}
    job = job_from_parts(given["template"], name, {**metadata, **own}, template["spec"], sizes=sizes)
    sampler, settings = _sampler(given["sampler"]) if "sampler" in given else (GRID, {})
    objectives = _objectives(given["objective"]) if "objective" in given else ()
    with value.located():
        return SweepSpec(
            name=name,
            template=job,
            parameters=_parameters(given["parameters"]),
            sampler=sampler,
            settings=settings,
            seed=given["seed"].integer(0) if "seed" in given else None,
            parallelism=given["parallelism"].integer(1) if "parallelism" in given else None,
            share=given["share"].converted(float, "a number") if "share" in given else None,
            objective=next(iter(objectives), None),
            other_objectives=objectives[1:],
            budget=_budget(given["budget"]) if "budget" in given else Budget(),
            stopping=_stopping(given["stopping"]) if "stopping" in given else None,
            known=tuple(_known(each) for each in given["known"].items()) if "known" in given else (),
        )


def _sampler(value: Value) -> tuple[str, dict[str, Setting]]:
    """Read a name, or a mapping of a name and the sampler's own settings."""
    if not isinstance(value.data, Mapping):
        return _sampler_name(value), {}
    given = value.fields()
    if "name" not in given:
        raise value.missing("name", "the name of a sampler")
    settings: dict[str, Setting] = {}
    for name, setting in given.items():
        if name != "name":
            if not isinstance(setting.data, str | int | float | bool):
                raise setting.mismatch("text, a number, true or false")
            settings[name] = setting.data
    return _sampler_name(given["name"]), settings


def _sampler_name(value: Value) -> str:
    """Read the name of a sampler; where it searches, and nowhere else, it has to be installed."""
    return value.text()


def _budget(value: Value) -> Budget:
    given = value.fields(BUDGET)
    with value.located(prefix="spec.budget"):
        return Budget(
            trials=given["trials"].integer() if "trials" in given else None,
            time_seconds=given["time"].converted(quantities.seconds, quantities.DURATION_FORM)
            if "time" in given
            else None,
            gpu_hours=given["gpu_hours"].converted(float, "a number") if "gpu_hours" in given else None,
            failures=given["failures"].integer() if "failures" in given else None,
        )


def _stopping(value: Value) -> Stopping:
    given = value.fields(STOPPING)
    if "rule" not in given:
        raise value.missing("rule", f"one of {', '.join(Rule)}")
    rule = given.pop("rule").choice(Rule)
    percentile = given.pop("percentile").converted(float, "a number") if "percentile" in given else 50.0
    unit = given.pop("unit").choice(Unit) if "unit" in given else Unit.STEPS
    times = _TIMES if unit is Unit.TIME else ()
    numbers = {name: each.integer(1) for name, each in given.items() if name not in times}
    numbers |= {
        name: max(1, round(each.converted(quantities.seconds, quantities.DURATION_FORM)))
        for name, each in given.items()
        if name in times
    }
    with value.located(prefix="spec.stopping"):
        return Stopping(rule=rule, unit=unit, percentile=percentile, **numbers)


def _known(value: Value) -> KnownTrial:
    given = value.fields(KNOWN)
    for name in KNOWN:
        if name not in given:
            raise value.missing(name, "a known trial has values and results")
    results = {name: each.converted(float, "a number") for name, each in given["results"].fields().items()}
    return KnownTrial(values=given["values"].strings(), results=results)


def _parameters(value: Value) -> tuple[Parameter, ...]:
    """Read a mapping of names, or a list whose order a keeper that sorts names cannot change."""
    with value.located(prefix="parameters"):
        if isinstance(value.data, Mapping):
            return tuple(_parameter(name, given) for name, given in value.fields().items())
        return tuple(_named_parameter(given) for given in value.items())


def _named_parameter(value: Value) -> Parameter:
    if "name" not in value.fields(("name", *PARAMETER)):
        raise value.missing("name", "the name of the parameter")
    return _parameter(value.fields()["name"].text(), value)


def _parameter(name: str, value: Value) -> Parameter:
    """Read a list of values, one value (a constant), or a mapping that says more."""
    if isinstance(value.data, list | tuple):
        return Parameter(name, tuple(item.text_or_number() for item in value.items()))
    if not isinstance(value.data, Mapping):
        return Parameter(name, (value.text_or_number(),))
    given = value.fields(("name", *PARAMETER))
    when = (
        tuple((above, _texts(allowed)) for above, allowed in given["when"].fields().items()) if "when" in given else ()
    )
    if "values" not in given:
        return Parameter(name, range=_range(value, given), when=when)
    for other in ("type", "min", "max", "step", "log"):
        if other in given:
            raise given[other].wrong("values and a range exclude each other", expected="either values or min and max")
    return Parameter(name, _texts(given["values"]), when=when)


def _texts(value: Value) -> tuple[str, ...]:
    items = value.items() if isinstance(value.data, list | tuple) else [value]
    return tuple(item.text_or_number() for item in items)


def _range(value: Value, given: Mapping[str, Value]) -> Range:
    for name in ("min", "max"):
        if name not in given:
            raise value.missing(name, "values, or min and max")
    numbers = {name: given[name].converted(float, "a number") for name in ("min", "max", "step") if name in given}
    with value.located():
        return Range(
            low=numbers["min"],
            high=numbers["max"],
            step=numbers.get("step"),
            log=given["log"].boolean() if "log" in given else False,
            whole="type" in given and given["type"].one_of(TYPES) == "int",
        )


def _objectives(value: Value) -> tuple[Objective, ...]:
    """Read one objective, or a list of several."""
    return tuple(map(_objective, value.items() if isinstance(value.data, list | tuple) else [value]))


def _objective(value: Value) -> Objective:
    given = value.fields(OBJECTIVE)
    if "metric" not in given:
        raise value.missing("metric", "the name of a reported metric")
    goal = given["goal"].choice(Goal) if "goal" in given else Goal.MAXIMIZE
    target = given["target"].converted(float, "a number") if "target" in given else None
    return Objective(given["metric"].text(), goal, target)


def sweep_to_plain(spec: SweepSpec, *, ordered: bool = False) -> dict[str, object]:
    """Write the canonical form, which reads back to an equal spec.

    ``ordered`` is for keepers that sort the names of a mapping: parameters and roles, whose order counts, become lists.
    """
    job = job_to_plain(spec.template, roles_as_list=ordered)
    metadata = dict(job["metadata"])  # type: ignore[call-overload]  # job_to_plain writes a mapping here
    metadata.pop("name")
    body: dict[str, object] = {
        "sampler": spec.sampler,
        "parameters": _parameters_to_plain(spec.parameters, ordered=ordered),
        "template": {"metadata": metadata, "spec": job["spec"]},
    }
    if spec.parallelism is not None:
        body["parallelism"] = spec.parallelism
    if spec.share is not None:
        body["share"] = spec.share
    if spec.settings:
        body["sampler"] = {"name": spec.sampler, **spec.settings}
    if spec.seed is not None:
        body["seed"] = spec.seed
    if spec.objectives:
        written = [_objective_to_plain(each) for each in spec.objectives]
        body["objective"] = written[0] if len(written) == 1 else written
    if spec.budget != Budget():
        body["budget"] = _budget_to_plain(spec.budget)
    if spec.stopping is not None:
        usual = Stopping(rule=Rule.MEDIAN)
        given = {name: getattr(spec.stopping, name) for name in STOPPING[1:]}
        changed = {name: number for name, number in given.items() if number != getattr(usual, name)}
        if spec.stopping.unit is Unit.TIME:
            changed |= {name: quantities.seconds_text(changed[name]) for name in _TIMES if name in changed}
        body["stopping"] = {"rule": spec.stopping.rule.value, **changed}
    if spec.known:
        body["known"] = [{"values": dict(each.values), "results": dict(each.results)} for each in spec.known]
    return {
        "apiVersion": fields.API_VERSION,
        "kind": SWEEP_KIND,
        "metadata": {"name": spec.name},
        "spec": body,
    }


def _objective_to_plain(objective: Objective) -> dict[str, object]:
    target = {} if objective.target is None else {"target": objective.target}
    return {"metric": objective.metric, "goal": objective.goal.value, **target}


def _budget_to_plain(budget: Budget) -> dict[str, object]:
    time = None if budget.time_seconds is None else quantities.seconds_text(budget.time_seconds)
    amounts = (budget.trials, time, budget.gpu_hours, budget.failures)
    return {name: amount for name, amount in zip(BUDGET, amounts, strict=True) if amount is not None}


def _parameters_to_plain(parameters: Sequence[Parameter], *, ordered: bool) -> object:
    if ordered:
        return [{"name": each.name, **_parameter_to_plain(each)} for each in parameters]
    return {each.name: list(each.values) if _is_list(each) else _parameter_to_plain(each) for each in parameters}


def _is_list(parameter: Parameter) -> bool:
    return parameter.range is None and not parameter.when


def _parameter_to_plain(parameter: Parameter) -> dict[str, object]:
    when = {name: list(allowed) for name, allowed in parameter.when}
    body: dict[str, object] = {"values": list(parameter.values)}
    if parameter.range is not None:
        found = parameter.range
        number: type[int] | type[float] = int if found.whole else float
        body = {"type": "int" if found.whole else "float", "min": number(found.low), "max": number(found.high)}
        body |= {"step": number(found.step)} if found.step is not None else {}
        body |= {"log": True} if found.log else {}
    return body | ({"when": when} if when else {})
