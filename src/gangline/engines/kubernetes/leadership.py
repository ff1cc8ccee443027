"""One controller at a time: whoever holds the Lease leads, and the others wait for it to lapse.

Time on other machines is never trusted: a lease has lapsed when nobody renewed it for its duration by our own clock.
A leader that cannot renew gives up before anybody else may take over.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from gangline.kube import LEASES, AlreadyExistsError, ConflictError, KubeClient, KubeError, Lease, NotFoundError
from gangline.model import Clock

_log = logging.getLogger(__name__)


class Leadership:
    """Takes part in the election for one lease."""

    def __init__(
        self,
        client: KubeClient,
        *,
        identity: str,
        clock: Clock,
        namespace: str,
        name: str = "gangline-controller",
        lease_seconds: int = 3,
        renew_seconds: float = 0.75,
    ) -> None:
        self._client = client
        self._identity = identity
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._observed: tuple[object, float] | None = None
        self._answered: float | None = None
        self.leading = False

    @property
    def in_contact(self) -> bool:
        """Whether the API server answered lately: the renewals, or looks at somebody else's lease, tell."""
        if self._answered is None:
            return False
        return asyncio.get_running_loop().time() - self._answered < 3 * self._lease_seconds

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work whenever we lead, until cancelled; it is cancelled when the lease cannot be kept."""
        while True:
            await self._acquire()
            _log.info("%s leads", self._identity)
            self.leading = True
            working = asyncio.ensure_future(work())
            keeping = asyncio.create_task(self._keep(), name="keep the lease")
            try:
                await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    working.result()
            finally:
                self.leading = False
                for task in (working, keeping):
                    task.cancel()
                await asyncio.gather(working, keeping, return_exceptions=True)
                await self._release()
            _log.warning("%s no longer leads", self._identity)

    async def _acquire(self) -> None:
        while not await self._try():  # noqa: ASYNC110  # another machine holds it; there is nothing to wait on
            await asyncio.sleep(self._renew_seconds)

    async def _keep(self) -> None:
        """Renew until that has not worked for so long that somebody else may soon take over."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while loop.time() - renewed < self._lease_seconds * 2 / 3:
            await asyncio.sleep(self._renew_seconds)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lease_seconds / 3):
                    if await self._try():
                        renewed = loop.time()

    async def _try(self) -> bool:
        """Take or renew the lease; False if somebody else holds it or the server does not answer."""
        try:
            try:
                lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
                self._answered = asyncio.get_running_loop().time()
            except NotFoundError:
                await self._client.create(LEASES, self._body(None))
                return True
            if not self._may_take(lease):
                return False
            await self._client.replace(LEASES, self._body(lease))
        except (ConflictError, AlreadyExistsError):
            return False
        except KubeError as error:
            _log.warning("the lease cannot be reached: %s", error)
            return False
        return True

    def _may_take(self, lease: Lease) -> bool:
        holder = lease.spec.holder_identity
        if not holder or holder == self._identity:
            return True
        now = asyncio.get_running_loop().time()
        mark = (holder, lease.metadata.resource_version)
        if self._observed is None or self._observed[0] != mark:
            self._observed = (mark, now)
            return False
        return now - self._observed[1] > (lease.spec.lease_duration_seconds or self._lease_seconds)

    async def _release(self) -> None:
        """Let the next one lead at once; if that fails the lease lapses by itself."""
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(1.0):
                lease = await self._client.get(LEASES, self._name, namespace=self._namespace)
                if lease.spec.holder_identity == self._identity:
                    body = self._body(lease)
                    body["spec"]["holderIdentity"] = ""
                    await self._client.replace(LEASES, body)

    def _body(self, lease: Lease | None) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ours = lease is not None and lease.spec.holder_identity == self._identity
        transitions = (lease.spec.lease_transitions or 0) if lease is not None else 0
        acquired = lease.spec.acquire_time if lease is not None and ours else None
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        if lease is not None:
            metadata["resourceVersion"] = lease.metadata.resource_version
        return {
            "metadata": metadata,
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": self._lease_seconds,
                "acquireTime": acquired.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if acquired is not None else now,
                "renewTime": now,
                "leaseTransitions": transitions if ours else transitions + 1,
            },
        }
