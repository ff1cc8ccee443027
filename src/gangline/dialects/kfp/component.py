"""Reading the command of a ``component.yaml`` (version 1), with its placeholders, inputs and outputs.

Keys that are not known are passed over with a note. Inputs and outputs go by the names that the kfp package gives them:
small letters, digits and ``_``.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gangline.dialects.value import Value
from gangline.pipelines import Component, Container, ParameterType
from gangline.pipelines.graph import ArtifactDefinition, Definition, ParameterDefinition
from gangline.pipelines.values import MisfitError, fit

_TYPES = {
    ParameterType.INTEGER: ("integer", "int"),
    ParameterType.DOUBLE: ("double", "float"),
    ParameterType.STRING: ("string", "str", "text"),
    ParameterType.BOOLEAN: ("bool", "boolean"),
    ParameterType.STRUCT: ("dict", "jsonobject"),
    ParameterType.LIST: ("list", "jsonarray"),
}
_PARAMETERS = {name: kind for kind, names in _TYPES.items() for name in names}
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "": ("name", "description", "metadata", "inputs", "outputs", "implementation"),
    "port": ("name", "type", "description", "default", "optional", "annotations"),
    "container": ("image", "command", "args", "env", "fileOutputs"),
}


def is_component(value: Value) -> bool:
    """Whether a document is a component of version 1."""
    return isinstance(value.data, Mapping) and "implementation" in value.data


def simple_name(name: str) -> str:
    """Return the name that an input or output goes by."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


class Ports:
    """The inputs and outputs of a component, and what is said of each."""

    def __init__(self, value: Value, notes: list[str]) -> None:
        self.value = value
        self._notes = notes
        notes += _unknown(value, "")
        found = value.fields()
        self.inputs = self._ports(found.get("inputs"))
        self.outputs = self._ports(found.get("outputs"))

    def _ports(self, value: Value | None) -> dict[str, Value]:
        ports: dict[str, Value] = {}
        for each in value.items() if value is not None else ():
            self._notes += _unknown(each, "port")
            name = simple_name(each.need("name", "a name").text_or_number())
            if name in ports:
                raise each.wrong(f"'{name}' is given twice", expected="names that differ in letters and digits")
            ports[name] = each
        return ports

    def input(self, name: str, *, is_file: bool, given: bool | None = None) -> Definition:
        """Return an input; ``is_file``: it is only ever read as one, ``given``: whether what it gets is an artefact.

        Where nothing is given yet, what is only read as a file and has no simple type is an artefact.
        """
        found = self.inputs[name].fields()
        definition = _definition(self.inputs[name])
        default = found["default"].data if "default" in found else None
        optional = "optional" in found and found["optional"].boolean()
        own = isinstance(definition, ArtifactDefinition) and is_file and default is None
        if own if given is None else given:
            return ArtifactDefinition(type=definition.type if own else "system.Artifact", optional=optional)
        kind = definition.type if isinstance(definition, ParameterDefinition) else ParameterType.STRING
        if isinstance(definition, ArtifactDefinition) and is_file and default is not None:
            default = str(default)
        return ParameterDefinition(
            type=kind, default=_default(default, kind), optional=optional or default is not None, loose=True
        )

    def has_simple_type(self, name: str) -> bool:
        """Whether the type of an output is that of a parameter."""
        return isinstance(_definition(self.outputs[name]), ParameterDefinition)

    def output(self, name: str, *, is_value: bool) -> Definition:
        """Return an output: a value, whether its type says so or somebody needs it as one, or an artefact."""
        own = _definition(self.outputs[name])
        if isinstance(own, ArtifactDefinition) and is_value:
            return ParameterDefinition(type=ParameterType.STRING, loose=True)
        return own

    @staticmethod
    def named(value: Value, name: str, ports: Mapping[str, Value]) -> str:
        """Return the name that an input or output goes by; refuses one that is not there."""
        if simple_name(name) not in ports:
            raise value.unknown("input or output", name, ports)
        return simple_name(name)


