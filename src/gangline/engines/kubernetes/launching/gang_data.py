"""Finds what the moves of a job name: stores and where their keys are, versions of models, and the tenant's cache.

The keys themselves are never read here: the controller may not. They are mounted where a mover needs them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from gangline.data.addresses import Address, AddressError, parse
from gangline.data.unpacking import PermanentError
from gangline.engines.kubernetes import names
from gangline.engines.kubernetes.manifests.moves import CacheClaim, GangData, ModelUse, expanded, scheme_of
from gangline.engines.kubernetes.manifests.pod import HOME
from gangline.engines.kubernetes.node_rules.references import Reference
from gangline.engines.kubernetes.node_rules.volume_topology import is_missing
from gangline.engines.kubernetes.refusals import Refusal, RefusedError
from gangline.engines.registering import Registry
from gangline.errors import InvalidInputError
from gangline.errors import NotFoundError as NoRecordError
from gangline.kube import VOLUME_CLAIMS, KubeClient, NotFoundError
from gangline.model import DataMove, Job, JobSpec, Phase
from gangline.model.identity import check_name
from gangline.model.jobs.spec import CheckpointRule
from gangline.model.kinds.data_store import DataStore
from gangline.model.kinds.registered_model import ModelReference, ModelVersion, model_reference


class DataRecords(Registry, Protocol):
    """The records of tenants' stores and models."""

    async def find_store(self, tenant: str, name: str | None, address: str) -> DataStore | None:
        """Return a tenant's store for an address; without a name its default there. Raises PermanentError."""
        ...

    async def place_for_models(self, tenant: str) -> str:
        """Return where a tenant's jobs leave models; raises PermanentError if it has no place for them."""
        ...

    async def find(self, tenant: str, reference: ModelReference) -> ModelVersion:
        """Return the version that is meant; raises NotFoundError."""
        ...

    async def find_job(self, tenant: str, name: str) -> Job:
        """Return a tenant's job; raises NotFoundError."""
        ...


@dataclass(frozen=True, slots=True)
class DataFinder:
    """Finds what jobs name. Without records, a job may name only what needs none."""

    client: KubeClient
    records: DataRecords | None
    cache: CacheClaim | None

    async def find(self, spec: JobSpec) -> GangData:
        """Return what a job's moves name; raises RefusedError for what does not exist, or cannot be had here."""
        try:
            data = GangData()
            for move in (*spec.inputs, *spec.outputs):
                data = await self._with_move(spec, move, data)
            if spec.checkpoints is not None:
                data = await self._with_checkpoints(spec, spec.checkpoints, data)
        except (PermanentError, NoRecordError, InvalidInputError) as error:
            raise _refused("DataUnreachable", str(error)) from error
        for store in data.stores.values():
            await self._check_keys(spec, store)
        return replace(data, cache=await self._cache_of(spec))

    async def _with_move(self, spec: JobSpec, move: DataMove, data: GangData) -> GangData:
        if scheme_of(move.source) == "job":
            return await self._with_job(spec, move, data)
        if "model" in (scheme_of(move.source), scheme_of(move.target)):
            return await self._with_model(spec, move, data)
        addresses = list(_in_stores(expanded(place, spec) for place in (move.source, move.target)))
        if not addresses:
            if move.store is not None:
                raise PermanentError(f"store '{move.store}' is named for a move between files: {move.source}")
            return data
        store = await self._store(spec, move.store, addresses[0])
        return data if store is None else _with_store(data, move, store)

    async def _with_job(self, spec: JobSpec, move: DataMove, data: GangData) -> GangData:
        """Find where another job's files were kept: nothing of its pods is left."""
        if self.records is None:
            raise PermanentError(f"{move.source}: jobs are not known here")
        written = expanded(move.source, spec)
        address = parse(written)
        place, store_name = kept_at(await self.records.find_job(spec.tenant, address.place), address)
        data = replace(data, stands_for={**data.stands_for, written: place})
        if not parse(place).in_object_store:
            return data
        store = await self._store(spec, store_name, parse(place).canonical)
        return data if store is None else _with_store(data, move, store)

    async def _with_checkpoints(self, spec: JobSpec, rule: CheckpointRule, data: GangData) -> GangData:
        address = parse(expanded(rule.to, spec))
        if not address.in_object_store:
            if rule.store is not None:
                raise PermanentError(f"store '{rule.store}' is named for {address.text}, which needs none")
            return data
        store = await self._store(spec, rule.store, address.canonical)
        if store is None:
            return data
        return replace(data, stores={**data.stores, store.name: store}, checkpoint_store=store.name)

    async def _with_model(self, spec: JobSpec, move: DataMove, data: GangData) -> GangData:
        if self.records is None:
            raise PermanentError("models are not kept here")
        if scheme_of(move.target) == "model":
            wanted = parse(move.target)
            check_name(wanted.place, move.target)
            if scheme_of(move.source) == "model":
                raise PermanentError(
                    f"{move.target}: a job writes files to model://NAME, which become its next version"
                )
            at, digest = await self.records.place_for_models(spec.tenant), None
        else:
            version = await self.records.find(spec.tenant, _reference(move.source))
            if not version.at:
                raise PermanentError(f"the files of {move.source} are not in this cluster")
            at, digest = version.at, version.digest
        store = await self._store(spec, None, at) if parse(at).in_object_store else None
        use = ModelUse(at=at, store=store.name if store else None, digest=digest)
        stores = {**data.stores, store.name: store} if store else data.stores
        return replace(data, stores=stores, models={**data.models, move: use})

    async def _store(self, spec: JobSpec, name: str | None, address: str) -> DataStore | None:
        if self.records is None:
            if name is not None:
                raise PermanentError(f"there is no store '{name}'")
            return None
        return await self.records.find_store(spec.tenant, name, address)

    async def _check_keys(self, spec: JobSpec, store: DataStore) -> None:
        """Refuse a job whose pods would wait forever for a Secret that nobody has made."""
        if store.keys and await is_missing(self.client, spec.tenant, Reference("Secret", store.keys)):
            raise _refused(
                "KeysMissing",
                f"the keys of store '{store.name}' are not here; give them with: gangline store set-keys {store.name}",
            )

    async def _cache_of(self, spec: JobSpec) -> CacheClaim | None:
        """Use the claim that this installation names, in the namespaces that have it, if every node may write there."""
        fetches = any(True for move in spec.inputs for _ in _in_stores([expanded(move.source, spec)]))
        if self.cache is None or not fetches:
            return None
        try:
            claim = await self.client.get(VOLUME_CLAIMS, self.cache.name, namespace=spec.tenant)
        except NotFoundError:
            return None
        return self.cache if "ReadWriteMany" in (claim.spec.get("accessModes") or ()) else None


