"""How a program without servers runs: its session calls a service in the same process.

A module of its own, because workers that have servers do without all that a server is made of, and start sooner.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from gangline.ps.errors import ParameterServerError
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.frames import Buffer
from gangline.ps.protocol.link import Link, unless_failed
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.server.service import Answer, Caller, Exchange, Service
from gangline.ps.settings import Settings

ADDRESS = "in-process"


def dial_in_process(settings: Settings, image: SharedImage) -> Callable[[str], Link]:
    """What stands in for dialling a server."""
    service = Service(settings, ADDRESS, (ADDRESS,))
    return lambda _: InProcessLink(service, image)


class InProcessLink:
    """A service in this very process."""

    shared = True

    def __init__(self, service: Service, image: SharedImage) -> None:
        self._service = service
        self._caller = Caller(job="", image=image)
        self._answers: deque[Answer] = deque()

    def send(self, request: m.Request, payload: Sequence[Buffer] = ()) -> None:
        """See Link."""
        joined = memoryview(b"".join(payload))
        exchange = Exchange(self._caller, joined, shared=True, now=time.monotonic())
        answer = self._service.handle(request, exchange)
        if answer is None:
            raise ParameterServerError(f"{type(request).__name__} would wait forever: there are no other workers")
        self._answers.append(answer)

    def receive(self, targets: Iterable[memoryview] = ()) -> m.Reply:
        """See Link."""
        return unless_failed(self._answers.popleft().reply)

    def close(self) -> None:
        """See Link."""
        self._service.disconnected(self._caller, time.monotonic())
