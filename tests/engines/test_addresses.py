"""Addresses that no mover could read or write are told before a job runs."""

from typing import Any

import pytest

from gangline.engines.addresses import check_addresses
from gangline.errors import InvalidInputError
from gangline.model import DataMove
from gangline.model.jobs.spec import CheckpointRule
from gangline.testing.builders import make_spec

REFUSED: dict[str, tuple[DataMove, str, str]] = {
    "an unknown scheme": (DataMove("$RESULT_DIR", "ftp://x/y"), "to", "ftp:// is not known"),
    "a web server": (DataMove("$RESULT_DIR", "http://host/y"), "to", "nothing can be stored at http://host/y"),
    "another job": (DataMove("$RESULT_DIR", "job://other/results"), "to", "nothing can be stored at job://other"),
    "no bucket": (DataMove("$RESULT_DIR", "s3://"), "to", "expected s3://BUCKET/path"),
    "a way out": (DataMove("$RESULT_DIR", "s3://bucket/../other"), "to", "without '..'"),
    "an unknown variable": (DataMove("$RESULT_DIR", "$NOPE/x"), "to", "a relative path"),
    "a relative path": (DataMove("$RESULT_DIR", "there"), "to", "a relative path"),
    "a version": (DataMove("$RESULT_DIR", "model://mnist:3"), "to", "become its next version"),
    "an alias": (DataMove("$RESULT_DIR", "model://mnist@best"), "to", "become its next version"),
    "a name": (DataMove("$RESULT_DIR", "model://mnist.v2"), "to", "not a valid name"),
    "from nowhere": (DataMove("ftp://x/y", "s3://bucket/x"), "from", "ftp:// is not known"),
}


@pytest.mark.parametrize(("move", "end", "want"), REFUSED.values(), ids=REFUSED)
def test_an_output_that_could_never_be_stored_is_refused(move: DataMove, end: str, want: str) -> None:
    with pytest.raises(InvalidInputError, match=want) as caught:
        check_addresses(make_spec(outputs=(DataMove("$RESULT_DIR", "s3://bucket/x"), move)))
    assert caught.value.field == f"data.outputs[1].{end}"


@pytest.mark.parametrize(
    ("fields", "want_field"),
    [
        ({"inputs": (DataMove("job://other", "$DATA_DIR"),)}, "data.inputs[0].from"),
        ({"inputs": (DataMove("model://Mnist", "$DATA_DIR"),)}, "data.inputs[0].from"),
        ({"inputs": (DataMove("s3://bucket/x", "s3://bucket/y"),)}, "data.inputs[0].to"),
        ({"checkpoints": CheckpointRule(to="$NOPE/x")}, "checkpoints.to"),
    ],
)
def test_the_field_is_named(fields: Any, want_field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        check_addresses(make_spec(**fields))
    assert caught.value.field == want_field


def test_whatever_may_be_moved_is_let_through() -> None:
    sources = ("/data", "s3://b", "https://h/x?y=$z", "nfs://h/x", "pvc://c", "job://j/results", "model://m@best")
    targets = ("/out", "file:///out", "s3://b/$JOB_NAME", "gs://b/${JOB_NAME}/", "pvc://c/x", "model://m", "$DATA_DIR")
    check_addresses(
        make_spec(
            inputs=tuple(DataMove(source, "$DATA_DIR/sets/") for source in sources),
            outputs=tuple(DataMove("${RESULT_DIR}/model", target) for target in targets),
            checkpoints=CheckpointRule(to="az://c/$JOB_NAME"),
        )
    )
