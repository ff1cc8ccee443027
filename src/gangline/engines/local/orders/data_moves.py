"""What movers are told: every address of a job made into a place that they can reach, with what opens it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gangline.data.addresses import OBJECT_STORES, Address, AddressError, parse, scheme_of
from gangline.data.carrying import Move
from gangline.data.credentials import StoreCredentials, StoreDirectory
from gangline.data.unpacking import PermanentError
from gangline.engines.addresses import check_addresses
from gangline.engines.local.keeper.orders import CREDENTIALS_FILE
from gangline.engines.local.layout import Layout
from gangline.engines.local.orders.environment import expand, job_directories
from gangline.engines.registering import Registry
from gangline.errors import EngineError, InvalidInputError, NotFoundError
from gangline.model import DataMove, Gang, Job, JobId, Phase, Tenant
from gangline.model.identity import check_name
from gangline.model.kinds.registered_model import ModelReference, ModelVersion, model_reference


class NoDataError(EngineError):
    """A move names a store that does not exist, or no address; another try would end the same."""


class ModelRegistry(Registry, Protocol):
    """Where models are found by name, and what jobs leave is registered."""

    def folder_of(self, tenant: str) -> Path:
        """Return where a tenant's files are."""
        ...

    async def find(self, tenant: str, reference: ModelReference) -> ModelVersion:
        """Return the version that is meant; raises NotFoundError."""
        ...


class JobDirectory(Protocol):
    """Where jobs are found by name."""

    async def find(self, tenant: Tenant, name: str) -> Job:
        """Return a tenant's job; raises NotFoundError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GangData:
    """The moves of a gang, and the credentials of the stores that they name."""

    inputs: list[Move] = field(default_factory=list)
    outputs: list[Move] = field(default_factory=list)
    credentials: Mapping[str, StoreCredentials] = field(default_factory=dict)
    models: str | None = None
    """The folder of the tenant's models, if the gang has to do with one."""
    checkpoints: Mapping[str, str] = field(default_factory=dict)
    """What replicas are told of where checkpoints are also written, as variables."""


@dataclass(frozen=True, slots=True)
class DataResolver:
    """Resolves the moves of gangs."""

    layout: Layout
    stores: StoreDirectory
    models: ModelRegistry | None = None
    jobs: JobDirectory | None = None

    async def resolve(self, gang: Gang) -> GangData:
        """Return what the movers of a gang need; raises NoDataError for what does not exist."""
        credentials: dict[str, StoreCredentials] = {}
        try:
            check_addresses(gang.spec)
            inputs = await self._moves(gang, gang.spec.inputs, credentials)
            outputs = await self._moves(gang, gang.spec.outputs, credentials)
            checkpoints = await self._checkpoints(gang, credentials)
        except (PermanentError, NotFoundError, InvalidInputError) as error:
            raise NoDataError(str(error)) from error
        used = self.models is not None and any("model://" in each.source + each.target for each in (*inputs, *outputs))
        folder = str(self.models.folder_of(gang.spec.tenant)) if used and self.models else None
        return GangData(inputs=inputs, outputs=outputs, credentials=credentials, models=folder, checkpoints=checkpoints)

    async def _checkpoints(self, gang: Gang, credentials: dict[str, StoreCredentials]) -> dict[str, str]:
        rule = gang.spec.checkpoints
        if rule is None:
            return {}
        move = DataMove("checkpoints", expand(rule.to, job_directories(self.layout, gang)), store=rule.store)
        address = parse(move.target)
        if address.scheme not in ("file", "pvc", *OBJECT_STORES):
            raise PermanentError(
                f"{address.text}: on one machine checkpoints are written to a path, pvc://CLAIM/path or an object store"
            )
        if address.scheme == "file":
            address.local_path()
        told = {
            "GANGLINE_CHECKPOINT_TO": await self._place(gang, move.target),
            "GANGLINE_CHECKPOINT_KEEP": "" if rule.keep is None else str(rule.keep),
            "GANGLINE_CHECKPOINT_SECONDS": "" if rule.every_seconds is None else f"{rule.every_seconds:g}",
        }
        if (store := await self._store(gang, move, move.source, move.target)) is not None:
            credentials[store[0]] = store[1]
            keys = self.layout.attempt(gang.id) / CREDENTIALS_FILE
            told |= {"GANGLINE_CHECKPOINT_STORE": store[0], "GANGLINE_CHECKPOINT_KEYS": str(keys)}
        return {name: value for name, value in told.items() if value}

    async def _moves(
        self, gang: Gang, moves: Iterable[DataMove], credentials: dict[str, StoreCredentials]
    ) -> list[Move]:
        variables = job_directories(self.layout, gang)
        found = []
        for move in moves:
            source, target = expand(move.source, variables), expand(move.target, variables)
            store = await self._store(gang, move, source, target)
            if store is not None:
                credentials[store[0]] = store[1]
            found.append(
                Move(
                    await self._place(gang, source),
                    await self._place(gang, target),
                    store[0] if store else None,
                    move.include,
                    move.exclude,
                    move.unpack,
                    await self._model(gang, source, target),
                    source if moves is gang.spec.inputs else target,
                )
            )
        return found

    async def _store(self, gang: Gang, move: DataMove, source: str, target: str) -> tuple[str, StoreCredentials] | None:
        try:
            addresses = [address for address in map(parse, (source, target)) if address.in_object_store]
        except AddressError:
            addresses = []  # the mover says what is wrong with it
        if not addresses:
            if move.store is not None:
                raise PermanentError(f"store '{move.store}' is named for a move between files: {source} to {target}")
            return None
        return await self.stores.find(gang.spec.tenant, move.store, addresses[0].canonical)

    async def _model(self, gang: Gang, source: str, target: str) -> str | None:
        """The digest of the version that is read; what is written must be a model that can be written."""
        read, written = (scheme_of(text) == "model" for text in (source, target))
        if not (read or written):
            return None
        if self.models is None:
            raise PermanentError("models are not kept here")
        if written:
            wanted = parse(target)
            check_name(wanted.place, target)
            if read:
                raise PermanentError(f"{target}: a job writes files to model://NAME, which become its next version")
        reference = model_reference(source)
        if read and reference is None:
            raise PermanentError(f"{source} is not a model: expected model://NAME, model://NAME:VERSION or @ALIAS")
        return (await self.models.find(gang.spec.tenant, reference)).digest if reference else None

    async def _place(self, gang: Gang, text: str) -> str:
        """Where a mover finds an address: a claim, and the results of a job, are directories of this machine."""
        scheme = scheme_of(text)
        if scheme == "pvc":
            address = parse(text)
            claim = self.layout.claims(gang.spec.tenant) / address.place
            if not claim.exists():
                hint = f"create it with: gangline volume create {address.place}"
                raise PermanentError(f"{text}: there is no volume '{address.place}'; {hint}")
            return str(claim / address.path)
        if scheme != "job":
            return text
        address = parse(text)
        return str(self.layout.job(await self._named(gang, address)) / address.path)

    async def _named(self, gang: Gang, address: Address) -> JobId:
        """The job that an address names, of the same tenant. Results need its success; checkpoints are whole anyway."""
        if self.jobs is None:
            raise PermanentError(f"{address.text}: jobs are not known here")
        job = await self.jobs.find(gang.spec.tenant, address.place)
        if job.phase is not Phase.COMPLETED and address.path.split("/")[0] == "results":
            raise PermanentError(f"{address.text}: job '{job.name}' is {job.phase}; only a COMPLETED one has results")
        return job.id
