"""The routers of a cluster: told by the controller where requests go, and asked what they count.

What they were told last is in a Secret, with what a controller says to be believed: routers begin with it, and so does
the next controller.
"""

import asyncio
import logging
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping

import aiohttp

from gangline.controller.services import Router
from gangline.engines.kubernetes.installing.router import ROUTER_CONTROL_PORT, ROUTER_NAME, TABLE_KEY, TOKEN_KEY
from gangline.engines.kubernetes.names import ROUTER
from gangline.errors import InvalidInputError
from gangline.kube import PODS, SERVICES, AlreadyExistsError, ConfigMap, KubeClient, KubeError, NotFoundError, Resource
from gangline.model.routing import (
    RevisionStatistics,
    RouterStatistics,
    RoutingTable,
    decode_statistics,
    decode_table,
    encode_table,
    merged_statistics,
)

_log = logging.getLogger(__name__)
READABLE_SECRETS = Resource(plural="secrets", kind="Secret", type=ConfigMap)
_ANSWER_SECONDS = 3.0


class ClusterRouter:
    """All routers of an installation, as one."""

    def __init__(self, client: KubeClient, *, namespace: str, control_port: int = ROUTER_CONTROL_PORT) -> None:
        self._client = client
        self._namespace = namespace
        self._control_port = control_port
        self._session: aiohttp.ClientSession | None = None
        self._token = ""
        self._table: RoutingTable | None = None
        self._told = b""
        self._last: dict[str, RouterStatistics] = {}
        self._ended: RouterStatistics = RouterStatistics()
        """What routers had counted that are gone."""

    @property
    def address(self) -> str:
        """Where every pod of the cluster reaches them."""
        return f"http://{ROUTER_NAME}.{self._namespace}.svc"

    async def prepare(self) -> None:
        """See to it that there is a Secret: routers do not start before."""
        data = {TOKEN_KEY: _packed(secrets.token_urlsafe(32).encode())}
        try:
            metadata = {"name": ROUTER_NAME, "ownerReferences": await self._owners()}
            await self._client.create(READABLE_SECRETS, {"metadata": metadata, "data": data}, namespace=self._namespace)
        except AlreadyExistsError:
            pass
        except KubeError as error:
            _log.warning("routers cannot be told anything: %s", error)

    async def _owners(self) -> list[dict[str, str]]:
        """What the Secret goes with, whoever uninstalls: the Service in front of the routers."""
        found = (await self._client.list(SERVICES, namespace=self._namespace)).items or ()
        return [
            {"apiVersion": "v1", "kind": "Service", "name": ROUTER_NAME, "uid": service.metadata.uid}
            for service in found
            if service.metadata.name == ROUTER_NAME
        ]

    async def known(self) -> RoutingTable:
        """Return what routers were told last, whoever told them."""
        if self._table is None:
            self._table = _table_of(await self._read())
        return self._table

    async def _read(self) -> Mapping[str, str]:
        try:
            found = await self._client.get(READABLE_SECRETS, ROUTER_NAME, namespace=self._namespace)
        except NotFoundError:
            await self.prepare()
            found = await self._client.get(READABLE_SECRETS, ROUTER_NAME, namespace=self._namespace)
        self._token = b64decode(found.data.get(TOKEN_KEY, "")).decode()
        return found.data

    async def tell(self, table: RoutingTable) -> None:
        """Write the table down, then send it to every router; one that does not answer is told as soon as it does."""
        if not self._token:
            await self._read()
        self._told = encode_table(table)
        patch = {"data": {TABLE_KEY: _packed(self._told)}}
        await self._client.patch(READABLE_SECRETS, ROUTER_NAME, patch, namespace=self._namespace)
        self._table = table
        await asyncio.gather(*(self._send(host) for host in await self._hosts()))

    async def _send(self, host: str) -> RouterStatistics | None:
        return await self._ask("PUT", host, "/table", self._told)

    async def statistics(self, wait_seconds: float) -> RouterStatistics | None:
        """Ask all of them; those with another table than the newest are told again."""
        try:
            hosts = await self._hosts()
        except KubeError as error:
            _log.warning("routers cannot be found: %s", error)
            hosts = []
        if not hosts:
            await asyncio.sleep(wait_seconds)
            return None
        asked = [asyncio.create_task(self._ask("GET", host, f"/statistics?wait={wait_seconds:g}")) for host in hosts]
        await _first(asked)
        found = await asyncio.gather(*(self._now(host) for host in hosts))
        answers = [each for each in found if each is not None]
        if not answers:
            await asyncio.sleep(wait_seconds)
            return None
        return self._counted(answers)

    async def _now(self, host: str) -> RouterStatistics | None:
        found = await self._ask("GET", host, "/statistics")
        behind = found is not None and self._table is not None and found.version != self._table.version
        return await self._send(host) or found if behind and self._told else found

    def _counted(self, answers: Iterable[RouterStatistics]) -> RouterStatistics:
        """Add up what they count, with what was counted by those that are gone: sums must not fall."""
        now = {each.life: each for each in answers}
        gone = [_past(each) for life, each in self._last.items() if life not in now]
        if gone:
            self._ended = merged_statistics([self._ended, *gone])
        self._last = now
        # Whatever is gone belongs to no table: it must not count as the oldest version in force.
        whole = merged_statistics([*now.values(), *([self._ended] if self._ended.revisions else ())])
        version = min(each.version for each in now.values())
        return RouterStatistics(version=version, problem=whole.problem, revisions=whole.revisions)

    async def _hosts(self) -> list[str]:
        found = await self._client.list(PODS, namespace=self._namespace, labels=ROUTER)
        running = [each for each in found.items or () if each.status.phase == "Running" and each.status.pod_ip]
        return sorted(f"[{ip}]" if ":" in ip else ip for ip in (each.status.pod_ip for each in running))

    async def _ask(self, method: str, host: str, path: str, body: bytes | None = None) -> RouterStatistics | None:
        if self._session is None:
            limit = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
            self._session = aiohttp.ClientSession(timeout=limit)
        headers = {"Authorization": f"Bearer {self._token}"}
        address = f"http://{host}:{self._control_port}{path}"
        try:
            async with self._session.request(method, address, data=body, headers=headers) as answer:
                return decode_statistics(await answer.read()) if answer.status < 400 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    async def close(self) -> None:
        """Let go of them; they go on."""
        if self._session is not None:
            await self._session.close()


async def _first(asked: Iterable["asyncio.Task[RouterStatistics | None]"]) -> None:
    """Wait until one has an answer, or none will."""
    waiting = set(asked)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if any(task.result() is not None for task in done):
                return
    finally:
        for task in waiting:
            task.cancel()


def _past(statistics: RouterStatistics) -> RouterStatistics:
    """What stays of a router that is gone: what it has counted, and nothing under way."""
    revisions = tuple(
        RevisionStatistics(
            service=each.service,
            revision=each.revision,
            requests=each.requests,
            answers=each.answers,
            errors=each.errors,
            retries=each.retries,
            latency=each.latency,
        )
        for each in statistics.revisions
    )
    return RouterStatistics(revisions=revisions)


def _packed(data: bytes) -> str:
    return b64encode(data).decode()


def _table_of(data: Mapping[str, str]) -> RoutingTable:
    text = b64decode(data.get(TABLE_KEY, ""))
    if not text:
        return RoutingTable()
    try:
        return decode_table(text)
    except InvalidInputError as error:
        _log.error("the routing table cannot be read and is written anew: %s", error)
        return RoutingTable()


_conforms: type[Router] = ClusterRouter
