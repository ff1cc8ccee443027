"""The user's own service in the background: finding it, starting it when nobody listens, stopping it.

The service is a process of its own session, so that it outlives the command that started it. Readiness and
failure are told through a pipe, never guessed by waiting; who runs is told by the kernel through the socket,
never by a file alone, which may be out of date.
"""

import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gangline.errors import GanglineError, PermissionDeniedError, UnreachableError, WaitTimeoutError
from gangline.settings import Settings

START_SECONDS = 30.0
STOP_SECONDS = 15.0
LOG_TAIL_LINES = 15
_LOCK_SECONDS = 0.05

_LOG_BYTES = 10 * 2**20
_TAIL_BYTES = 64 * 1024
_CREDENTIALS = struct.Struct("3i")
_HERE = hasattr(socket, "SO_PEERCRED")
"""Whether this system can have the service at all."""


def _needs_linux() -> None:
    """Refuse in one sentence what cannot be on this system: the service, its keepers and its sandboxes are Linux's."""
    if not _HERE:
        raise UnreachableError(
            f"the local service needs Linux, and this is {platform.system()}: "
            "use a team's service ('gangline login URL') or a cluster ('--context NAME')"
        )


def address_of(settings: Settings) -> str:
    """Return where the user's service listens when it runs."""
    return f"unix:{_place(settings)[1]}"


def running_process(settings: Settings) -> int | None:
    """Return the process of the user's service; None if nobody listens."""
    return _place(settings)[0]


def _place(settings: Settings) -> tuple[int | None, Path]:
    """Return the service of the home and its socket.

    It may have been started where the runtime directory is another (cron, su). What it says in its home is believed
    if the kernel says the same.
    """
    with suppress(OSError, ValueError, GanglineError):
        process, path = settings.lock_file.read_bytes().split(b" ", 1)
        told = Path(os.fsdecode(path))
        if told != settings.socket and _listener(told) == int(process):
            return int(process), told
    return _listener(settings.socket), settings.socket


def _listener(path: Path) -> int | None:
    """Return the process that listens on the socket; None for no socket or one that a dead service left behind."""
    if not _HERE:
        return None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except PermissionError as error:
            raise PermissionDeniedError(f"{path} belongs to somebody else") from error
        except OSError as error:
            raise UnreachableError(f"cannot use the socket {path}: {error}") from error
        raw = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(raw)[0])


def ensure_service(settings: Settings, *, say: Callable[[str], None] | None = None) -> str:
    """Return the address of the user's service, starting it first if nobody listens.

    Of several callers at once, one starts it and the others wait for that one.
    """
    _needs_linux()
    if running_process(settings) is None:
        with _starting(settings) as lock:
            if running_process(settings) is None:
                if say is not None:
                    say(f"starting the local service (log: {settings.log_file})")
                start_service(settings, lock)
    return address_of(settings)


def revive_service(settings: Settings, *, say: Callable[[str], None] | None = None) -> None:
    """Start a service that was killed: it has left its socket behind. One that was stopped is left to its user."""
    if settings.socket.exists():
        ensure_service(settings, say=say)


def start_service(settings: Settings, *locks: int) -> int:
    """Start the service and return its process when it answers; raises with the end of its log when it does not.

    It holds the locks until then, so that nobody starts another beside it when whoever started it is killed meanwhile.
    """
    _needs_linux()
    _rotate(settings.log_file)
    begin = settings.log_file.stat().st_size if settings.log_file.exists() else 0
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb", buffering=0) as news, settings.log_file.open("ab") as log:
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "gangline.compose", str(theirs), *map(str, locks)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=settings.home,
                env=_environment(settings),
                start_new_session=True,
                pass_fds=(theirs, *locks),
            )
        finally:
            os.close(theirs)
        if not select.select([news], [], [], START_SECONDS)[0]:
            raise UnreachableError(_failure(settings, f"is not ready after {START_SECONDS:g} s", begin))
        if not news.read(1):
            raise UnreachableError(_failure(settings, f"ended with exit code {process.wait()}", begin))
    # The process goes on without us; Popen would warn about a child that is never waited for.
    process.returncode = 0
    return process.pid


def stop_service(settings: Settings) -> int | None:
    """Ask the service to end and wait until it has; its gangs go on. Returns the process, None if none ran."""
    process = running_process(settings)
    if process is None:
        return None
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return process
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not select.select([handle], [], [], STOP_SECONDS)[0]:
            raise WaitTimeoutError(f"the service (process {process}) still runs after {STOP_SECONDS:g} s")
    except ProcessLookupError:
        pass  # it ended in between, which is what was wanted
    finally:
        os.close(handle)
    return process


def log_tail(path: Path, lines: int = LOG_TAIL_LINES, *, begin: int = 0) -> str:
    """Return the end of a log file; nothing that stands before ``begin``."""
    try:
        with path.open("rb") as file:
            file.seek(max(begin, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


@contextmanager
def _starting(settings: Settings) -> Iterator[int]:
    """Let only one of all starters go on, with the lock's descriptor; the others wait until its service answers."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (settings.home / "start.lock").open("a") as lock:
        import fcntl  # only Unix has it

        deadline = time.monotonic() + 2 * START_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    raise UnreachableError(_failure(settings, "that was started before is not ready yet", 0)) from error
                select.select([], [], [], _LOCK_SECONDS)
        yield lock.fileno()


def _environment(settings: Settings) -> dict[str, str]:
    """The same settings for the service as for us, even where they did not come from the environment."""
    return {
        **os.environ,
        "GANGLINE_HOME": str(settings.home),
        "GANGLINE_RUNTIME_DIRECTORY": str(settings.runtime_directory),
        "GANGLINE_CONFIG": str(settings.config_file),
        "GANGLINE_NODES": str(settings.nodes),
    }


def _failure(settings: Settings, what: str, begin: int) -> str:
    tail = log_tail(settings.log_file, begin=begin)
    shown = f"; its log ends with\n{tail}" if tail else f"; its log is {settings.log_file}"
    return f"the local service {what}{shown}"


def _rotate(log_file: Path) -> None:
    if log_file.exists() and log_file.stat().st_size > _LOG_BYTES:
        log_file.replace(log_file.with_suffix(".log.1"))
