"""Why a job waits, as its status tells it: sentences for people, and the scheduler's own value. Pure.

The leader writes it, ``kubectl describe`` shows it, and ``gangline explain`` reads it on any machine. It is news, not
record: a job is complete without it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gangline.model import Explanation


def explanation_to_plain(told: Explanation) -> dict[str, Any]:
    """Write it; what does not apply is left out."""
    facts: dict[str, Any] = msgspec.to_builtins(told)
    sentences = facts.pop("sentences")
    given = {name: value for name, value in facts.items() if value not in (None, 0, [], {}, ())}
    return {"sentences": list(sentences), "facts": given}


def plain_to_explanation(plain: Mapping[str, Any] | None) -> Explanation | None:
    """Read it; what another version wrote and this one does not understand is as if it had not been told."""
    try:
        return msgspec.convert({"sentences": plain["sentences"], **plain["facts"]}, Explanation) if plain else None
    except (msgspec.ValidationError, KeyError, TypeError):
        return None


def explanation_change(before: Explanation | None, told: Explanation) -> dict[str, Any]:
    """Write it as a merge patch over what was told before: what no longer holds is taken out by name."""
    return _change(explanation_to_plain(before) if before is not None else {}, explanation_to_plain(told))


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    changed = {
        name: _change(before.get(name) or {}, value) if isinstance(value, dict) else value
        for name, value in after.items()
    }
    return {**dict.fromkeys(before.keys() - after.keys()), **changed}
