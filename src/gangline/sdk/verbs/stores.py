"""The verbs of object stores. Keys go into a Secret of the tenant, and nothing ever returns them."""

import json
from dataclasses import replace

from gangline.data.credentials import StoreCredentials
from gangline.errors import ConflictError, GanglineError
from gangline.kinds.store import KEYS_PREFIX, StoreRecord, keys_of
from gangline.model.kinds.data_store import DataStore
from gangline.sdk.verbs.records import Records

_KEYS = ("key", "secret", "token")


class Stores(Records[DataStore, StoreRecord]):
    """Asks one service about the stores of one tenant; made by ``Client``."""

    def add(self, spec: DataStore, credentials: StoreCredentials | None = None) -> StoreRecord:
        """Make a store; without credentials, movers use the environment of the service."""
        if credentials is None:
            return self.create(spec)
        made = self.create(replace(spec, keys=f"{KEYS_PREFIX}{spec.name}"))
        try:
            self.set_keys(spec.name, credentials)
        except GanglineError:
            self.delete(spec.name)
            raise
        return made

    def keep(self, spec: DataStore) -> StoreRecord:
        """Make a store, or make the one of this name what the spec says; its Secret is there already."""
        try:
            return self.create(spec)
        except ConflictError:
            return self.edit(spec)

    def set_keys(self, name: str, credentials: StoreCredentials) -> None:
        """Replace the keys of a store; jobs that start from now on use them."""
        record = self.get(name)
        if not keys_of(record.spec):
            record = self.edit(replace(record.spec, keys=f"{KEYS_PREFIX}{name}"))
        given = {field: getattr(credentials, field) for field in _KEYS if getattr(credentials, field)}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": record.spec.keys}, "stringData": given}
        self._client.put_object(json.dumps(secret))

    def remove(self, name: str) -> StoreRecord:
        """Remove a store with its keys; what it holds stays."""
        return self.delete(name)
