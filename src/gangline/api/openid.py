"""Recognizing the ID tokens of an OpenID provider: discovery, its public keys as they rotate, and groups to roles.

A token is believed if a key of the provider has signed it with an asymmetric algorithm, for this service and from that
issuer, and its time has not passed. Keys are fetched when first needed and again when a token names one that is not
known, at most once in a while: a flood of made-up key names must not become a flood of questions to the provider.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp

from gangline.errors import InvalidInputError
from gangline.model import Clock, Tenant
from gangline.model.identity import check_name
from gangline.model.team.access import Identity, Role

if TYPE_CHECKING:
    import jwt

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
"""Asymmetric ones alone: with a symmetric one, whoever knows the public key could sign."""
_LEEWAY_SECONDS = 30.0
_ASK_AGAIN_SECONDS = 10.0
_SECONDS = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdSettings:
    """What the setting ``openid`` says."""

    issuer: str
    client_id: str
    scopes: str = "openid profile email groups offline_access"
    name_claim: str = "email"
    groups_claim: str = "groups"
    groups: Mapping[str, Mapping[Tenant, Role]] = field(default_factory=dict)
    """The roles of each group, by tenant."""
    operators: frozenset[str] = frozenset()
    """The groups whose people run the platform."""

    def identity_of(self, claims: Mapping[str, Any]) -> Identity:
        """Return whom the claims of a token speak of; somebody of no known group has no role."""
        given = claims.get(self.groups_claim)
        groups = [str(each) for each in given] if isinstance(given, list) else []
        roles: dict[Tenant, Role] = {}
        for group in groups:
            for tenant, role in self.groups.get(group, {}).items():
                roles[tenant] = max(roles.get(tenant, Role.VIEWER), role, key=_RANKS.index)
        verified = self.name_claim != "email" or claims.get("email_verified", True) is True
        name = str(claims.get(self.name_claim) or "") if verified else ""
        if not name.isprintable() or name.startswith(
            "token:"
        ):  # people often choose it: it must not pass for a token's
            name = ""
        return Identity(name=name or str(claims["sub"]), roles=roles, operator=bool(self.operators & set(groups)))


_RANKS = (Role.VIEWER, Role.MEMBER, Role.ADMIN)


def read_openid(found: Mapping[str, object]) -> OpenIdSettings | None:
    """Read the setting; None if it is empty. Raises InvalidInputError that names the field."""
    if not found:
        return None
    known = ("issuer", "client_id", "scopes", "name_claim", "groups_claim", "groups")
    for name in found:
        if name not in known:
            raise InvalidInputError("unknown field", field=f"openid.{name}", expected=f"one of {', '.join(known)}")
    groups, operators = dict[str, Mapping[Tenant, Role]](), set[str]()
    given = found.get("groups") or {}
    if not isinstance(given, Mapping):
        raise InvalidInputError("wrong shape", field="openid.groups", expected="a mapping of groups to roles")
    for group, roles in given.items():
        if roles == Role.OPERATOR:
            operators.add(str(group))
        else:
            groups[str(group)] = _roles(str(group), roles)
    texts = {name: str(found[name]) for name in known[:-1] if name in found}
    for name in ("issuer", "client_id"):
        if not texts.get(name):
            raise InvalidInputError("missing", field=f"openid.{name}", expected="text")
    return OpenIdSettings(**texts, groups=groups, operators=frozenset(operators))


def _roles(group: str, roles: object) -> Mapping[Tenant, Role]:
    place, expected = f"openid.groups.{group}", "'operator', or a mapping of tenants to viewer, member or admin"
    if not isinstance(roles, Mapping):
        raise InvalidInputError("wrong shape", field=place, expected=expected)
    found = {}
    for tenant, role in roles.items():
        check_name(str(tenant), place)
        if role not in list(_RANKS):
            raise InvalidInputError(f"'{role}' is not a role of a tenant", field=place, expected=expected)
        found[Tenant(str(tenant))] = Role(role)
    return found


class OpenIdKeys:
    """Recognizes tokens of one provider."""

    def __init__(self, settings: OpenIdSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._asked_at: float | None = None
        self._asking = asyncio.Lock()

    async def recognize(self, text: str) -> Identity | None:
        """Return whom a token stands for; None for one that is not the provider's, or not valid (any more)."""
        import jwt

        if text.count(".") != 2:
            return None
        try:
            header = jwt.get_unverified_header(text)
            key = await self._key(str(header.get("kid", "")))
            if key is None or header.get("alg") not in _ALGORITHMS:
                return None
            claims = jwt.decode(
                text,
                key.key,
                algorithms=_ALGORITHMS,
                audience=self._settings.client_id,
                issuer=self._settings.issuer,
                # By our own clock below, which tests can turn.
                options={"require": ["exp", "iat", "sub", "aud", "iss"], "verify_exp": False, "verify_iat": False},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        now = self._clock.now()
        if not isinstance(claims["exp"], int | float) or claims["exp"] + _LEEWAY_SECONDS <= now:
            return None
        return self._settings.identity_of(claims)

    async def _key(self, key_id: str) -> "jwt.PyJWK | None":
        async with self._asking:
            due = self._asked_at is None or self._clock.now() - self._asked_at >= _ASK_AGAIN_SECONDS
            if key_id not in self._keys and due:
                self._asked_at = self._clock.now()
                try:
                    self._keys = await self._fetch()
                except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
                    _log.warning("the keys of %s cannot be fetched: %s", self._settings.issuer, error)
            return self._keys.get(key_id)

    async def _fetch(self) -> "dict[str, jwt.PyJWK]":
        import jwt

        issuer = self._settings.issuer
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_SECONDS), raise_for_status=True) as session:
            async with session.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration") as answer:
                found = await answer.json()
            if found["issuer"] != issuer:
                raise ValueError(f"it calls itself {found['issuer']}")
            async with session.get(found["jwks_uri"]) as answer:
                keys = (await answer.json())["keys"]
        usable = [each for each in keys if each.get("use", "sig") == "sig" and each.get("kty") != "oct"]
        return {str(each.get("kid", "")): jwt.PyJWK(each) for each in usable}
