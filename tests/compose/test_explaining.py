"""When a reason is worth a write."""

from dataclasses import replace

import pytest

from gangline.compose.explaining import differs
from gangline.model import JobId, PlaceInLine, QueueName, Timestamp
from gangline.model.explanation import Constraint
from gangline.scheduling import Explanation

SHORT = Explanation(constraint=Constraint.RESOURCES, role="worker", wanted=4, possible=2, missing={"cpu_millis": 500})
SOON = replace(SHORT, predicted_start_at=Timestamp(1000.0))


def at(place: int) -> Explanation:
    line = PlaceInLine(queue=QueueName("default"), place=place, waiting=500, place_in_queue=place, waiting_in_queue=500)
    return replace(SHORT, line=line)


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(None, SHORT, True, id="nothing was told"),
        pytest.param(SHORT, SHORT, False, id="nothing changed"),
        pytest.param(SHORT, replace(SHORT, possible=3), True, id="another number"),
        pytest.param(SHORT, replace(SHORT, holders=(JobId("j1"),)), True, id="another holder"),
        pytest.param(SHORT, SOON, True, id="a start is in sight"),
        pytest.param(SOON, SHORT, True, id="no start is in sight any more"),
        pytest.param(SHORT, at(3), True, id="a place is known"),
        pytest.param(at(3), at(2), True, id="one place of three"),
        pytest.param(at(10), at(9), True, id="one place of ten"),
        pytest.param(at(300), at(299), False, id="one place of hundreds"),
        pytest.param(at(300), at(260), True, id="a tenth of the line"),
        pytest.param(at(3), SHORT, True, id="no longer in line"),
        pytest.param(SOON, replace(SOON, predicted_start_at=Timestamp(1030.0)), False, id="the start drifts"),
        pytest.param(SOON, replace(SOON, predicted_start_at=Timestamp(2000.0)), True, id="the start moves"),
    ],
)
def test_only_what_is_new_is_told(before: Explanation | None, after: Explanation, want: bool) -> None:
    assert differs(before, after) is want
