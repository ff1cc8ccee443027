"""The models of one server: several, each with versions, loaded and unloaded while it runs."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gangline.serve.batching import Batcher, BatchSettings
from gangline.serve.counters import Counters, VersionCounters
from gangline.serve.errors import LoadError, NotReadyError, UnknownModelError
from gangline.serve.handlers import Arrays, LoadedModel, load_model
from gangline.serve.request_log import RequestLog
from gangline.serve.tensors import Array, check_against

_log = logging.getLogger(__name__)
LATEST = ""


class State(StrEnum):
    """Where a version of a model is."""

    LOADING = "LOADING"
    READY = "READY"
    UNAVAILABLE = "UNAVAILABLE"


@dataclass(slots=True, eq=False)
class Version:
    """One version of one model."""

    name: str
    version: str
    folder: Path
    counters: VersionCounters
    state: State = State.UNAVAILABLE
    reason: str = "unloaded"
    model: LoadedModel | None = None
    batcher: Batcher | None = None
    log: RequestLog | None = None

    def loaded(self) -> LoadedModel:
        """Return the model if it can answer."""
        if self.model is None:
            raise NotReadyError(f"model {self.name!r} version {self.version} is not ready: {self.reason}")
        return self.model

    async def ask(self, inputs: Arrays, request_id: str = "") -> dict[str, Array]:
        """Answer one request."""
        model, batcher = self.loaded(), self.batcher
        assert batcher is not None
        if model.inputs:
            check_against(inputs, model.inputs)
        if self.log is None or not self.log.chosen():
            return await batcher.ask(inputs)
        about = {"id": request_id, "model": self.name, "version": self.version}
        return await self.log.recorded(about, inputs, lambda: batcher.ask(inputs))


class Repository:
    """Finds models by name and version. To be used from one event loop."""

    def __init__(
        self,
        models: Mapping[str, Path],
        settings: BatchSettings,
        counters: Counters,
        log: RequestLog | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        """``folder`` is where models are found that are asked for by name and were not there at the beginning."""
        self._folders = dict(models)
        self._folder = folder
        self._settings = settings
        self._counters = counters
        self._log = log
        self._versions = {
            name: {
                number: self._version(name, number, place, State.LOADING, "loading")
                for number, place in _version_folders(folder).items()
            }
            for name, folder in models.items()
        }

    def _version(
        self, name: str, number: str, folder: Path, state: State = State.UNAVAILABLE, reason: str = "unloaded"
    ) -> Version:
        return Version(name, number, folder, self._counters.of(name, number), state, reason, log=self._log)

    def __iter__(self) -> Iterator[Version]:
        return (version for versions in self._versions.values() for version in versions.values())

    @property
    def ready(self) -> bool:
        """Whether every version that should answer can."""
        return all(version.state is State.READY for version in self if version.reason != "unloaded")

    @property
    def stuck(self) -> bool:
        """Whether a model has not come back in time."""
        return any(version.batcher is not None and version.batcher.stuck for version in self)

    def names(self) -> list[str]:
        """The names of all models."""
        return list(self._folders)

    def versions(self, name: str) -> list[str]:
        """The versions of a model, oldest first."""
        return sorted(self._of(name), key=_age)

    def find(self, name: str, version: str = LATEST) -> Version:
        """Return a version, the newest one that is ready if none is named."""
        found = self._of(name)
        if not version and len(found) == 1:
            return next(iter(found.values()))
        if version:
            if version not in found:
                raise UnknownModelError(f"model {name!r} has no version {version}; it has {', '.join(found)}")
            return found[version]
        ready = [version for version in found.values() if version.state is State.READY]
        return max(ready or found.values(), key=lambda each: _age(each.version))

    def _of(self, name: str) -> dict[str, Version]:
        if name not in self._versions:
            known = ", ".join(self._folders) or "none"
            raise UnknownModelError(f"there is no model {name!r}; there are: {known}")
        return self._versions[name]

    async def load_all(self, without: Collection[str] = ()) -> None:
        """Load every model but some; those that cannot be loaded say why and leave the others alone."""
        for name in without:
            if name in self._versions:
                self.unload(name)
        for name in [each for each in self._folders if each not in without]:
            try:
                await self.load(name)
            except LoadError as error:
                _log.error("%s", error)  # whoever waits for it to become ready looks here

    async def load(self, name: str) -> None:
        """Load a model anew: what is ready answers until its successor is."""
        if name not in self._folders:
            self._folders[name] = self._found(name)
        try:
            folders = await asyncio.to_thread(_version_folders, self._folders[name])
        except OSError as error:
            raise LoadError(f"model {name!r} cannot be read: {error.strerror}") from error
        old, new = self._versions.get(name, {}), {}
        for number, folder in folders.items():
            new[number] = old.get(number) or self._version(name, number, folder)
        self._versions[name] = new
        for number, version in old.items():
            if number not in new:
                _drop(version, "removed")
        failures = [failure for version in new.values() if (failure := await self._load_version(version))]
        if failures:
            raise LoadError(f"model {name!r}: {failures[0]}")

    def _found(self, name: str) -> Path:
        """Return the directory of a model that has come since; a name is never a path."""
        if self._folder is None or name in ("", ".", "..") or "/" in name or not (self._folder / name).is_dir():
            raise UnknownModelError(f"there is no model {name!r} in the repository")
        return self._folder / name

    async def _load_version(self, version: Version) -> LoadError | None:
        if version.state is not State.READY:
            version.state, version.reason = State.LOADING, "loading"
        try:
            model = await asyncio.to_thread(load_model, version.folder)
        except LoadError as error:
            if version.model is None:
                version.state, version.reason = State.UNAVAILABLE, str(error)
            return error
        old = version.batcher
        version.model = model
        version.batcher = Batcher(model, self._settings, version.counters.ran)
        version.state, version.reason = State.READY, ""
        if old is not None:
            old.close()
        return None

    def unload(self, name: str) -> None:
        """Forget a model's weights; it can be loaded again."""
        for version in self._of(name).values():
            _drop(version, "unloaded")

    def close(self) -> None:
        """End all threads."""
        for version in self:
            _drop(version, "closed")


def _drop(version: Version, reason: str) -> None:
    if version.batcher is not None:
        version.batcher.close()
    version.model = version.batcher = None
    version.state, version.reason = State.UNAVAILABLE, reason


def _version_folders(folder: Path) -> dict[str, Path]:
    """Folders named by numbers are versions; a folder without any is version 1 itself."""
    found = {item.name: item for item in folder.iterdir() if item.is_dir() and item.name.isdecimal()}
    return {name: found[name] for name in sorted(found, key=_age)} or {"1": folder}


def _age(version: str) -> tuple[int, str]:
    return (int(version), "") if version.isdecimal() else (-1, version)
