"""Roles of a job file, and what they inherit from the spec and from each other."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gangline.dialects.document import compact_json
from gangline.dialects.native import fields
from gangline.dialects.native.amounts import read_resources
from gangline.dialects.native.placement import read_nodes
from gangline.dialects.value import Value
from gangline.model import Framework, Resources, Restart, Retry, RoleName, RoleSpec
from gangline.model.identity import check_name
from gangline.model.jobs.spec import LEAD_ROLES

WORKER = RoleName("worker")
PARAMETER_SERVER_COMMAND = ("python", "-m", "gangline.ps")
IDLE_COMMAND = ("sleep", "infinity")
"""What an MPI worker runs of its own: the launcher starts the ranks on it and the job ends with the launcher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inheritance:
    """What a role falls back to: the fields of the spec, the command the roles share, the known sizes."""

    framework: Framework
    spec: Mapping[str, Value]
    sizes: Mapping[str, Resources]
    lead_command: Value | None = None
    secrets: tuple[Mapping[str, object], ...] = ()
    """Variables of the spec whose values Secrets keep."""
    launched: bool = False
    """Whether a launcher starts the processes of the other roles."""


def read_roles(
    spec: Value, given: Mapping[str, Value], framework: Framework, sizes: Mapping[str, Resources]
) -> tuple[RoleSpec, ...]:
    """Read ``spec.roles``, or the single role ``worker`` that the spec itself describes."""
    secrets = tuple(_secret_variables(given.get("env")))
    if "roles" not in given:
        names = (*fields.INHERITED, *fields.SINGLE_ROLE)
        own = {name: value for name, value in given.items() if name in names}
        if "command" not in own:
            raise spec.missing("roles", "roles, or a command for a single role 'worker'")
        alone = _Inheritance(framework=framework, spec=own, sizes=sizes, secrets=secrets)
        return (_role(spec, WORKER, own, alone),)
    for name in fields.SINGLE_ROLE:
        if name in given:
            raise given[name].wrong(
                "the field stands beside roles", expected=f"it inside a role, for example spec.roles.worker.{name}"
            )
    roles = _entries(given["roles"])
    if not roles:
        raise given["roles"].wrong("the job has no roles", expected="at least one role")
    read = {RoleName(name): _role_fields(value) for name, value in roles.items()}
    above = _Inheritance(
        framework=framework,
        spec=given,
        sizes=sizes,
        lead_command=_lead_command(read),
        secrets=secrets,
        launched=framework is Framework.MPI and "launcher" in roles,
    )
    return tuple(_role(roles[name], name, own, above) for name, own in read.items())


def _entries(value: Value) -> dict[str, Value]:
    """Roles by name: a mapping, or a list of roles that each say their name."""
    if not isinstance(value.data, list | tuple):
        return value.fields(keep_empty=True)
    entries: dict[str, Value] = {}
    for item in value.items():
        given = item.fields((*fields.ROLE, "name"))
        if "name" not in given:
            raise item.missing("name", "the role's name")
        name = given.pop("name").text()
        if name in entries:
            raise item.wrong(f"the role {name} is given twice", expected="unique names")
        data = {field: value.data for field, value in given.items()}
        entries[name] = Value(data=data, path=item.path, source=item.source)
    return entries


def _role_fields(value: Value) -> dict[str, Value]:
    if isinstance(value.data, int) and not isinstance(value.data, bool):
        return {"replicas": value}
    return value.fields(fields.ROLE, optional=True)


def _lead_command(roles: Mapping[RoleName, Mapping[str, Value]]) -> Value | None:
    """The command that roles without one share: the lead's, else the first one given."""
    for name in (*LEAD_ROLES, WORKER, *roles):
        if name in roles and "command" in roles[name]:
            return roles[name]["command"]
    return None


def _role(where: Value, name: RoleName, own: Mapping[str, Value], above: _Inheritance) -> RoleSpec:
    with where.located():
        check_name(name, "")
    resources = read_resources(own, above.sizes) or read_resources(above.spec, above.sizes)
    placement, within = read_nodes(own["placement"]) if "placement" in own else (None, ())
    with where.located(prefix=f"roles.{name}"):
        role = RoleSpec(
            name=name,
            replicas=own["replicas"].integer(1) if "replicas" in own else 1,
            minimum=own["min"].integer(0) if "min" in own else None,
            maximum=own["max"].integer(1) if "max" in own else None,
            command=_command(name, own, above),
            image=own["image"].text() if "image" in own else None,
            env=read_environment(own["env"]) if "env" in own else {},
            restart=own["restart"].choice(Restart) if "restart" in own else None,
            retry=own["retry"].choice(Retry) if "retry" in own else None,
            placement=placement,
            pod_template_json=_template_json(own, above),
            groups=own["groups"].integer(1) if "groups" in own else 1,
            within=within,
            priority=read_priority(own["priority"]) if "priority" in own else None,
            preemptible=own["preemptible"].boolean() if "preemptible" in own else None,
        )
        if resources is not None:
            role = replace(role, resources=resources)
    return replace(role, port=own["port"].integer(1, 65535)) if "port" in own else role


