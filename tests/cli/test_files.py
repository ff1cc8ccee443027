"""``gangline cp`` and ``gangline results``: the files of a job by hand, while it runs and after."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Here, Shell

SCRIPT = """
mkdir -p $RESULT_DIR/deep; echo one > $RESULT_DIR/deep/a.txt; echo two > $RESULT_DIR/b.txt
ln -s /etc $RESULT_DIR/out; mkfifo $RESULT_DIR/pipe; echo ready
while [ ! -e $DATA_DIR/go ]; do sleep 0.1; done
cat $DATA_DIR/go; ls $DATA_DIR/more
"""


@pytest.fixture(scope="module")
def job(shell: Shell) -> Iterator[str]:
    """A job that has written something and waits for a file."""
    shell.out("submit", "--name", "filed", "--cpu", "100m", "--memory", "64Mi", "--", "sh", "-c", SCRIPT)
    followed = shell.run("wait", "filed", "--for", "PROCESSING")
    assert followed.returncode == 0, followed.stderr
    while "ready" not in shell.out("logs", "filed"):
        pass
    yield "filed"
    shell.out("delete", "filed")


def test_results_are_listed_and_copied_while_the_job_runs(here: Here, job: str, tmp_path: Path) -> None:
    code, listed, _ = here("results", job, "-o", "name")
    assert (code, {"results/b.txt", "results/deep/a.txt"} <= set(listed.split())) == (0, True)
    assert here("results", job, "results/deep")[1].splitlines()[1].split()[:3] == ["results/deep/a.txt", "4", "B"]
    code, _, said = here("cp", f"{job}:results/deep", str(tmp_path / "out"))
    assert code == 0, said
    assert (tmp_path / "out" / "a.txt").read_text() == "one\n"
    assert here("cp", f"{job}:results/b.txt", str(tmp_path / "renamed"))[0] == 0
    assert (tmp_path / "renamed").read_text() == "two\n"
    assert here("cp", f"{job}:results/b.txt", str(tmp_path / "out"))[1] == f"{tmp_path}/out/b.txt\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".gangline")] == []


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("filed:results/nothing", "x"), "no file named 'filed:results/nothing'"),
        (("filed:attempts/1/order.json", "x"), "'attempts/1/order.json' is not in the job"),
        (("filed:results/../attempts", "x"), "is not in the job"),
        (("filed:results/out/passwd", "x"), "leads out of the job"),
        (("nowhere", "filed:data/"), "there is no 'nowhere'"),
        (("here", "there"), "must be JOB:PATH"),
        (("a:", "b:"), "must be JOB:PATH"),
        (("absent:results/", "x"), "no job named 'absent'"),
        (("filed:results/pipe", "x"), "error: path: results/pipe is a pipe"),
        (("", "filed:"), "a path is empty"),
        ((__file__, "filed:results/b.txt/deeper"), "results/b.txt is not a directory, and deeper is to go into it"),
        (("filed:results/b.txt", f"{__file__}/x"), "test_files.py is not a directory, and x is to go into it"),
        (("filed:results/b.txt", "/proc/x"), "/proc/x: No such file or directory"),
    ],
    ids=lambda value: str(value)[:30],
)
@pytest.mark.usefixtures("job")
def test_a_mistake_is_named_and_nothing_is_written(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str], want: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = here("cp", *words)
    assert code != 0
    assert want in said
    assert list(tmp_path.iterdir()) == []


def test_another_tenant_cannot_read_or_write(here: Here, job: str, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    for words in ((f"{job}:results/b.txt", str(tmp_path / "y")), (str(tmp_path / "x"), f"{job}:")):
        code, _, said = here("--tenant", "others", "cp", *words)
        assert code != 0
        assert f"no job named '{job}'" in said
    assert not (tmp_path / "y").exists()


def test_a_file_that_is_put_there_is_seen_by_the_program_and_results_stay_after_its_end(
    shell: Shell, here: Here, job: str, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "c.txt").write_text("three")
    code, _, said = here("cp", str(tmp_path / "more"), f"{job}:data/more")
    assert code == 0, said
    (tmp_path / "go").write_text("went on\n")
    assert here("cp", str(tmp_path / "go"), f"{job}:data/")[0] == 0
    assert shell.run("wait", job).returncode == 0
    output = shell.out("logs", job)
    assert "went on" in output
    assert "c.txt" in output
    assert here("cp", str(tmp_path / "go"), f"{job}:")[0] == 0
    assert here("cp", f"{job}:", str(tmp_path / "all"))[0] == 0
    assert (tmp_path / "all" / "go").read_text() == "went on\n"
    assert (tmp_path / "all" / "deep" / "a.txt").read_text() == "one\n"


SAVES = """
import os
import numpy as np
from gangline.runtime import Checkpoints
checkpoints = Checkpoints(os.environ["CHECKPOINT_DIR"], keep=2)
for step in (1, 2, 3):
    checkpoints.save(step, lambda folder: np.save(folder / "weights.npy", np.zeros(4)))
"""


def test_checkpoints_of_a_job_are_listed(shell: Shell, here: Here) -> None:
    python = Shell.command()[0]
    done = shell.run("submit", "--name", "saves", "--cpu", "100m", "--wait", "--", python, "-c", SAVES)
    assert done.returncode == 0, done.stderr
    code, listed, said = here("checkpoints", "saves")
    assert code == 0, said
    rows = [line.split() for line in listed.splitlines()]
    assert [row[0] for row in rows] == ["STEP", "3", "2"]
    assert rows[1][-1] == "checkpoints/step-000000000003"
    assert here("checkpoints", "saves", "-o", "name")[1].split()[1] == "checkpoints/step-000000000002"
    shell.out("delete", "saves")
