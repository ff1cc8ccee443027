"""Why a job waits, on the wire."""

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from gangline.api.schemas.moment import moment_or_none
from gangline.operations import Reason

if TYPE_CHECKING:
    # The scheduler and its arrays are slow to import, and a client of a cluster needs neither.
    from gangline.scheduling import Explanation


class ExcludedSchema(msgspec.Struct, kw_only=True):
    """How many nodes one rule excludes."""

    rule: str
    nodes: int


class FactsSchema(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the scheduler knows about why a gang waits."""

    constraint: str
    queue: str | None = None
    nearest: str | None = None
    nodes: int = 0
    excluded: list[ExcludedSchema] = []
    role: str | None = None
    wanted: int = 0
    possible: int = 0
    missing: dict[str, int] = {}
    level: str | None = None
    holders: list[str] = []
    behind: str | None = None
    helps: list[str] = []
    predicted_start: datetime | None = None


class ReasonSchema(msgspec.Struct, kw_only=True):
    """The facts, unless no scheduling cycle has looked at the job yet, and sentences for a person."""

    sentences: list[str]
    facts: FactsSchema | None


def reason_to_schema(reason: Reason) -> ReasonSchema:
    """Write why a job waits."""
    why = reason.explanation
    return ReasonSchema(sentences=list(reason.sentences), facts=None if why is None else _facts(why))


def _facts(why: "Explanation") -> FactsSchema:
    return FactsSchema(
        constraint=why.constraint.value,
        queue=why.queue,
        nearest=why.nearest,
        nodes=why.nodes,
        excluded=[ExcludedSchema(rule=excluded.rule, nodes=excluded.nodes) for excluded in why.excluded],
        role=why.role,
        wanted=why.wanted,
        possible=why.possible,
        missing=dict(why.missing),
        level=why.level,
        holders=list(why.holders),
        behind=why.behind,
        helps=list(why.helps),
        predicted_start=moment_or_none(why.predicted_start),
    )
