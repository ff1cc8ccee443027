"""The sweep file: what to vary, and the job to try it with. It reads like a job file with one level more."""

from collections.abc import Mapping, Sequence

from gangline.dialects import document
from gangline.dialects.native import fields
from gangline.dialects.native.job import NO_SIZES, job_from_parts, job_to_plain
from gangline.dialects.value import Value
from gangline.errors import InvalidInputError
from gangline.model import Resources
from gangline.model.sweep import Goal, Objective, Parameter, SweepSpec

SWEEP_KIND = "Sweep"
SAMPLER_NAMES = ("grid",)

DOCUMENT = ("apiVersion", "kind", "metadata", "spec")
SPEC = ("sampler", "parallelism", "objective", "parameters", "template")
OBJECTIVE = ("metric", "goal")
TEMPLATE = ("metadata", "spec")
PARAMETER = ("name", "values")


def read_sweep(text: str, *, file: str | None = None, sizes: Mapping[str, Resources] = NO_SIZES) -> SweepSpec:
    """Read a file that holds one sweep."""
    values = document.parse(text, file=file)
    if len(values) > 1:
        raise InvalidInputError(f"the file holds {len(values)} documents", file=file, expected="one sweep")
    return sweep_from_value(values[0], sizes=sizes)


def sweep_from_plain(data: object, *, sizes: Mapping[str, Resources] = NO_SIZES) -> SweepSpec:
    """Read a sweep from decoded JSON: the same rules, only without line numbers."""
    return sweep_from_value(document.plain(data), sizes=sizes)


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
    with value.located():
        return SweepSpec(
            name=name,
            template=job,
            parameters=_parameters(given["parameters"]),
            sampler=given["sampler"].one_of(SAMPLER_NAMES) if "sampler" in given else SAMPLER_NAMES[0],
            parallelism=given["parallelism"].integer(1) if "parallelism" in given else None,
            objective=_objective(given["objective"]) if "objective" in given else None,
        )


def _parameters(value: Value) -> tuple[Parameter, ...]:
    """Read a mapping of names to lists, or a list whose order a keeper that sorts names cannot change."""
    with value.located(prefix="parameters"):
        named = value.fields().items() if isinstance(value.data, Mapping) else map(_parameter, value.items())
        return tuple(Parameter(name, tuple(item.text_or_number() for item in values.items())) for name, values in named)


def _parameter(value: Value) -> tuple[str, Value]:
    given = value.fields(PARAMETER)
    for name in PARAMETER:
        if name not in given:
            raise value.missing(name, "a parameter has a name and values")
    return given["name"].text(), given["values"]


def _objective(value: Value) -> Objective:
    given = value.fields(OBJECTIVE)
    if "metric" not in given:
        raise value.missing("metric", "the name of a reported metric")
    goal = given["goal"].choice(Goal) if "goal" in given else Goal.MAXIMIZE
    return Objective(given["metric"].text(), goal)


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
    if spec.objective is not None:
        body["objective"] = {"metric": spec.objective.metric, "goal": spec.objective.goal.value}
    return {
        "apiVersion": fields.API_VERSION,
        "kind": SWEEP_KIND,
        "metadata": {"name": spec.name},
        "spec": body,
    }


def _parameters_to_plain(parameters: Sequence[Parameter], *, ordered: bool) -> object:
    if ordered:
        return [{"name": parameter.name, "values": list(parameter.values)} for parameter in parameters]
    return {parameter.name: list(parameter.values) for parameter in parameters}
