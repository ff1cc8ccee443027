"""PostgreSQL, through psycopg 3 (the extra ``postgres``).

The same thread design as for SQLite serves it, so that the store is written once; several threads write, because
the server makes commits that arrive together durable together.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from gangline.errors import StorageError
from gangline.storage.sql.database import Database, Parameter, Row, Session

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.string import StrDumperUnknown
except ImportError as error:
    raise StorageError("the PostgreSQL store needs psycopg: pip install 'gangline[postgres]'") from error

_SCHEMA_LOCK = 7_263_548_019_452
"""Any number that no other program in the same database uses for its advisory locks."""

_SETTINGS = (
    # Every statement here is answered in milliseconds; compiling it, or starting helpers for it, takes longer.
    b"SET jit = off",
    b"SET max_parallel_workers_per_gather = 0",
    # What is rare and what is common depends on the values: a plan made without them scans three times as long.
    b"SET plan_cache_mode = force_custom_plan",
)


class PostgresDatabase:
    """One database of a server."""

    dialect = "postgresql"
    writers = 4

    def __init__(self, address: str) -> None:
        self._address = address
        with _translated("PostgreSQL"):
            known = conninfo_to_dict(address)
        self.location = f"PostgreSQL database '{known.get('dbname', '')}' at {known.get('host', 'the default host')}"

    def connect(self) -> Session:
        """Open a new connection."""
        with _translated(self.location):
            connection = psycopg.connect(
                self._address, autocommit=True, connect_timeout=10, application_name="gangline"
            )
            connection.adapters.register_dumper(str, _TextDumper)
            for setting in _SETTINGS:
                connection.execute(setting)
        return PostgresSession(connection, self.location)


class PostgresSession:
    """One connection to the server."""

    share_lock = " FOR KEY SHARE"

    def __init__(self, connection: "psycopg.Connection[Row]", location: str) -> None:
        self._connection = connection
        self._location = location

    @property
    def broken(self) -> bool:
        """Whether the server or the network ended the connection."""
        return self._connection.closed

    def query(self, sql: str, parameters: Sequence[Parameter] = ()) -> Sequence[Row]:
        """Run one statement and return its rows."""
        with _translated(self._location):
            return self._connection.execute(_percent_style(sql), parameters).fetchall()

    def change(self, sql: str, parameters: Sequence[Parameter] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        with _translated(self._location):
            return self._connection.execute(_percent_style(sql), parameters).rowcount

    def change_many(self, sql: str, rows: Iterable[Sequence[Parameter]]) -> None:
        """Run one statement for each of many rows; the driver sends them without waiting for each answer."""
        with _translated(self._location), self._connection.cursor() as cursor:
            cursor.executemany(_percent_style(sql), rows)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make what happens inside all or nothing."""
        with _translated(self._location), self._connection.transaction():
            yield

    def lock_schema(self) -> None:
        """Wait for the lock that every Gangline takes before it migrates."""
        self.query("SELECT pg_advisory_xact_lock(?)", (_SCHEMA_LOCK,))

    def make_room(self) -> None:
        """Whoever runs the server looks after its disk."""

    def give_back(self) -> bool:
        """The server does so by itself."""
        return False

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class _TextDumper(StrDumperUnknown):
    """PostgreSQL's texts cannot hold the character NUL. Documents write it as an escape; elsewhere it is replaced."""

    def dump(self, obj: str) -> Any:
        return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}"))


@lru_cache(maxsize=512)
def _percent_style(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


@contextmanager
def _translated(location: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.Error, UnicodeError) as error:
        raise StorageError(f"{location}: {error}") from error


_conforms: type[Database] = PostgresDatabase
