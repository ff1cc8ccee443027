"""What a copy of a tree has in it: links in the tree, links out of it, and what is neither file nor directory."""

import errno
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gangline.data import trees
from gangline.data.moving import PERMANENT_FAILURE, move, tell_failure
from gangline.data.progress import Meter
from gangline.data.trees import Tree, copy
from gangline.data.unpacking import PermanentError


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def link(path: Path, text: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(text)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "from").mkdir()
    return tmp_path / "from"


def moved(tree: Path) -> Path:
    """Copy the tree and hide the original, so that no link of the copy can lead there."""
    target = tree.parent / "to"
    move(str(tree), str(target))
    tree.rename(tree.parent / "hidden")
    return target


def test_a_cache_of_hugging_face_arrives_whole_and_once(tree: Path) -> None:
    write(tree / "models--a/blobs/123", "weights")
    link(tree / "models--a/snapshots/main/model.bin", "../../blobs/123")
    there = moved(tree)
    assert (there / "models--a/snapshots/main/model.bin").read_text() == "weights"
    assert (there / "models--a/snapshots/main/model.bin").is_symlink()


def test_a_link_to_a_neighbour_stays_as_it_is_written(tree: Path) -> None:
    write(tree / "step-40.ckpt", "forty")
    link(tree / "best.ckpt", "step-40.ckpt")
    link(tree / "latest.ckpt", "best.ckpt")
    there = moved(tree)
    assert (there / "latest.ckpt").readlink() == Path("best.ckpt")
    assert (there / "best.ckpt").readlink() == Path("step-40.ckpt")
    assert (there / "latest.ckpt").read_text() == "forty"


@pytest.mark.parametrize("text", ["{tree}/steps/40", "../{name}/steps/40"], ids=["absolute", "out and back"])
def test_a_link_that_names_the_tree_leads_to_the_copy(tree: Path, text: str) -> None:
    write(tree / "steps/40/model", "forty")
    link(tree / "best", text.format(tree=tree, name=tree.name))
    there = moved(tree)
    assert (there / "best").readlink() == Path("steps/40")
    assert (there / "best/model").read_text() == "forty"


def test_what_a_link_leads_to_outside_is_copied_in_its_place(tree: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere/a/b", "far")
    link(tmp_path / "elsewhere/c", "a/b")
    link(tree / "file", tmp_path / "elsewhere/a/b")
    link(tree / "folder", "../elsewhere")
    there = moved(tree)
    (tmp_path / "elsewhere").rename(tmp_path / "gone")
    assert not (there / "file").is_symlink()
    assert not (there / "folder").is_symlink()
    assert (there / "file").read_text() == (there / "folder/c").read_text() == "far"
    assert (there / "folder/c").readlink() == Path("a/b")


def make_socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    # The address of a socket is short, and paths of tests are long.
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


@pytest.mark.parametrize(
    ("make", "want"),
    [
        (make_socket, "odd (a socket)"),
        (os.mkfifo, "odd (a pipe)"),
        (lambda path: link(path, "/no/such/place"), "odd (a broken link)"),
        (lambda path: link(path, ".."), "odd (a link to a directory that it lies in)"),
        (lambda path: link(path, "/"), "odd (a link to a directory that it lies in)"),
        (lambda path: link(path, "/proc/self"), "odd (a link to what the kernel makes up)"),
        (lambda path: link(path, "/sys"), "odd (a link to what the kernel makes up)"),
    ],
    ids=["socket", "pipe", "broken link", "link to a directory above", "link to everything", "process", "system"],
)
def test_what_cannot_be_copied_is_left_out_and_named(tree: Path, make: Callable[[Path], None], want: str) -> None:
    write(tree / "model", "trained")
    make(tree / "odd")
    note = move(str(tree), str(tree.parent / "to"))
    assert note == f"not copied from {tree}: {want}"
    assert [path.name for path in (tree.parent / "to").iterdir()] == ["model"]


def test_links_in_a_circle_stay_links(tree: Path) -> None:
    link(tree / "here", ".")
    link(tree / "a/b", "../c")
    link(tree / "c/d", "../a")
    link(tree / "self", "self")
    there = moved(tree)
    assert {str(path.relative_to(there)) for path in there.rglob("*")} == {"here", "a", "a/b", "c", "c/d", "self"}
    assert (there / "here").readlink() == Path()


def test_many_that_are_left_out_are_counted_and_odd_names_are_safe_to_show(tree: Path) -> None:
    for number in range(7):
        os.mkfifo(tree / f"{number}\x1b[2J\n")
    note = move(str(tree), str(tree.parent / "to"))
    assert note.endswith("4?[2J? (a pipe), and 2 more")
    assert note.isprintable()


def test_where_there_are_no_links_their_content_takes_their_place(tree: Path) -> None:
    write(tree / "steps/40/model", "forty")
    link(tree / "best", "steps/40")
    link(tree / "steps/all", "..")
    flat = Tree(tree, keep_links=False)
    assert {entry.name: entry.path.read_text() for entry in flat if not entry.is_directory} == {
        "best/model": "forty",
        "steps/40/model": "forty",
    }
    assert "steps/all (a link to a directory that it lies in)" in flat.note()


def test_a_pipe_that_is_named_itself_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermanentError, match="is a pipe, not a file or a directory"):
        move(str(tmp_path / "pipe"), str(tmp_path / "to"))


