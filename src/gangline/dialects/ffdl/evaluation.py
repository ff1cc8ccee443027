"""The evaluation metrics of a manifest: which of a program's files hold numbers, and how they are found in them."""

import re
from collections.abc import Mapping

from gangline.dialects.value import Value
from gangline.model.jobs.metric_source import MetricFormat, MetricSource

_FIELDS = ("type", "in", "image_tag", "line_lookahead", "linelookahead", "eventTypes", "groups")
_GROUP = ("regex", "meta", "scalars", "values", "etimes")
_ITEM = ("type", "value")
_TYPES = {
    **dict.fromkeys(("logger", "none", "nil", "null"), None),
    "tensorboard": MetricFormat.TENSORBOARD,
    "regex_extractor": MetricFormat.PATTERN,
    **dict.fromkeys(("emetrics_file", "file", "optivist"), MetricFormat.RECORDS),
}
_PLACES = {
    MetricFormat.TENSORBOARD: "$JOB_STATE_DIR/logs/tb",
    MetricFormat.PATTERN: "$LOG_DIR/training-log.txt",
    MetricFormat.RECORDS: "$LOG_DIR/evaluation-metrics.txt",
}
"""Where FfDL's collectors look if nothing else is said."""
TRAINING_LOG = "$RESULT_DIR/logs/training-log.txt"
"""What a learner prints, where a pattern is to be found in it."""
_LOOKAHEAD = 4
_MACROS = {
    "FLOAT": r"[-+]?(?:nan|inf|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)",
    "INT": r"[-+]?\d+",
    "INT_ANY": r"[-+]?(?:0[xX][0-9a-fA-F]+|\d+)",
    "HEX": r"(?:0[xX])?[0-9a-fA-F]+",
    "GLOG_STAMP": r"[IWEF]\d{4} \d{2}:\d{2}:\d{2}\.\d+",
    "TIMESTAMP": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[-+]\d{2}:?\d{2})?",
}
_MACRO = re.compile(r"%\{(\w+)(?::(\w+))?\}")


def read_evaluation(value: Value) -> tuple[MetricSource, ...]:
    """Translate ``evaluation_metrics``; one source for each group of patterns."""
    given = value.fields(_FIELDS)
    form = _TYPES[given["type"].one_of(_TYPES)] if "type" in given and given["type"].data is not None else None
    if form is None:
        return ()
    path = in_results(given["in"].text() if "in" in given else _PLACES[form])
    if form is not MetricFormat.PATTERN:
        return (MetricSource(path=path, format=form),)
    if "groups" not in given:
        raise value.missing("groups", "patterns by the name of their group")
    lookahead = given.get("line_lookahead") or given.get("linelookahead")
    lines = lookahead.integer(1, 1000) if lookahead is not None else _LOOKAHEAD
    return tuple(_group(name, group, path, lines) for name, group in given["groups"].fields().items())


def in_results(path: str) -> str:
    """Write a place in FfDL's words with ours: what it keeps of a learner's state are its results here."""
    path = re.sub(r"\$\{?LOG_DIR\}?", "$RESULT_DIR/logs", path)
    return re.sub(r"\$\{?JOB_STATE_DIR\}?", "$RESULT_DIR", path)


def _group(name: str, value: Value, path: str, lines: int) -> MetricSource:
    given = value.fields(_GROUP)
    if "regex" not in given:
        raise value.missing("regex", "a regular expression with named groups")
    scalars = given.get("scalars") or given.get("values")
    if scalars is None:
        raise value.missing("scalars", "the numbers by their names")
    times = _references(given["etimes"]) if "etimes" in given else {}
    with value.located():
        return MetricSource(
            path=path,
            format=MetricFormat.PATTERN,
            pattern=_expanded(given["regex"]),
            values={f"{name}/{scalar}": group for scalar, group in _references(scalars).items()},
            step=times.get("iteration") or next(iter(times.values()), ""),
            lines=lines,
        )


def _references(value: Value) -> Mapping[str, str]:
    """Names with the groups that they refer to: ``{loss: {type: FLOAT, value: $loss}}``."""
    found = {}
    for name, item in value.fields().items():
        given = item.fields(_ITEM)
        if "value" not in given:
            raise item.missing("value", "$GROUP of the regular expression")
        found[name] = given["value"].text_or_number().removeprefix("$")
    return found


def _expanded(value: Value) -> str:
    def pattern(match: "re.Match[str]") -> str:
        if match[1] not in _MACROS:
            raise value.wrong(f"%{{{match[1]}}} is not known", expected=f"one of {', '.join(_MACROS)}")
        return f"(?P<{match[2]}>{_MACROS[match[1]]})" if match[2] else f"(?:{_MACROS[match[1]]})"

    return _MACRO.sub(pattern, value.text())
