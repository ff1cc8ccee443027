"""Why a job waits, written into a status and read from it."""

from typing import Any

import pytest

from gangline.model import Constraint, Excluded, Explanation, JobId
from gangline.storage.kubernetes.records.explanations import (
    explanation_change,
    explanation_to_plain,
    plain_to_explanation,
)

FULL = Explanation(
    sentences=("Not enough is free.", "Held by: other."),
    constraint=Constraint.RESOURCES,
    nodes=3,
    excluded=(Excluded("a taint", 1),),
    role="worker",
    wanted=2,
    missing={"cpu_millis": 500, "memory_mib": 10},
    holders=(JobId("j1"),),
)
SHORT = Explanation(
    sentences=("Not enough is free.",),
    constraint=Constraint.RESOURCES,
    role="worker",
    wanted=2,
    missing={"cpu_millis": 100},
)


def merged(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """What an API server makes of a merge patch."""
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name) or {}, value) if isinstance(value, dict) else value
    return result


@pytest.mark.parametrize("told", [FULL, SHORT])
def test_what_is_written_is_read_back(told: Explanation) -> None:
    assert plain_to_explanation(explanation_to_plain(told)) == told


@pytest.mark.parametrize(("before", "after"), [(None, FULL), (FULL, SHORT), (SHORT, FULL)])
def test_a_change_leaves_nothing_of_what_no_longer_holds(before: Explanation | None, after: Explanation) -> None:
    document = explanation_to_plain(before) if before is not None else {}
    assert merged(document, explanation_change(before, after)) == explanation_to_plain(after)


@pytest.mark.parametrize("plain", [None, {}, {"sentences": ["x"]}, {"facts": {"constraint": "unheard-of"}}])
def test_what_is_not_understood_counts_as_not_told(plain: dict[str, Any] | None) -> None:
    assert plain_to_explanation(plain) is None
