"""Who changed what, when and from where."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.model.clock import Timestamp
from gangline.model.identity import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change that was asked for. ``before`` and ``after`` have the parts that differ, as they are shown."""

    at: Timestamp
    who: str
    origin: str
    """The address that the request came from; ``socket`` is the private one."""
    request: str
    """Its id, which the answer and the service log have, too."""
    method: str
    path: str
    status: int
    tenant: Tenant | None = None
    before: Mapping[str, object] = field(default_factory=dict)
    after: Mapping[str, object] = field(default_factory=dict)
    number: int = 0
    """Its place in the record; the store counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Some entries, newest first; ``next`` is what to ask for the older ones with."""

    entries: tuple[AuditEntry, ...] = ()
    next: str | None = None


def difference(before: object, after: object, *, most: int = 200) -> tuple[dict[str, object], dict[str, object]]:
    """Return the fields that differ between two documents, by their paths: what they were, and what they are.

    A document of more differences than ``most`` is cut there; the count stands under ``...``.
    """
    was, became = dict(_leaves("", before)), dict(_leaves("", after))
    changed = sorted(path for path in was.keys() | became.keys() if was.get(path) != became.get(path))
    old = {path: was[path] for path in changed[:most] if path in was}
    new = {path: became[path] for path in changed[:most] if path in became}
    if len(changed) > most:
        new["..."] = len(changed) - most
    return old, new


def _leaves(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        below = [_leaves(f"{path}.{key}" if path else str(key), each) for key, each in value.items()]
        return [leaf for leaves in below for leaf in leaves]
    return [] if value is None else [(path, value)]
