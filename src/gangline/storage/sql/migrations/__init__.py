"""Numbered changes of the schema: one folder of plain SQL per dialect, applied once, in order.

A file is named ``NNNN_what.sql``. Its statements end with a semicolon at the end of a line. A file that has been
released is never edited; the next change is the next number, in both folders.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from gangline.errors import StorageError
from gangline.storage.sql.database import Database, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered change."""

    number: int
    name: str
    script: str

    def statements(self) -> Iterator[str]:
        """Split the script: drivers run one statement at a time inside a transaction."""
        lines = (line.rstrip() for line in self.script.splitlines() if not line.startswith("--"))
        return filter(str.strip, "\n".join((*lines, "")).split(";\n"))


def migrations_of(dialect: str) -> tuple[Migration, ...]:
    """Return every migration of a dialect, in order."""
    folder = files(__name__).joinpath(dialect)
    found = (
        Migration(number=int(file.name[:4]), name=file.name.removesuffix(".sql"), script=file.read_text())
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    )
    return tuple(sorted(found, key=lambda migration: migration.number))


def migrate(session: Session, database: Database) -> None:
    """Bring the schema up to date, inside the caller's transaction; raises StorageError if it is too new."""
    session.lock_schema()
    session.change("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL)")
    rows = session.query("SELECT MAX(number) FROM migrations")
    present = rows[0][0] or 0
    known = migrations_of(database.dialect)
    if present > known[-1].number:
        raise StorageError(
            f"{database.location}: made by a newer Gangline (schema {present}, this one knows {known[-1].number}); "
            "upgrade Gangline to open it"
        )
    for migration in known[present:]:
        for statement in migration.statements():
            session.change(statement)
        session.change("INSERT INTO migrations (number, name) VALUES (?, ?)", (migration.number, migration.name))
