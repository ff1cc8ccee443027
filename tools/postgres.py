"""A real PostgreSQL server for tests: one per test process, one database per test.

It listens on a socket in a temporary directory only and gives up durability for speed. PostgreSQL refuses to run as
root, so a root user's server runs as an unprivileged account.
"""

import atexit
import functools
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import apt, debian

_DEADLINE_SECONDS = 60.0
_OPTIONS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_connections": "100",
    "dynamic_shared_memory_type": "mmap",  # in its own directory: a server that is killed leaves nothing elsewhere
}


def postgres_server() -> "PostgresServer":
    """Return this process's server, started at the first call and stopped when the process ends.

    Skips the calling test, visibly, when there is no PostgreSQL and it cannot be installed; on CI that is a failure.
    """
    return _start(_programs_or_refuse())


def _programs_or_refuse() -> Path:
    programs = _programs()
    if programs is None:
        debian.refuse("no PostgreSQL server here: install Debian's package 'postgresql', or put initdb on PATH")
    return programs


def stop_server() -> None:
    """End this process's server, if it has one."""
    if _start.cache_info().currsize:
        server = postgres_server()
        _start.cache_clear()
        server.stop()


@contextmanager
def own_server() -> "Iterator[PostgresServer]":
    """Return a server that nobody else uses, so that it can be stopped and started again."""
    server = _start.__wrapped__(_programs_or_refuse())
    try:
        yield server
    finally:
        server.stop()


@dataclass(slots=True, kw_only=True)
class PostgresServer:
    """A running server."""

    process: "subprocess.Popen[bytes]"
    directory: Path
    programs: Path
    numbers: "itertools.count[int]"

    def restart(self) -> None:
        """Stop it as an administrator would, ending all connections, and start it again."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(_DEADLINE_SECONDS)
        self.process = _launch(self.programs, self.directory)
        _wait_until_ready(self)

    def address(self, database: str = "postgres") -> str:
        """Return the address of one of its databases."""
        return f"postgresql:///{database}?host={self.directory}&user=gangline"

    def create_database(self) -> str:
        """Make an empty database and return its address."""
        import psycopg

        name = f"test_{next(self.numbers)}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.address(name)

    def stop(self) -> None:
        """End the server at once and remove its files."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(_DEADLINE_SECONDS)
        shutil.rmtree(self.directory)


@functools.cache
def _programs() -> Path | None:
    """Return the directory of initdb and postgres, installing them where that is allowed."""
    found = _installed()
    if found is None and not apt.install(["postgresql"]):
        found = _installed()
    return found


def _installed() -> Path | None:
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).parent
    by_version = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(by_version, key=lambda path: float(path.parts[-3]), default=None)
    return newest.parent if newest else None


@functools.cache
def _start(programs: Path) -> PostgresServer:
    # A socket's path may have only 107 bytes: the system's temporary directory is short, a test's own is not.
    directory = Path(tempfile.mkdtemp(prefix="gangline-postgres-"))
    account = _account()
    if account:
        shutil.chown(directory, account["user"], account["group"])
    data = directory / "data"
    initdb = f"{programs}/initdb --username gangline --auth trust --no-sync --encoding UTF8 --locale C --pgdata"
    subprocess.run([*initdb.split(), data], check=True, stdout=subprocess.DEVNULL, **account)
    process = _launch(programs, directory)
    server = PostgresServer(process=process, directory=directory, programs=programs, numbers=itertools.count(1))
    atexit.register(stop_server)
    try:
        _wait_until_ready(server)
    except RuntimeError:
        server.stop()
        raise
    return server


def _launch(programs: Path, directory: Path) -> "subprocess.Popen[bytes]":
    options = [f"--{name}={value}" for name, value in _OPTIONS.items()]
    with (directory / "log").open("ab") as log:
        return subprocess.Popen(
            [programs / "postgres", "-D", directory / "data", f"--unix_socket_directories={directory}", *options],
            stdout=log,
            stderr=log,
            cwd=directory,
            **_account(),
        )


def _account() -> Mapping[str, Any]:
    """Return the arguments that make a child process run as somebody else, if this one runs as root."""
    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _wait_until_ready(server: PostgresServer) -> None:
    import psycopg

    deadline = time.monotonic() + _DEADLINE_SECONDS
    while True:
        try:
            psycopg.connect(server.address()).close()
        except psycopg.OperationalError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((server.directory / "log").read_text()) from None
            time.sleep(0.02)
        else:
            return
