"""Tokens: what a program or a person shows to a team's service instead of logging in. Values and rules alone."""

import hashlib
import hmac
from dataclasses import dataclass

from gangline.errors import InvalidInputError
from gangline.model.clock import Timestamp
from gangline.model.identity import Tenant, check_name
from gangline.model.record import NoStatus, Record
from gangline.model.team.access import PLATFORM_ROLES, Identity, Role

PREFIX = "gangline"
"""How every token begins, so that whoever searches files for lost secrets finds it."""
_ABSENT = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpec:
    """What is kept of a token. ``name`` is its public part; of its secret, a digest alone.

    The secret has 256 random bits, so that a digest made without salt or delay cannot be reversed by trying.
    """

    name: str
    title: str
    role: Role
    of: Tenant | None = None
    """Whose it is; None for an operator's or a monitor's."""
    digest: str
    expires_at: Timestamp | None = None
    created_by: str = ""

    @property
    def tenant(self) -> Tenant | None:
        """No record of a tenant: tokens are found before it is known whose they are."""
        return None

    def __post_init__(self) -> None:
        check_name(self.title, "name")
        if (self.of is None) != (self.role in PLATFORM_ROLES):
            raise InvalidInputError(
                "a token of an operator or a monitor is for all tenants, and any other for one",
                field="tenant",
                expected="a tenant and the role viewer, member or admin, or no tenant and the role operator or monitor",
            )
        if self.of is not None:
            check_name(self.of, "tenant")


TokenRecord = Record[TokenSpec, NoStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is told of a token, its secret excepted."""

    id: str
    name: str
    role: Role
    tenant: Tenant | None = None
    created_at: Timestamp
    created_by: str = ""
    expires_at: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was made just now, with the text that is shown this once."""

    token: Token
    text: str


def shown(record: TokenRecord) -> Token:
    """Return what may be told of a token."""
    spec = record.spec
    return Token(
        id=spec.name,
        name=spec.title,
        role=spec.role,
        tenant=spec.of,
        created_at=record.created_at,
        created_by=spec.created_by,
        expires_at=spec.expires_at,
    )


def digest_of(secret: str) -> str:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode(errors="surrogateescape")).hexdigest()


def split(text: str) -> tuple[str, str]:
    """Return the public and the secret part of a token; both are empty if it is none."""
    prefix, _, rest = text.partition("_")
    token_id, _, secret = rest.partition("_")
    return (token_id, secret) if prefix == PREFIX and secret else ("", "")


def identity_of(found: TokenSpec | None, secret: str, now: Timestamp) -> Identity | None:
    """Return whom a token stands for; None for one that is unknown, wrong or expired.

    The same work is done whichever it is, so that the time it takes tells nothing of it.
    """
    right = hmac.compare_digest(digest_of(secret), _ABSENT if found is None else found.digest)
    if found is None or not right or (found.expires_at is not None and found.expires_at <= now):
        return None
    roles = {} if found.of is None else {found.of: found.role}
    name, operator, monitor = f"token:{found.title}", found.role is Role.OPERATOR, found.role is Role.MONITOR
    return Identity(name=name, roles=roles, operator=operator, monitor=monitor)
