"""The event files of TensorBoard as numbers of a job."""

from gangline.engines.collecting.records import Found
from gangline.runtime import event_files


def read_events(data: bytes) -> tuple[list[Found], int]:
    """Return the scalars of all whole records, and how many bytes those are; the rest has to be read again."""
    scalars, used = event_files.read_events(data)
    return [Found(each.tag, each.value, each.step, each.at) for each in scalars], used
