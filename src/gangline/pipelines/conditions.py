"""The language of conditions: the part of CEL that the kfp compiler writes.

Inputs of the task, text, numbers, truths, comparisons, ``!``, ``&&``, ``||``, brackets, and conversions. A condition is
parsed when the pipeline is read, so that a mistake is refused before the first step.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gangline.pipelines.values import Json, MisfitError, ParameterType, fit

Evaluate = Callable[[Mapping[str, Json]], Json]

_TOKEN = re.compile(
    r"""\s*(?:(?P<input>inputs\.parameter_values\[(?P<quote>['"])(?P<name>.*?)(?P=quote)\])
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[<>!()]))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONVERSIONS = {
    "int": lambda value: fit(int(value) if isinstance(value, float) else value, ParameterType.INTEGER),
    "double": lambda value: fit(value, ParameterType.DOUBLE),
    "string": lambda value: fit(value, ParameterType.STRING),
    "bool": lambda value: fit(value, ParameterType.BOOLEAN),
}
_WORDS: Mapping[str, Json] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as it is written."""

    text: str

    def holds(self, inputs: Mapping[str, Json]) -> bool:
        """Say whether it is true of these inputs; raises MisfitError if that cannot be said."""
        return bool(parse(self.text)(inputs))


def parse(text: str) -> Evaluate:
    """Read a condition; raises ValueError for what is not one."""
    tokens = [*_tokens(text), ("end", "")]
    evaluate, rest = _either(tokens)
    if rest[0][0] != "end":
        raise ValueError(f"'{rest[0][1]}' is not expected here")
    return evaluate


def input_names(text: str) -> list[str]:
    """Return the inputs that a condition looks at."""
    return [word for kind, word in _tokens(text) if kind == "input"]


Tokens = list[tuple[str, str]]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"'{text[position:].strip()[:20]}' is not understood")
        kind = next(each for each in ("input", "text", "number", "word", "sign") if match[each] is not None)
        yield kind, match["name"] if kind == "input" else match[kind]
        position = match.end()


def _either(tokens: Tokens) -> tuple[Evaluate, Tokens]:
    return _joined(tokens, "||", _both, lambda left, right: lambda inputs: bool(left(inputs)) or bool(right(inputs)))


def _both(tokens: Tokens) -> tuple[Evaluate, Tokens]:
    return _joined(
        tokens, "&&", _compared, lambda left, right: lambda inputs: bool(left(inputs)) and bool(right(inputs))
    )


def _joined(
    tokens: Tokens,
    sign: str,
    part: Callable[[Tokens], tuple[Evaluate, Tokens]],
    join: Callable[[Evaluate, Evaluate], Evaluate],
) -> tuple[Evaluate, Tokens]:
    left, tokens = part(tokens)
    while tokens[0] == ("sign", sign):
        right, tokens = part(tokens[1:])
        left = join(left, right)
    return left, tokens


def _compared(tokens: Tokens) -> tuple[Evaluate, Tokens]:
    left, tokens = _single(tokens)
    compare = _COMPARISONS.get(tokens[0][1]) if tokens[0][0] == "sign" else None
    if compare is None:
        return left, tokens
    right, tokens = _single(tokens[1:])
    return lambda inputs: _compare(compare, left(inputs), right(inputs)), tokens


def _compare(compare: Callable[[Any, Any], bool], left: Json, right: Json) -> bool:
    if isinstance(left, bool) is not isinstance(right, bool) and compare in (operator.eq, operator.ne):
        return compare is operator.ne  # in Python, True equals 1
    try:
        return compare(left, right)
    except TypeError:
        raise MisfitError(f"{left!r} and {right!r} cannot be compared") from None


def _single(tokens: Tokens) -> tuple[Evaluate, Tokens]:
    (kind, word), tokens = tokens[0], tokens[1:]
    if (kind, word) == ("sign", "!"):
        inner, tokens = _single(tokens)
        return lambda inputs: not inner(inputs), tokens
    if (kind, word) == ("sign", "("):
        return _closed(tokens)
    if kind == "word" and word in _CONVERSIONS and tokens[0] == ("sign", "("):
        inner, tokens = _closed(tokens[1:])
        return lambda inputs: _CONVERSIONS[word](inner(inputs)), tokens
    if kind == "input":
        return lambda inputs: _input(inputs, word), tokens
    value = _literal(kind, word)
    return lambda inputs: value, tokens


def _closed(tokens: Tokens) -> tuple[Evaluate, Tokens]:
    inner, tokens = _either(tokens)
    if tokens[0] != ("sign", ")"):
        raise ValueError("a bracket is not closed")
    return inner, tokens[1:]


def _input(inputs: Mapping[str, Json], name: str) -> Json:
    if name not in inputs:
        raise MisfitError(f"the input '{name}' has no value")
    return inputs[name]


def _literal(kind: str, word: str) -> Json:
    if kind == "text":
        return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), word[1:-1], flags=re.DOTALL)
    if kind == "number":
        return float(word) if re.search(r"[.eE]", word) else int(word)
    if kind == "word" and word in _WORDS:
        return _WORDS[word]
    raise ValueError(f"'{word}' is not expected here" if word else "the condition ends too early")
