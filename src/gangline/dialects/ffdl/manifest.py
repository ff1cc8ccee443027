"""The FfDL manifest: name, learners and their resources, data stores, framework and command."""

import re
from collections.abc import Mapping

from gangline.dialects import quantities
from gangline.dialects.ffdl.data_stores import read_data_stores
from gangline.dialects.ffdl.evaluation import TRAINING_LOG, read_evaluation
from gangline.dialects.native.role import IDLE_COMMAND
from gangline.dialects.translation import Translation
from gangline.dialects.value import Value
from gangline.model import (
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
_DEFAULT = Resources(cpu_millis=5000, memory_mib=quantities.memory_mib("8GB"))
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")
_CONTINUATION = re.compile(r"\n[ \t]+")
"""Folded YAML keeps the line break before an indented line; manifests mean one long command."""

_EXPORTS = (
    'export TRAINING_ID="$GANGLINE_JOB_ID" RESULT_BUCKET_DIR="$RESULT_DIR" JOB_STATE_DIR="$RESULT_DIR" '
    'LOG_DIR="$RESULT_DIR/logs" MODEL_DIR="$PWD"'
)
"""What FfDL gives a learner under names of its own. What it keeps of a learner's state goes with its results."""
_KEEP_LOG = 'if [ $LEARNER_ID = 1 ]; then tee -a "$LOG_DIR/training-log.txt"; else cat; fi'

_FRAMEWORKS = {
    # name: (what the replicas are told, the image FfDL took)
    "tensorflow": (Framework.TENSORFLOW, "tensorflow/tensorflow"),
    "pytorch": (Framework.PYTORCH, "pytorch/pytorch"),
    "horovod": (Framework.MPI, "uber/horovod"),
    "pytorchmpi": (Framework.MPI, "pytorch/pytorch"),
    "caffe": (Framework.NONE, "bvlc/caffe"),
    "caffe2": (Framework.NONE, "caffe2ai/caffe2"),
    "h2o3": (Framework.NONE, "opsh2oai/h2o3-ffdl"),
}
FRAMEWORKS = (*_FRAMEWORKS, "custom")


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
    stores = read_data_stores(given["data_stores"].items() if "data_stores" in given else [])
    metrics = read_evaluation(given["evaluation_metrics"]) if "evaluation_metrics" in given else ()
    kind, image = _framework(framework)
    roles = _roles(given, framework, kind, logged=any(each.path == TRAINING_LOG for each in metrics))
    with value.located():
        spec = JobSpec(
            name=_name(given["name"]),
            framework=kind,
            image=image,
            env={"NUM_LEARNERS": str(roles[-1].replicas)},
            roles=roles,
            inputs=stores.inputs,
            outputs=stores.outputs,
            policy=Policy(success=Success.LEAD if kind is Framework.MPI else Success.ALL),
            placement=PlacementRule(gpu_types=(given["gpu_type"].text(),) if "gpu_type" in given else ()),
            origin="ffdl manifest",
            metrics=metrics,
        )
    notes = (*_notes(given, spec), *stores.notes)
    return Translation(spec=spec, notes=notes, stores=stores.stores, objects_json=stores.secrets_json)


def _name(value: Value) -> str:
    """A manifest's name is free text; ours becomes part of host names."""
    slug = _NOT_A_NAME.sub("-", value.text_or_number().lower()).strip("-")[:63].rstrip("-")
    if not slug:
        raise value.wrong(f"'{value.data}' has no letter or digit", expected="a name")
    return slug


def _framework(framework: Mapping[str, Value]) -> tuple[Framework, str]:
    name = framework["name"].text()
    if name.lower() == "custom" and "version" in framework:
        return Framework.NONE, framework["version"].text_or_number()
    kind, image = _FRAMEWORKS.get(name.lower(), (Framework.NONE, name))
    tag = framework.get("image_tag") or framework.get("version")
    return kind, image if tag is None else f"{image}:{tag.text_or_number()}"


def _roles(
    given: Mapping[str, Value], framework: Mapping[str, Value], kind: Framework, *, logged: bool
) -> tuple[RoleSpec, ...]:
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
    if logged:
        command = f"set -o pipefail; mkdir -p $LOG_DIR; {{ {command}\n}} 2>&1 | {_KEEP_LOG}"
    script = f"export LEARNER_ID=$((GANGLINE_INDEX + 1)); {_EXPORTS}; {command}"
    launcher: tuple[RoleSpec, ...] = ()
    if kind is Framework.MPI:
        launch = f"export LEARNER_ID=1; {_EXPORTS}; exec mpirun --allow-run-as-root -np {learners} {command}"
        launcher = (RoleSpec(name=RoleName("launcher"), command=("bash", "-c", launch)),)
    words = IDLE_COMMAND if launcher else ("bash", "-c", script)
    learner = RoleSpec(name=RoleName("worker"), replicas=learners, command=words, resources=resources)
    return (*launcher, learner)


def framework_of(image: str) -> tuple[str, str]:
    """Return the framework and its version that a manifest said, from the image that was made of them."""
    name, _, tag = image.partition(":")
    known = next((framework for framework, (_, each) in _FRAMEWORKS.items() if each == name), None)
    return (known, tag) if known is not None else ("custom", image)


def command_of(spec: JobSpec) -> str:
    """Return the command that a manifest said, without what learners need besides."""
    script = spec.roles[0].command[-1] if spec.roles[0].command else ""
    return script.partition(f"{_EXPORTS}; ")[2] or script


_READERS = {"cpus": quantities.cpu_millis, "memory": quantities.memory_mib, "gpus": quantities.gpu_millis}


def _amount(given: Mapping[str, Value], name: str, form: str, default: int) -> int:
    return given[name].converted(_READERS[name], form) if name in given else default


def _notes(given: Mapping[str, Value], spec: JobSpec) -> list[str]:
    notes = []
    if given["name"].data != spec.name:
        notes.append(f"the name '{given['name'].data}' became '{spec.name}', which host names allow")
    if "storage" in given:
        notes.append("storage is not reserved; replicas share what their machine has")
    return notes
