"""What a pod template asks of a machine without containers: variables, volumes, working directory. Images are ignored.

Volumes are directories. Nothing can be mounted without privileges, so a mount path is read as the volume's directory
wherever it occurs in the container's command and variables, and every volume is also told by a variable of its own.
docs/kubeflow.md says so to users.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gangline.dialects.kubeflow import KINDS, expand_references
from gangline.engines.local.layout import Layout
from gangline.engines.local.orders.objects import Objects
from gangline.engines.local.orders.volumes import Mount, provide
from gangline.engines.local.system_users import file_rights
from gangline.model import Gang, GangReplica, JobSpec, RoleSpec
from gangline.model.kinds.experiment import METRICS_VOLUME

_METADATA = ("metadata.labels[", "metadata.annotations[")
VOLUME_VARIABLE = "GANGLINE_VOLUME_"

Plain = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a replica is started with. ``directory`` None means its own working directory."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str | None = None


def surround(
    layout: Layout,
    gang: Gang,
    replica: GangReplica,
    environment: Mapping[str, str],
    *,
    address: str,
    user: int | None = None,
) -> Surroundings:
    """Apply the role's pod template, if it has one, to what the replica would be started with anyway.

    Makes the directories of its volumes. Raises EngineError if the machine cannot provide what the template needs.
    """
    role = gang.spec.role(replica.id.role)
    container, volumes = _container(gang.spec, role)
    if container is None:
        return Surroundings(command=role.command, environment=environment)
    scratch = layout.attempt(gang.id) / "scratch" / str(replica.id)
    objects = Objects(layout.objects(gang.spec.tenant))
    claims = layout.claims(gang.spec.tenant)
    mounts = provide(container, volumes, objects, own=scratch / "volumes", claims=claims, user=user)
    whole = {**environment, **_own_packages(environment, scratch)}
    whole |= {f"{VOLUME_VARIABLE}{_variable(mount.volume)}": str(mount.directory) for mount in mounts}
    mounts += _above(mounts)
    asked = _variables(container, objects, _facts(gang, replica, address, role), whole)
    # Mount paths mean something only in what a user wrote, not in what this machine's own variables say.
    whole |= {name: _located(value, mounts) for name, value in asked.items()}
    command = tuple(_located(word, mounts) for word in expand_references(role.command, whole))
    with file_rights(user):
        directory = _directory(container, mounts, scratch / "work")
    return Surroundings(command=command, environment=whole, directory=directory)


def _container(spec: JobSpec, role: RoleSpec) -> tuple[Plain | None, Mapping[str, Plain]]:
    """The training container of a template and the pod's volumes by name."""
    template = json.loads(role.pod_template_json or "{}")
    pod = template.get("spec") or {}
    containers = _objects(pod.get("containers"))
    kind = KINDS.get((spec.origin or "").rpartition(" ")[2])
    named = (json.loads(spec.manifest_json or "{}").get("spec") or {}).get("mainContainer")
    wanted = named or (kind.container if kind else None)
    chosen = next((item for item in containers if item.get("name") == wanted), containers[0] if containers else None)
    return chosen, {str(volume.get("name")): volume for volume in _objects(pod.get("volumes"))}


def _variables(
    container: Plain, objects: Objects, facts: Mapping[str, str], known: Mapping[str, str]
) -> dict[str, str]:
    """The container's own variables: those of whole objects first, then one by one, each seeing those before it."""
    found: dict[str, str] = {}
    for whole in _objects(container.get("envFrom")):
        prefix = str(whole.get("prefix") or "")
        found |= {f"{prefix}{name}": value for name, value in objects.all_of(whole).items()}
    for variable in _objects(container.get("env")):
        name, source = str(variable.get("name")), variable.get("valueFrom")
        if not isinstance(source, Mapping):
            found[name] = expand_references((str(variable.get("value") or ""),), {**known, **found})[0]
        elif (value := _resolved(source, objects, facts)) is not None:
            found[name] = value
    return found


def _resolved(source: Plain, objects: Objects, facts: Mapping[str, str]) -> str | None:
    field = source.get("fieldRef")
    if isinstance(field, Mapping):
        path = str(field.get("fieldPath"))
        # Kubernetes knows every label and annotation; those that a pod does not have are empty.
        return facts.get(path, "" if path.startswith(_METADATA) else None)
    return objects.one_of(source)


def _facts(gang: Gang, replica: GangReplica, address: str, role: RoleSpec) -> dict[str, str]:
    """What a pod may ask about itself."""
    metadata = json.loads(role.pod_template_json or "{}").get("metadata") or {}
    told = [(kind, pair) for kind in ("labels", "annotations") for pair in (metadata.get(kind) or {}).items()]
    return {
        **{f"metadata.{kind}['{key}']": str(value) for kind, (key, value) in told},
        "metadata.name": f"{gang.spec.name}-{replica.id}",
        "metadata.namespace": gang.spec.tenant,
        "metadata.uid": f"{gang.id.job_id}-{gang.id.attempt}-{replica.id}",
        "spec.nodeName": replica.node,
        "status.podIP": address,
        "status.podIPs": address,
        "status.hostIP": address,
    }


def _own_packages(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """A container may install packages as it likes; here they go to the replica alone, not to the user's Python."""
    packages = scratch / "packages"
    paths = [str(packages), *filter(None, [environment.get("PYTHONPATH")])]
    return {
        "PIP_TARGET": str(packages),
        "PYTHONPATH": ":".join(paths),
        "PATH": f"{packages / 'bin'}:{environment.get('PATH', '')}",
    }


def _above(mounts: list[Mount]) -> list[Mount]:
    """The folder above one that a collector reads: programs are often told that one, and make the other in it."""
    found = [mount for mount in mounts if mount.volume == METRICS_VOLUME and mount.path.count("/") > 1]
    return [
        Mount(volume=mount.volume, path=mount.path.rpartition("/")[0], directory=mount.directory.parent, alone=True)
        for mount in found
    ]


def _located(text: str, mounts: list[Mount]) -> str:
    """Read every mount path in a text as the directory of its volume."""
    by_path = {mount.path: str(mount.directory) for mount in reversed(mounts)}
    if not by_path:
        return text
    alone = {mount.path for mount in mounts if mount.alone}
    longest_first = sorted(by_path, key=len, reverse=True)
    words = [rf"{re.escape(path)}(?=/?(?:[\"'\s]|$))" if path in alone else re.escape(path) for path in longest_first]
    pattern = rf"(?<![\w./~-])({'|'.join(words)})(?![\w.-])"
    return re.sub(pattern, lambda match: by_path[match[1]], text)


def _directory(container: Plain, mounts: list[Mount], work: Path) -> str | None:
    """The working directory, if this machine has it: that of an image is not here."""
    wanted = container.get("workingDir")
    if not isinstance(wanted, str) or not wanted:
        return None
    directory = work / _located(wanted, mounts)
    return str(directory) if directory.is_dir() else None


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def _objects(value: object) -> list[Plain]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