class CommandReader(Ports):
    """Reads a component that is a command. What the command looks at decides which inputs are texts and which files."""

    def __init__(self, value: Value, notes: list[str]) -> None:
        super().__init__(value, notes)
        self._body = value.need("implementation", "container").need("container", "a command")
        self._notes += _unknown(self._body, "container")
        self._values: frozenset[str] = frozenset()
        self._read_as: dict[str, set[str]] = {}
        self._container(self._body)

    @property
    def taken_as_values(self) -> frozenset[str]:
        """The inputs whose text the command has."""
        return frozenset(name for name, how in self._read_as.items() if "inputValue" in how)

    def gives_value(self, name: str) -> bool:
        """Whether an output is a value though nobody needs it as one."""
        return self.has_simple_type(name)

    def component(self, given: Mapping[str, bool], values: frozenset[str]) -> Component:
        """Return the component; ``given`` are inputs and whether they get artefacts, ``values`` outputs needed so."""
        self._values = values
        files = {name for name, how in self._read_as.items() if "inputValue" not in how}
        return Component(
            body=self._container(self._body),
            inputs={name: self.input(name, is_file=name in files, given=given.get(name)) for name in self.inputs},
            outputs={name: self.output(name, is_value=name in values) for name in self.outputs},
        )

    def _container(self, value: Value) -> Container:
        found = value.fields()
        given = [self._word(each) for part in ("command", "args") if part in found for each in _listed(found[part])]
        words = [word for each in given for word in (each if isinstance(each, list) else [each])]
        if not words:
            raise value.missing("command", "a command: the entry point of an image is not known here")
        left = found["fileOutputs"].strings() if "fileOutputs" in found else {}
        return Container(
            command=tuple(each if isinstance(each, str) else json.dumps(each) for each in words),
            image=found["image"].text() if "image" in found else None,
            env=found["env"].strings() if "env" in found else {},
            left_at={self.named(found["fileOutputs"], name, self.outputs): path for name, path in left.items()},
        )

    def _word(self, value: Value) -> Any:
        """Return a word of the command; what depends on inputs is a structure."""
        if isinstance(value.data, list):
            return [self._word(each) for each in value.items()]
        if not isinstance(value.data, Mapping):
            return str(value.data).lower() if isinstance(value.data, bool) else value.text_or_number()
        found = value.fields(keep_empty=True)
        if len(found) != 1 or (name := next(iter(found))) not in self._placeholders():
            raise value.wrong(
                f"the placeholder {', '.join(found)} is not known",
                expected=f"one of {', '.join(self._placeholders())}",
            )
        return self._placeholders()[name](found[name])

    def _placeholders(self) -> dict[str, Callable[[Value], Any]]:
        return {
            "inputValue": lambda value: self._taken(value, "inputValue", "{{{{$.inputs.parameters['{}']}}}}"),
            "inputPath": lambda value: self._taken(value, "inputPath", "{{{{$.inputs.artifacts['{}'].path}}}}"),
            "inputUri": lambda value: self._taken(value, "inputUri", "{{{{$.inputs.artifacts['{}'].uri}}}}"),
            "outputPath": self._output_path,
            "outputUri": self._output_uri,
            "concat": lambda value: {"Concat": [self._word(each) for each in value.items()]},
            "if": self._choice,
            "executorInput": lambda value: "{{$}}",
        }

    def _taken(self, value: Value, how: str, form: str) -> str:
        name = self.named(value, value.text_or_number(), self.inputs)
        self._read_as.setdefault(name, set()).add(how)
        return form.format(name)

    def _output_path(self, value: Value) -> str:
        name = self.named(value, value.text_or_number(), self.outputs)
        if self.has_simple_type(name) or name in self._values:
            return f"{{{{$.outputs.parameters['{name}'].output_file}}}}"
        return f"{{{{$.outputs.artifacts['{name}'].path}}}}"

    def _output_uri(self, value: Value) -> str:
        return f"{{{{$.outputs.artifacts['{self.named(value, value.text_or_number(), self.outputs)}'].uri}}}}"

    def _choice(self, value: Value) -> Any:
        condition = value.need("cond", "isPresent, inputValue, true or false")
        then, otherwise = (self._listed_words(value, name) for name in ("then", "else"))
        if isinstance(condition.data, Mapping):
            parts = condition.fields()
            for key, form in (("isPresent", "IfPresent"), ("inputValue", "IfTrue")):
                if key in parts:
                    name = self.named(parts[key], parts[key].text_or_number(), self.inputs)
                    return {form: {"InputName": name, "Then": then, "Else": otherwise}}
            raise condition.wrong("this condition is not known", expected="isPresent or inputValue")
        return then if str(condition.data).lower() == "true" else otherwise

    def _listed_words(self, value: Value, name: str) -> list[Any]:
        found = value.fields()
        if name not in found:
            return []
        return [self._word(each) for each in _listed(found[name])]


def _listed(value: Value) -> list[Value]:
    """Return what is a list as one; a single word is a list of one."""
    return value.items() if isinstance(value.data, list) else [value]


def _definition(value: Value) -> Definition:
    found = value.fields()
    kind = found["type"].data if "type" in found else None
    title = next(iter(kind), "") if isinstance(kind, Mapping | list) else kind
    if str(title).lower() in _PARAMETERS:
        return ParameterDefinition(type=_PARAMETERS[str(title).lower()], loose=True)
    return ArtifactDefinition()


def _default(default: object, kind: ParameterType) -> object:
    try:
        return None if default is None else fit(default, kind)
    except MisfitError:
        return default


def _unknown(value: Value, where: str) -> Iterator[str]:
    """Say which keys are passed over."""
    known = _KNOWN[where]
    return (each.path for name, each in value.fields().items() if name not in known)