def _command(name: RoleName, own: Mapping[str, Value], above: _Inheritance) -> tuple[str, ...]:
    if "command" in own:
        return own["command"].words()
    if above.framework is Framework.PARAMETER_SERVER and name == "ps":
        return PARAMETER_SERVER_COMMAND
    if above.launched and name == WORKER:
        return IDLE_COMMAND
    inherited = above.spec.get("command", above.lead_command)
    return inherited.words() if inherited is not None else ()


def read_priority(value: Value) -> int:
    """Read a priority: a number, or the name of one."""
    if isinstance(value.data, str):
        return fields.PRIORITIES[value.one_of(fields.PRIORITIES)]
    return value.integer(0, fields.MOST_PRIORITY)


def read_environment(value: Value) -> dict[str, str]:
    """Read an environment: numbers become the text they were written as, names must be usable."""
    for name in value.fields():
        check_variable(value, name, below=f".{name}")
    return {name: each.text_or_number() for name, each in value.fields().items() if not _is_secret(each)}


def _is_secret(value: Value) -> bool:
    return isinstance(value.data, Mapping)


def _secret_variables(value: Value | None) -> list[dict[str, object]]:
    """Variables whose values a Secret keeps, ``{secret: NAME/KEY}``, as a pod template has them."""
    found: list[dict[str, object]] = []
    for name, each in value.fields().items() if value is not None else ():
        if not _is_secret(each):
            continue
        given = each.fields(fields.VARIABLE)
        secret, slash, key = given["secret"].text().partition("/") if "secret" in given else ("", "", "")
        if not secret or not slash or not key:
            raise each.wrong("it names no secret", expected="{secret: NAME/KEY}")
        found.append({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
    return found


def check_variable(where: Value, name: str, *, below: str = "") -> None:
    """Refuse what no operating system takes as the name of a variable."""
    if not name or "=" in name:
        raise where.wrong(f"'{name}' is not a name for a variable", expected="a name without '='", below=below)


def _template_json(own: Mapping[str, Value], above: _Inheritance) -> str | None:
    """The pod template; ``volumes`` and variables from secrets are short forms of one."""
    template = _own_template_json(own, own.get("volumes", above.spec.get("volumes")))
    secrets: Sequence[Mapping[str, object]] = above.secrets
    if own_secrets := _secret_variables(own.get("env")):
        named = {each["name"] for each in own_secrets}
        secrets = (*(each for each in secrets if each["name"] not in named), *own_secrets)
    plainly = own["env"].fields() if "env" in own else {}
    secrets = [each for each in secrets if each["name"] not in plainly or _is_secret(plainly[str(each["name"])])]
    if not secrets:
        return template
    made: Any = json.loads(template or "{}")
    containers = made.setdefault("spec", {}).setdefault("containers", [{}])
    given = containers[0].setdefault("env", [])
    known = {each.get("name") for each in given if isinstance(each, dict)}
    given += [each for each in secrets if each["name"] not in known]
    return compact_json(made)


def _own_template_json(own: Mapping[str, Value], volumes: Value | None) -> str | None:
    if volumes is not None:
        if "pod_template" in own:
            raise volumes.wrong("the role has a pod template too", expected="volumes in the template, or no template")
        return compact_json(_volumes_to_template(volumes))
    if "pod_template" not in own:
        return None
    own["pod_template"].fields()
    return compact_json(own["pod_template"].data)


def _volumes_to_template(value: Value) -> dict[str, object]:
    volumes: list[dict[str, object]] = []
    mounts: list[dict[str, object]] = []
    for item in value.items():
        given = item.fields(fields.VOLUME)
        for name, expected in (("name", "the name of a volume"), ("at", "a path, for example /shared")):
            if name not in given:
                raise item.missing(name, expected)
        name, path = given["name"].text(), given["at"].text()
        with given["name"].located():
            check_name(name, "")
        if not path.startswith("/") or path == "/":
            raise given["at"].wrong(
                f"'{path}' is not a path for a volume", expected="a path from the root, such as /shared"
            )
        if path.rstrip("/") in {str(each["mountPath"]).rstrip("/") for each in mounts}:
            raise given["at"].wrong(f"another volume is at {path}", expected="a path of its own for each")
        read_only = "read_only" in given and given["read_only"].boolean()
        if name not in {each["name"] for each in volumes}:
            volumes.append({"name": name, "persistentVolumeClaim": {"claimName": name}})
        mounts.append({"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})})
    return {"spec": {"volumes": volumes, "containers": [{"volumeMounts": mounts}]}}
