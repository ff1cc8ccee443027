"""Who may use a team's service, and who has used it how much: log-in, tokens, audit record and use."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gangline.model import Timestamp
from gangline.model.team.access import Role
from gangline.model.team.accounting import UsageReport
from gangline.model.team.audit import AuditEntry, AuditPage
from gangline.model.team.token import NewToken, Token
from gangline.sdk.exchange import body_of, query_of
from gangline.wire import DashboardLink, LoginWays, Myself, iso

if TYPE_CHECKING:
    from gangline.sdk.client import Client

_PAGE = 500


class Team:
    """Asks one service about its people; made by ``Client``. An empty tenant means operators, who are in all."""

    def __init__(self, client: "Client") -> None:
        self._exchange = client.exchange

    def login_ways(self) -> LoginWays:
        """Return how to log in; needs no login."""
        return self._exchange.ask(LoginWays, "GET", ("login",))

    def myself(self) -> Myself:
        """Return whom the service takes this client's user for."""
        return self._exchange.ask(Myself, "GET", ("myself",))

    def dashboard(self, *, port: int | None = None) -> str:
        """Return a link to the pages of the service that lets in whoever opens it first; it is good for two minutes.

        A service of this machine opens a port for them that only this machine can reach.
        """
        found = self._exchange.ask(DashboardLink, "POST", ("dashboard",), query_of(port=port)).address
        return f"{self._exchange.address.rstrip('/')}{found}" if found.startswith("/") else found

    def create_token(self, name: str, *, role: Role, tenant: str, seconds: float) -> NewToken:
        """Make a token; its text is in the answer and can never be had again."""
        body = body_of({"name": name, "role": role, "seconds": seconds})
        return self._exchange.ask(NewToken, "POST", _tokens(tenant), (), body)

    def usage(
        self,
        tenant: str,
        *,
        since: Timestamp | None = None,
        until: Timestamp | None = None,
        by: Sequence[str] = ("tenant",),
        every: str | None = None,
    ) -> UsageReport:
        """Return what a tenant has used, or all of them for an empty one, of the last thirty days if nothing is said.

        ``by`` has some of tenant, queue and user; ``every`` is hour, day or month.
        """
        path = ("tenants", tenant, "usage-report") if tenant else ("usage-report",)
        times = {name: None if at is None else iso(at) for name, at in (("since", since), ("until", until))}
        query = query_of(by=",".join(by), every=every, **times)
        return self._exchange.ask(UsageReport, "GET", path, query)

    def audit(self, tenant: str, *, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Return who changed what of a tenant, newest first."""
        path = ("tenants", tenant, "audit") if tenant else ("audit",)
        found: tuple[AuditEntry, ...] = ()
        after: str | None = None
        while len(found) < limit:
            query = query_of(limit=min(limit - len(found), _PAGE), after=after)
            page = self._exchange.ask(AuditPage, "GET", path, query)
            found, after = found + page.entries, page.next
            if after is None:
                break
        return found

    def tokens(self, tenant: str) -> tuple[Token, ...]:
        """Return the tokens of a tenant, without their secrets."""
        return self._exchange.ask(tuple[Token, ...], "GET", _tokens(tenant))

    def revoke_token(self, name: str, *, tenant: str) -> Token:
        """Make a token worthless from now on."""
        return self._exchange.ask(Token, "DELETE", (*_tokens(tenant), name))


def _tokens(tenant: str) -> tuple[str, ...]:
    return ("tenants", tenant, "tokens") if tenant else ("tokens",)
