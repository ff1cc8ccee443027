"""A volume: a directory that jobs share and that outlives them."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from gangline.errors import InvalidInputError
from gangline.model.identity import DEFAULT_TENANT, Tenant, check_name

_EXPORT = re.compile(r"nfs://(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?P<path>/[^\s?#,]*)")
_SIZE = re.compile(r"[1-9][0-9]*(Ki|Mi|Gi|Ti|K|M|G|T)?")


class Access(StrEnum):
    """Who may have it mounted at a time, in the words of a cluster."""

    MANY = "ReadWriteMany"
    ONCE = "ReadWriteOnce"
    READ = "ReadOnlyMany"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """What a file of kind Volume says."""

    name: str
    tenant: Tenant = DEFAULT_TENANT
    size: Annotated[str, "How much it may hold; not limited on one machine."] = "10Gi"
    access: Annotated[Access, "Who may have it mounted at a time; everybody on one machine."] = Access.MANY
    storage_class: Annotated[str, "The cluster's storage class; its default if left out."] = ""
    nfs: Annotated[str, "The NFS export it stands for, nfs://HOST/path; on one machine, one that is mounted."] = ""

    def __post_init__(self) -> None:
        check_name(self.name, "metadata.name")
        if not _SIZE.fullmatch(self.size):
            raise InvalidInputError(f"'{self.size}' is not a size", field="spec.size", expected="for example 10Gi")
        if self.nfs and not _EXPORT.fullmatch(self.nfs):
            raise InvalidInputError(f"'{self.nfs}' is not an export", field="spec.nfs", expected="nfs://HOST/path")
        if self.nfs and self.storage_class:
            raise InvalidInputError(
                "an export has no storage class", field="spec.storage_class", expected="one of both"
            )

    @property
    def export(self) -> tuple[str, str] | None:
        """The host of the export and its path there, if the volume is one."""
        found = _EXPORT.fullmatch(self.nfs)
        return (found["host"], found["path"].rstrip("/") or "/") if found else None
