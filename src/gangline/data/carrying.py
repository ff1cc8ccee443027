"""One move of a job's data, carried out in the same way by the movers of every engine.

A local job passes through here too, and few of them speak to a store: what only those need is imported when they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .addresses import parse
from .moving import move

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cache import Cache
    from .credentials import StoreCredentials
    from .model_files import KeptModel, ModelFiles
    from .progress import Meter


_HERE = ("file", "http", "https")


class Move(NamedTuple):
    """One move, with every address made into a place that the mover reaches."""

    source: str
    target: str
    store: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unpack: bool = False
    model: str | None = None
    """The version that a model's address stood for when the job started."""
    address: str = ""
    """The address by which the data is known, whatever place it stands for here."""


@dataclass(frozen=True)
class Equipment:
    """What a mover has besides its moves."""

    writer: str
    """Who stores, the same for every attempt of a job."""
    credentials: Callable[[str], StoreCredentials]
    """Finds what opens a store, by its name."""
    models: Callable[[], ModelFiles]
    cache: Callable[[], Cache | None] = lambda: None


def carry(wanted: Move, equipment: Equipment, meter: Meter) -> str:
    """Make one move; returns what was left out. Raises PermanentError, or OSError where another try may help."""
    source, target = parse(wanted.source), parse(wanted.target)
    if source.scheme == "model":
        equipment.models().take(str(wanted.model), Path(target.local_path()), meter)
        return ""
    plain = source.scheme in _HERE and target.scheme in _HERE
    if plain and not (wanted.unpack or wanted.include or wanted.exclude):
        return move(wanted.source, wanted.target, meter)
    from .credentials import OF_THE_ENVIRONMENT
    from .manifests import Patterns
    from .transfers import Transfer, transfer

    cache = equipment.cache()
    order = Transfer(
        source=wanted.source,
        target=wanted.target,
        credentials=OF_THE_ENVIRONMENT if wanted.store is None else equipment.credentials(wanted.store),
        patterns=Patterns(tuple(wanted.include), tuple(wanted.exclude)),
        unpack=wanted.unpack,
        writer=equipment.writer,
    )
    note = transfer(order, meter=meter, cache=cache)
    if cache is not None:
        cache.clean()
    return note


def keep_model(wanted: Move, equipment: Equipment, meter: Meter) -> tuple[str, KeptModel]:
    """Keep an output as the files of a version; returns the model's name, and what the version is found by."""
    kept = equipment.models().keep(Path(parse(wanted.source).local_path()), meter)
    meter.digest = f"sha256:{kept.digest}"
    return parse(wanted.target).place, kept


def is_model(address: str) -> bool:
    """Whether what goes there becomes a version of a model."""
    return parse(address).scheme == "model"
