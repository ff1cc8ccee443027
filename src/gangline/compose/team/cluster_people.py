"""Who asks a cluster's service, and what they may do there: both are the API server's to say.

A token is shown to it (TokenReview), and for the right that an operation needs it is asked whether its own rules give
that to the person (SubjectAccessReview). Answers are believed for some seconds, no longer than a stream goes on after
its token was taken back. What is read and written is asked for with the person's own token besides, so that a question
that is put too broadly here opens nothing.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gangline.api.operation import Operation
from gangline.errors import GanglineError
from gangline.kinds import all_kinds
from gangline.kube import ForbiddenError, GenericObject, KubeClient, Resource
from gangline.model import Clock, Tenant
from gangline.model.team.access import Identity, Right, Role

_TOKEN_REVIEWS = Resource(
    group="authentication.k8s.io", plural="tokenreviews", kind="TokenReview", type=GenericObject, namespaced=False
)
_ACCESS_REVIEWS = Resource(
    group="authorization.k8s.io",
    plural="subjectaccessreviews",
    kind="SubjectAccessReview",
    type=GenericObject,
    namespaced=False,
)
_BELIEVED_SECONDS = 5.0
_MOST_ANSWERS = 10_000
_AT_ONCE = 16
_ACCOUNT_PREFIX = "system:serviceaccount:"
_GROUP = "gangline.dev"
_ROLE_FOR = {Right.READ: Role.VIEWER, Right.WRITE: Role.MEMBER, Right.ADMINISTER: Role.ADMIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Whom the API server takes the bearer of a token for."""

    name: str
    user: Mapping[str, Any] = field(default_factory=dict)
    """As it says so itself: name, groups and what else its rules may look at."""

    @property
    def home(self) -> Tenant:
        """The tenant of requests that name none: a service account's own namespace."""
        namespace = self.name.removeprefix(_ACCOUNT_PREFIX).partition(":")[0]
        return Tenant(namespace if self.name.startswith(_ACCOUNT_PREFIX) else "default")


class ClusterPeople:
    """Asks with the service's own account, which may do nothing else."""

    def __init__(self, client: KubeClient, clock: Clock, *, believed_seconds: float = _BELIEVED_SECONDS) -> None:
        self._client = client
        self._believed_seconds = believed_seconds
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Any]] = OrderedDict()
        # Whoever makes tokens up must not have the API server do nothing but look at them.
        self._asking = asyncio.Semaphore(_AT_ONCE)

    async def person(self, token: str) -> Person | None:
        """Return whom a token stands for; None if it is not, or no longer, valid."""
        key = f"token {digest_of(token)}"
        if (found := self._believed(key)) is not None:
            return found if isinstance(found, Person) else None
        status = await self._ask(_TOKEN_REVIEWS, {"token": token})
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        person = Person(name=user["username"], user=user)
        self._believe(key, person)
        return person

    async def identity(self, person: Person, operation: Operation | None, tenant: Tenant | None) -> Identity:
        """Return a person with the roles that an operation asks for, as far as the cluster gives them to them."""
        right = Right.ASK if operation is None else operation.right
        if right is Right.ASK:
            return await self._at_home(person)
        if right in (Right.OPERATE, Right.MEASURE):
            allowed = await self._may(person, platform_question(right))
            return Identity(
                name=person.name,
                operator=allowed and right is Right.OPERATE,
                monitor=allowed and right is Right.MEASURE,
            )
        if tenant is None:  # what is nobody's, or the person's own: their token is asked for the rest
            return Identity(name=person.name, roles={person.home: Role.MEMBER})
        assert operation is not None
        allowed = await self._may(person, question_of(operation, tenant))
        return Identity(name=person.name, roles={tenant: _ROLE_FOR[right]} if allowed else {})

    async def with_all_roles(self, person: Person, found: Identity, tenant: Tenant) -> Identity:
        """Return somebody whom an operation was granted with all that the cluster lets them do in a tenant."""
        if tenant not in found.roles:
            return found
        highest = {
            Role.ADMIN: _resource(tenant, "create", "rolebindings", group="rbac.authorization.k8s.io"),
            Role.MEMBER: _resource(tenant, "create", "jobs"),
        }
        granted = [role for role, question in highest.items() if await self._may(person, question)]
        operator = await self._may(person, platform_question(Right.OPERATE))
        return replace(
            found, roles={**found.roles, tenant: next(iter(granted), found.roles[tenant])}, operator=operator
        )

    async def _at_home(self, person: Person) -> Identity:
        home = person.home
        verbs = {Role.VIEWER: "list", Role.MEMBER: "create"}
        roles = [role for role, verb in verbs.items() if await self._may(person, _resource(home, verb, "jobs"))]
        operator = await self._may(person, platform_question(Right.OPERATE))
        return Identity(name=person.name, roles={home: roles[-1]} if roles else {}, operator=operator)

    async def _may(self, person: Person, question: Mapping[str, Any]) -> bool:
        key = f"access {person.name} {sorted(person.user.get('groups') or ())} {question}"
        if (found := self._believed(key)) is not None:
            return bool(found)
        user = person.user
        who = {"user": person.name, "uid": user.get("uid", ""), "groups": user.get("groups") or []}
        status = await self._ask(_ACCESS_REVIEWS, {**who, "extra": user.get("extra") or {}, **question})
        allowed = bool(status.get("allowed"))
        self._believe(key, allowed)
        return allowed

    async def _ask(self, reviews: Resource[GenericObject], spec: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            async with self._asking:
                return (await self._client.create(reviews, {"spec": spec})).status
        except ForbiddenError as error:
            raise GanglineError(
                "the service may not ask the cluster about tokens: its account needs the role system:auth-delegator"
            ) from error

    def _believed(self, key: str) -> object | None:
        at, answer = self._known.get(key, (0.0, None))
        return answer if self._clock.now() - at < self._believed_seconds else None

    def _believe(self, key: str, answer: object) -> None:
        self._known[key] = (self._clock.now(), answer)
        self._known.move_to_end(key)
        while len(self._known) > _MOST_ANSWERS:
            self._known.popitem(last=False)


def question_of(operation: Operation, tenant: Tenant) -> Mapping[str, Any]:
    """Return what the cluster is asked before an operation on what belongs to a tenant."""
    if operation.right is Right.ADMINISTER:
        return _resource(tenant, "create", "rolebindings", group="rbac.authorization.k8s.io")
    parts = [part for part in operation.path.split("/") if part]
    plurals = {"jobs", *(kind.plural for kind in all_kinds() if not kind.foreign)}
    plural = next((part for part in parts if part in plurals), "jobs")
    if operation.right is Right.READ:
        return _resource(tenant, "list" if parts[-1] == plural else "get", plural)
    if operation.method == "DELETE":
        return _resource(tenant, "delete", plural)
    return _resource(tenant, "create" if operation.method == "POST" and parts[-1] == plural else "patch", plural)


def platform_question(right: Right) -> Mapping[str, Any]:
    """Return what the cluster is asked before an operation on the platform itself."""
    if right is Right.MEASURE:
        return {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    return _resource(None, "update", "queues")


def _resource(tenant: Tenant | None, verb: str, plural: str, *, group: str = _GROUP) -> Mapping[str, Any]:
    place = {} if tenant is None else {"namespace": str(tenant)}
    return {"resourceAttributes": {**place, "verb": verb, "group": group, "resource": plural}}


def digest_of(token: str) -> str:
    """Return what a token is remembered by."""
    return hashlib.sha256(token.encode()).hexdigest()
