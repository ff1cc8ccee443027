"""Sweep files: read, refused with their line, and written back."""

import json

import pytest

from gangline.dialects.native import read_sweep, sweep_from_plain, sweep_to_plain
from gangline.errors import InvalidInputError
from gangline.model.sweep import Goal, Objective

TEXT = """\
apiVersion: gangline.dev/v1
kind: Sweep
metadata: {name: grid, queue: research}
spec:
  parallelism: 2
  objective: {metric: loss, goal: minimize}
  parameters:
    layers: [1, 2, 3]
    rate: [0.10, 0.01]
  template:
    spec:
      framework: parameter-server
      roles:
        chief: {command: [python, train.py, "$(layers)", "$(rate)"]}
        worker: 2
"""


def test_a_sweep_is_read_with_its_values_as_they_are_written() -> None:
    spec = read_sweep(TEXT)
    assert (spec.name, spec.parallelism, spec.template.queue) == ("grid", 2, "research")
    assert spec.objective == Objective("loss", Goal.MINIMIZE)
    assert [(p.name, p.values) for p in spec.parameters] == [("layers", ("1", "2", "3")), ("rate", ("0.10", "0.01"))]


def test_what_is_written_reads_back_equal() -> None:
    spec = read_sweep(TEXT)
    assert sweep_from_plain(sweep_to_plain(spec)) == spec


def test_order_survives_a_keeper_that_sorts_names() -> None:
    spec = read_sweep(TEXT.replace("layers: [1, 2, 3]", "zeta: [1, 2, 3]"))
    kept = json.loads(json.dumps(sweep_to_plain(spec, ordered=True), sort_keys=True))
    assert sweep_from_plain(kept) == spec


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param("parallelism: 2", "paralelism: 2", r"5: spec.paralelism.*'parallelism'", id="unknown field"),
        pytest.param("goal: minimize", "goal: least", r"6: spec.objective.goal.*one of", id="unknown goal"),
        pytest.param("[1, 2, 3]", "[]", r"8: spec.parameters.layers.*no values", id="no values"),
        pytest.param("worker: 2", "worker: {replicas: 0}", r"15: .*worker.replicas", id="a wrong template"),
        pytest.param("  template:", "  templates:", "spec.templates", id="no template"),
    ],
)
def test_wrong_sweeps_are_refused_with_their_line(old: str, new: str, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want):
        read_sweep(TEXT.replace(old, new))
