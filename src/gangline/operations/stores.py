"""Finding what opens a store: the record says where it is, a Secret of the same tenant holds the keys."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from gangline.data.credentials import StoreCredentials, StoreDirectory
from gangline.data.unpacking import PermanentError
from gangline.errors import ConflictError, InvalidInputError, NotFoundError
from gangline.kinds.store import STORE
from gangline.kinds.volume import VOLUME
from gangline.model import Tenant
from gangline.model.kinds.data_store import DataStore
from gangline.model.record import RecordId
from gangline.operations.context import OperationContext
from gangline.operations.objects import secret_values
from gangline.operations.records import create_record, edit_record
from gangline.storage.interface import Store
from gangline.storage.owned import all_records, find_record

_FIELDS = ("key", "secret", "token")


MODELS_VOLUME = "models"
"""The volume of a tenant that keeps its models on a cluster, if it has one of this name."""
_MODELS_FOLDER = "gangline-models"


async def find_store(store: Store, tenant: str, name: str | None, address: str) -> DataStore | None:
    """Return a tenant's store for an address; without a name its default there, None if it has none.

    Raises PermanentError if the tenant has no store of that name, or the address is not in it.
    """
    if name is None:
        return next((each for each in await _defaults(store, tenant) if each.covers(address)), None)
    record = await find_record(store, STORE, Tenant(tenant), name)
    if record is None:
        # Whether another tenant has such a store is not this one's business.
        raise PermanentError(f"there is no store '{name}'; add it with: gangline store add {name} ADDRESS")
    if not record.spec.covers(address):
        raise PermanentError(f"store '{name}' is for {record.spec.address}, and {address} is not in it")
    return record.spec


async def place_for_models(store: Store, tenant: str) -> str:
    """Return where a cluster keeps what a tenant's jobs register: its volume for that, or its default store."""
    if await find_record(store, VOLUME, Tenant(tenant), MODELS_VOLUME) is not None:
        return f"pvc://{MODELS_VOLUME}"
    for each in await _defaults(store, tenant):
        if not each.address.endswith("://"):
            return f"{each.address.rstrip('/')}/{_MODELS_FOLDER}"
    raise PermanentError(
        f"a model needs a place on a cluster: run 'gangline volume create {MODELS_VOLUME}', or "
        "'gangline store add NAME s3://BUCKET --default'"
    )


async def _defaults(store: Store, tenant: str) -> list[DataStore]:
    """The default stores. The name decides between two that were made at the same moment."""
    stores = (each.spec for each in await all_records(store, STORE, Tenant(tenant)))
    return sorted((each for each in stores if each.default), key=lambda each: each.name)


@dataclass(frozen=True, slots=True)
class RecordedStores:
    """Stores of the records of one service; ``objects`` keeps the Secrets by tenant, for their owner alone."""

    store: Store
    objects: Path

    async def find(self, tenant: str, name: str | None, address: str) -> tuple[str, StoreCredentials] | None:
        """Look the store up anew each time, so that a key may be replaced while the service runs."""
        found = await find_store(self.store, tenant, name, address)
        return None if found is None else (found.name, self._credentials(found))

    def _credentials(self, store: DataStore) -> StoreCredentials:
        keys = self._keys(store) if store.keys else {}
        return StoreCredentials.from_plain({"endpoint": store.endpoint, "region": store.region, **keys})

    def _keys(self, store: DataStore) -> dict[str, str]:
        file = self.objects / store.tenant / "secrets" / f"{store.keys}.json"
        try:
            kept = secret_values(file, store.keys)
        except NotFoundError:
            raise PermanentError(
                f"the keys of store '{store.name}' are not here; give them with: gangline store set-keys {store.name}"
            ) from None
        except InvalidInputError:
            raise PermanentError(f"the Secret '{store.keys}' of store '{store.name}' cannot be read") from None
        return {name: kept.get(name, "") for name in _FIELDS}


async def keep_store(context: OperationContext, spec: DataStore) -> None:
    """Make a store, or make the one of this name what the spec says."""
    try:
        await create_record(context, STORE, RecordId(f"s{secrets.token_hex(7)}"), spec)
    except ConflictError:
        await edit_record(context, STORE, spec)


_conforms: type[StoreDirectory] = RecordedStores
