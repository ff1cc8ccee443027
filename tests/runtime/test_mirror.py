"""Checkpoints that are kept at an address: found on another machine, whole or not at all."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangline.data.credentials import StoreCredentials
from gangline.data.shelves import Shelf, shelf_at
from gangline.runtime import Checkpoints, MirrorError
from tests.data.servers import Server, s3_server


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


class Place:
    """An address, what opens it, and what lies there."""

    def __init__(self, to: str, credentials: StoreCredentials) -> None:
        self.to, self.credentials = to, credentials

    def checkpoints(self, directory: Path, **fields: int) -> Checkpoints:
        return Checkpoints(directory, to=self.to, credentials=self.credentials, **fields)

    @property
    def shelf(self) -> Shelf:
        return shelf_at(self.to, self.credentials)


@pytest.fixture(params=["s3", "directory"])
def place(request: pytest.FixtureRequest, tmp_path: Path, s3: Server) -> Place:
    if request.param == "s3":
        return Place(f"s3://bucket/{tmp_path.name}", s3.credentials)
    return Place(str(tmp_path / "shared"), StoreCredentials())


def save(checkpoints: Checkpoints, step: int, text: str) -> None:
    checkpoints.save(step, lambda path: [(path / "model").write_text(text), (path / "sub").mkdir()][0] and None)


def text_of(checkpoints: Checkpoints) -> tuple[int, str] | None:
    found = checkpoints.latest()
    return (found.step, (found.path / "model").read_text()) if found else None


def test_another_machine_finds_the_newest(place: Place, tmp_path: Path) -> None:
    here = place.checkpoints(tmp_path / "here")
    for step in (10, 20):
        save(here, step, f"state {step}")
        assert here.wait(30)
    there = place.checkpoints(tmp_path / "there")
    assert text_of(there) == (20, "state 20")
    assert [checkpoint.step for checkpoint in there.all()] == [20]


def test_a_directory_may_be_named_from_the_working_directory(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    here = place.checkpoints(Path("here"))
    save(here, 1, "one")
    assert here.wait(30)
    assert text_of(place.checkpoints(Path("there"))) == (1, "one")


def test_the_newest_few_are_kept(place: Place, tmp_path: Path) -> None:
    here = place.checkpoints(tmp_path / "here", keep=2)
    for step in range(5):
        save(here, step, str(step))
        assert here.wait(30)
    kept = {name.partition("/")[0] for name in place.shelf.names()}
    assert kept == {"step-000000000003.1", "step-000000000004.1"}


def test_one_without_its_commit_is_not_there(place: Place, tmp_path: Path) -> None:
    here = place.checkpoints(tmp_path / "here")
    for step in (1, 2):
        save(here, step, str(step))
        assert here.wait(30)
    place.shelf.remove(["step-000000000002.1/commit.json"])
    assert text_of(place.checkpoints(tmp_path / "there")) == (1, "1")


def test_a_checkpoint_of_several_ranks_exists_once_all_parts_do(place: Place, tmp_path: Path) -> None:
    first = place.checkpoints(tmp_path / "rank-0", rank=0, world=2)
    second = place.checkpoints(tmp_path / "rank-1", rank=1, world=2)
    save(first, 5, "of rank 0")
    assert not first.wait(0.5)
    assert place.checkpoints(tmp_path / "other-0", rank=0, world=2).latest() is None
    save(second, 5, "of rank 1")
    assert first.wait(30)
    assert second.wait(30)
    for rank in (0, 1):
        fresh = place.checkpoints(tmp_path / f"fresh-{rank}", rank=rank, world=2)
        assert text_of(fresh) == (5, f"of rank {rank}")


def test_ranks_of_another_attempt_do_not_complete_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = place.checkpoints(tmp_path / "rank-0", rank=0, world=2)
    save(first, 5, "first attempt")
    monkeypatch.setenv("GANGLINE_ATTEMPT", "2")
    second = place.checkpoints(tmp_path / "rank-1", rank=1, world=2)
    save(second, 5, "second attempt")
    assert second.wait(30)
    assert not first.wait(0.5)
    assert place.checkpoints(tmp_path / "fresh", rank=1, world=2).latest() is None


def test_of_several_ranks_nobody_goes_on_from_what_only_it_has(place: Place, tmp_path: Path) -> None:
    ranks = [place.checkpoints(tmp_path / f"rank-{rank}", rank=rank, world=2) for rank in (0, 1)]
    for step in (1, 2):
        for rank in ranks if step == 1 else ranks[1:]:
            save(rank, step, str(step))
        assert all(rank.wait(30) for rank in ranks)
    assert [text_of(rank) for rank in ranks] == [(1, "1"), (1, "1")]


def test_alone_the_newer_of_here_and_there_counts(place: Place, tmp_path: Path) -> None:
    here = place.checkpoints(tmp_path / "here")
    save(here, 1, "mirrored")
    assert here.wait(30)
    save(Checkpoints(tmp_path / "here"), 2, "only here")
    assert text_of(place.checkpoints(tmp_path / "here")) == (2, "only here")


def test_a_damaged_one_here_is_fetched_again(place: Place, tmp_path: Path) -> None:
    here = place.checkpoints(tmp_path / "here")
    save(here, 1, "good")
    assert here.wait(30)
    (tmp_path / "here" / "step-000000000001" / "model").write_text("bad!")
    assert text_of(here) == (1, "good")


def test_training_goes_on_when_the_address_cannot_be_written_and_wait_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    here = Checkpoints(tmp_path / "here", to=str(tmp_path / "file" / "below"))
    save(here, 1, "one")
    with pytest.raises(MirrorError, match="file/below"):
        here.wait(30)
    assert text_of(Checkpoints(tmp_path / "here")) == (1, "one")


def test_a_checkpoint_that_is_being_written_is_not_removed(
    tmp_path: Path, s3: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    from gangline.data import transfers

    upload = transfers.transfer

    def slow(order: transfers.Transfer) -> str:
        begun.set()
        assert go_on.wait(30)
        return upload(order)

    monkeypatch.setattr(transfers, "transfer", slow)
    here = Checkpoints(tmp_path / "here", keep=1, to="s3://bucket/held", credentials=s3.credentials)
    save(here, 1, "one")
    assert begun.wait(30)
    for step in (2, 3):
        save(here, step, str(step))
    assert [checkpoint.step for checkpoint in here.all()] == [3, 1]
    go_on.set()
    assert here.wait(30)
    commit = shelf_at("s3://bucket/held", s3.credentials).read("step-000000000003.1/commit.json")
    assert json.loads(commit or b"") == {"step": 3, "ranks": 1}


def test_after_a_chosen_step_later_checkpoints_of_earlier_attempts_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saved(step: int) -> Checkpoints:
        checkpoints = Checkpoints(tmp_path / f"of-{step}", keep=2, to=str(tmp_path / "shared"))
        checkpoints.save(step, lambda path: (path / "state").write_text(str(step)) and None)
        checkpoints.wait()
        return checkpoints

    for step in (10, 20):
        saved(step)
    monkeypatch.setenv("GANGLINE_ATTEMPT", "2")
    monkeypatch.setenv("GANGLINE_RESUME_FROM", "10.2")
    found = Checkpoints(tmp_path / "elsewhere", to=str(tmp_path / "shared")).latest()
    assert found is not None
    assert found.step == 10
    saved(15)
    found = Checkpoints(tmp_path / "elsewhere", to=str(tmp_path / "shared")).latest()
    assert found is not None
    assert found.step == 15
    assert {path.name.partition(".")[0] for path in (tmp_path / "shared").glob("step-*")} == {
        "step-000000000010",
        "step-000000000015",
    }
