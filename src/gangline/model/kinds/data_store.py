"""An object store that jobs may name: where it is and where its keys are, never the keys themselves."""

import re
from dataclasses import dataclass
from typing import Annotated

from gangline.errors import InvalidInputError
from gangline.model.identity import DEFAULT_TENANT, Tenant, check_name

_ADDRESS = re.compile(r"(?P<scheme>s3|gs|az)://(?P<place>[^/@?#\s]+(?:/[^@?#\s]*)?)?")
_ENDPOINT = re.compile(r"https?://[^/@?#\s]+(/[^@?#\s]*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataStore:
    """What a file of kind Store says. Nothing in it opens the store: ``keys`` names the Secret that does."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    address: Annotated[str, "What the keys open: s3://BUCKET, s3://BUCKET/path, or s3:// for all; gs and az alike."]
    endpoint: Annotated[str, "The server, if it is not the provider's own: https://HOST."] = ""
    region: Annotated[str, "The region of the bucket, where the server wants one."] = ""
    keys: Annotated[
        str, "The Secret of the tenant with key, secret and token; without it the environment of the service is used."
    ] = ""
    default: Annotated[bool, "Whether addresses that it covers use it without naming it."] = False

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if self.keys:
            check_name(self.keys, "spec.keys")
        # What is refused may hold a key, so it is not shown.
        if not _ADDRESS.fullmatch(self.address):
            raise InvalidInputError(
                "not the address of an object store", field="spec.address", expected="s3://BUCKET, gs:// or az://"
            )
        if self.endpoint and not _ENDPOINT.fullmatch(self.endpoint):
            raise InvalidInputError(
                "not the address of a server", field="spec.endpoint", expected="https://HOST, without a user or a key"
            )

    @property
    def scheme(self) -> str:
        """How addresses in it begin."""
        return self.address.partition("://")[0]

    def covers(self, address: str) -> bool:
        """Whether an address lies in the store: keys are never sent anywhere else."""
        whole = self.address.rstrip("/")
        if whole.endswith(":"):
            return address.startswith(f"{whole}//")
        return address == whole or address.startswith(f"{whole}/")
