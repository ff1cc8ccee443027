"""The records that the jobs of a cluster name: stores, models and other jobs."""

from dataclasses import dataclass

from gangline.model import Job, Tenant
from gangline.model.kinds.data_store import DataStore
from gangline.operations.models import ModelRecords
from gangline.operations.stores import find_store, place_for_models


@dataclass(frozen=True, slots=True)
class ClusterRecords(ModelRecords):
    """Stores and models of one cluster."""

    async def find_store(self, tenant: str, name: str | None, address: str) -> DataStore | None:
        """Return a tenant's store for an address; without a name its default there. Raises PermanentError."""
        return await find_store(self.store, tenant, name, address)

    async def place_for_models(self, tenant: str) -> str:
        """Return where a tenant's jobs leave models; raises PermanentError if it has no place for them."""
        return await place_for_models(self.store, tenant)

    async def find_job(self, tenant: str, name: str) -> Job:
        """Return a tenant's job; raises NotFoundError."""
        return await self.store.find(Tenant(tenant), name)
