"""Reads the rows of a CSV trace with errors that name the file, the line and the column."""

import csv
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from gangline.errors import InvalidInputError
from gangline.simulator.traces.arrival import TraceError, open_text

Built = TypeVar("Built")


class Row:
    """One line of a trace."""

    def __init__(self, values: Mapping[str, str], path: Path, line: int) -> None:
        self._values = values
        self._path = path
        self.line = line

    def text(self, column: str) -> str:
        """A column as it is; one that the trace need not have is empty."""
        return self._values.get(column) or ""

    def whole(self, column: str) -> int:
        """A column as a whole number; an empty one is zero."""
        return round(self.number(column))

    def number(self, column: str) -> float:
        """A column as a number; an empty one is zero."""
        text = self.text(column)
        try:
            number = float(text or 0)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise self.error(f"'{text}' is not a number", column)
        return number

    def error(self, message: str, column: str | None = None) -> TraceError:
        """What is wrong with this line."""
        return TraceError(message, field=column, file=str(self._path), line=self.line)


def read_each(path: Path, columns: Sequence[str], build: Callable[[Row], Built]) -> Iterator[Built]:
    """Build something of every line; whatever it refuses is said with the line that caused it."""
    for row in read_rows(path, columns):
        try:
            yield build(row)
        except TraceError:
            raise
        except InvalidInputError as error:
            raise row.error(str(error)) from error


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Read every line of a trace that has at least these columns."""
    try:
        with open_text(path) as stream:
            yield from _rows(csv.DictReader(stream), path, columns)
    except (UnicodeDecodeError, csv.Error, EOFError, zlib.error) as error:
        raise TraceError(f"is not a table of text: {error}", file=str(path)) from error


def _rows(reader: "csv.DictReader[str]", path: Path, columns: Sequence[str]) -> Iterator[Row]:
    missing = [column for column in columns if column not in (reader.fieldnames or ())]
    if missing:
        raise TraceError(
            f"columns are missing: {', '.join(missing)}", file=str(path), line=1, expected=", ".join(columns)
        )
    for values in reader:
        row = Row(values, path, reader.line_num)
        absent = next((column for column in columns if values[column] is None), None)
        if absent is not None:
            raise row.error("the line ends early", absent)
        yield row
