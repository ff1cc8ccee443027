"""Numbers in lines of text: found by a pattern, or in the records of FfDL's evaluation metrics."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from gangline.engines.collecting.records import Found
from gangline.model.jobs.metric_source import MetricSource

_STEPS = ("iteration", "step", "global_step", "epoch")


class PatternReader:
    """Looks for a pattern in a window of the last lines; what was found is not looked at again."""

    def __init__(self, source: MetricSource) -> None:
        self._source = source
        self._pattern = re.compile(source.pattern, re.MULTILINE | re.DOTALL)
        self._window: list[str] = []

    def read(self, line: str) -> Iterator[Found]:
        """Return what is there now that this line has come."""
        self._window = [*self._window, line][-self._source.lines :]
        match = self._pattern.search("".join(self._window))
        if match is None:
            return
        self._window = []
        groups = match.groupdict()
        step = _whole(groups.get(self._source.step))
        for name, group in self._source.values.items():
            with contextlib.suppress(ValueError, TypeError):
                yield Found(name, float(groups.get(group, group)), step)


def read_record(line: str) -> Iterator[Found]:
    """Read one line of an ``evaluation-metrics`` file: JSON with a label, times and values."""
    try:
        plain = json.loads(line)
        values = dict((plain.get("values") or plain.get("scalars") or {}).items())
        times = {name: _plain(value) for name, value in (plain.get("etimes") or {}).items()}
        label = str(plain.get("grouplabel") or "")
        at = _moment((plain.get("meta") or {}).get("time"))
    except (ValueError, AttributeError):
        return
    known = next((times[name] for name in _STEPS if name in times), None)
    step = _whole(known if known is not None else next(iter(times.values()), None))
    for name, value in values.items():
        with contextlib.suppress(ValueError, TypeError):
            yield Found(f"{label}/{name}" if label else str(name), float(_plain(value)), step, at)


def _plain(value: Any) -> Any:
    return value.get("value") if isinstance(value, Mapping) else value


def _whole(value: Any) -> int | None:
    try:
        return None if value is None else int(float(value))
    except (ValueError, TypeError, OverflowError):
        return None


def _moment(value: Any) -> float | None:
    """A time in seconds: FfDL writes milliseconds, or a date."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value / 1000 if value > 1e11 else float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp() if value else None
    except ValueError:
        return None
