"""A secret: values that jobs get as variables, and that nothing ever shows."""

from dataclasses import dataclass
from typing import Annotated

from gangline.model.identity import DEFAULT_TENANT, Tenant, check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What is known of a secret: which keys it has. The values are kept apart, in a Secret of the tenant."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    keys: Annotated[tuple[str, ...], "The names of its values."] = ()

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
