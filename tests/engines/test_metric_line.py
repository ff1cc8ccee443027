"""Numbers that programs report, told from the other JSON they print."""

import pytest

from gangline.engines.metric_line import read_metric
from gangline.model import JobId, ReplicaId, RoleName


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param('{"at":5.0,"name":"loss","value":null,"step":2}', ("loss", "nan", 2), id="no number"),
        pytest.param('{"at":1794785998831,"name":"loss","value":1,"step":2}', None, id="milliseconds"),
        pytest.param('{"at":5.0,"name":"loss","value":1,"step":9223372036854775808}', None, id="too many steps"),
        pytest.param('{"at":5.0,"name":"loss","value":1,"epoch":2}', None, id="JSON of its own"),
    ],
)
def test_a_number_is_read_from_a_line_that_is_one(text: str, want: tuple[str, str, int] | None) -> None:
    found = read_metric(text, JobId("job-1"), ReplicaId(RoleName("worker"), 0))
    assert (None if found is None else (found.name, str(found.value), found.step)) == want
