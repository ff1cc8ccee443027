"""A job that reports more than one answer of the service holds: all of it can be read, and what is left out is told."""

import json
import os

import pytest

from gangline.cli.output.metric_table import tell_of_missing
from gangline.sdk import Client, Metrics
from gangline.sdk.transports.background import address_of
from gangline.testing.store_suite import make_metric
from tests.cli.conftest import Here, Shell

COUNT = 25_000
REPORT = (
    f"BEGIN {{ for (i = 0; i < {COUNT}; i++) "
    'printf "{\\"at\\": %d.5, \\"name\\": \\"loss\\", \\"value\\": %d, \\"step\\": %d}\\n", i, i % 7, i }'
)


def test_every_value_of_a_long_job_is_read_and_a_drawing_says_that_it_is_thinned(shell: Shell, here: Here) -> None:
    report = f"awk '{REPORT}' >> $GANGLINE_METRICS"
    code, _, said = here("submit", "--name", "talks", "--wait", "--", "sh", "-c", report)
    assert code == 0, said
    with Client(address_of(shell.settings), settings=shell.settings) as client:
        assert [metric.step for metric in client.metrics("talks", name="loss")] == list(range(COUNT))
        assert [metric.step for metric in client.latest_metrics("talks")] == [COUNT - 1]
        thinned = client.metrics("talks", points=100)
        assert (len(thinned) <= 100, thinned.total, thinned.complete) == (True, COUNT, True)
    code, out, said = here("metrics", "talks", "--plot")
    assert code == 0
    assert f"of {COUNT:,} values" in said
    code, out, said = here("metrics", "talks", "-o", "json")
    assert (len(json.loads(out)), said) == (COUNT, "")


def test_values_that_a_cluster_has_given_up_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    tell_of_missing(Metrics([make_metric()], complete=False))
    assert capsys.readouterr().err == f"older values are gone: a cluster keeps the newest 10,000 of a job{os.linesep}"
    tell_of_missing(Metrics([make_metric()]))
    assert capsys.readouterr().err == ""
