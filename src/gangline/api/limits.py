"""How much one person may ask of a team's service at a time, so that the others are served as well."""

from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Middleware

from gangline.api.identity import account_of
from gangline.api.operation import IDENTITY, Handler
from gangline.errors import TooManyRequestsError
from gangline.model import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Requests of one person: per second in the long run, in one burst, and under way at once (streams included)."""

    per_second: float = 50.0
    burst: int = 300
    at_once: int = 100

    @classmethod
    def of(cls, per_second: int, at_once: int) -> "Limits":
        """Make limits of two numbers; a burst is six seconds' worth."""
        return cls(per_second=per_second, burst=6 * per_second, at_once=at_once)


@dataclass(slots=True)
class _Account:
    tokens: float
    at: float
    running: int = 0


class Limiter:
    """Counts what each person asks for: a bucket that fills by and by, and what is under way."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._accounts: dict[str, _Account] = {}

    def enter(self, who: str, now: float) -> None:
        """Let a request in, or raise TooManyRequestsError."""
        limits = self._limits
        account = self._accounts.setdefault(who, _Account(tokens=limits.burst, at=now))
        filled = account.tokens + max(now - account.at, 0.0) * limits.per_second
        account.tokens, account.at = min(filled, float(limits.burst)), now
        if account.running >= limits.at_once:
            raise TooManyRequestsError(f"{limits.at_once} requests of yours are under way; wait for one to end")
        if account.tokens < 1:
            raise TooManyRequestsError(f"more than {limits.per_second:g} requests a second; ask again in a second")
        account.tokens -= 1
        account.running += 1

    def leave(self, who: str) -> None:
        """Note that a request has ended; whoever has nothing under way and a full bucket is forgotten in time."""
        self._accounts[who].running -= 1
        if len(self._accounts) > _MOST_ACCOUNTS:
            self._accounts = {name: each for name, each in self._accounts.items() if each.running}


_MOST_ACCOUNTS = 10_000


def limiting(limiter: Limiter, clock: Clock) -> Middleware:
    """Make the check; it stands behind the one that finds out who asks."""

    @web.middleware
    async def limit(request: web.Request, handler: Handler) -> web.StreamResponse:
        identity = request.get(IDENTITY)
        if identity is None or request.app is not request.match_info.apps[-1]:
            return await handler(request)
        account = account_of(identity)
        limiter.enter(account, clock.now())
        try:
            return await handler(request)
        finally:
            limiter.leave(account)

    return limit
