"""The short form: ``gangline submit --workers 5 --gpus 1 -- python train.py`` as a value, and the job it means.

The command line fills a ``ShortForm`` and calls ``job_from_short_form``; the options become a plain job file,
so that they obey the same rules, and a refusal names the option instead of the field.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from gangline.dialects.native import fields
from gangline.dialects.native.job import NO_SIZES, job_from_plain
from gangline.errors import InvalidInputError
from gangline.model import Framework, JobSpec, Resources

_MAX_NAME = 63
_SCRIPT_ENDINGS = (".py", ".sh", ".lua", ".R", ".jl", ".ipynb")
_NOT_A_NAME = re.compile(r"[^a-z0-9]+")

_OPTIONS = {
    "metadata.name": "--name",
    "metadata.tenant": "--tenant",
    "metadata.queue": "--queue",
    "metadata.priority": "--priority",
    "metadata.labels": "--label",
    "spec.framework": "--framework",
    "spec.image": "--image",
    "spec.code": "--code",
    "spec.env": "--env",
    "spec.command": "COMMAND",
    "spec.resources.cpu": "--cpu",
    "spec.resources.memory": "--memory",
    "spec.resources.gpu": "--gpus",
    "spec.size": "--size",
    "spec.roles.worker.replicas": "--workers",
    "spec.roles.worker.min": "--min-workers",
    "spec.roles.worker.max": "--max-workers",
    "spec.roles.ps.replicas": "--ps",
    "spec.policy.max_attempts": "--max-attempts",
    "spec.policy.deadline": "--deadline",
    "spec.policy.ttl": "--ttl",
    "spec.placement.gpu_type": "--gpu-type",
}
"""Which option a field of the plain job came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortForm:
    """The options of ``gangline submit``, as given: amounts and times are still text.

    ``suffix`` makes a derived name unique; whoever has a clock or a random source supplies it.
    """

    command: tuple[str, ...]
    suffix: str
    name: str | None = None
    tenant: str | None = None
    queue: str | None = None
    priority: str | int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    framework: str | None = None
    image: str | None = None
    code: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    workers: int = 1
    min_workers: int | None = None
    max_workers: int | None = None
    ps: int = 0
    chief: bool = False
    cpu: str | None = None
    memory: str | None = None
    gpus: str | None = None
    size: str | None = None
    max_attempts: int | None = None
    deadline: str | None = None
    ttl: str | None = None
    gpu_types: tuple[str, ...] = ()


def job_from_short_form(form: ShortForm, *, sizes: Mapping[str, Resources] = NO_SIZES) -> JobSpec:
    """Build the job that the options mean; a refusal names the option."""
    if not form.command:
        raise InvalidInputError("there is no command", field="COMMAND", expected="it after '--'")
    try:
        return job_from_plain(_plain(form), sizes=sizes)
    except InvalidInputError as error:
        raise InvalidInputError(
            error.problem,
            field=_option(error.field or ""),
            expected=error.expected,
            suggestion=error.suggestion,
        ) from error


def derived_name(command: tuple[str, ...], suffix: str) -> str:
    """Derive a job name from its command: the script or module if there is one, else the program."""
    words = list(command)
    name = PurePosixPath(words[0]).name
    if "-m" in words[:-1]:
        name = words[words.index("-m") + 1].rpartition(".")[2]
    for word in words:
        if word.endswith(_SCRIPT_ENDINGS):
            name = PurePosixPath(word).stem
            break
    slug = _NOT_A_NAME.sub("-", name.lower()).strip("-") or "job"
    return f"{slug[: _MAX_NAME - len(suffix) - 1].rstrip('-')}-{suffix}"


def pairs(items: tuple[str, ...], option: str, *, form: str = "NAME=VALUE") -> dict[str, str]:
    """Split repeated ``NAME=VALUE`` options; ``form`` is what an option calls the two."""
    split = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not name or not equals:
            raise InvalidInputError(f"'{item}' is not a pair", field=option, expected=form)
        split[name] = text
    return split


def _plain(form: ShortForm) -> dict[str, object]:
    metadata = {
        "name": form.name or derived_name(form.command, form.suffix),
        "tenant": form.tenant,
        "queue": form.queue,
        "priority": _priority(form.priority),
        "labels": dict(form.labels),
    }
    spec = {
        "framework": form.framework or ("parameter-server" if form.ps else None),
        "image": form.image,
        "code": form.code,
        "env": {**form.env, **{name: {"secret": place} for name, place in form.secrets.items()}},
        "command": list(form.command),
        "resources": _given({"cpu": form.cpu, "memory": form.memory, "gpu": form.gpus}) or None,
        "size": form.size,
        "roles": _roles(form),
        "policy": _given({"max_attempts": form.max_attempts, "deadline": form.deadline, "ttl": form.ttl}),
        "placement": {"gpu_type": list(form.gpu_types)},
    }
    return {"apiVersion": fields.API_VERSION, "kind": fields.KIND, "metadata": metadata, "spec": spec}


def _roles(form: ShortForm) -> dict[str, object]:
    roles: dict[str, object] = {}
    if form.framework == Framework.MPI:
        roles["launcher"] = {"resources": {}}
    elif form.chief:
        roles["chief"] = {}
    if form.ps:
        # Servers hold parameters in memory: they get the CPUs and the memory that were asked for, never a GPU.
        roles["ps"] = {"replicas": form.ps, "resources": _given({"cpu": form.cpu, "memory": form.memory})}
    roles["worker"] = _given({"replicas": form.workers, "min": form.min_workers, "max": form.max_workers})
    return roles


def _priority(given: str | int | None) -> str | int | None:
    if isinstance(given, str) and given.isdigit():
        return int(given)
    return given


def _option(path: str) -> str | None:
    path = path.partition("[")[0]
    while path:
        if path in _OPTIONS:
            return _OPTIONS[path]
        for role in ("ps", "chief", "launcher", "worker"):
            inherited = path.replace(f"roles.{role}.", "")
            if inherited in _OPTIONS:
                return _OPTIONS[inherited]
        path = path.rpartition(".")[0]
    return None


def _given(plain: Mapping[str, object]) -> dict[str, object]:
    return {name: setting for name, setting in plain.items() if setting is not None}
