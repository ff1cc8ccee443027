"""Follows what movers say of how far they are, in their output. Nothing depends on it: their pod tells their end."""

import logging
from collections.abc import Callable
from contextlib import aclosing

from gangline.data.pod_mover import REPORT
from gangline.engines.kubernetes.background_tasks import BackgroundTasks
from gangline.engines.kubernetes.logs.saved_logs import parse, raw_lines
from gangline.engines.transfer_report import read_report
from gangline.kube import KubeClient, KubeError, Pod
from gangline.lifecycle.events import TransferReported
from gangline.model import Clock, GangId

_log = logging.getLogger(__name__)
_TELL_SECONDS = 2.0
"""How often it is passed on: each time is a write of the job's record."""
_STREAMS = 100
"""How many movers are followed at once; of the others only the end is told."""


class TransferReader:
    """Follows movers; ``report`` receives their reports."""

    def __init__(
        self,
        client: KubeClient,
        background: BackgroundTasks,
        *,
        report: Callable[[TransferReported], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._clock = clock
        self._background = background
        self._report = report
        self._followed: set[tuple[GangId, str]] = set()

    def begin(self, gang_id: GangId, pod: Pod, container: str) -> None:
        """Follow a mover that runs, unless that is done already or too many are followed."""
        which = (gang_id, container)
        if which not in self._followed and len(self._followed) < _STREAMS:
            self._followed.add(which)
            name = f"progress of {pod.metadata.name}"
            self._background.spawn(self._follow(which, pod), name=name)

    def tell(self, text: str, gang_id: GangId) -> None:
        """Pass on the last report of a mover that has ended."""
        if (report := read_report(text, gang_id, self._clock.now())) is not None:
            self._report(report)

    async def _follow(self, which: tuple[GangId, str], pod: Pod) -> None:
        gang_id, container = which
        told = 0.0
        try:
            async with aclosing(raw_lines(self._client, pod, follow=True, container=container)) as lines:
                async for raw in lines:
                    at, text = parse(raw)
                    if not text.startswith(REPORT) or at - told < _TELL_SECONDS:
                        continue
                    if (report := read_report(text.removeprefix(REPORT), gang_id, at)) is not None:
                        told = at
                        self._report(report)
        except KubeError as error:
            _log.debug("the progress of %s is not followed: %s", pod.metadata.name, error)
        finally:
            self._followed.discard(which)
