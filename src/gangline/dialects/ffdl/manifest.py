"""The FfDL manifest: name, learners and their resources, data stores, framework and command."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gangline.dialects import quantities
from gangline.dialects.native.role import IDLE_COMMAND
from gangline.dialects.translation import Translation
from gangline.dialects.value import Value
from gangline.model import (
    DataMove,
    Framework,
    JobSpec,
    PlacementRule,
    Policy,
    Resources,
    RoleName,
    RoleSpec,
    Success,
)

_FIELDS = (
    "name",
    "description",
    "version",
    "gpus",
    "cpus",
    "gpu_type",
    "memory",
    "storage",
    "learners",
    "data_stores",
    "framework",
    "evaluation_metrics",
)
_FRAMEWORK_FIELDS = ("name", "version", "command", "image_tag")
_STORE_FIELDS = ("id", "type", "training_data", "training_results", "connection")
_STORE_TYPES = ("mount_cos", "s3_datastore", "mount_volume")
_DEFAULT = Resources(cpu_millis=5000, memory_mib=quantities.memory_mib("8GB"))
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")
_CONTINUATION = re.compile(r"\n[ \t]+")
"""Folded YAML keeps the line break before an indented line; manifests mean one long command."""

_FRAMEWORKS = {
    # name: (what the replicas are told, the image FfDL took)
    "tensorflow": (Framework.TENSORFLOW, "tensorflow/tensorflow"),
    "pytorch": (Framework.PYTORCH, "pytorch/pytorch"),
    "horovod": (Framework.MPI, "uber/horovod"),
    "caffe": (Framework.NONE, "bvlc/caffe"),
    "caffe2": (Framework.NONE, "caffe2ai/caffe2"),
    "h2o3": (Framework.NONE, "opsh2oai/h2o3-ffdl"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stores:
    """What the data stores say."""

    inputs: tuple[DataMove, ...] = ()
    outputs: tuple[DataMove, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def looks_like_manifest(value: Value) -> bool:
    """Whether a document without apiVersion and kind has the shape of a manifest."""
    names = value.data if isinstance(value.data, Mapping) else {}
    return "framework" in names and "spec" not in names and not {"apiVersion", "kind"} & set(names)


def job_from_value(value: Value) -> Translation:
    """Translate a manifest; the model's files come beside it, by ``--code``."""
    given = value.fields(_FIELDS)
    for name in ("name", "framework"):
        if name not in given:
            raise value.missing(name, "as in an FfDL manifest")
    framework = given["framework"].fields(_FRAMEWORK_FIELDS)
    for name in ("name", "command"):
        if name not in framework:
            raise given["framework"].missing(name, "as in an FfDL manifest")
    stores = _stores(given["data_stores"].items() if "data_stores" in given else [])
    kind, image = _framework(framework)
    roles = _roles(given, framework, kind)
    with value.located():
        spec = JobSpec(
            name=_name(given["name"]),
            framework=kind,
            image=image,
            env={"NUM_LEARNERS": str(roles[-1].replicas), **stores.env},
            roles=roles,
            inputs=stores.inputs,
            outputs=stores.outputs,
            policy=Policy(success=Success.LEAD if kind is Framework.MPI else Success.ALL),
            placement=PlacementRule(gpu_types=(given["gpu_type"].text(),) if "gpu_type" in given else ()),
            origin="ffdl manifest",
        )
    return Translation(spec=spec, notes=(*_notes(given, spec), *stores.notes))


def _name(value: Value) -> str:
    """A manifest's name is free text; ours becomes part of host names."""
    slug = _NOT_A_NAME.sub("-", value.text_or_number().lower()).strip("-")[:63].rstrip("-")
    if not slug:
        raise value.wrong(f"'{value.data}' has no letter or digit", expected="a name")
    return slug


def _framework(framework: Mapping[str, Value]) -> tuple[Framework, str]:
    name = framework["name"].text()
    kind, image = _FRAMEWORKS.get(name.lower(), (Framework.NONE, name))
    tag = framework.get("image_tag") or framework.get("version")
    return kind, image if tag is None else f"{image}:{tag.text_or_number()}"


