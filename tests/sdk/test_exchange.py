"""What a client writes for a service."""

from pathlib import Path

import numpy as np
import pytest

from gangline.errors import InvalidInputError
from gangline.sdk.exchange import body_of


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(Path("train.py"), b'["train.py"]', id="a path"),
        pytest.param(np.int64(3), b"[3]", id="an integer of NumPy"),
    ],
)
def test_paths_and_integers_are_written_as_what_they_stand_for(value: object, want: bytes) -> None:
    assert body_of([value]) == want


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\udcff", id="bytes that are no text"),
        pytest.param(chr(0xD800), id="half a character"),
        pytest.param(object(), id="an object"),
    ],
)
def test_what_no_job_can_hold_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="expected text"):
        body_of([value])
