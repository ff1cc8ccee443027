"""What a service answers besides the values of the model. The SDK hands these to its users as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangline.model import (
    Explanation,
    Job,
    JobId,
    JobPage,
    JournalRecord,
    LogLine,
    MetricPage,
    Node,
    Usage,
)
from gangline.model.team.access import Role
from gangline.model.team.accounting import UsageReport
from gangline.model.team.audit import AuditPage
from gangline.model.team.token import NewToken, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A job as it is now; ``job`` None means that it is gone."""

    job_id: JobId
    job: Job | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginWays:
    """How somebody proves to a service who they are."""

    tokens: bool = True
    issuer: str = ""
    """The address of the OpenID provider, if there is one."""
    client_id: str = ""
    scopes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardLink:
    """A link to the pages of a service that lets its bearer in, once."""

    address: str
    """Where it leads; a path is one of the service itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Myself:
    """Whom the service takes the caller for."""

    name: str
    operator: bool = False
    roles: Mapping[str, Role] = field(default_factory=dict)


ANSWERS = (
    Job,
    JobPage,
    Change,
    JournalRecord,
    LogLine,
    MetricPage,
    Explanation,
    Node,
    Usage,
    LoginWays,
    Myself,
    DashboardLink,
    Token,
    NewToken,
    AuditPage,
    UsageReport,
)
"""Everything that a service answers with, the kinds' own answers aside; the REST reference is made of these."""
