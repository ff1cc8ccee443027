"""The job file as a whole: text or decoded data in, a ``JobSpec`` out, and back."""

import json
from collections.abc import Mapping
from types import MappingProxyType

from gangline.dialects import document
from gangline.dialects.native import fields
from gangline.dialects.native.amounts import resources_to_plain
from gangline.dialects.native.placement import levels_to_plain, nodes_to_plain, placement_to_plain, read_placement
from gangline.dialects.native.policy import (
    checkpoints_to_plain,
    data_to_plain,
    policy_to_plain,
    read_checkpoints,
    read_data,
    read_policy,
)
from gangline.dialects.native.role import read_environment, read_priority, read_roles
from gangline.dialects.value import Value
from gangline.errors import InvalidInputError
from gangline.model import (
    DEFAULT_QUEUE,
    DEFAULT_TENANT,
    Framework,
    JobSpec,
    PlacementRule,
    Policy,
    Processes,
    QueueName,
    Resources,
    RoleSpec,
    Tenant,
)
from gangline.model.identity import check_name
from gangline.model.jobs.metric_source import MetricFormat, MetricSource
from gangline.model.jobs.source import Source

NO_SIZES: Mapping[str, Resources] = MappingProxyType({})


def read_job(text: str, *, file: str | None = None, sizes: Mapping[str, Resources] = NO_SIZES) -> JobSpec:
    """Read a file that holds one job. ``sizes`` adds the user's own T-shirt sizes to the built-in ones."""
    jobs = read_jobs(text, file=file, sizes=sizes)
    if len(jobs) > 1:
        raise InvalidInputError(f"the file holds {len(jobs)} jobs", file=file, expected="one job")
    return jobs[0]


def read_jobs(text: str, *, file: str | None = None, sizes: Mapping[str, Resources] = NO_SIZES) -> tuple[JobSpec, ...]:
    """Read every job of a file whose documents are separated by ``---``."""
    return tuple(job_from_value(value, sizes=sizes) for value in document.parse(text, file=file))


def job_from_plain(data: object, *, file: str | None = None, sizes: Mapping[str, Resources] = NO_SIZES) -> JobSpec:
    """Read a job from decoded JSON: the same rules, only without line numbers."""
    return job_from_value(document.plain(data, file=file), sizes=sizes)


def job_from_value(value: Value, *, sizes: Mapping[str, Resources] = NO_SIZES) -> JobSpec:
    """Read one document."""
    top = value.fields(fields.DOCUMENT)
    if "apiVersion" in top:
        top["apiVersion"].one_of((fields.API_VERSION,))
    if "kind" in top:
        top["kind"].one_of((fields.KIND,))
    for name in ("metadata", "spec"):
        if name not in top:
            raise value.missing(name, "a mapping")
    metadata = top["metadata"].fields(fields.METADATA)
    if "name" not in metadata:
        raise top["metadata"].missing("name", "the name of the job")
    return job_from_parts(value, metadata["name"].text_or_number(), metadata, top["spec"], sizes=sizes)


def job_from_parts(
    value: Value, name: str, metadata: Mapping[str, Value], spec: Value, *, sizes: Mapping[str, Resources] = NO_SIZES
) -> JobSpec:
    """Read a job whose name is known already; ``value`` encloses all of it."""
    given = spec.fields(fields.SPEC)
    framework = given["framework"].choice(Framework) if "framework" in given else Framework.NONE
    inputs, outputs = read_data(given["data"]) if "data" in given else ((), ())
    roles = read_roles(spec, given, framework, sizes)
    queue, priority = (_either(name, metadata, given) for name in fields.EITHER)
    with value.located():
        return JobSpec(
            name=name,
            tenant=_tenant(metadata),
            queue=QueueName(queue.text()) if queue is not None else DEFAULT_QUEUE,
            priority=read_priority(priority) if priority is not None else fields.PRIORITIES["normal"],
            labels=metadata["labels"].strings() if "labels" in metadata else {},
            framework=framework,
            processes=read_processes(given["processes"]) if "processes" in given else None,
            image=given["image"].text() if "image" in given else None,
            code=given["code"].text() if "code" in given else None,
            env=read_environment(given["env"]) if "env" in given else {},
            roles=roles,
            inputs=inputs,
            outputs=outputs,
            policy=read_policy(given["policy"]) if "policy" in given else Policy(),
            placement=read_placement(given["placement"]) if "placement" in given else PlacementRule(),
            origin=metadata["origin"].text() if "origin" in metadata else None,
            manifest_json=_manifest(metadata),
            source=_source(given["source"]) if "source" in given else None,
            checkpoints=read_checkpoints(given["checkpoints"]) if "checkpoints" in given else None,
            metrics=tuple(map(_metrics, given["metrics"].items())) if "metrics" in given else (),
        )


def _either(name: str, metadata: Mapping[str, Value], spec: Mapping[str, Value]) -> Value | None:
    """Find a field that may stand in ``metadata`` or, as a Kubernetes object must have it, in ``spec``."""
    above, inside = metadata.get(name), spec.get(name)
    if above is not None and inside is not None and above.data != inside.data:
        raise inside.wrong(
            f"it is {inside.data!r} here and {above.data!r} in {above.path}", expected=f"one {name}, in either place"
        )
    return inside if inside is not None else above


