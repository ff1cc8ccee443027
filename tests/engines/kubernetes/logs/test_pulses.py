"""What the end of a pod's log says of the replica in it."""

import pytest

from gangline.engines.kubernetes.logs.pulses import read_tail
from gangline.model import Timestamp
from gangline.runtime.stacks import innermost

STACKS = [
    "gangline: no sign of life for 8.0 s; where it is (most recent call first):",
    "Current thread MainThread:",
    '  File "/app/train.py", line 6 in hang',
    '  File "/app/train.py", line 9 in <module>',
    "Thread loader:",
    '  File "/app/data.py", line 2 in load',
]
HELD = [
    "Timeout (0:00:09)!",
    "Thread 0x00007f (most recent call first):",
    '  File "/lib/gangline/runtime/stacks.py", line 80 in _watch',
    "",
    "Thread 0x00008f (most recent call first):",
    '  File "/app/train.py", line 3 in spin',
]


@pytest.mark.parametrize(
    ("lines", "output_at", "idle_since", "place"),
    [
        pytest.param([], None, None, "", id="nothing"),
        pytest.param(["epoch 1"], 100.0, None, "", id="output"),
        pytest.param(["epoch 1", *STACKS], 100.0, 93.0, "train.py:6 hang", id="silent since"),
        pytest.param([*STACKS, "epoch 2"], 106.0, None, "train.py:6 hang", id="it went on"),
        pytest.param(STACKS, None, 92.0, "train.py:6 hang", id="never wrote a line"),
        pytest.param(HELD, None, 91.0, "train.py:3 spin", id="something holds the interpreter"),
        pytest.param([*STACKS, *HELD], None, 97.0, "train.py:3 spin", id="the newest stacks count"),
        pytest.param(['  File "notes.txt" is missing'], None, None, "", id="a line that looks like a frame"),
    ],
)
def test_a_log_says_when_a_replica_last_lived_and_where_it_is(
    lines: list[str], output_at: float | None, idle_since: float | None, place: str
) -> None:
    said = read_tail([(Timestamp(100.0 + number), text) for number, text in enumerate(lines)])
    assert (said.output_at, said.idle_since, innermost(said.stacks)) == (output_at, idle_since, place)
