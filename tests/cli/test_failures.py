"""What goes wrong is one line and one exit code."""

import errno
import inspect
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from gangline import errors
from gangline.cli.failures import EXIT_CODES, exit_code_of, report
from gangline.errors import EngineError, GanglineError, StaleVersionError
from tests.cli.conftest import Here, Shell


@pytest.mark.parametrize(
    ("arguments", "want_code", "want_words"),
    [
        pytest.param(("get", "nobody"), 3, "no job named 'nobody'", id="not found"),
        pytest.param(("submit", "--name", "taken", "--", "true"), 4, "gangline delete taken", id="conflict"),
        pytest.param(("resume", "taken"), 4, "is CANCELLED: only a halted job can be resumed", id="not in this phase"),
        pytest.param(("--server", "unix:/nowhere.sock", "list"), 6, "hint: 'gangline doctor'", id="unreachable"),
        pytest.param(("wait", "resting", "--timeout", "100ms"), 124, "the time given to wait", id="time is up"),
        pytest.param(("submti",), 2, "Did you mean 'submit'?", id="unknown command"),
        pytest.param(("submit",), 2, "COMMAND: there is no command", id="nothing to run"),
        pytest.param(("submit", "--workers", "0", "--", "x"), 2, "--workers", id="zero workers"),
        pytest.param(("submit", "--min-workers", "3", "--", "x"), 2, "--min-workers", id="min above replicas"),
        pytest.param(("submit", "--memory", "lots", "--", "x"), 2, "--memory", id="no amount"),
        pytest.param(("submit", "--size", "1-v10", "--", "x"), 2, "did you mean '1-v100'?", id="nearly a size"),
        pytest.param(("submit", "--name", "Bad_Name", "--", "x"), 2, "--name", id="no name"),
        pytest.param(("submit", "--queue", "defualt", "--", "x"), 2, "did you mean 'default'?", id="nearly a queue"),
        pytest.param(("submit", "-f", "/missing.yaml"), 2, "/missing.yaml", id="no such file"),
        pytest.param(("submit", "-f", "x", "--workers", "2"), 2, "--workers: it does not go", id="file and options"),
        pytest.param(("submit", "--code", "/missing", "--", "x"), 2, "'/missing' is not a directory", id="no code"),
        pytest.param(("list", "--phase", "procesing"), 2, "did you mean 'PROCESSING'?", id="nearly a phase"),
        pytest.param(("logs", "taken", "--since", "soon"), 2, "'soon' is not a duration", id="no duration"),
        pytest.param(("list", "--label", "x"), 2, "NAME=VALUE", id="no pair"),
        pytest.param(("get", ""), 3, "no job named ''", id="an empty name"),
        pytest.param(("submit", "--", "echo", "\udcff"), 2, r"not UTF-8: b'\xff'", id="bytes that are no text"),
        pytest.param(("config", "get", "noeds"), 2, "did you mean 'nodes'?", id="nearly a setting"),
    ],
)
def test_an_error_has_its_code_and_says_what_to_do(
    here: Here, two_jobs: None, arguments: tuple[str, ...], want_code: int, want_words: str
) -> None:
    code, out, err = here(*arguments)
    assert (code, out) == (want_code, "")
    assert want_words in err


@pytest.fixture(scope="module")
def two_jobs(shell: Shell) -> None:
    """One job that is cancelled and one that waits for its user."""
    shell.out("submit", "--name", "taken", "--halted", "--", "true")
    shell.out("submit", "--name", "resting", "--halted", "--", "true")
    shell.out("cancel", "taken")


