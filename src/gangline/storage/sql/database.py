"""The seam between the SQL store and a kind of database: all that differs from one to the other."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Parameter = str | int | float | None
Row = tuple[Any, ...]
"""What a driver returns; the function that wrote the SELECT knows the types."""


class Session(Protocol):
    """One connection, used by one thread. A parameter is written ``?`` in SQL. Every failure is a StorageError."""

    @property
    def broken(self) -> bool:
        """Whether the connection is lost, so that a new one must be made."""
        ...

    @property
    def share_lock(self) -> str:
        """What is added to a SELECT so that the rows it returns cannot be deleted before the transaction ends."""
        ...

    def query(self, sql: str, parameters: Sequence[Parameter] = ()) -> Sequence[Row]:
        """Run one statement and return its rows."""
        ...

    def change(self, sql: str, parameters: Sequence[Parameter] = ()) -> int:
        """Run one statement and return how many rows it changed."""
        ...

    def change_many(self, sql: str, rows: Iterable[Sequence[Parameter]]) -> None:
        """Run one statement for each of many rows."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Make what happens inside all or nothing. The first write inside waits for other writers of the same row."""
        ...

    def lock_schema(self) -> None:
        """Keep other processes from migrating until the transaction ends."""
        ...

    def make_room(self) -> None:
        """Give up room that was set aside, after a StorageFullError and before one more try."""
        ...

    def give_back(self) -> bool:
        """Give a part of the room that deleted rows left back to the disk, outside a transaction; True if more is left.

        A call is short, for nobody else writes meanwhile.
        """
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class Database(Protocol):
    """Makes sessions."""

    @property
    def dialect(self) -> str:
        """The folder of its migrations."""
        ...

    @property
    def location(self) -> str:
        """Where the database is, for error messages: no password."""
        ...

    @property
    def writers(self) -> int:
        """How many threads may write at once."""
        ...

    def connect(self) -> Session:
        """Open a new connection."""
        ...
