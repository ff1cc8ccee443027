"""The whole record of a job as one text: what no person reads and no server needs to understand. Pure.

Kept as a tree it would be the larger part of a job object, and an API server takes every leaf of a tree apart several
times per write: to prune it, to check it, to note who owns it. A text it copies. What people read stands beside it.

No life is so long and no output so loud that the object outgrows what etcd takes: one that cannot be written could not
even be told that its job is over. So what is old or long is kept in fewer words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import msgspec

from gangline.model import Job, JobSpec, JournalRecord, PhaseEntry, ReplicaStatus, RoleName, RoleSpec

INITIAL = "gangline.dev/initial"
"""An annotation with what a submitter says of a new job; see ``creation``."""
FIELD = "record"
"""The field of a status that holds the record."""
_JOURNAL_LENGTH = 1000
"""The newest records that are kept."""
_HISTORY_LENGTH = 2000
"""The newest phases that are kept: hundreds of attempts."""
_RECENT = 20
"""How many of them keep all their words."""
_LONGEST_WORDS = 2500
"""As much as a kubelet tells of the end of a program, and a sentence of ours before it."""
_FEW_WORDS = 100
_ALL_WORDS = 64 * 1024
"""What the messages of all replicas have between them."""
_ROOM_BYTES = 700 * 1024
"""What the text may be before the journal is shortened: etcd takes twice as much, and in the object it is escaped."""
_STATE_FIELDS = tuple(item.name for item in fields(Job) if item.name not in ("spec", "version"))
_REPLICA_FIELDS = {item.name: item.default for item in fields(ReplicaStatus)}
_CUT = " [...] "
_ANY_SPEC: Any = msgspec.to_builtins(JobSpec(name="any", roles=(RoleSpec(name=RoleName("any"), command=("any",)),)))
"""Stands in while a state is read: converting the real spec there and back would cost more than all the rest."""


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as it was kept. ``state`` is the job without its spec, which stands in the object itself."""

    state: dict[str, Any]
    journal: tuple[JournalRecord, ...] = ()

    def job(self, spec: JobSpec) -> Job:
        """Return the job with its spec; raises msgspec.ValidationError if the record is damaged."""
        return replace(msgspec.convert({**self.state, "spec": _ANY_SPEC}, Job), spec=spec)


_decoder = msgspec.json.Decoder(StoredRecord)


def record_to_text(job: Job, journal: Sequence[JournalRecord]) -> str:
    """Write the record; of the journal as many of the newest records as there is room for."""
    given = ((name, getattr(job, name)) for name in _STATE_FIELDS)
    state = {name: value for name, value in given if value is not None}
    state |= {"history": stored_history(job.history), "replicas": _stored_replicas(job.replicas)}
    stored = journal[-_JOURNAL_LENGTH:]
    text = msgspec.json.encode({"state": state, "journal": stored})
    while len(text) > _ROOM_BYTES and stored:
        stored = stored[len(stored) // 2 + 1 :]
        text = msgspec.json.encode({"state": state, "journal": stored})
    return text.decode()


def stored_history(history: Sequence[PhaseEntry], most: int = _HISTORY_LENGTH) -> list[PhaseEntry]:
    """The newest entries: the last with nearly all their words, those before with few."""
    newest = history[-most:]
    longest = [_FEW_WORDS] * (len(newest) - _RECENT) + [_LONGEST_WORDS] * _RECENT
    return [
        entry if len(entry.message) <= most else replace(entry, message=shortened(entry.message, most))
        for entry, most in zip(newest, longest[-len(newest) :], strict=True)
    ]


def shortened(text: str, most: int = _LONGEST_WORDS) -> str:
    """The beginning and the end of a text: the first says what happened, the last is what a program wrote last."""
    if len(text) <= most:
        return text
    half = (most - len(_CUT)) // 2
    return f"{text[:half]}{_CUT}{text[-half:]}"


def _stored_replicas(replicas: Sequence[ReplicaStatus]) -> list[dict[str, Any]]:
    """Write only what is not as usual: a gang may have thousands of replicas, and all of them may fail at once."""
    most = min(_LONGEST_WORDS, max(_FEW_WORDS, _ALL_WORDS // max(1, len(replicas))))
    written = []
    for status in replicas:
        plain = {name: getattr(status, name) for name in _REPLICA_FIELDS}
        plain["message"] = shortened(status.message, most)
        written.append({name: value for name, value in plain.items() if value != _REPLICA_FIELDS[name]})
    return written


def read_record(status: Mapping[str, Any]) -> StoredRecord | None:
    """Read the record of a status; None if there is none. Raises msgspec.MsgspecError if it is damaged."""
    text = status.get(FIELD)
    if text is None:
        return None
    if not isinstance(text, str):
        raise msgspec.ValidationError(f"Expected `str`, got `{type(text).__name__}` - at `$.status.{FIELD}`")
    return _decoder.decode(text)


def read_initial(annotations: Mapping[str, str]) -> StoredRecord | None:
    """Read what a submitter said of a new job; None if nothing, or nothing that can be read."""
    try:
        return _decoder.decode(annotations.get(INITIAL, ""))
    except msgspec.MsgspecError:
        return None


def appended(journal: Sequence[JournalRecord], records: Sequence[JournalRecord]) -> tuple[JournalRecord, ...]:
    """Return the journal with more records, numbered on, and without those that are no longer kept."""
    last = journal[-1].number if journal else 0
    more = (
        replace(record, number=last + place, message=shortened(record.message))
        for place, record in enumerate(records, start=1)
    )
    return (*journal, *more)[-_JOURNAL_LENGTH:]
