"""What opens a store, as a value, and where a mover finds it by name.

A key is never part of a job: a job names a store. Nothing here puts a secret into a text that might be shown.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Protocol

from .unpacking import PermanentError


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StoreCredentials:
    """How a store is reached. What is empty comes from the environment, as the store's own tools would read it.

    ``key`` and ``secret`` are an access key of S3, an account and its key of Azure; for Google ``secret`` is the text
    of a service account's file. ``token`` is a session token, a SAS token or a bearer token.
    """

    endpoint: str = ""
    region: str = ""
    key: str = ""
    secret: str = ""
    token: str = ""

    def __repr__(self) -> str:
        kept = ", ".join(name for name in ("key", "secret", "token") if getattr(self, name))
        return f"StoreCredentials(endpoint={self.endpoint!r}, region={self.region!r}, hidden: {kept or 'nothing'})"

    def as_plain(self) -> dict[str, str]:
        """Every field, for a file that only its owner reads."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_plain(cls, plain: Mapping[str, str]) -> "StoreCredentials":
        """Read what ``as_plain`` wrote; the error for a field that is not known does not show its value."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(plain) - known):
            raise PermanentError(f"a store has no '{unknown[0]}'; it has {', '.join(sorted(known))}")
        return cls(**{name: str(value) for name, value in plain.items()})


OF_THE_ENVIRONMENT = StoreCredentials()
"""Whatever the process finds by itself."""


class StoreDirectory(Protocol):
    """Where credentials are found by the name that a job gives."""

    async def find(self, tenant: str, name: str | None, address: str) -> tuple[str, StoreCredentials] | None:
        """Return a tenant's store for an address; without a name its default there, None if it has none.

        Raises PermanentError if the tenant has no store of that name, or the address is not in it.
        """


class NoStores:
    """A directory without stores."""

    async def find(self, tenant: str, name: str | None, address: str) -> tuple[str, StoreCredentials] | None:
        """There is nothing to find."""
        if name is not None:
            raise PermanentError(f"there is no store '{name}'")
        return None


_conforms: type[StoreDirectory] = NoStores