def test_a_tree_may_be_copied_into_itself(tree: Path) -> None:
    write(tree / "model", "trained")
    move(str(tree), str(tree / "kept"))
    assert {str(path.relative_to(tree)) for path in tree.rglob("*")} == {"model", "kept", "kept/model"}


def test_a_directory_takes_the_place_of_a_link_of_an_earlier_copy(tree: Path) -> None:
    write(tree / "40/model", "forty")
    link(tree / "latest", "40")
    move(str(tree), str(tree.parent / "to"))
    (tree / "latest").unlink()
    write(tree / "latest/model", "new")
    move(str(tree), str(tree.parent / "to"))
    assert (tree.parent / "to/40/model").read_text() == "forty"
    assert (tree.parent / "to/latest/model").read_text() == "new"


def test_modes_and_times_are_kept_and_read_only_directories_can_be_stored(tree: Path) -> None:
    write(tree / "closed/run.sh").chmod(0o750)
    os.utime(tree / "closed/run.sh", (1e9, 1e9))
    (tree / "closed").chmod(0o500)
    move(str(tree), str(tree.parent / "to"))
    (tree / "closed").chmod(0o700)
    status = (tree.parent / "to/closed/run.sh").stat()
    assert (status.st_mode & 0o777, status.st_mtime) == (0o750, 1e9)


def test_two_that_move_into_one_directory_have_drafts_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gangline.data import moving

    write(tmp_path / "a/model", "a")
    write(tmp_path / "b/model", "b")
    fetch = moving.copy

    def fetch_while_another_moves(source: Path, draft: Path, *_: object) -> str:
        monkeypatch.setattr(moving, "copy", fetch)
        note = fetch(source, draft)
        move(str(tmp_path / "b"), str(tmp_path / "out/b"))
        return note

    monkeypatch.setattr(moving, "copy", fetch_while_another_moves)
    move(str(tmp_path / "a"), str(tmp_path / "out/a"))
    assert (tmp_path / "out/a/model").read_text() == "a"
    assert (tmp_path / "out/b/model").read_text() == "b"


