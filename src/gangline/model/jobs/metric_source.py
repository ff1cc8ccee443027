"""Where numbers are found that a program writes in a form of its own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gangline.errors import InvalidInputError


class MetricFormat(StrEnum):
    """In which form."""

    TENSORBOARD = "tensorboard"
    """Event files of TensorBoard, in a folder and all below it."""
    PATTERN = "pattern"
    """Lines of text, by a regular expression with named groups."""
    RECORDS = "records"
    """Records of FfDL's evaluation metrics: lines of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSource:
    """A file or folder that is read while the job runs; what is found becomes metrics of its lead replica.

    ``values`` are the metrics by the groups of the pattern that hold them, ``step`` is the group of the step, ``lines``
    how many lines the pattern may span.
    """

    path: str
    format: MetricFormat
    pattern: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    step: str = ""
    lines: int = 1

    def __post_init__(self) -> None:
        if self.format is not MetricFormat.PATTERN:
            return
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise InvalidInputError(
                f"'{self.pattern}' is not a regular expression: {error}", field="metrics.pattern"
            ) from error
        if not self.pattern or not self.values:
            raise InvalidInputError(
                "the pattern finds nothing", field="metrics.values", expected="a metric by its group"
            )
