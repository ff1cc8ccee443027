"""Who asks a cluster's service: by the token that a request brings, or the cookie of a browser that showed one before.

A browser never has the token: it stays in this process, for as long as the session lasts and the cluster knows it.
"""

from aiohttp import web

from gangline.api.ffdl.application import presented_token
from gangline.api.identity import NOT_VALID, bearer_of
from gangline.api.operation import operation_of, tenant_in
from gangline.compose.team.cluster_people import ClusterPeople, Person
from gangline.errors import UnauthenticatedError
from gangline.model import Clock
from gangline.model.team.access import Identity, Role
from gangline.web.frame import PREFIX
from gangline.web.guards import SESSION, session_identify
from gangline.web.sessions import Sessions, TokenHolder
from gangline.wire import DashboardLink

_PERSON: web.RequestKey[Person] = web.RequestKey("person", Person)


class ClusterVisits:
    """Finds out who asks, and lets browsers in."""

    def __init__(self, people: ClusterPeople, clock: Clock) -> None:
        self._people = people
        self.sessions = Sessions(clock)
        self._by_cookie = session_identify(self.sessions, self.by_token)

    async def person(self, request: web.Request) -> Person:
        """Return who asks; raises UnauthenticatedError."""
        return request[_PERSON] if _PERSON in request else await self._known(self.token_of(request))

    def token_of(self, request: web.Request) -> str:
        """Return the token with which a request is carried out; raises UnauthenticatedError."""
        if given := presented_token(request):
            return given
        visitor = request[SESSION].holder if SESSION in request else None
        if isinstance(visitor, TokenHolder) and "Authorization" not in request.headers:
            return visitor.token
        return bearer_of(request)

    async def by_token(self, request: web.Request) -> Identity:
        """Say who asks, with the role that the operation needs; see ``api.operation.Identify``."""
        return await self._identified(request, bearer_of(request))

    async def by_token_or_cookie(self, request: web.Request) -> Identity:
        """The same for who may have a cookie instead."""
        found = await self._by_cookie(request)
        if "Authorization" in request.headers:
            return found
        return await self._identified(request, self.token_of(request))

    async def on_pages(self, request: web.Request) -> Identity:
        """The same with all that they may do in the tenant: pages offer nothing else."""
        found, tenant = await self.by_token_or_cookie(request), tenant_in(request)
        return found if tenant is None else await self._people.with_all_roles(request[_PERSON], found, tenant)

    async def recognize(self, token: str) -> Identity | None:
        """Return whose token that is; see ``api.identity.Recognize``."""
        person = await self._people.person(token)
        return None if person is None else Identity(name=person.name)

    async def of_ffdl(self, token: str) -> Identity:
        """Return whose token that is, at home; raises UnauthenticatedError."""
        person = await self._known(token)
        return Identity(name=person.name, roles={person.home: Role.MEMBER})

    async def link(self, request: web.Request, port: int) -> DashboardLink:
        """Lend somebody's token to a browser of theirs."""
        del port
        code = self.sessions.offer(TokenHolder(self.token_of(request), self.recognize))
        return DashboardLink(address=f"{PREFIX}/enter?code={code}")

    async def _identified(self, request: web.Request, token: str) -> Identity:
        person = request[_PERSON] = await self._known(token)
        return await self._people.identity(person, operation_of(request), tenant_in(request))

    async def _known(self, token: str) -> Person:
        person = await self._people.person(token)
        if person is None:
            raise UnauthenticatedError(NOT_VALID)
        return person
