"""Who has logged in to the pages: one-time links, and the sessions that they begin.

A session is remembered here and nowhere else; its browser has a random name for it in a cookie, and we keep a digest of
that. It holds no identity but a way to find it out, asked at every request: who loses a token loses the session.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gangline.model import Clock, Timestamp
from gangline.model.team.access import Identity

Holder = Callable[[], Awaitable[Identity | None]]
"""Says who somebody is by now; None if they are nobody any more."""


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Somebody who is known by a token, which stays in this process."""

    token: str
    recognize: Callable[[str], Awaitable[Identity | None]]

    async def __call__(self) -> Identity | None:
        """Say whose token it is by now."""
        return await self.recognize(self.token)


LINK_SECONDS = 120.0
SESSION_SECONDS = 12 * 3600.0
_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Somebody's visit."""

    holder: Holder
    csrf: str
    """What every form of theirs carries, and no other site can know."""
    expires_at: Timestamp


class Sessions:
    """Links that open once, and the sessions of one service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._links: dict[str, tuple[Holder, Timestamp]] = {}
        self._sessions: dict[str, Session] = {}

    def offer(self, holder: Holder) -> str:
        """Return a code that lets its bearer in, once and soon."""
        now = self._clock.now()
        self._links = {code: link for code, link in self._links.items() if link[1] > now}
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = (holder, Timestamp(now + LINK_SECONDS))
        return code

    def redeem(self, code: str) -> str | None:
        """Begin the session that a code stands for and return its cookie; None if the code is used, old or made up."""
        found = self._links.pop(_digest(code), None)
        if found is None or found[1] <= self._clock.now():
            return None
        return self.begin(found[0])

    def begin(self, holder: Holder) -> str:
        """Begin a session and return its cookie."""
        now = self._clock.now()
        self._sessions = {name: each for name, each in self._sessions.items() if each.expires_at > now}
        while len(self._sessions) >= _MOST:
            self._sessions.pop(next(iter(self._sessions)))
        cookie = secrets.token_urlsafe(32)
        ends = Timestamp(now + SESSION_SECONDS)
        self._sessions[_digest(cookie)] = Session(holder=holder, csrf=secrets.token_urlsafe(32), expires_at=ends)
        return cookie

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie."""
        found = self._sessions.get(_digest(cookie))
        if found is None or found.expires_at <= self._clock.now():
            return None
        return found

    def end(self, cookie: str) -> None:
        """Forget a session; one that is gone already is not an error."""
        self._sessions.pop(_digest(cookie), None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
