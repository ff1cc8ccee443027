"""Queues as rows. Every function runs in a thread that owns the session; writes, in a transaction."""

from gangline.model import Queue
from gangline.storage.codec import QUEUES
from gangline.storage.sql.database import Session

_INSERT = "INSERT INTO queues (name, document) VALUES (?, ?)"


def read(session: Session) -> tuple[Queue, ...]:
    """Read all queues by name."""
    return tuple(QUEUES.decode(row[0]) for row in session.query("SELECT document FROM queues ORDER BY name"))


def add_missing(session: Session, queue: Queue) -> None:
    """Insert a queue unless there is one of that name."""
    session.change(f"{_INSERT} ON CONFLICT DO NOTHING", (queue.name, QUEUES.encode(queue)))


def save(session: Session, queue: Queue) -> None:
    """Insert a queue or replace the one of that name."""
    session.change(
        f"{_INSERT} ON CONFLICT (name) DO UPDATE SET document = excluded.document", (queue.name, QUEUES.encode(queue))
    )
