"""Tokens of a team's service: made, listed and revoked by those who administer a tenant, and recognized."""

import secrets
from collections.abc import Sequence

from gangline.errors import ConflictError, InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.kinds.derived import derived_format
from gangline.kinds.kind import Kind, Scope
from gangline.model import Clock, Tenant, Timestamp
from gangline.model.record import NoStatus, RecordId
from gangline.model.team.access import Identity, Role
from gangline.model.team.token import (
    PREFIX,
    NewToken,
    Token,
    TokenRecord,
    TokenSpec,
    digest_of,
    identity_of,
    shown,
    split,
)
from gangline.operations.context import OperationContext
from gangline.storage.interface import Store
from gangline.storage.owned import all_records

_SECRET_BYTES = 32
_MOST_SECONDS = 366 * 86400.0
_ID_BYTES = 6

TOKEN: Kind[TokenSpec, NoStatus, TokenRecord] = Kind(
    name="token",
    plural="tokens",
    summary="Create, list and revoke tokens.",
    description="What opens a team's service.",
    spec=TokenSpec,
    format=derived_format(TokenSpec, "Token", "What opens a team's service."),
    answer=TokenRecord,
    scope=Scope.CLUSTER,
)
"""Kept as any record is, but not registered: it has operations of its own, and no file or custom resource."""


async def create_token(
    context: OperationContext, title: str, *, role: Role, tenant: Tenant | None, seconds: float
) -> NewToken:
    """Make a token; its text is in the answer and nowhere else."""
    _check(context, tenant)
    if not 0 < seconds <= _MOST_SECONDS:
        raise InvalidInputError(f"{seconds:g} s does not fit", field="seconds", expected="at most 366 days")
    if any(each.name == title for each in await list_tokens(context, tenant)):
        raise ConflictError(f"there is a token named '{title}' already; revoke it first, or use another name")
    token_id, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
    now = context.clock.now()
    spec = TokenSpec(
        name=token_id,
        title=title,
        role=role,
        of=tenant,
        digest=digest_of(secret),
        expires_at=Timestamp(now + seconds),
        created_by=context.caller.name,
    )
    record = TokenRecord(id=RecordId(token_id), spec=spec, status=NoStatus(), created_at=now)
    await context.store.records(TOKEN).create(record)
    return NewToken(token=shown(record), text=f"{PREFIX}_{token_id}_{secret}")


async def list_tokens(context: OperationContext, tenant: Tenant | None) -> Sequence[Token]:
    """Return the tokens of a tenant; for None, of operators."""
    _check(context, tenant)
    return [shown(each) for each in await all_records(context.store, TOKEN) if each.spec.of == tenant]


async def revoke_token(context: OperationContext, tenant: Tenant | None, title: str) -> Token:
    """Make a token worthless from now on."""
    _check(context, tenant)
    for each in await all_records(context.store, TOKEN):
        if each.spec.of == tenant and title in (each.spec.title, each.spec.name):
            await context.store.records(TOKEN).remove(each)
            return shown(each)
    raise NotFoundError("token", title)


async def identify_token(store: Store, clock: Clock, text: str) -> Identity | None:
    """Return whom a token stands for; it is read anew each time, so that a revoked one ends at once."""
    token_id, secret = split(text)
    found = await store.records(TOKEN).find(None, token_id)
    return identity_of(None if found is None else found.spec, secret, clock.now())


def _check(context: OperationContext, tenant: Tenant | None) -> None:
    if tenant is not None:
        context.caller.check(tenant)
    elif context.caller.tenants is not None:
        raise PermissionDeniedError(f"{context.caller.name} does not run the platform")
