"""When a reason is worth a write."""

from dataclasses import replace

import pytest

from gangline.compose.explaining import differs
from gangline.model import JobId, Timestamp
from gangline.scheduling import Explanation
from gangline.scheduling.explanation import Constraint

SHORT = Explanation(constraint=Constraint.RESOURCES, role="worker", wanted=4, possible=2, missing={"cpu_millis": 500})
SOON = replace(SHORT, predicted_start=Timestamp(1000.0))


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, SHORT, True, id="nothing was told"),
        pytest.param(SHORT, SHORT, False, id="nothing changed"),
        pytest.param(SHORT, replace(SHORT, possible=3), True, id="another number"),
        pytest.param(SHORT, replace(SHORT, holders=(JobId("j1"),)), True, id="another holder"),
        pytest.param(SHORT, SOON, True, id="a start is in sight"),
        pytest.param(SOON, SHORT, True, id="no start is in sight any more"),
        pytest.param(SOON, replace(SOON, predicted_start=Timestamp(1030.0)), False, id="the start drifts"),
        pytest.param(SOON, replace(SOON, predicted_start=Timestamp(2000.0)), True, id="the start moves"),
    ],
)
def test_only_what_is_new_is_told(before: Explanation | None, after: Explanation, want: bool) -> None:
    assert differs(before, after) is want
