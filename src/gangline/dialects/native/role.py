"""Roles of a job file, and what they inherit from the spec and from each other."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gangline.dialects.document import compact_json
from gangline.dialects.native import fields
from gangline.dialects.native.amounts import read_resources
from gangline.dialects.native.placement import read_nodes
from gangline.dialects.value import Value
from gangline.model import Framework, Resources, Restart, Retry, RoleName, RoleSpec
from gangline.model.identity import check_name
from gangline.model.spec import LEAD_ROLES

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
    launched: bool = False
    """Whether a launcher starts the processes of the other roles."""


def read_roles(
    spec: Value, given: Mapping[str, Value], framework: Framework, sizes: Mapping[str, Resources]
) -> tuple[RoleSpec, ...]:
    """Read ``spec.roles``, or the single role ``worker`` that the spec itself describes."""
    if "roles" not in given:
        names = (*fields.INHERITED, *fields.SINGLE_ROLE)
        own = {name: value for name, value in given.items() if name in names}
        if "command" not in own:
            raise spec.missing("roles", "roles, or a command for a single role 'worker'")
        return (_role(spec, WORKER, own, _Inheritance(framework=framework, spec=own, sizes=sizes)),)
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
            placement=read_nodes(own["placement"]) if "placement" in own else None,
            pod_template_json=compact_json(_template(own["pod_template"])) if "pod_template" in own else None,
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


def read_environment(value: Value) -> dict[str, str]:
    """Read an environment: numbers become the text they were written as, names must be usable."""
    environment = value.strings()
    for name in environment:
        check_variable(value, name, below=f".{name}")
    return environment


def check_variable(where: Value, name: str, *, below: str = "") -> None:
    """Refuse what no operating system takes as the name of a variable."""
    if not name or "=" in name:
        raise where.wrong(f"'{name}' is no name for a variable", expected="a name without '='", below=below)


def _template(value: Value) -> object:
    value.fields()
    return value.data