def _tenant(metadata: Mapping[str, Value]) -> Tenant:
    if "tenant" in metadata and "namespace" in metadata:
        raise metadata["namespace"].wrong("the tenant is given twice", expected="either tenant or namespace")
    given = metadata.get("tenant") or metadata.get("namespace")
    if given is None:
        return DEFAULT_TENANT
    with given.located():
        check_name(given.text(), "")
    return Tenant(given.text())


def _manifest(metadata: Mapping[str, Value]) -> str | None:
    if "manifest" not in metadata:
        return None
    metadata["manifest"].fields()
    return document.compact_json(metadata["manifest"].data)


def _source(value: Value) -> Source:
    given = value.fields(fields.SOURCE)
    texts = {name: given[name].text() for name in given if name != "dirty"}
    return Source(**texts, dirty=given["dirty"].boolean() if "dirty" in given else False)


def _source_to_plain(source: Source) -> dict[str, object]:
    return {name: getattr(source, name) for name in fields.SOURCE if getattr(source, name)}


def _metrics(value: Value) -> MetricSource:
    given = value.fields(fields.METRICS)
    for name in ("from", "format"):
        if name not in given:
            raise value.missing(name, "the file or folder" if name == "from" else "tensorboard, pattern or records")
    with value.located():
        return MetricSource(
            path=given["from"].text(),
            format=given["format"].choice(MetricFormat),
            pattern=given["pattern"].text() if "pattern" in given else "",
            values=given["values"].strings() if "values" in given else {},
            step=given["step"].text() if "step" in given else "",
            lines=given["lines"].integer(1, 1000) if "lines" in given else 1,
        )


def _metrics_to_plain(source: MetricSource) -> dict[str, object]:
    plain = {
        "pattern": source.pattern or None,
        "values": dict(source.values) or None,
        "step": source.step or None,
        "lines": None if source.lines == 1 else source.lines,
    }
    return {"from": source.path, "format": source.format.value, **_given(plain)}


def read_processes(value: Value) -> int | Processes:
    """Read how many processes run in a replica: a number, or what torchrun is to count."""
    text = value.text_or_number()
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    if text in tuple(Processes):
        return Processes(text)
    words = ", ".join(Processes)
    raise value.wrong(f"'{text}' is not a number of processes", expected=f"{words} or a whole number from 1 on")


def job_to_plain(spec: JobSpec, *, roles_as_list: bool = False) -> dict[str, object]:
    """Write the canonical form, which reads back to an equal spec: short forms spelled out, defaults left out.

    ``roles_as_list`` is for keepers that sort the names of a mapping, as the Kubernetes API does: the order of the
    roles is part of the job.
    """
    roles: object = {role.name: _role_to_plain(role) for role in spec.roles}
    if roles_as_list:
        roles = [{"name": role.name, **_role_to_plain(role)} for role in spec.roles]
    metadata: dict[str, object] = {
        "name": spec.name,
        "tenant": None if spec.tenant == DEFAULT_TENANT else spec.tenant,
        "queue": None if spec.queue == DEFAULT_QUEUE else spec.queue,
        "priority": None if spec.priority == fields.PRIORITIES["normal"] else spec.priority,
        "labels": dict(spec.labels) or None,
        "origin": spec.origin,
        "manifest": None if spec.manifest_json is None else json.loads(spec.manifest_json),
    }
    body: dict[str, object] = {
        "framework": None if spec.framework is Framework.NONE else spec.framework.value,
        "processes": str(spec.processes) if isinstance(spec.processes, Processes) else spec.processes,
        "image": spec.image,
        "code": spec.code,
        "env": dict(spec.env) or None,
        "roles": roles,
        "data": data_to_plain(spec.inputs, spec.outputs) or None,
        "policy": policy_to_plain(spec.policy) or None,
        "placement": placement_to_plain(spec.placement) or None,
        "checkpoints": None if spec.checkpoints is None else checkpoints_to_plain(spec.checkpoints),
        "metrics": [_metrics_to_plain(source) for source in spec.metrics] or None,
        "source": None if spec.source is None else _source_to_plain(spec.source) or None,
    }
    return {
        "apiVersion": fields.API_VERSION,
        "kind": fields.KIND,
        "metadata": _given(metadata),
        "spec": _given(body),
    }


def _role_to_plain(role: RoleSpec) -> dict[str, object]:
    return _given(
        {
            "replicas": role.replicas,
            "min": role.minimum,
            "max": role.maximum,
            "command": list(role.command),
            "image": role.image,
            "env": dict(role.env) or None,
            "resources": resources_to_plain(role.resources),
            "restart": None if role.restart is None else role.restart.value,
            "retry": None if role.retry is None else role.retry.value,
            "port": role.port,
            "placement": _placement_to_plain(role),
            "pod_template": None if role.pod_template_json is None else json.loads(role.pod_template_json),
            "groups": None if role.groups == 1 else role.groups,
            "priority": role.priority,
            "preemptible": role.preemptible,
        }
    )


def _placement_to_plain(role: RoleSpec) -> dict[str, object] | None:
    if role.placement is None and not role.within:
        return None
    return levels_to_plain(role.within) | ({} if role.placement is None else nodes_to_plain(role.placement))


def _given(plain: Mapping[str, object]) -> dict[str, object]:
    return {name: setting for name, setting in plain.items() if setting is not None}
