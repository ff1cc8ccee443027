"""A trained model by name: immutable versions, and aliases that lead to one of them. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple

from gangline.errors import ConflictError, InvalidInputError, NotFoundError
from gangline.model.clock import Timestamp
from gangline.model.identity import DEFAULT_TENANT, Tenant, check_name
from gangline.model.jobs.transfer import DataVersion
from gangline.model.record import Record

_ADDRESS = re.compile(r"model://(?P<name>[a-z0-9-]+)(?::(?P<number>[1-9][0-9]*)|@(?P<alias>[a-z0-9-]+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """What a file of kind Model says; its versions come from jobs and from people."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    description: Annotated[str, "What it is for."] = ""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """One version. It never changes: ``digest`` is that of the list of its files, which has theirs."""

    number: int = 0
    digest: str
    size_bytes: int = 0
    files: int = 0
    created_at: Timestamp
    origin: str = ""
    """The same for every try to register the same thing: which output of which job, or nothing."""
    job: str = ""
    job_id: str = ""
    code: str = ""
    commit: str = ""
    """The Git commit that the code came from; with `` (dirty)`` if there were changes that it does not have."""
    framework: str = ""
    inputs: tuple[DataVersion, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    signature: str = ""
    """What the model takes and gives, as JSON: the content of its file ``signature.json``."""
    at: str = ""
    """Where its files lie on a cluster; empty for those that the service of a machine keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """The versions, oldest first, and what aliases lead to. No number is ever given twice."""

    versions: tuple[ModelVersion, ...] = ()
    aliases: Mapping[str, int] = field(default_factory=dict)
    last_number: int = 0

    @property
    def state(self) -> str:
        """There is nothing to wait for."""
        return "ready"

    @property
    def settled(self) -> bool:
        """Nothing is ever done for it."""
        return True


Model = Record[ModelSpec, ModelStatus]


class ModelReference(NamedTuple):
    """Which version is meant: by number, by alias, or the newest."""

    name: str
    number: int | None = None
    alias: str = ""


def model_reference(address: str) -> ModelReference | None:
    """Read ``model://NAME``, ``model://NAME:VERSION`` or ``model://NAME@ALIAS``; None for any other address."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return None
    return ModelReference(match["name"], int(match["number"]) if match["number"] else None, match["alias"] or "")


def with_version(status: ModelStatus, version: ModelVersion) -> tuple[ModelStatus, ModelVersion]:
    """Add a version, or find the one that the same job, or the same content given by hand, has made before."""
    known = next((each for each in status.versions if _same(each, version)), None)
    if known is not None:
        return status, known
    added = replace(version, number=status.last_number + 1)
    return replace(status, versions=(*status.versions, added), last_number=added.number), added


def _same(known: ModelVersion, version: ModelVersion) -> bool:
    return (known.origin, known.digest) == (version.origin, version.digest)


def find_version(model: Model, number: int | None = None, alias: str = "") -> ModelVersion:
    """Return a version by its number or by an alias; the newest if neither is given. Raises NotFoundError."""
    versions, aliases = model.status.versions, model.status.aliases
    if alias:
        if alias not in aliases:
            raise NotFoundError("alias", f"{model.name}@{alias}", hint=f"it has {_listed(aliases)}")
        number = aliases[alias]
    if number is None and versions:
        return versions[-1]
    found = next((each for each in versions if each.number == number), None)
    if found is None:
        name = f"{model.name}:{number}" if number else model.name
        raise NotFoundError("version", name, hint=f"there are {_listed(each.number for each in versions)}")
    return found


def with_alias(model: Model, alias: str, number: int) -> Model:
    """Let an alias lead to a version, whatever it led to before."""
    check_name(alias, "alias")
    if alias.isdigit():
        raise InvalidInputError(f"'{alias}' is a version", field="alias", expected="a word, for example production")
    find_version(model, number)
    aliases = {**model.status.aliases, alias: number}
    return replace(model, status=replace(model.status, aliases=aliases))


def without_alias(model: Model, alias: str) -> Model:
    """Take an alias away; what it led to stays."""
    aliases = {name: number for name, number in model.status.aliases.items() if name != alias}
    return replace(model, status=replace(model.status, aliases=aliases))


def without_version(model: Model, number: int) -> Model:
    """Take a version away; raises ConflictError while an alias leads to it."""
    find_version(model, number)
    aliases = sorted(name for name, each in model.status.aliases.items() if each == number)
    if aliases:
        raise ConflictError(f"version {number} of model '{model.name}' is in use: @{aliases[0]} leads to it")
    versions = tuple(each for each in model.status.versions if each.number != number)
    return replace(model, status=replace(model.status, versions=versions))


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(str, names)) or "none"
