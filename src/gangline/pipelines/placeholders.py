"""The placeholders in texts and commands: which there are, and what each stands for in a step.

``{{$}}`` is the executor input, a JSON document with all inputs and the places for all outputs, which programs made by
the kfp package read. Places of outputs begin with ``RESULTS``, and those of inputs that are fetched with ``DATA``:
whoever starts the step replaces both by directories.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gangline.pipelines.graph import HIDDEN, ArtifactDefinition, Component
from gangline.pipelines.values import Artifact, Json, compiled_text, text_of

RESULTS = "{{RESULT_DIR}}"
DATA = "{{DATA_DIR}}"
WORKSPACE = "/kfp-workspace"
"""Where steps find the volume that they share."""
OUTPUT_FILE = f"{RESULTS}/executor_output.json"

_PLACEHOLDER = re.compile(r"\{\{\$(.*?)\}\}", re.DOTALL)
_INPUT = re.compile(
    r"\.inputs\.(?:parameters|artifacts)\[(['\"])(.*?)\1\](?:\.(path|uri|name|metadata)(?:\[(['\"])(.*?)\4\])?)?"
)
_OUTPUT = re.compile(r"\.outputs\.(?:parameters|artifacts)\[(['\"])(.*?)\1\]\.(output_file|path|uri|metadata|name)")
_REMOTE = ("gs://", "s3://", "az://", "pvc://", "model://", "http://", "https://")

Flow = Json
"""What an input holds: a parameter, an ``Artifact``, or a tuple of them."""

Written = Callable[[Json], str]
"""How a value is written in a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a run tells its steps of itself."""

    name: str
    id: str = ""
    root: str = RESULTS
    created: str = ""
    scheduled: str = ""

    def texts(self, task: str) -> dict[str, str]:
        """Return the placeholders that do not depend on inputs."""
        return {
            ".pipeline_job_name": self.name,
            ".pipeline_job_resource_name": self.name,
            ".pipeline_job_uuid": self.id,
            ".pipeline_job_create_time_utc": self.created,
            ".pipeline_job_schedule_time_utc": self.scheduled,
            ".pipeline_task_name": task,
            ".pipeline_task_uuid": f"{self.id}/{task}",
            ".pipeline_root": self.root,
            ".workspace_path": WORKSPACE,
            ".outputs.output_file": OUTPUT_FILE,
        }


_FIXED = frozenset(RunInfo(name="").texts(""))


def fill(text: str, stands_for: Callable[[str], str]) -> str:
    """Replace every placeholder of a text."""
    return _PLACEHOLDER.sub(lambda match: stands_for(match[1]), text)


def constant_text(
    text: str, inputs: Mapping[str, Flow], run: RunInfo, task: str, *, written: Written = compiled_text
) -> str:
    """Fill in a text that the pipeline's author wrote as an input of a task: it may name other inputs of that task."""
    fixed = run.texts(task)
    return fill(text, lambda name: fixed[name] if name in fixed else _input_text(name, inputs, written))


