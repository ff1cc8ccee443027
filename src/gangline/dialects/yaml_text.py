"""The nodes of a YAML text as ``Value``s: one pass that keeps the line and the text of every value.

Only ``document.parse`` calls it, and imports it only then: PyYAML is slow to import, and what comes over the wire is
JSON. Nothing here knows any field of any format.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from gangline.dialects.value import Source, Value
from gangline.errors import InvalidInputError

Scalar = str | int | float | bool | None

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_STRINGS = frozenset({f"{_TAG}str", f"{_TAG}timestamp", f"{_TAG}value"})
_TRUE_WORDS = frozenset({"yes", "true", "on"})
_MAX_VALUES = 1_000_000
"""Aliases may multiply a small text into a huge document; more values than this are refused."""


def read_documents(text: str, *, file: str | None) -> tuple[Value, ...]:
    """Read every document of a text; see ``document.parse``."""
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=_LOADER) if node is not None]
        values = tuple(value for value in (_document(node, file) for node in nodes) if value.data is not None)
    except yaml.YAMLError as error:
        raise _broken(error, text, file) from error
    except RecursionError as error:
        raise InvalidInputError("the file is nested too deeply", file=file) from error
    if not values:
        raise InvalidInputError("the file is empty", file=file, expected="at least one document")
    return values


def _document(node: yaml.Node, file: str | None) -> Value:
    reading = _Reading(file=file)
    data = reading.value(node, "")
    return Value(data=data, path="", source=Source(file=file, lines=reading.lines, texts=reading.texts))


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One pass over the nodes of one document, collecting the line and the text of each value by path."""

    file: str | None
    lines: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    open_nodes: set[int] = field(default_factory=set)
    count: int = 0

    def value(self, node: yaml.Node, path: str) -> object:
        self.lines.setdefault(path, node.start_mark.line + 1)
        self.count += 1
        if self.count > _MAX_VALUES:
            most = f"it has more than {_MAX_VALUES:,} values, those of aliases included"
            raise self.wrong(node, f"the document is too large: {most}", path)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        if id(node) in self.open_nodes:
            raise self.wrong(node, "an anchor refers to itself", path)
        self.open_nodes.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, f"{path}[{index}]") for index, item in enumerate(node.value)]
            return self.mapping(node, path)
        finally:
            self.open_nodes.discard(id(node))

    def mapping(self, node: yaml.Node, path: str) -> dict[str, object]:
        own: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                for source in self.merge_sources(value_node, path):
                    for key, value in self.mapping(source, path).items():
                        merged.setdefault(key, value)
                continue
            key = self.key(key_node, path)
            below = f"{path}.{key}" if path else key
            if key in own:
                raise self.wrong(key_node, "the field is given twice", below)
            self.lines[below] = key_node.start_mark.line + 1
            own[key] = self.value(value_node, below)
        return merged | own

    def merge_sources(self, node: yaml.Node, path: str) -> Iterator[yaml.Node]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode) or id(source) in self.open_nodes:
                raise self.wrong(node, "'<<' must name an earlier mapping", path)
            yield source

    def key(self, node: yaml.Node, path: str) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag in _STRINGS:
            return str(node.value)
        shown = f" '{node.value}'" if isinstance(node, yaml.ScalarNode) else ""
        raise self.wrong(node, f"the field name{shown} is not text", path, expected="a name; put it in quotes")

    def scalar(self, node: yaml.ScalarNode, path: str) -> Scalar:
        kind, text = node.tag.removeprefix(_TAG), str(node.value)
        if node.tag in _STRINGS:
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() in _TRUE_WORDS
        if kind in ("int", "float"):
            self.texts[path] = text
            return _number(text)
        raise self.wrong(node, f"the tag {node.tag} is not supported", path, expected="plain YAML")

    def wrong(self, node: yaml.Node, problem: str, path: str, *, expected: str | None = None) -> InvalidInputError:
        return InvalidInputError(
            problem, field=path or None, expected=expected, file=self.file, line=node.start_mark.line + 1
        )


def _number(text: str) -> int | float | str:
    """Read a number as people mean it; what YAML 1.1 alone calls one (1:30, 0b1) stays text."""
    digits = text.replace("_", "")
    for read in (int, lambda word: int(word, 0), _float):
        try:
            return read(digits)
        except ValueError:
            continue
    return text


def _float(text: str) -> float:
    special = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}
    return float(special.get(text.lower(), text))


def _broken(error: yaml.YAMLError, text: str, file: str | None) -> InvalidInputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    line = None if mark is None else mark.line + 1
    lines = text.splitlines()
    tabbed = line is not None and line <= len(lines) and "\t" in lines[line - 1]
    return InvalidInputError(
        f"not valid YAML: {problem}",
        file=file,
        line=line,
        expected="spaces for indentation, not tabs" if tabbed else None,
    )
