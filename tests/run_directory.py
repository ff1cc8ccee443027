"""Gives a run of the tests a temporary directory of its own, and leaves neither it nor a process behind.

Whatever asks for a temporary directory, a runtime directory or a cache of Kubernetes' or matplotlib's gets it there, in
the tests and in all they start; so does pytest's ``tmp_path``, unless ``--basetemp`` names a place to keep. A process
that outlives the tests fails the run. A run that is interrupted or killed is tidied up by ``tools.reaper``, which
waits beside it. With xdist it is the process that hands out the tests which does all this.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tools import postgres, reaper

_OLD = pytest.StashKey[dict[str, str | None]]()
_DIRECTORY = pytest.StashKey[Path]()
_REAPER = pytest.StashKey["subprocess.Popen[bytes]"]()
_LEFT = pytest.StashKey[list[str]]()

_SILENT = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
PATIENCE_SECONDS = 10.0
"""How long a process that was told to end may take to do so."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make the directory before anything asks for one."""
    if hasattr(config, "workerinput"):
        return
    # Sockets lie in it, whose paths may have only 107 bytes; PostgreSQL runs as another user, who passes through.
    directory = Path(tempfile.mkdtemp(prefix="gl-"))
    directory.chmod(0o711)
    command = [sys.executable, "-S", reaper.__file__, str(os.getpid()), str(directory)]
    config.stash[_REAPER] = subprocess.Popen(command, start_new_session=True, **_SILENT)
    config.stash[_DIRECTORY] = directory
    places = {
        reaper.MARK: directory,
        "TMPDIR": directory,
        "XDG_RUNTIME_DIR": directory,
        "KUBECACHEDIR": directory / "kube",
        "MPLCONFIGDIR": directory / "matplotlib",
    }
    config.stash[_OLD] = {name: os.environ.get(name) for name in places}
    os.environ.update({name: str(place) for name, place in places.items()})
    tempfile.tempdir = None
    if config.option.basetemp is None:
        config.option.basetemp = directory / "t"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop what the tests of a process share; then nothing may still run."""
    postgres.stop_server()
    stash = session.config.stash
    if _DIRECTORY not in stash:
        return
    stash[_LEFT] = _left(stash[_DIRECTORY]) if session.exitstatus != pytest.ExitCode.INTERRUPTED else []
    if stash[_LEFT] and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _left(directory: Path) -> list[str]:
    """Name the processes that still run, once they have had the time to end."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (found := list(reaper.marked(directory))) and time.monotonic() < deadline:
        time.sleep(0.05)  # noqa: TID251 -- other processes end when they end
    return [f"{process}: {_command(process)}" for process in found]


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "has ended since"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what still runs."""
    if found := config.stash.get(_LEFT, []):
        terminalreporter.section("processes that the tests left behind", sep="=", red=True)
        for line in found:
            terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Put everything back as it was."""
    stash = config.stash
    if _DIRECTORY not in stash:
        return
    reaper.end(stash[_DIRECTORY])
    stash[_REAPER].kill()
    stash[_REAPER].wait()
    for name, value in stash[_OLD].items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    tempfile.tempdir = None
