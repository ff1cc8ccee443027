"""Kept records stay readable when the model grows."""

import json

import pytest

from gangline.errors import StorageError
from gangline.kinds.queue import QUEUE
from gangline.storage.codec import JOBS, RECORDS, codec_of
from gangline.testing.builders import make_job
from gangline.testing.store_suite import WORKER_0, make_record, make_rich_job


def test_job_survives_the_round_trip() -> None:
    job = make_rich_job()
    assert JOBS.decode(JOBS.encode(job)) == job


def test_record_survives_the_round_trip() -> None:
    record = make_record("worker-0 exited with 1", replica=WORKER_0)
    assert RECORDS.decode(RECORDS.encode(record)) == record


def test_missing_field_takes_its_default() -> None:
    document = json.loads(JOBS.encode(make_job()))
    del document["failures"], document["spec"]["policy"]["grace_seconds"], document["spec"]["placement"]
    assert JOBS.decode(json.dumps(document)) == make_job()


def test_unknown_field_is_ignored() -> None:
    document = json.loads(JOBS.encode(make_job()))
    document["mood"] = document["spec"]["policy"]["mood"] = {"today": "good"}
    assert JOBS.decode(json.dumps(document)) == make_job()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param('{"name": "a', id="cut off"),
        pytest.param('{"name": 5}', id="wrong type"),
        pytest.param(
            '{"id": "a", "spec": {"name": "NOT A NAME"}, "status": {}, "created_at": 0}', id="refused by the model"
        ),
        pytest.param(b'{"name": "\xff"}', id="not UTF-8"),
    ],
)
def test_damaged_record_is_a_storage_error(text: str | bytes) -> None:
    with pytest.raises(StorageError, match="a kept queue is unreadable"):
        codec_of(QUEUE).decode(text)
