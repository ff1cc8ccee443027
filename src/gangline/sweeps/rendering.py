"""A trial as a job: the template with this trial's values in every role."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from gangline.errors import InvalidInputError
from gangline.model import DataMove, JobSpec, RoleSpec
from gangline.model.kinds.sweep import (
    ADDED_LABEL,
    COPY_LABEL,
    PARAMETERS_VARIABLE,
    SWEEP_LABEL,
    TRIAL_LABEL,
    Assignment,
    SweepSpec,
)

_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_-]*)\)")


def trial_to_job(spec: SweepSpec, assignment: Assignment, names: Mapping[int, str] = MappingProxyType({})) -> JobSpec:
    """Return the trial's job. Roles find the values in their commands, in their environment and in TRIAL_PARAMETERS.

    A parameter that this trial does not have is the empty text in a command and no variable of the environment.
    One that is a copy begins with the checkpoints of another trial. ``names`` are those of the jobs of trials that
    exist: one whose own name was taken runs under its id.
    """
    template = spec.template
    values = assignment.values
    variables = {each.variable: values[each.name] for each in spec.parameters if each.name in values}
    marked = {} if assignment.added is None else {ADDED_LABEL: str(assignment.added)}
    copy, inputs = assignment.copy, template.inputs
    if copy is not None:
        marked[COPY_LABEL] = f"{copy.parent}.{copy.step}.{copy.replaces}"
        inputs = (
            *inputs,
            DataMove(f"job://{names.get(copy.parent, _job_name(spec, copy.parent))}/checkpoints", "$CHECKPOINT_DIR"),
        )
    shown = {each.name: values.get(each.name, "") for each in spec.parameters}
    return replace(
        template,
        name=_job_name(spec, assignment.number),
        labels={**template.labels, SWEEP_LABEL: spec.name, TRIAL_LABEL: str(assignment.number), **marked},
        env={**variables, **_in_mapping(template.env, shown), PARAMETERS_VARIABLE: json.dumps(dict(values))},
        roles=tuple(_role(role, shown) for role in template.roles),
        inputs=inputs,
    )


def _job_name(spec: SweepSpec, number: int) -> str:
    return f"{spec.name}-{number}"


def unknown_references(spec: SweepSpec) -> set[str]:
    """Return the ``$(name)`` of the template that no parameter answers."""
    known = {parameter.name for parameter in spec.parameters}
    texts = [*spec.template.env.values()]
    for role in spec.template.roles:
        texts += [*role.command, *role.env.values()]
    return {name for text in texts for name in _REFERENCE.findall(text)} - known


def check_references(spec: SweepSpec) -> None:
    """Refuse a template that refers to a parameter the sweep does not have."""
    for name in sorted(unknown_references(spec)):
        raise InvalidInputError(
            f"the template refers to $({name})",
            field="spec.template",
            expected=f"one of {', '.join(parameter.name for parameter in spec.parameters)}",
        )


def _role(role: RoleSpec, values: Mapping[str, str]) -> RoleSpec:
    command = tuple(_in_text(word, values) for word in role.command)
    return replace(role, command=command, env=_in_mapping(role.env, values))


def _in_mapping(env: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    return {name: _in_text(text, values) for name, text in env.items()}


def _in_text(text: str, values: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda match: values.get(match[1], match[0]), text)
