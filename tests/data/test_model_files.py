"""The files of models, by content."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from gangline.compose import SystemClock
from gangline.data.model_files import ModelFiles
from gangline.data.progress import Meter, Progress
from gangline.data.shelves import FileShelf
from gangline.data.unpacking import PermanentError
from tests.data.servers import Server
from tests.data.trees import MIB, make_tree

T = TypeVar("T")


def make(place: Path, **files: str) -> Path:
    for name, text in files.items():
        file = place / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return place


def folder_of(models: ModelFiles) -> Path:
    assert isinstance(models.place.shelf, FileShelf)
    return models.place.shelf.folder


def now(models: ModelFiles) -> float:
    return (folder_of(models) / "versions").stat().st_mtime


def names(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def models(tmp_path: Path) -> ModelFiles:
    return ModelFiles.in_directory(tmp_path / "models")


@pytest.fixture
def stored_models(s3: Server, request: pytest.FixtureRequest) -> ModelFiles:
    return ModelFiles.at(f"{s3.address}/{request.node.name}", s3.credentials)


def test_versions_lie_in_an_object_store_too(stored_models: ModelFiles, tmp_path: Path) -> None:
    first = stored_models.keep(make(tmp_path / "a", weights="1", deep__config="2"))
    second = stored_models.keep(make(tmp_path / "b", weights="1", deep__config="3"))
    assert len(stored_models.place.shelf.names()) == 3 + 2, "what is the same is kept once"
    stored_models.take(first.digest, tmp_path / "back")
    assert names(tmp_path / "back") == {"weights", "deep/config"}
    assert (tmp_path / "back" / "deep" / "config").read_text() == "2"
    stored_models.forget_all_but({second.digest}, now=SystemClock().now())
    assert stored_models.files(first.digest), "it may be about to be recorded"
    stored_models.forget_all_but({second.digest}, now=SystemClock().now() + 3601)
    assert len(stored_models.place.shelf.names()) == 2 + 1
    with pytest.raises(PermanentError, match="are not here"):
        stored_models.take(first.digest, tmp_path / "again")


@pytest.mark.parametrize("kind", ["models", "stored_models"])
def test_a_meter_is_told_how_far_it_is_block_by_block(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    files: ModelFiles = request.getfixturevalue(kind)
    make_tree(tmp_path / "a", {"small": 7, "weights": 20 * MIB})

    def checked(move: Callable[[Meter], T]) -> T:
        told: list[Progress] = []
        ticks = itertools.count()
        meter = Meter(told.append, clock=lambda: float(next(ticks)))
        answer = move(meter)
        end = meter.measure()
        assert (end.moved_bytes, end.total_bytes, end.moved_files, end.total_files) == (20 * MIB + 7,) * 2 + (2, 2)
        assert any(7 < each.moved_bytes < 20 * MIB for each in told), "not in one piece"
        return answer

    kept = checked(lambda meter: files.keep(tmp_path / "a", meter))
    checked(lambda meter: files.take(kept.digest, tmp_path / "b", meter))
    again = Meter()
    files.keep(tmp_path / "a", again)
    assert again.measure().moved_bytes == again.measure().total_bytes == 20 * MIB + 7, "what is there already counts"


def test_damage_in_an_object_store_is_found(stored_models: ModelFiles, tmp_path: Path) -> None:
    kept = stored_models.keep(make(tmp_path / "a", one="1", two="2"))
    digest, _ = stored_models.files(kept.digest)["two"]
    stored_models.place.shelf.write(f"content/{digest}", b"!")
    with pytest.raises(PermanentError, match="two of the model is damaged"):
        stored_models.take(kept.digest, tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("size", [10, 9 << 20])
def test_a_file_that_changes_while_it_is_kept_damages_no_version_that_has_it(
    stored_models: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    kept = stored_models.keep(make(tmp_path / "a", weights="1" * size))
    with monkeypatch.context() as later:
        later.setattr("gangline.data.model_files._UNREGISTERED_SECONDS", 0.0)
        later.setattr("gangline.data.uploads._chunks", lambda _: iter((b"changed",)))
        with pytest.raises(PermanentError, match="weights changes while it is read"):
            stored_models.keep(tmp_path / "a")
    stored_models.take(kept.digest, tmp_path / "back")
    assert (tmp_path / "back" / "weights").stat().st_size == size


def test_what_is_kept_is_taken_again(models: ModelFiles, tmp_path: Path) -> None:
    kept = models.keep(make(tmp_path / "a", weights="1", deep__config="2"))
    assert (kept.files, kept.size_bytes, kept.note) == (2, 2, "")
    models.take(kept.digest, tmp_path / "back")
    assert names(tmp_path / "back") == {"weights", "deep/config"}
    assert (tmp_path / "back" / "deep" / "config").read_text() == "2"


def test_a_single_file_is_a_model_too(models: ModelFiles, tmp_path: Path) -> None:
    make(tmp_path / "a", weights="1")
    kept = models.keep(tmp_path / "a" / "weights")
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "other").touch()
    models.take(kept.digest, tmp_path / "back")
    assert names(tmp_path / "back") == {"weights", "other"}


def test_the_same_content_has_the_same_digest_and_is_kept_once(models: ModelFiles, tmp_path: Path) -> None:
    first = models.keep(make(tmp_path / "a", weights="1", config="2"))
    assert models.keep(make(tmp_path / "b", weights="1", config="2")).digest == first.digest
    assert models.keep(make(tmp_path / "c", weights="1", config="3")).digest != first.digest
    assert models.keep(make(tmp_path / "d", weights_="1", config="2")).digest != first.digest
    assert len(list((folder_of(models) / "content").iterdir())) == 3


def test_an_empty_directory_is_not_a_model(models: ModelFiles, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PermanentError, match="has no files"):
        models.keep(tmp_path / "empty")


def test_damage_is_found_and_nothing_of_it_is_given_out(models: ModelFiles, tmp_path: Path) -> None:
    kept = models.keep(make(tmp_path / "a", one="1", two="2"))
    digest, _ = models.files(kept.digest)["two"]
    (folder_of(models) / "content" / digest).write_text("!")
    with pytest.raises(PermanentError, match="two of the model is damaged"):
        models.take(kept.digest, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    (folder_of(models) / "versions" / f"{kept.digest}.json").write_text('{"files": {}}')
    with pytest.raises(PermanentError, match="is damaged"):
        models.files(kept.digest)


def test_a_signature_is_read_and_a_wrong_one_refused(models: ModelFiles, tmp_path: Path) -> None:
    make(tmp_path / "a", weights="1")
    (tmp_path / "a" / "signature.json").write_text('{"inputs": ["image"]}')
    assert models.keep(tmp_path / "a").signature == '{"inputs": ["image"]}'
    (tmp_path / "a" / "signature.json").write_text("image")
    with pytest.raises(PermanentError, match=r"signature\.json of the model is not JSON"):
        models.keep(tmp_path / "a")


def test_only_old_versions_that_nobody_has_are_forgotten_with_their_content(models: ModelFiles, tmp_path: Path) -> None:
    used = models.keep(make(tmp_path / "a", shared="1", own="2"))
    unused = models.keep(make(tmp_path / "b", shared="1", other="3"))
    models.forget_all_but({used.digest}, now=now(models))
    assert models.files(unused.digest), "it may be about to be recorded"
    models.forget_all_but({used.digest}, now=now(models) + 3601)
    assert {file.read_text() for file in (folder_of(models) / "content").iterdir()} == {"1", "2"}
    assert models.files(used.digest)
    with pytest.raises(PermanentError, match="are not here"):
        models.files(unused.digest)


def test_nothing_is_forgotten_while_somebody_keeps_files(models: ModelFiles, tmp_path: Path) -> None:
    kept = models.keep(make(tmp_path / "a", weights="1"))
    with models.place.locked(alone=False):  # as by another process that keeps a model
        models.forget_all_but(set(), now=now(models) + 3601)
    assert models.files(kept.digest)
    models.forget_all_but(set(), now=now(models) + 3601)
    assert names(folder_of(models)) == {"lock"}