@pytest.mark.parametrize(
    ("text", "want_words"),
    [
        pytest.param("kind: a: b", "job.yaml:1", id="broken YAML"),
        pytest.param("metadata: {name: x}\nspec:\n  rolse: {}\n", "job.yaml:3: spec.rolse", id="unknown field"),
        pytest.param("metadata: {name: x}\nspec:\n  replicas: 0\n  command: [x]\n", "job.yaml:3", id="zero replicas"),
        pytest.param("", "empty", id="empty file"),
    ],
)
def test_a_wrong_file_is_refused_at_its_line(here: Here, tmp_path: Path, text: str, want_words: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    code, _, err = here("submit", "-f", str(tmp_path / "job.yaml"))
    assert code == 2
    assert want_words in err


def test_an_error_is_one_line_without_a_traceback(shell: Shell) -> None:
    done = shell.run("get", "nobody")
    assert (done.returncode, done.stderr) == (3, "error: no job named 'nobody'\n")


def test_the_traceback_is_there_for_those_who_ask(shell: Shell) -> None:
    done = shell.run("get", "nobody", GANGLINE_DEBUG="1")
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    "cls", [item for item in vars(errors).values() if inspect.isclass(item) and issubclass(item, GanglineError)]
)
def test_every_error_has_a_code(cls: type[GanglineError]) -> None:
    assert next(EXIT_CODES[known] for known in cls.__mro__ if known in EXIT_CODES) in {1, 2, 3, 4, 5, 6, 124}


def test_an_unlisted_error_has_the_code_of_its_kind() -> None:
    assert exit_code_of(StaleVersionError("job", "x", expected=1, found=2)) == 4
    assert exit_code_of(EngineError("broken")) == 1


@pytest.mark.parametrize(
    ("error", "want_code", "want_words"),
    [
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), 1, "error: No space left", id="a full disk"),
        pytest.param(OSError(errno.EROFS, "Read-only file system", "/x"), 1, "/x: Read-only", id="a read-only disk"),
        pytest.param(PermissionError(errno.EACCES, "Permission denied", "/x"), 5, "/x: Permission", id="not allowed"),
    ],
)
def test_what_the_system_refuses_is_no_defect_of_ours(
    error: OSError, want_code: int, want_words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == want_code
    told = capsys.readouterr().err
    assert want_words in told
    assert "defect" not in told


def test_a_character_that_the_terminal_does_not_have_is_replaced(shell: Shell) -> None:
    shell.out(
        "submit", "--name", "smiling", "--cpu", "100m", "--no-code", "--wait", "--", "printf", "a \N{GRINNING FACE} b"
    )
    assert shell.run("logs", "smiling", PYTHONIOENCODING="ascii").stdout == "a ? b\n"


def test_a_standard_output_that_is_closed_is_no_reason_to_fail(shell: Shell) -> None:
    command = shlex.join(shell.command("list"))
    done = subprocess.run(
        ["sh", "-c", f"{command} >&-"], env=shell.environment, stderr=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, "error" in done.stderr) == (0, False)


def test_a_standard_error_that_is_closed_leaves_data_alone(shell: Shell) -> None:
    command = shlex.join(shell.command("get", "nobody-like-that"))
    done = subprocess.run(
        ["sh", "-c", f"{command} 2>&-"], env=shell.environment, stdout=subprocess.PIPE, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")


def test_a_list_says_when_there_are_more_jobs_than_it_shows(here: Here, two_jobs: None) -> None:
    assert "--limit shows them" in here("list", "--limit", "1")[2]
    assert "--limit" not in here("list", "--limit", "10000")[2]


def test_jobs_of_several_files_are_read_together(here: Here, tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).write_text(f"metadata: {{name: {name}}}\nspec: {{command: 'true'}}\n")
    files = ("-f", str(tmp_path / "one"), "-f", str(tmp_path / "other"))
    shown = here("submit", "--dry-run", *files)[1]
    assert [job["metadata"]["name"] for job in yaml.safe_load_all(shown)] == ["one", "other"]


def test_what_was_submitted_before_a_failure_is_told(here: Here, two_jobs: None, tmp_path: Path) -> None:
    jobs = [f"metadata: {{name: {name}}}\nspec: {{command: sleep 100}}\n" for name in ("before", "resting")]
    (tmp_path / "jobs.yaml").write_text("---\n".join(jobs))
    code, _, said = here("submit", "--halted", "-f", str(tmp_path / "jobs.yaml"))
    assert (code, "submitted before it failed: before" in said) == (4, True)
    here("delete", "before")
