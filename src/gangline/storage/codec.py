"""Values as JSON text and back: the one format in which stores keep jobs, their journals, and every other kind.

Reading is forgiving, so that a record of an older Gangline stays readable: a missing field takes its default and an
unknown one is ignored. A field that is ever renamed or that changes its meaning needs a migration.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from gangline.errors import GanglineError, UnreadableRecordError
from gangline.kinds import Kind
from gangline.kinds.kind import Spec, Status, View
from gangline.model import Job, JournalRecord
from gangline.model.record import Record

Value = TypeVar("Value")

_log = logging.getLogger(__name__)


class Codec(Generic[Value]):
    """Writes and reads values of one kind."""

    def __init__(self, kind: type[Value], name: str = "") -> None:
        self._name = name or kind.__name__.lower()
        self._decoder = msgspec.json.Decoder(kind)

    def encode(self, value: Value) -> str:
        """Return the value as JSON text."""
        return msgspec.json.encode(value).decode()

    def decode(self, text: str | bytes) -> Value:
        """Read a value back; raises UnreadableRecordError if the text is damaged."""
        try:
            return self._decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, GanglineError) as error:
            # The model refuses values that break its rules; in a store that is damage, not a user's mistake.
            raise UnreadableRecordError(f"a kept {self._name} is unreadable: {error}") from error

    def readable(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[Value]:
        """Read many, each given as id and text. One that cannot be read is told and left out.

        It must neither hide the others nor keep a service from starting.
        """
        for record_id, text in rows:
            try:
                yield self.decode(text)
            except UnreadableRecordError as error:
                _log.error("%s is left out: %s", record_id, error)


JOBS = Codec(Job)
RECORDS = Codec(JournalRecord)


@cache
def codec_of(kind: Kind[Spec, Status, View]) -> Codec[Record[Spec, Status]]:
    """Return the codec of a kind's records."""
    generic: Any = Record
    wanted = generic[kind.spec, kind.status]
    return Codec(wanted, name=kind.name)
