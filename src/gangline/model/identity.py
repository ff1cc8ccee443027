"""Names and ids."""

import re
from dataclasses import dataclass
from typing import NewType

from gangline.errors import InvalidInputError

JobId = NewType("JobId", str)
"""A job's unique id, chosen by whoever submits it, so that a repeated submission is recognised."""

Tenant = NewType("Tenant", str)
QueueName = NewType("QueueName", str)
NodeName = NewType("NodeName", str)
RoleName = NewType("RoleName", str)

DEFAULT_TENANT = Tenant("default")
DEFAULT_QUEUE = QueueName("default")

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
NAME_RULE = "1 to 63 lower-case letters, digits and '-', beginning and ending with a letter or digit"


def check_name(value: str, field: str) -> None:
    """Refuse a name that is not a DNS label: it becomes part of host names and object names."""
    if not _NAME.fullmatch(value):
        raise InvalidInputError(f"'{value}' is not a valid name", field=field, expected=NAME_RULE)


@dataclass(frozen=True, slots=True, order=True)
class ReplicaId:
    """One replica of a job: its role and its index within the role."""

    role: RoleName
    index: int

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"

    @classmethod
    def parse(cls, text: str) -> "ReplicaId":
        """Read what ``str`` wrote."""
        role, _, index = text.rpartition("-")
        if not role or not index.isdigit():
            raise InvalidInputError(f"'{text}' is not a replica", expected="ROLE-INDEX, for example worker-0")
        return cls(RoleName(role), int(index))
