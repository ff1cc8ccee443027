"""What was asked of the repository of a server while it runs, known to all of its workers.

A request to load or unload a model reaches one worker. It is noted in a file that all of them, and their replacements,
follow; whoever asked is answered when every worker has done it.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gangline.serve.errors import ServeError
from gangline.serve.repository import Repository

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0
"""How long the other workers are waited for."""


class _Wish(msgspec.Struct, frozen=True):
    number: int
    loaded: bool


class Agreement:
    """One worker's part in it. To be used from one event loop."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        """``folder`` is the workers' own."""
        self._repository = repository
        self._file = folder / "repository"
        self._mine = folder / f"{os.getpid()}.done"
        self._done = 0
        self._turn = asyncio.Lock()

    async def begin(self) -> None:
        """Load what a new worker should have."""
        self._note_done(0)  # who asks meanwhile waits for this one, too
        async with self._turn:
            wishes = self._wishes()
            known = self._repository.names()
            await self._repository.load_all(without=[name for name in known if name in wishes])
        await self._catch_up()

    async def follow(self) -> None:
        """Do what other workers were asked for, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._catch_up()

    async def ask(self, name: str, *, loaded: bool) -> None:
        """Load or unload a model in all workers."""
        if not loaded:
            self._repository.versions(name)  # which raises, if there is none
        with self._locked():
            wishes = self._wishes()
            number = 1 + max((wish.number for wish in wishes.values()), default=0)
            draft = self._file.with_suffix(".new")
            draft.write_bytes(msgspec.json.encode({**wishes, name: _Wish(number, loaded)}))
            draft.replace(self._file)
        failure = (await self._catch_up()).get(name)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._others_behind(number):  # noqa: ASYNC110  # they are other processes
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise ServeError(f"not all workers have followed within {_PATIENCE_SECONDS:g} s") from None
        if failure is not None:
            raise failure

    async def _catch_up(self) -> dict[str, ServeError]:
        """Do what is new; returns what failed, by model."""
        failures = {}
        async with self._turn:
            wishes = self._wishes().items()
            new = sorted((wish.number, name, wish.loaded) for name, wish in wishes if wish.number > self._done)
            for number, name, loaded in new:
                try:
                    if loaded:
                        await self._repository.load(name)
                    else:
                        self._repository.unload(name)
                except ServeError as error:
                    failures[name] = error
                    _log.error("%s", error)
                self._note_done(number)
        return failures

    def _wishes(self) -> dict[str, _Wish]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, _Wish])
        except FileNotFoundError:
            return {}

    def _note_done(self, number: int) -> None:
        self._done = number
        draft = self._mine.with_suffix(".new-done")
        draft.write_text(str(number))
        draft.replace(self._mine)

    def _others_behind(self, number: int) -> bool:
        return any(
            Path(f"/proc/{file.stem}").exists() and int(file.read_text()) < number
            for file in self._file.parent.glob("*.done")
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
