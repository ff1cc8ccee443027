"""What the API server itself checks of jobs, by policies that are installed with Gangline. Pure.

The controller makes a job's pods with its own rights, long after somebody submitted the job. What that somebody may do,
only the API server knows, and only at that moment. So it is asked then: a job that brings a pod template, or names a
volume claim, may be written only by who could have made such pods himself; one that uses the tenant's stores or models,
by who may read the records of stores. Pod Security applies to the pods as it does
to everybody's, in the namespace they are made in.

The same policies keep what identifies a job as it was when the job was made, and see to it that nobody signs with the
name of another.
"""

from collections.abc import Sequence
from typing import Any

from gangline.engines.kubernetes.names import DOMAIN, JOB_ID, VOLUME
from gangline.kinds import all_kinds

Plain = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
SUBMITTED_AS = f"{DOMAIN}/submitted-as"
AUTHOR = f"{DOMAIN}/author"

_MAY_MAKE_PODS = "authorizer.group('').resource('pods').namespace(request.namespace).check('create').allowed()"
_NO_PODS = "you may not create pods in this namespace, so you may not submit a job with {what}"
_UNCHANGED = "(request.operation == 'UPDATE' && object.spec == oldObject.spec)"
_CLAIM = "'pvc://'"
_MAY_READ_STORES = (
    f"authorizer.group('{DOMAIN}').resource('stores').namespace(request.namespace).check('get').allowed()"
)
_STORED = "'^(s3|s3a|gs|gcs|az|azure|abfs|model)://'"
"""What is reached with keys of the tenant: by the store that a move names, by the tenant's default, or as a model."""


def job_policies(metadata: Plain) -> list[Plain]:
    """The policy for our own jobs and sweeps, and what puts it in force."""
    variables = [
        _variable("job", "request.resource.resource == 'sweeps' ? object.spec.?template.orValue({}) : object"),
        _variable("labels", "variables.job.?metadata.?labels.orValue({})"),
        _variable("spec", "variables.job.?spec.orValue({})"),
        _variable("roles", "variables.spec.?roles.orValue({})"),
        _variable("moves", "variables.spec.?data.?inputs.orValue([]) + variables.spec.?data.?outputs.orValue([])"),
        _variable(
            "templated",
            "variables.roles.exists(name, has(variables.roles[name].pod_template)"
            " || has(variables.roles[name].volumes))",
        ),
        _variable(
            "claiming",
            f"'{VOLUME}' in variables.labels || "
            f"variables.moves.exists(move, move.?from.orValue('').startsWith({_CLAIM}) || "
            f"move.?to.orValue('').startsWith({_CLAIM}))",
        ),
        _variable(
            "storing",
            "variables.moves.exists(move, has(move.store) || "
            f"move.?from.orValue('').matches({_STORED}) || move.?to.orValue('').matches({_STORED}))",
        ),
        _variable(
            "unchanged",
            "request.operation == 'UPDATE' && object.spec == oldObject.spec && "
            f"({_value('object', 'labels', VOLUME)} == {_value('oldObject', 'labels', VOLUME)})",
        ),
    ]
    rights = _validation(
        "variables.unchanged || !(variables.templated || variables.claiming) || " + _MAY_MAKE_PODS,
        _NO_PODS.format(what="a pod template or a volume claim"),
    )
    stores = _validation(
        f"variables.unchanged || !variables.storing || {_MAY_READ_STORES}",
        "you may not read the stores of this namespace, so you may not submit a job that uses one, or a model",
    )
    return _policy(metadata, DOMAIN, ["jobs", "sweeps"], variables, [rights, stores, *_identity()])


def kubeflow_policies(metadata: Plain, group: str, plurals: Sequence[str]) -> list[Plain]:
    """The policy for kinds of job of another group, all of which bring pod templates."""
    rights = _validation(f"{_UNCHANGED} || {_MAY_MAKE_PODS}", _NO_PODS.format(what="a pod template"))
    return _policy(metadata, group, list(plurals), [], [rights, *_identity()])


def record_policies(metadata: Plain) -> list[Plain]:
    """The policy for our kinds whose plans make jobs: those may bring templates, which only the plan finds in them."""
    kinds = [kind for kind in all_kinds() if kind.plan is not None and kind.namespaced and kind.name != "sweep"]
    plurals = [kind.plural for kind in kinds if kind.api_version.partition("/")[0] == DOMAIN]
    message = "you may not create pods in this namespace, so you may not have the controller create them for you"
    return _policy(metadata, DOMAIN, plurals, [], [_validation(f"{_UNCHANGED} || {_MAY_MAKE_PODS}", message)])


def _identity() -> list[Plain]:
    """What a job is called by must stay, and who signs one must be the one who sends it."""
    ids = [JOB_ID, *(f"{kind.label}-id" for kind in all_kinds() if kind.namespaced)]
    marks = [*(("labels", name) for name in ids), ("annotations", SUBMITTED_AS), ("annotations", AUTHOR)]
    same = " && ".join(
        f"{_value('object', field, name)} == {_value('oldObject', field, name)}" for field, name in marks
    )
    author, own = _value("object", "annotations", AUTHOR), "request.namespace + '/' + object.metadata.name"
    place = _value("object", "annotations", SUBMITTED_AS, default=own)
    return [
        _validation(
            f"request.operation != 'UPDATE' || ({same})",
            f"{', '.join(ids)}, {SUBMITTED_AS} and {AUTHOR} say which job this is and cannot be changed",
        ),
        _validation(
            # A copy of somebody's job is a job of its own, of which the name says nothing.
            f"request.operation != 'CREATE' || {author} in ['', request.userInfo.username] || {place} != {own}",
            f"{AUTHOR} names somebody else; leave it out",
        ),
    ]


def _value(whose: str, field: str, name: str, *, default: str = "''") -> str:
    return f"{whose}.metadata.?{field}[?'{name}'].orValue({default})"


def _variable(name: str, expression: str) -> Plain:
    return {"name": name, "expression": expression}


def _validation(expression: str, message: str) -> Plain:
    return {"expression": expression, "message": message, "reason": "Forbidden"}


def _policy(
    metadata: Plain, group: str, plurals: list[str], variables: list[Plain], validations: list[Plain]
) -> list[Plain]:
    rule = {"apiGroups": [group], "apiVersions": ["*"], "resources": plurals, "operations": ["CREATE", "UPDATE"]}
    policy: Plain = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            **({"variables": variables} if variables else {}),
            "validations": validations,
        },
    }
    binding = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
    }
    return [policy, binding]
