"""Times on the wire."""

from datetime import UTC, datetime

from gangline.model import Timestamp


def moment(at: Timestamp) -> datetime:
    """Write a time as the wire has it: UTC, to the microsecond."""
    return datetime.fromtimestamp(at, UTC)


def moment_or_none(at: Timestamp | None) -> datetime | None:
    """Write a time that may be missing."""
    return None if at is None else moment(at)
