"""SQLite: one file, no server. One thread writes; with the write-ahead log readers never wait for it.

``synchronous=NORMAL`` means that a killed process loses nothing it was told is kept, while a power cut may lose
the last moments but never damages the file. ``FULL`` was refused: it costs a disk flush for every change of phase.
"""

import errno
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from gangline.errors import StorageError, StorageFullError
from gangline.storage.sql.database import Database, Parameter, Row, Session
from gangline.storage.sql.reserve import Reserve

_BUSY_SECONDS = 30.0
_SWITCH_ATTEMPTS = 100
_LONG_LOG = "wal_autocheckpoint = 8000"
"""Flushing the log into the file after 32 MB rather than 4 MB doubles the rate of writes."""
_SHORT_LOG = "wal_autocheckpoint = 100"
"""On a full disk the log must not take what little room there is."""
_INCREMENTAL = 2
_SLACK_PAGES = 256
"""So many empty pages, or a tenth of the file, are left for what is written next."""
_TURN_PAGES = 1000
"""How many pages are given back at a time, while all who write wait: some ten milliseconds."""
_PRAGMAS = ("synchronous = NORMAL", "foreign_keys = ON", _LONG_LOG)


class SqliteDatabase:
    """The database in one file, which is made, readable by its owner alone, if it is missing."""

    dialect = "sqlite"
    writers = 1

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reserve = Reserve(path.with_name(f"{path.name}-reserve"))
        self.location = str(path)

    def connect(self) -> Session:
        """Open a new connection."""
        try:
            return self._connect()
        except StorageFullError:
            self._reserve.release()
            return self._connect()

    def _connect(self) -> Session:
        with _translated(self.location):
            # Jobs carry their environment, which may hold secrets; SQLite gives its side files the same mode.
            self._path.touch(mode=0o600)
            # The session is used by one thread, but closed by another after that one has ended.
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                if not self._path.stat().st_size:
                    # Only an empty file takes this without being rebuilt.
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                _use_write_ahead_log(connection)
                for pragma in _PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}")
            except BaseException:
                connection.close()
                raise
        return SqliteSession(connection, self.location, self._reserve)


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch a new file; of connections that do so at once, SQLite tells some at once that the file is locked.

    Those wait as any writer does, for the write lock, and try again.
    """
    for attempt in range(_SWITCH_ATTEMPTS):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # the low byte is the family of the error
            if not busy or attempt == _SWITCH_ATTEMPTS - 1:
                raise
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")


class SqliteSession:
    """One connection to the file."""

    broken = False
    share_lock = ""

    def __init__(self, connection: sqlite3.Connection, location: str, reserve: Reserve) -> None:
        self._connection = connection
        self._location = location
        self._reserve = reserve

    def query(self, sql: str, parameters: Sequence[Parameter] = ()) -> Sequence[Row]:
        """Run one statement and return its rows."""
        with _translated(self._location):
            return self._connection.execute(sql, parameters).fetchall()

    def change(self, sql: str, parameters: Sequence[Parameter] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        with _translated(self._location):
            return self._connection.execute(sql, parameters).rowcount

    def change_many(self, sql: str, rows: Iterable[Sequence[Parameter]]) -> None:
        """Run one statement for each of many rows."""
        with _translated(self._location):
            self._connection.executemany(sql, rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Take the write lock at once, so that nothing read inside can be outdated when it is written back."""
        self.change("BEGIN IMMEDIATE")
        try:
            yield
            self.change("COMMIT")
        except BaseException:
            # A full disk or a failed write may have rolled everything back already.
            if self._connection.in_transaction:
                self.change("ROLLBACK")
            raise
        if self._reserve.keep():
            self.query(f"PRAGMA {_LONG_LOG}")

    def lock_schema(self) -> None:
        """The write lock of the transaction is enough."""

    def make_room(self) -> None:
        """Let go of the reserve, and have the next changes go where the log of earlier ones was."""
        self._reserve.release()
        with suppress(StorageError):
            self.query(f"PRAGMA {_SHORT_LOG}")
            self.query("PRAGMA wal_checkpoint(RESTART)")

    def give_back(self) -> bool:
        """Give some of the pages that deleted rows left back to the disk; True if there are more."""
        empty, pages = self._number("freelist_count"), self._number("page_count")
        if empty <= max(_SLACK_PAGES, pages // 10):
            return False
        if self._number("auto_vacuum") == _INCREMENTAL:
            with _translated(self._location):
                # A statement without columns is stepped through by a script alone, and each step frees one page.
                self._connection.executescript(f"PRAGMA incremental_vacuum({_TURN_PAGES})")
        elif empty > pages // 2:
            # A file of an earlier version, which is rebuilt once little is left in it: that takes its time.
            self.query("PRAGMA auto_vacuum = INCREMENTAL")
            self.query("VACUUM")
        # The file becomes shorter when the log is written into it, as far as readers allow.
        self.query("PRAGMA wal_checkpoint(PASSIVE)")
        return self._number("freelist_count") < empty

    def _number(self, pragma: str) -> int:
        return int(self.query(f"PRAGMA {pragma}")[0][0])

    def close(self) -> None:
        """Close the file."""
        with _translated(self._location):
            self._connection.close()


@contextmanager
def _translated(location: str) -> Iterator[None]:
    """Name the file in every failure. Numbers and texts that SQLite cannot hold fail before they reach it."""
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
        if _tells_of_a_full_disk(error):
            hint = "delete jobs (gangline prune --older-than 0s deletes all that are finished)"
            raise StorageFullError(f"{location}: the disk is full; {hint}") from error
        raise StorageError(f"{location}: {error}") from error


def _tells_of_a_full_disk(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


_conforms: type[Database] = SqliteDatabase