def filled(value: Json, inputs: Mapping[str, Flow], info: RunInfo, task: str) -> Json:
    """Fill in all texts of a value."""
    if isinstance(value, str):
        return constant_text(value, inputs, info, task)
    if isinstance(value, Mapping):
        return {name: filled(item, inputs, info, task) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [filled(item, inputs, info, task) for item in value]
    return value


def command_words(
    command: Sequence[str],
    component: Component,
    inputs: Mapping[str, Flow],
    fixed: Mapping[str, str],
    *,
    written: Written = compiled_text,
) -> list[str]:
    """Return the command of a step with everything filled in."""

    def stands_for(name: str) -> str:
        if not name:
            return json.dumps(executor_input(component, inputs), ensure_ascii=False)
        if name in fixed:
            return fixed[name]
        return _output_text(name, component) or _input_text(name, inputs, written)

    words: list[str] = []
    for word in command:
        words += [fill(part, stands_for) for part in _chosen(structure(word), inputs)]
    return words


def executor_input(component: Component, inputs: Mapping[str, Flow]) -> dict[str, Json]:
    """Return the document that tells a program made by kfp what it is given and where its outputs belong."""
    artifacts = {name: flow for name, flow in inputs.items() if _is_artifact(component, name)}
    known = {name for name in component.inputs if not name.startswith(HIDDEN)} - artifacts.keys()
    values = {name: flow for name, flow in inputs.items() if name in known}
    outputs = component.outputs.items()
    return {
        "inputs": {
            "parameterValues": values,
            "artifacts": {
                name: {"artifacts": [artifact_plain(each) for each in each_of(flow)]}
                for name, flow in artifacts.items()
            },
        },
        "outputs": {
            "parameters": {
                name: {"outputFile": output_place(name)}
                for name, kind in outputs
                if not isinstance(kind, ArtifactDefinition)
            },
            "artifacts": {
                name: {"artifacts": [artifact_plain(output_artifact(name, kind))]}
                for name, kind in outputs
                if isinstance(kind, ArtifactDefinition)
            },
            "outputFile": OUTPUT_FILE,
        },
    }


def _is_artifact(component: Component, name: str) -> bool:
    return isinstance(component.inputs.get(name), ArtifactDefinition)


def output_place(name: str) -> str:
    """Return where a step leaves a parameter."""
    return f"{RESULTS}/outputs/{name}"


def artifact_place(name: str) -> str:
    """Return where a step leaves an artefact: in a folder of its own, so that it can be fetched without the others."""
    return f"{RESULTS}/outputs/{name}/{name}"


def input_place(name: str) -> str:
    """Return where a step finds the text of a parameter that it wants to read as a file."""
    return f"{RESULTS}/inputs/{name}"


def inputs_as_files(command: Sequence[str], inputs: Mapping[str, Flow]) -> dict[str, str]:
    """Return the files that a step wants to find parameters in, with their content."""
    matches = [_INPUT.fullmatch(name) for word in command for name in _PLACEHOLDER.findall(word)]
    names = {match[2] for match in matches if match is not None and match[3] == "path"}
    return {
        input_place(name): compiled_text(inputs[name])
        for name in sorted(names & inputs.keys())
        if not each_of(inputs[name])
    }


def inputs_named(text: str) -> set[str]:
    """Return the inputs that a text has placeholders for."""
    matches = map(_INPUT.fullmatch, _PLACEHOLDER.findall(text))
    return {match[2] for match in matches if match is not None}


def output_artifact(name: str, kind: ArtifactDefinition) -> Artifact:
    """Return the artefact that a step is asked to make."""
    return Artifact(name=name, uri=artifact_place(name), type=kind.type, version=kind.version)


def artifact_plain(artifact: Artifact) -> dict[str, Json]:
    """Write an artefact as executor input and output have it."""
    kind = {"schemaTitle": artifact.type, "schemaVersion": artifact.version}
    return {"name": artifact.name, "uri": artifact.uri, "type": kind, "metadata": dict(artifact.metadata)}


def each_of(flow: Flow) -> tuple[Artifact, ...]:
    """Return the artefacts that an input holds."""
    found = flow if isinstance(flow, tuple) else (flow,)
    return tuple(each for each in found if isinstance(each, Artifact))


def is_remote(uri: str) -> bool:
    """Whether an address names something that must be fetched before a program can read it."""
    return uri.startswith(_REMOTE)


def unknown_placeholders(text: str, component: Component, *, also: frozenset[str] = frozenset()) -> Iterator[str]:
    """Return the placeholders of a text that a step with this component, and these further inputs, has no value for."""
    for name in _PLACEHOLDER.findall(text):
        given, taken = _INPUT.fullmatch(name), _OUTPUT.fullmatch(name)
        known = name in _FIXED or not name
        known |= given is not None and (given[2] in component.inputs or given[2] in also)
        known |= taken is not None and taken[2] in component.outputs
        if not known:
            yield f"{{{{${name}}}}}"


def _input_text(name: str, inputs: Mapping[str, Flow], written: Written) -> str:
    match = _INPUT.fullmatch(name)
    if match is None or match[2] not in inputs:
        return ""  # an optional input that was not given: whether the name exists was checked before the first step
    flow, part = inputs[match[2]], match[3]
    artifacts = each_of(flow)
    if part == "path" and not artifacts:
        return input_place(match[2])
    if part is None or not artifacts:
        return written([artifact_plain(each) for each in artifacts] if artifacts else flow)
    first = artifacts[0]
    if part == "metadata":
        return written(first.metadata.get(match[5], "") if match[5] is not None else dict(first.metadata))
    return {"path": first.uri.removeprefix("file://"), "uri": first.uri, "name": first.name}[part]


def _output_text(name: str, component: Component) -> str | None:
    match = _OUTPUT.fullmatch(name)
    if match is None:
        return None
    kind = component.outputs.get(match[2])
    place = artifact_place(match[2]) if isinstance(kind, ArtifactDefinition) else output_place(match[2])
    return {"metadata": "{}", "name": match[2]}.get(match[3], place)


_CHOICES: Mapping[str, Callable[[Flow], bool]] = {
    "IfPresent": lambda flow: flow is not None and flow != (),
    "IfTrue": lambda flow: flow is True or (isinstance(flow, str) and flow.lower() in ("true", "1", "yes")),
}
"""Parts of a command that depend on an input: whether it is there, and whether it is true."""


def structure(word: str) -> Json:
    """Return the ``Concat`` or ``IfPresent`` that a word of a command is, else the word."""
    if not word.startswith(("{", " {")):
        return word
    try:
        found = json.loads(word)
    except ValueError:
        return word
    return found if isinstance(found, dict) and found.keys() <= {"Concat", *_CHOICES} and found else word


def _chosen(part: Json, inputs: Mapping[str, Flow]) -> list[str]:
    """Return the words that a structure stands for with these inputs."""
    if isinstance(part, str):
        return [part]
    if isinstance(part, list):
        return [word for each in part for word in _chosen(each, inputs)]
    if isinstance(part, dict) and "Concat" in part:
        return ["".join(word for each in part["Concat"] for word in _chosen(each, inputs))]
    for name, holds in _CHOICES.items():
        if isinstance(part, dict) and name in part:
            choice = part[name]
            chosen = choice["Then"] if holds(inputs.get(choice["InputName"])) else choice.get("Else", [])
            return _chosen(chosen, inputs)
    return [text_of(part)]
