"""Keeping answers by the key of their request, so that a request that is repeated is not done again."""

from dataclasses import dataclass, replace
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """What is known of the request with a key: whose it is, what it asks for, and what was answered."""

    who: str
    key: str
    at: float
    """When it began."""
    until: float
    """Until when whoever handles it has it to themselves; while it lasts, this is moved on."""
    digest: str = ""
    """Of the whole request; of one whose body is a stream it is known at the end."""
    status: int | None = None
    """None as long as there is no answer."""
    content_type: str = ""
    body: str | None = None
    """None if it is not kept: it is large, or a secret."""


class KeptAnswers(Protocol):
    """Answers by person and key. Whoever shares the database shares them."""

    async def begin(self, wanted: KeptAnswer, *, since: float) -> KeptAnswer | None:
        """Take a key, and return None; or return what is known of the request that has it.

        A request that began before ``since`` is forgotten. One without an answer whose time is over was given up by
        whoever handled it, and is taken over if it has the same digest.
        """
        ...

    async def finish(self, answer: KeptAnswer) -> None:
        """Keep the answer, or what else has become known."""
        ...

    async def give_up(self, who: str, key: str) -> None:
        """Let the key be used anew: nothing was done."""
        ...


class MemoryAnswers:
    """Keeps answers as long as the process lives."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], KeptAnswer] = {}

    async def begin(self, wanted: KeptAnswer, *, since: float) -> KeptAnswer | None:
        """Take a key; see KeptAnswers."""
        self._kept = {place: each for place, each in self._kept.items() if each.at >= since}
        known = self._kept.get((wanted.who, wanted.key))
        if known is None or may_take_over(known, wanted):
            self._kept[wanted.who, wanted.key] = wanted
            return None
        return known

    async def finish(self, answer: KeptAnswer) -> None:
        """Keep an answer; see KeptAnswers."""
        self._kept[answer.who, answer.key] = replace(answer)

    async def give_up(self, who: str, key: str) -> None:
        """Let a key go; see KeptAnswers."""
        self._kept.pop((who, key), None)


def may_take_over(known: KeptAnswer, wanted: KeptAnswer) -> bool:
    """Whether a request was given up by whoever handled it, and is the same."""
    return known.status is None and known.until <= wanted.at and known.digest == wanted.digest


_conforms: type[KeptAnswers] = MemoryAnswers
