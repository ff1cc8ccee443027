"""The whole record of a job as one text: what no person reads and no server needs to understand. Pure.

Kept as a tree it would be the larger part of a job object, and an API server takes every leaf of a tree apart several
times per write: to prune it, to check it, to note who owns it. A text it copies. What people read stands beside it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import msgspec

from gangline.model import Job, JobSpec, RoleName, RoleSpec
from gangline.storage.interface import Record

INITIAL = "gangline.dev/initial"
"""An annotation with the record a job is born with: one write makes job and record."""
FIELD = "record"
"""The field of a status that holds the record."""
_JOURNAL_LENGTH = 1000
"""The newest records that are kept; the object must stay far below what etcd takes."""
_STATE_FIELDS = tuple(item.name for item in fields(Job) if item.name not in ("spec", "version"))
_ANY_SPEC: Any = msgspec.to_builtins(JobSpec(name="any", roles=(RoleSpec(name=RoleName("any"), command=("any",)),)))
"""Stands in while a state is read: converting the real spec there and back would cost more than all the rest."""


class KeptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it was kept. ``state`` is the job without its spec, which stands in the object itself."""

    state: dict[str, Any]
    journal: tuple[Record, ...] = ()

    def job(self, spec: JobSpec) -> Job:
        """Return the job with its spec; raises msgspec.ValidationError if the record is damaged."""
        return replace(msgspec.convert({**self.state, "spec": _ANY_SPEC}, Job), spec=spec)


_decoder = msgspec.json.Decoder(KeptRecord)


def record_to_text(job: Job, journal: Sequence[Record]) -> str:
    """Write the record."""
    given = ((name, getattr(job, name)) for name in _STATE_FIELDS)
    state = {name: value for name, value in given if value is not None}
    return msgspec.json.encode({"state": state, "journal": journal[-_JOURNAL_LENGTH:]}).decode()


def read_record(status: Mapping[str, Any], annotations: Mapping[str, str]) -> KeptRecord | None:
    """Read the record of a status or, before the first status, the one the job was born with; None if there is none.

    Raises msgspec.MsgspecError if it is damaged.
    """
    text = status.get(FIELD) or annotations.get(INITIAL)
    if text is None:
        return None
    if not isinstance(text, str):
        raise msgspec.ValidationError(f"Expected `str`, got `{type(text).__name__}` - at `$.status.{FIELD}`")
    return _decoder.decode(text)


def appended(journal: Sequence[Record], records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the journal with more records, numbered on."""
    last = journal[-1].number if journal else 0
    return (*journal, *(replace(record, number=last + place) for place, record in enumerate(records, start=1)))