def _roles(given: Mapping[str, Value], framework: Mapping[str, Value], kind: Framework) -> tuple[RoleSpec, ...]:
    learners = given["learners"].integer(1) if "learners" in given else 1
    resources = Resources(
        cpu_millis=_amount(given, "cpus", quantities.CPU_FORM, _DEFAULT.cpu_millis),
        memory_mib=_amount(given, "memory", quantities.MEMORY_FORM, _DEFAULT.memory_mib),
        gpu_millis=_amount(given, "gpus", quantities.GPU_FORM, 0),
    )
    command = _CONTINUATION.sub(" ", framework["command"].text().strip())
    if not command:
        raise framework["command"].wrong("there is no command", expected="a shell command")
    # Manifests refer to ${DATA_DIR} and count learners from one: both need a shell.
    script = f"export LEARNER_ID=$((GANGLINE_INDEX + 1)); {command}"
    launcher: tuple[RoleSpec, ...] = ()
    if kind is Framework.MPI:
        launch = f"export LEARNER_ID=1; exec mpirun --allow-run-as-root -np {learners} {command}"
        launcher = (RoleSpec(name=RoleName("launcher"), command=("bash", "-c", launch)),)
    words = IDLE_COMMAND if launcher else ("bash", "-c", script)
    learner = RoleSpec(name=RoleName("worker"), replicas=learners, command=words, resources=resources)
    return (*launcher, learner)


_READERS = {"cpus": quantities.cpu_millis, "memory": quantities.memory_mib, "gpus": quantities.gpu_millis}


def _amount(given: Mapping[str, Value], name: str, form: str, default: int) -> int:
    return given[name].converted(_READERS[name], form) if name in given else default


def _stores(values: Sequence[Value]) -> _Stores:
    inputs: list[DataMove] = []
    outputs: list[DataMove] = []
    env: dict[str, str] = {}
    for value in values:
        store = value.fields(_STORE_FIELDS)
        connection = store["connection"].strings() if "connection" in store else {}
        root = _root(store, connection)
        if "training_data" in store:
            inputs.append(DataMove(f"{root}{_container(store['training_data'])}", "$DATA_DIR"))
        if "training_results" in store:
            outputs.append(DataMove("$RESULT_DIR", f"{root}{_container(store['training_results'])}/$JOB_NAME"))
        env |= _credentials(connection)
    secret = "AWS_SECRET_ACCESS_KEY" in env
    note = "data_stores: the password becomes part of the job; keep it in the service's own settings instead"
    return _Stores(inputs=tuple(inputs), outputs=tuple(outputs), env=env, notes=(note,) if secret else ())


def _root(store: Mapping[str, Value], connection: Mapping[str, str]) -> str:
    if "type" in store:
        store["type"].one_of(_STORE_TYPES)
    if connection.get("path"):
        return f"{connection['path'].rstrip('/')}/"
    return "s3://"


def _container(value: Value) -> str:
    given = value.fields(("container",))
    if "container" not in given:
        raise value.missing("container", "the bucket or folder")
    return given["container"].text()


def _credentials(connection: Mapping[str, str]) -> dict[str, str]:
    names = {
        "auth_url": "AWS_ENDPOINT_URL",
        "user_name": "AWS_ACCESS_KEY_ID",
        "password": "AWS_SECRET_ACCESS_KEY",
        "region": "AWS_DEFAULT_REGION",
    }
    return {names[name]: text for name, text in connection.items() if name in names}


def _notes(given: Mapping[str, Value], spec: JobSpec) -> list[str]:
    notes = []
    if given["name"].data != spec.name:
        notes.append(f"the name '{given['name'].data}' became '{spec.name}', which host names allow")
    if "evaluation_metrics" in given:
        notes.append("evaluation_metrics is not read; report metrics with gangline.runtime")
    if "storage" in given:
        notes.append("storage is not reserved; replicas share what their machine has")
    return notes
