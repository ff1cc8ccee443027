"""Why a job waits, as its status tells it: sentences for people, and the scheduler's own value. Pure.

The leader writes it, ``kubectl describe`` shows it, and ``gangline explain`` reads it on any machine. It is news, not
record: a job is complete without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    # The scheduler and its arrays are slow to import, and a command that lists jobs needs neither.
    from gangline.scheduling import Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldExplanation:
    """What was told; the sentences call other jobs by their names, the facts by their ids."""

    sentences: tuple[str, ...]
    facts: "Explanation"


def explanation_to_plain(told: ToldExplanation) -> dict[str, Any]:
    """Write it; what does not apply is left out."""
    facts: dict[str, Any] = msgspec.to_builtins(told.facts)
    given = {name: value for name, value in facts.items() if value not in (None, 0, [], {}, ())}
    return {"sentences": list(told.sentences), "facts": given}


def plain_to_explanation(plain: Mapping[str, Any] | None) -> ToldExplanation | None:
    """Read it; what another version wrote and this one does not understand is as if it had not been told."""
    if not plain:
        return None
    from gangline.scheduling import Explanation

    try:
        facts = msgspec.convert(plain.get("facts"), Explanation)
        return ToldExplanation(sentences=msgspec.convert(plain.get("sentences"), tuple[str, ...]), facts=facts)
    except msgspec.ValidationError:
        return None


def explanation_change(before: ToldExplanation | None, told: ToldExplanation) -> dict[str, Any]:
    """Write it as a merge patch over what was told before: what no longer holds is taken out by name."""
    return _change(explanation_to_plain(before) if before is not None else {}, explanation_to_plain(told))


def _change(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    changed = {
        name: _change(before.get(name) or {}, value) if isinstance(value, dict) else value
        for name, value in after.items()
    }
    return {**dict.fromkeys(before.keys() - after.keys()), **changed}
