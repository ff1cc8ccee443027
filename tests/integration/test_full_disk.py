"""A job that fills the disk of the home directory: everything can still be seen, stopped and deleted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.model import Phase, Resources
from gangline.sdk import Client
from gangline.sdk.transports.embedded import EmbeddedTransport
from gangline.testing.builders import make_role, make_spec
from gangline.testing.client_suite import make_command
from tests.disks import fill, small_disk

GREEDY = "for _ in $(seq 600); do cat /dev/zero >> $CHECKPOINT_DIR/greed; sleep 0.05; done 2> /dev/null"

# Files on a disk in memory count as memory of whoever writes them.
UNLIMITED = Resources(cpu_millis=100)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "80m") as disk:
        yield disk


def service_at(home: Path) -> Client:
    transport = EmbeddedTransport(home=home)
    return Client(settings=transport.settings, transport=transport)


def test_jobs_are_stopped_and_deleted_on_a_full_disk_also_after_a_restart(disk: Path, tmp_path: Path) -> None:
    greed, end = tmp_path / "greed", tmp_path / "end"
    with service_at(disk / "home") as client:
        client.submit(make_command("quick", "sh", "-c", f"while [ ! -e {end} ]; do sleep 0.02; done"))
        script = f"while [ ! -e {greed} ]; do sleep 0.02; done; {GREEDY}"
        client.submit(make_spec("greedy", roles=(make_role(command=("sh", "-c", script), resources=UNLIMITED),)))
        for name in ("quick", "greedy"):
            client.wait(name, phases=[Phase.PROCESSING])
        greed.touch()
        fill(disk)
    with service_at(disk / "home") as client:
        assert {job.name: job.phase for job in client.list()} == {"quick": Phase.PROCESSING, "greedy": Phase.PROCESSING}
        end.touch()
        client.halt("greedy")
        assert client.wait("greedy", phases=[Phase.HALTED]).phase is Phase.HALTED
        client.delete("greedy")
        assert client.wait("quick").phase is Phase.COMPLETED
        (disk / "filler").unlink()
        client.submit(make_command("after", "true"))
        assert client.wait("after").phase is Phase.COMPLETED
        for name in ("quick", "after"):
            client.delete(name)


@pytest.mark.parametrize("size", ["3m", "20m"])
def test_jobs_are_ended_on_a_small_disk_that_is_full(tmp_path: Path, size: str) -> None:
    names = ("cancelled", "halted", "deleted")
    with small_disk(tmp_path / "disk", size) as disk, service_at(disk / "home") as client:
        for name in names:
            client.submit(make_command(name, "sleep", "1000"))
        for name in names:
            client.wait(name, phases=[Phase.PROCESSING])
        fill(disk)
        client.cancel("cancelled")
        client.halt("halted")
        client.delete("deleted")
        assert client.wait("cancelled").phase is Phase.CANCELLED
        assert client.wait("halted", phases=[Phase.HALTED]).phase is Phase.HALTED
        assert {job.name for job in client.list()} <= {"cancelled", "halted"}
        for name in ("cancelled", "halted"):
            client.delete(name)
