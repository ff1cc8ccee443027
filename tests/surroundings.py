"""A check at the end of a run: whatever lay around the tests before has the owner and the mode it had then.

Tests touch only what they made. What is compared: the shared temporary directory and the home directory, each with what
lies in it, and the kubeconfig. Loaded as a plugin; with xdist it is the process that hands out the tests which looks.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

Looks = Mapping[Path, tuple[int, int, int]]
"""Owner, group and mode by path."""

_SHARED = Path(tempfile.gettempdir())
"""As it was when this was loaded: the tests are given one of their own."""

_BEFORE = pytest.StashKey[Looks]()
_CHANGES = pytest.StashKey[list[str]]()


def look_around() -> Looks:
    """Note owner, group and mode of everything near the tests that is not theirs."""
    return dict(_looks())


def _looks() -> Iterator[tuple[Path, tuple[int, int, int]]]:
    home = Path.home()
    kubeconfig = Path(os.environ.get("KUBECONFIG") or home / ".kube/config")
    places = [_SHARED, home]
    for path in (*places, *(entry for place in places for entry in place.glob("*")), kubeconfig.parent, kubeconfig):
        try:
            status = path.lstat()
        except OSError:
            continue  # others come and go
        yield path, (status.st_uid, status.st_gid, status.st_mode)


def changes(before: Looks, after: Looks) -> list[str]:
    """Name what has another owner, group or mode; what is new or gone may be anybody's."""
    return [
        f"{path}: owner {old[0]}:{old[1]}, mode {old[2]:o}; now owner {after[path][0]}:{after[path][1]},"
        f" mode {after[path][2]:o}"
        for path, old in before.items()
        if path in after and after[path] != old
    ]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Look around before the first test."""
    if not hasattr(session.config, "workerinput"):
        session.config.stash[_BEFORE] = look_around()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if something that was there before has changed."""
    stash = session.config.stash
    if _BEFORE not in stash:
        return
    stash[_CHANGES] = changes(stash[_BEFORE], look_around())
    if stash[_CHANGES] and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what has changed."""
    if found := config.stash.get(_CHANGES, []):
        terminalreporter.section("the tests changed what is not theirs", sep="=", red=True)
        for line in found:
            terminalreporter.line(line)
