"""Checkpoints at an address, seen as files of a job that does not run."""

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from gangline.data.credentials import OF_THE_ENVIRONMENT
from gangline.data.job_folders import NoSuchFileError
from gangline.data.reach import MISSING
from gangline.runtime import Checkpoints
from gangline.runtime.checkpoint_files import SavedFiles


def saved(to: Path, resume_from: tuple[int, int] | None = None) -> SavedFiles:
    return SavedFiles(str(to), OF_THE_ENVIRONMENT, resume_from)


def save(at: Path, to: Path, step: int, *, rank: int = 0, world: int = 1) -> Checkpoints:
    def write(path: Path) -> None:
        (path / "state").write_text(f"state {step}")

    checkpoints = Checkpoints(at, to=str(to), keep=9, rank=rank, world=world)
    checkpoints.save(step, write)
    return checkpoints


@pytest.fixture
def to(tmp_path: Path) -> Path:
    for step in (1, 2):
        save(tmp_path / "here", tmp_path / "there", step).wait()
    return tmp_path / "there"


def test_they_have_the_paths_that_they_had(to: Path) -> None:
    steps = [f"checkpoints/step-{step:012d}" for step in (1, 2)]
    want = [f"{step}/{name}" for step in steps for name in ("manifest.json", "state")]
    assert [fact.path for fact in saved(to).listed("checkpoints/")] == want
    assert [fact.size_bytes for fact in saved(to).listed(f"{steps[0]}/state")] == [len("state 1")]
    with pytest.raises(NoSuchFileError, match="checkpoints/step-3"):
        saved(to).listed("checkpoints/step-3")


def test_nothing_is_an_empty_list(tmp_path: Path) -> None:
    assert saved(tmp_path).listed("checkpoints") == []


def test_what_is_torn_or_was_left_behind_is_not_there(to: Path) -> None:
    assert {fact.path.split("/")[1] for fact in saved(to, (1, 2)).listed("checkpoints")} == {"step-000000000001"}
    (to / "step-000000000001.1" / "commit.json").unlink()
    assert {fact.path.split("/")[1] for fact in saved(to).listed("checkpoints")} == {"step-000000000002"}


def test_parts_of_several_ranks_are_told_apart(tmp_path: Path) -> None:
    ranks = [save(tmp_path / str(rank), tmp_path / "there" / "net", 5, rank=rank, world=2) for rank in (1, 0)]
    for each in ranks:
        each.wait()
    names = {fact.path for fact in saved(tmp_path / "there").listed("checkpoints/net") if fact.path.endswith("state")}
    assert names == {f"checkpoints/net/rank-{rank}/step-{5:012d}/state" for rank in (0, 1)}


def test_the_program_in_a_pod_lists_and_reads(to: Path, tmp_path: Path) -> None:
    place = tmp_path / "place.json"
    place.write_text(json.dumps({"at": str(to), "store": None}))

    def run(*words: str, code: int = 0) -> bytes:
        command = [sys.executable, "-I", "-m", "gangline.runtime.checkpoint_files", str(place), *words]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout

    assert len(json.loads(run("list", "checkpoints"))) == 4
    assert len(json.loads(run("list", "checkpoints", "1.2"))) == 2
    with tarfile.open(fileobj=io.BytesIO(run("read", f"checkpoints/step-{2:012d}"))) as archive:
        file = archive.extractfile("directory/state")
        assert file is not None
        assert file.read() == b"state 2"
    run("read", "checkpoints/nothing", code=MISSING)
