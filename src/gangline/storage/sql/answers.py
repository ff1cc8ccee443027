"""Answers by the key of their request as rows."""

from gangline.storage.answers import KeptAnswer, KeptAnswers, may_take_over
from gangline.storage.codec import Codec
from gangline.storage.sql.database import Session
from gangline.storage.sql.threads import SessionThreads

_CODEC = Codec(KeptAnswer)


class SqlAnswers:
    """Keeps answers in a table of their own."""

    def __init__(self, threads: SessionThreads) -> None:
        self._threads = threads

    async def begin(self, wanted: KeptAnswer, *, since: float) -> KeptAnswer | None:
        """Take a key; see KeptAnswers."""
        return await self._threads.write(_begin, wanted, since)

    async def finish(self, answer: KeptAnswer) -> None:
        """Keep an answer; see KeptAnswers."""
        await self._threads.write(_finish, answer)

    async def give_up(self, who: str, key: str) -> None:
        """Let a key go; see KeptAnswers."""
        await self._threads.write(_give_up, who, key)


def _begin(session: Session, wanted: KeptAnswer, since: float) -> KeptAnswer | None:
    """Insert the row, or take it over if it still is as it was read; of two at once, one does."""
    session.change("DELETE FROM answers WHERE began_at < ?", (since,))
    place, text = (wanted.who, wanted.key), _CODEC.encode(wanted)
    taken = "INSERT INTO answers (who, request_key, began_at, document) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    if session.change(taken, (*place, wanted.at, text)):
        return None
    rows = session.query("SELECT document FROM answers WHERE who = ? AND request_key = ?", place)
    if not rows:
        return wanted  # let go at this very moment: whoever asks again has it
    known = _CODEC.decode(rows[0][0])
    taken_over = "UPDATE answers SET began_at = ?, document = ? WHERE who = ? AND request_key = ? AND document = ?"
    if may_take_over(known, wanted) and session.change(taken_over, (wanted.at, text, *place, rows[0][0])):
        return None
    return known


def _finish(session: Session, answer: KeptAnswer) -> None:
    place = (answer.who, answer.key)
    session.change("UPDATE answers SET document = ? WHERE who = ? AND request_key = ?", (_CODEC.encode(answer), *place))


def _give_up(session: Session, who: str, key: str) -> None:
    session.change("DELETE FROM answers WHERE who = ? AND request_key = ?", (who, key))


_conforms: type[KeptAnswers] = SqlAnswers
