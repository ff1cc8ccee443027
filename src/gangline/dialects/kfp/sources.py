"""Where a value of a compiled pipeline comes from: a constant, an input, an output, how a task ended."""

import re

from gangline.dialects.value import Value
from gangline.pipelines.graph import Constant, FinalStatus, FromInput, FromTask, InputSource
from gangline.pipelines.values import whole

_KEYS = re.compile(r"\[(['\"])(.*?)\1\]")
_SELECTOR = re.compile(r"parseJson\(string_value\)((?:\[(?:'[^']*'|\"[^\"]*\")\])+)")


def read_source(value: Value) -> InputSource:
    """Read where the value of a parameter comes from."""
    found = value.fields()
    keys = _selected(found.get("parameterExpressionSelector"))
    if "runtimeValue" in found:
        return _constant(found["runtimeValue"])
    if "componentInputParameter" in found:
        return FromInput(found["componentInputParameter"].text(), keys)
    if "taskOutputParameter" in found:
        return read_selector(found["taskOutputParameter"], "outputParameterKey", "producerTask", keys)
    if "taskFinalStatus" in found:
        return FinalStatus(found["taskFinalStatus"].need("producerTask", "the name of a task").text())
    raise value.wrong("it is not said where the value comes from", expected="a constant, an input or an output")


def _constant(value: Value) -> Constant:
    found = value.fields(keep_empty=True)
    if "runtimeParameter" in found:
        raise value.wrong("a parameter of the runtime is not known", expected="a constant")
    if "constant" not in found:
        raise value.missing("constant", "a value")
    return Constant(whole(found["constant"].data))


def _selected(value: Value | None) -> tuple[str, ...]:
    if value is None:
        return ()
    match = _SELECTOR.fullmatch(value.text())
    if match is None:
        raise value.wrong(f"'{value.text()}' is not understood", expected="parseJson(string_value)['key']")
    return tuple(key for _, key in _KEYS.findall(match[1]))


def read_selector(value: Value, key: str, task: str = "producerSubtask", keys: tuple[str, ...] = ()) -> FromTask:
    """Read which output of which task is meant."""
    return FromTask(
        value.need(task, "the name of a task").text(), value.need(key, "the name of an output").text(), keys
    )
