"""Reading who changed what."""

from gangline.errors import InvalidInputError, NotFoundError, PermissionDeniedError
from gangline.model import Tenant
from gangline.model.team.audit import AuditPage
from gangline.operations.context import OperationContext


async def read_audit(
    context: OperationContext, tenant: Tenant | None, *, limit: int, after: str | None = None
) -> AuditPage:
    """Return a page of a tenant's audit record, newest first; of all for None."""
    if tenant is not None:
        context.caller.check(tenant)
    elif context.caller.tenants is not None:
        raise PermissionDeniedError(f"{context.caller.name} does not run the platform")
    if context.audit is None:
        raise NotFoundError("audit record", "audit", hint="a team's service keeps one")
    if after is not None and not (after.isascii() and after.isdigit()):
        raise InvalidInputError("not a cursor", field="after", expected="the 'next' of a page")
    found = tuple(await context.audit.read(tenant, before=None if after is None else int(after), limit=limit))
    return AuditPage(entries=found, next=str(found[-1].number) if len(found) == limit else None)
