"""A number as ``gangline.runtime`` writes it for the engine: a line of JSON. Every engine reads it here."""

import math

import msgspec

from gangline.model import JobId, Metric, ReplicaId, Timestamp

_MOST_STEPS = 2**63 - 1
"""What a database can count to; a larger step is not a step."""
_LAST_SECOND = 253402300799.0
"""The end of the year 9999, where calendars end; a later time was written in other units than seconds."""


class _MetricLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: float
    name: str
    value: float | None
    step: int | None = None


_decoder = msgspec.json.Decoder(_MetricLine)


def read_metric(line: bytes | str, job_id: JobId, replica: ReplicaId) -> Metric | None:
    """Read one line; None if it is none of ours: programs print JSON of their own. No value means not a number."""
    try:
        found = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    if not 0 <= found.at <= _LAST_SECOND or abs(found.step or 0) > _MOST_STEPS:
        return None
    value = math.nan if found.value is None else found.value
    return Metric(job_id=job_id, replica=replica, name=found.name, value=value, step=found.step, at=Timestamp(found.at))
