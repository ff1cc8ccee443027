"""NFS exports: what a mount is for, and the reasons why there is none."""

import os
import subprocess
from pathlib import Path

import pytest

from gangline.data.addresses import Address, parse
from gangline.data.nfs import mount_export, mount_point, mounted
from gangline.data.transfers import Transfer, transfer
from gangline.data.unpacking import PermanentError

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def bound(export: Path) -> "object":
    """A mount that shows a directory of this machine: the kernel's part but for the network."""

    def mount(address: Address, place: Path, mode: str) -> None:
        subprocess.run(("mount", "--bind", "-o", mode, str(export / address.path.lstrip("/")), str(place)), check=True)

    return mount


@root_only
def test_what_is_mounted_is_there_and_is_gone_afterwards(tmp_path: Path) -> None:
    (tmp_path / "export/set").mkdir(parents=True)
    (tmp_path / "export/set/a").write_text("a")
    with mounted(parse("nfs://host/set"), writable=False, mount=bound(tmp_path / "export")) as place:  # type: ignore[arg-type]
        assert (place / "a").read_text() == "a"
    assert not place.exists()
    with (
        pytest.raises(OSError, match="broken"),
        mounted(parse("nfs://host/set"), writable=True, mount=bound(tmp_path / "export")) as place,  # type: ignore[arg-type]
    ):
        raise OSError("broken")
    assert not place.exists()
    assert (tmp_path / "export/set/a").exists()


@root_only
@pytest.mark.skipif("nfs" in Path("/proc/filesystems").read_text(), reason="this kernel has an NFS client")
def test_a_kernel_without_nfs_is_a_clear_reason(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match="the kernel of this machine has no NFS client"):
        transfer(Transfer(source="nfs://127.0.0.1/set", target=str(tmp_path / "to")))
    assert not (tmp_path / "to").exists()


def test_whoever_is_not_root_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(PermanentError, match="does not run as root; have it mounted on the machine and use its path"):
        mount_export(parse("nfs://host/set"), tmp_path, "ro")


def test_a_mounted_export_is_found_by_its_name(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\nfiler:/sets /mnt/wrong ext4 rw 0 0\n"
        "filer:/sets/old /mnt/old nfs4 rw 0 0\nfiler:/sets /mnt/the\\040sets nfs4 rw,vers=4.2 0 0\n"
    )
    assert mount_point("filer:/sets", mounts) == "/mnt/the sets"
    assert mount_point("filer:/sets/", mounts) == "/mnt/the sets"
    with pytest.raises(FileNotFoundError):
        mount_point("filer:/other", mounts)