def test_two_that_store_at_one_place_leave_the_whole_of_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in ("one", "two"):
        for name in ("a", "b"):
            write(tmp_path / who / name, who)
    (tmp_path / "to").mkdir()
    second = threading.Thread(target=move, args=(str(tmp_path / "two"), str(tmp_path / "to")))
    replace, renamed = Path.replace, list[Path]()

    def replace_and_let_the_other_in(path: Path, target: Path) -> Path:
        renamed.append(path)
        if len(renamed) == 1:
            second.start()
            second.join(1)  # for as long as the other one would need, were it not kept waiting
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", replace_and_let_the_other_in)
    move(str(tmp_path / "one"), str(tmp_path / "to"))
    second.join()
    assert {path.read_text() for path in (tmp_path / "to").iterdir()} == {"two"}


def test_links_are_followed_only_where_they_may_be(tmp_path: Path) -> None:
    """A mover of a cluster has the keys of a store among its own files."""
    job, keys = tmp_path / "job", tmp_path / "keys"
    for folder in (job / "results", job / "data", keys):
        folder.mkdir(parents=True)
    (keys / "secret").write_text("key")
    (job / "data" / "set").write_text("set")
    (job / "results" / "file").symlink_to(keys / "secret")
    (job / "results" / "folder").symlink_to(keys)
    (job / "results" / "inside").symlink_to(job / "data" / "set")
    trees.follow_links_only_below([str(job)])
    try:
        note = trees.copy(job / "results", tmp_path / "copy")
        with pytest.raises(PermanentError, match="a link out of the job's directories"):
            trees.open_followed(job / "results" / "file")
    finally:
        trees.follow_links_only_below([])
    assert {path.name: path.read_text() for path in (tmp_path / "copy").iterdir()} == {"inside": "set"}
    assert "file (a link out of the job's directories), folder (a link out of the job's directories)" in note


class Restless:
    """A file whose state is another at each of the first looks."""

    def __init__(self, looks: int) -> None:
        self.changes = iter(range(looks))

    def __call__(self, _: object) -> tuple[int, int]:
        return 0, next(self.changes, -1)


@pytest.mark.parametrize(("looks", "want"), [(2, ""), (100, "changed while they were read from {}: data")])
def test_a_file_that_changes_while_it_is_copied_is_copied_again_and_told_of_if_it_never_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: int, want: str
) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "data").write_text("content")
    restless, meter = Restless(looks), Meter()
    monkeypatch.setattr("gangline.data.trees._state", restless)
    assert copy(tmp_path / "from", tmp_path / "to", meter) == want.format(tmp_path / "from")
    assert (tmp_path / "to" / "data").read_text() == "content"
    assert next(restless.changes, None) == (None if looks == 2 else 6), "three tries, and no more than it needs"
    assert meter.measure().moved_bytes == len("content")


MOVE = """
import sys
import threading
from gangline.data.moving import move, tell_failure
try:
    move(sys.argv[1], sys.argv[2])
except OSError as error:
    sys.exit(tell_failure(error))
"""
POWERS = "-dac_override,-dac_read_search"
"""What lets root read every file; a user has neither."""


@pytest.mark.parametrize("name", ["closed/model", "closed"], ids=["file", "directory"])
def test_what_its_owner_may_not_read_is_named_with_what_to_do(tree: Path, name: str) -> None:
    write(tree / "closed/model")
    (tree / name).chmod(0o000)
    command = [sys.executable, "-c", MOVE, str(tree), str(tree.parent / "to")]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root cannot become a user here")
        command = ["setpriv", f"--bounding-set={POWERS}", f"--inh-caps={POWERS}", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (tree / name).chmod(0o700)
    assert done.returncode == PERMANENT_FAILURE, done.stderr
    assert f"{tree / name}: Permission denied" in done.stderr
    assert "make it readable (chmod -R u+rX)" in done.stderr
    assert not (tree.parent / "to").exists()


def test_a_failure_is_told_in_a_sentence_however_long_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    tell_failure(OSError(errno.ENAMETOOLONG, "File name too long", "a/" * 3000))
    told = capsys.readouterr().err
    assert told.startswith("a/a/")
    assert told.endswith(": File name too long\n")
    assert len(told) < 600
