"""Long answers are read page by page, to their end."""

import json
from types import SimpleNamespace
from typing import cast

import pytest

from gangline.sdk import Client
from gangline.sdk.transports.interface import Request, Transport
from gangline.settings import Settings

COUNT = 2500
RECORD = {"job_id": "job-1", "at": "2030-01-01T00:00:00Z", "reason": "Test", "message": "", "phase": "QUEUED"}


class Journal:
    """A service that keeps a long journal and hands out no more than it is asked for."""

    address = "here"

    def send(self, request: Request) -> SimpleNamespace:
        query = dict(request.query)
        first = int(query.get("after", "0")) + 1
        records = [{**RECORD, "number": number} for number in range(first, min(first + int(query["limit"]), COUNT + 1))]
        return SimpleNamespace(status=200, read=lambda: json.dumps(records).encode())


@pytest.mark.parametrize(("after", "limit", "want"), [(0, None, COUNT), (2400, None, 100), (0, 1500, 1500), (0, 3, 3)])
def test_all_that_happened_to_a_job_is_read(after: int, limit: int | None, want: int) -> None:
    client = Client(settings=Settings.load({"HOME": "/nowhere"}), transport=cast(Transport, Journal()))
    found = client.events("mnist", after=after, limit=limit)
    assert [record.number for record in found] == list(range(after + 1, after + want + 1))
