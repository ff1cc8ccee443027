"""Reads the rows of a CSV trace with errors that name the file, the line and the column."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gangline.simulator.traces.arrival import TraceError, open_text


class Row:
    """One line of a trace."""

    def __init__(self, values: Mapping[str, str], path: Path, line: int) -> None:
        self._values = values
        self._path = path
        self._line = line

    def text(self, column: str) -> str:
        """A column as it is."""
        return self._values[column]

    def whole(self, column: str) -> int:
        """A column as a whole number; an empty one is zero."""
        return round(self.number(column))

    def number(self, column: str) -> float:
        """A column as a number; an empty one is zero."""
        text = self._values[column]
        try:
            return float(text or 0)
        except ValueError as error:
            raise TraceError(f"'{text}' is no number", field=column, file=str(self._path), line=self._line) from error


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Read every line of a trace that has at least these columns."""
    with open_text(path) as stream:
        reader = csv.DictReader(stream)
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise TraceError(
                f"columns are missing: {', '.join(missing)}", file=str(path), line=1, expected=", ".join(columns)
            )
        for values in reader:
            yield Row(values, path, reader.line_num)
