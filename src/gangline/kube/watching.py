"""Following a collection for as long as it takes, without losing a change.

``reflect`` is the one way Gangline learns of changes in a cluster. It lists, then watches; a watch that ends is
resumed where it stopped, and where the server no longer keeps that point, it lists again and works out what was
deleted meanwhile.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

import msgspec

from gangline.kube import requests
from gangline.kube.errors import ApiError, GoneError, UnreachableError, error_from_answer
from gangline.kube.objects import AnyObject, ListMetadata, Object, ObjectList, Partial
from gangline.kube.resources import Resource
from gangline.kube.transport import Transport
from gangline.model import Backoff

_log = logging.getLogger(__name__)
_Held = TypeVar("_Held", bound=Object)


@dataclass(frozen=True, slots=True)
class Applied(Generic[_Held]):
    """The object exists and looks like this now."""

    object: _Held


@dataclass(frozen=True, slots=True)
class Deleted(Generic[_Held]):
    """The object is gone; this is the last that was seen of it."""

    object: _Held


@dataclass(frozen=True, slots=True)
class Synced:
    """Everything that existed when the list was taken has been told; comes after every list."""


Change: TypeAlias = Applied[_Held] | Deleted[_Held] | Synced
"""What ``KubeClient.reflect`` yields."""


class _WireChange(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(Partial, frozen=True):
    metadata: ListMetadata = ListMetadata()


_change_decoder = msgspec.json.Decoder(_WireChange)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)


class Reflection(Generic[AnyObject]):
    """What is known of a collection, and the changes that bring it up to date. Pure: it does no I/O.

    It remembers the last form of every object, because a list after a gap does not say what was deleted, and a
    caller needs more of a deleted object than its name.
    """

    def __init__(self, resource: Resource[AnyObject]) -> None:
        self._resource = resource
        self._known: dict[tuple[str, str], AnyObject] = {}
        self.resource_version = ""

    def listed(self, answer: ObjectList[AnyObject], *, anew: bool = False) -> list[Change[AnyObject]]:
        """Take in a full list and return the changes since what was known; ``anew``, all that exists as well."""
        before, self._known = self._known, {_key(item): item for item in answer.items or ()}
        self.resource_version = answer.metadata.resource_version
        changes: list[Change[AnyObject]] = []
        for key, old in before.items():
            new = self._known.get(key)
            if new is None or new.metadata.uid != old.metadata.uid:
                changes.append(Deleted(old))
        for key, new in self._known.items():
            known = before.get(key)
            if anew or known is None or known.metadata.resource_version != new.metadata.resource_version:
                changes.append(Applied(new))
        changes.append(Synced())
        return changes

    def changed(self, line: bytes) -> Applied[AnyObject] | Deleted[AnyObject] | None:
        """Take in one line of a watch; None is a bookmark. Raises what an ERROR line stands for."""
        wire = _change_decoder.decode(line)
        if wire.type == "BOOKMARK":
            self.resource_version = _bookmark_decoder.decode(wire.object).metadata.resource_version
            return None
        if wire.type == "ERROR":
            raise error_from_answer(0, bytes(wire.object))
        item = self._resource.decode(bytes(wire.object))
        self.resource_version = item.metadata.resource_version
        if wire.type == "DELETED":
            self._known.pop(_key(item), None)
            return Deleted(item)
        self._known[_key(item)] = item
        return Applied(item)


def _key(item: Object) -> tuple[str, str]:
    return item.metadata.namespace, item.metadata.name


class Follower(Generic[AnyObject]):
    """Drives one ``Reflection``: lists, watches, waits and begins again. Made by ``KubeClient.reflect``."""

    def __init__(
        self,
        resource: Resource[AnyObject],
        transport: Transport,
        take_list: Callable[[], Awaitable[ObjectList[AnyObject]]],
        *,
        namespace: str | None,
        labels: str | None,
        fields: str | None,
        randomness: random.Random,
        reflection: Reflection[AnyObject] | None = None,
    ) -> None:
        self._resource = resource
        self._transport = transport
        self._take_list = take_list
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._randomness = randomness
        # Short, because the controller must see a cluster that came back within seconds.
        self._backoff = Backoff(first_seconds=0.05, longest_seconds=1.0)
        self._reflection = reflection or Reflection(resource)

    async def changes(self) -> AsyncGenerator[Change[AnyObject], None]:
        """Yield changes forever.

        Until the first list is through, a refusal is raised: the caller asked for something it cannot have. Later
        ones are waited out, because a server that restarts refuses for a moment what it allowed before. An object that
        cannot be read is raised at any time: it would come again forever.
        """
        for change in self._reflection.listed(await self._take_list(), anew=True):
            yield change
        failures = 0
        stale = False
        while True:
            try:
                if stale:
                    for change in self._reflection.listed(await self._take_list()):
                        yield change
                    stale = False
                async with aclosing(self._watch()) as watch:
                    async for watched in watch:
                        failures = 0
                        if watched is not None:
                            yield watched
            except (ApiError, UnreachableError, msgspec.DecodeError) as error:
                stale = stale or isinstance(error, GoneError)
                _log.warning("watch of %s interrupted: %s", self._resource.plural, error)
            failures += 1
            # Also after a watch that ended in order: a server that ends every one at once must not be hammered.
            await asyncio.sleep(self._backoff.pause(failures) * self._randomness.uniform(0.5, 1))

    async def _watch(self) -> AsyncGenerator[Applied[AnyObject] | Deleted[AnyObject] | None, None]:
        # Watches of many clients must not all end at once; the server ends ours after this time.
        timeout = self._randomness.randint(240, 480)
        request = requests.watch(
            self._resource,
            namespace=self._namespace,
            labels=self._labels,
            fields=self._fields,
            resource_version=self._reflection.resource_version,
            timeout_seconds=timeout,
        )
        async with (
            self._transport.stream(request, quiet_seconds=timeout + 15) as chunks,
            aclosing(lines(chunks)) as cut,
        ):
            async for line in cut:
                yield self._reflection.changed(line)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Cut a stream into lines of any length, without their ends; a last line without one is kept."""
    rest: list[bytes] = []
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        for other in others:
            yield b"".join(rest)
            rest = [other]
    if last := b"".join(rest):
        yield last


_LONGEST_LOG_LINE = 128 * 1024


async def log_lines(
    chunks: AsyncIterator[bytes], *, stamped: bool, longest: int = _LONGEST_LOG_LINE
) -> AsyncGenerator[bytes, None]:
    """Cut what a program wrote into lines; a longer one comes in pieces, each with the time that the line has.

    A progress bar is one line for as long as its program runs: nobody may have to hold all of it, or wait for its end.
    """
    rest = bytearray()
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        for number, part in enumerate((first, *others)):
            if number:
                yield bytes(rest)
                rest.clear()
            rest += part
            while len(rest) > longest:
                piece = rest[: _character_end(rest, longest)]
                yield bytes(piece)
                stamp = bytes(piece[: piece.find(b" ") + 1]) if stamped else b""
                rest = bytearray(stamp) + rest[len(piece) :]
    if rest:
        yield bytes(rest)


def _character_end(text: bytearray, most: int) -> int:
    """The last position up to ``most`` that tears no UTF-8 character apart; of what is not text, any will do."""
    return next((at for at in range(most, most - 4, -1) if text[at] & 0xC0 != 0x80), most)
