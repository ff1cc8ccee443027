"""A job that fills the disk of the home directory: everything can still be seen, stopped and deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.errors import StorageFullError
from gangline.model import Phase
from gangline.sdk import Client
from gangline.sdk.embedded import EmbeddedTransport
from gangline.testing.client_suite import make_command
from tests.disks import fill, small_disk

GREEDY = "timeout 60 sh -c 'while true; do cat /dev/zero >> $CHECKPOINT_DIR/greed; done' 2> /dev/null"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "80m") as disk:
        yield disk


def service_at(home: Path) -> Client:
    transport = EmbeddedTransport(home=home)
    return Client(settings=transport.settings, transport=transport)


def test_jobs_are_stopped_and_deleted_on_a_full_disk_also_after_a_restart(disk: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with service_at(disk / "home") as client:
        client.submit(make_command("quick", "sh", "-c", f"while [ ! -e {go} ]; do sleep 0.02; done"))
        client.submit(make_command("greedy", "sh", "-c", GREEDY))
        for name in ("quick", "greedy"):
            client.wait(name, phases=[Phase.PROCESSING])
        fill(disk)
        with pytest.raises(StorageFullError, match="the disk is full"):
            client.submit(make_command("late", "true", env={"LONG": "x" * 500_000}))
    with service_at(disk / "home") as client:
        assert {job.name: job.phase for job in client.list()} == {"quick": Phase.PROCESSING, "greedy": Phase.PROCESSING}
        go.touch()
        client.halt("greedy")
        assert client.wait("greedy", phases=[Phase.HALTED]).phase is Phase.HALTED
        assert client.wait("quick").phase is Phase.COMPLETED
        client.delete("greedy")
        (disk / "filler").unlink()
        client.submit(make_command("after", "true"))
        assert client.wait("after").phase is Phase.COMPLETED
        for name in ("quick", "after"):
            client.delete(name)