def kept_at(job: Job, address: Address) -> tuple[str, str | None]:
    """Where the files of a job lie that has ended, and the store that opens that; raises PermanentError if nowhere."""
    folder, _, rest = address.path.partition("/")
    if folder == "results" and job.phase is not Phase.COMPLETED:
        raise PermanentError(f"{address.text}: job '{job.name}' is {job.phase}; only a COMPLETED one has results")
    if claim := job.spec.labels.get(names.VOLUME):
        return f"pvc://{claim}/{job.name}/{address.path}".rstrip("/"), None
    wanted = f"{HOME}/{address.path}"
    for move in job.spec.outputs:
        source, target = expanded(move.source, job.spec).rstrip("/"), expanded(move.target, job.spec)
        whole = not (move.include or move.exclude)
        if whole and scheme_of(target) != "model" and (wanted == source or wanted.startswith(f"{source}/")):
            return f"{target.rstrip('/')}{wanted.removeprefix(source)}", move.store
    raise PermanentError(
        f"{address.text}: job '{job.name}' kept no {folder}: it had no volume, and no output with all of "
        f"{'$RESULT_DIR' if folder == 'results' else '$CHECKPOINT_DIR'}{'/' if rest else ''}{rest}"
    )


def _with_store(data: GangData, move: DataMove, store: DataStore) -> GangData:
    return replace(data, stores={**data.stores, store.name: store}, store_of={**data.store_of, move: store.name})


def _reference(source: str) -> ModelReference:
    reference = model_reference(source)
    if reference is None:
        raise PermanentError(f"{source} is not a model: expected model://NAME, model://NAME:VERSION or @ALIAS")
    return reference


def _in_stores(places: Iterable[str]) -> Iterable[str]:
    """Addresses of object stores, as stores are compared by, whatever other name the scheme was given."""
    for place in places:
        try:
            address = parse(place)
        except AddressError:
            continue  # the mover says what is wrong with it
        if address.in_object_store:
            yield address.canonical


def _refused(reason: str, message: str) -> RefusedError:
    return RefusedError(Refusal(reason=reason, message=message, permanent=True))
