"""Workers, servers and a mover of blocks in one process, whose messages are interleaved as a test decides.

One thread runs at a time, and hands over at every message: a seed gives the same interleaving every time. Servers are
services without sockets; time is a number that passes only while somebody waits.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from gangline import ps
from gangline.ps.blocks import describe, image_bytes, image_views
from gangline.ps.errors import from_code
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.frames import Buffer, byte_view
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.server.loop import decode_request
from gangline.ps.server.service import Answer, Caller, Exchange, Service
from gangline.ps.worker.server_group import ServerGroup
from gangline.ps.worker.session import Session
from tests.ps.gang import DEADLINE_SECONDS

Choose = Callable[[Sequence[str]], str]


class Killed(BaseException):
    """What a process that is killed would not notice: nothing in the product may catch it."""


class Turns:
    """Lets one of several named actions run at a time; `choose` says at every message which."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._turns: dict[str, threading.Semaphore] = {}
        self._alive: list[str] = []
        self._errors: list[BaseException] = []
        self._over = threading.Event()
        self._names = threading.local()

    def run(self, actions: Mapping[str, Callable[[], object]]) -> None:
        """Run all to their end; an error in one is an error of the test."""
        self._alive = sorted(actions)
        self._turns = {name: threading.Semaphore(0) for name in actions}
        threads = [
            threading.Thread(target=self._act, args=(name, action), daemon=True) for name, action in actions.items()
        ]
        for thread in threads:
            thread.start()
        self._pass_on()
        assert self._over.wait(2 * DEADLINE_SECONDS), f"still at work: {self._alive}"
        if self._errors:
            raise self._errors[0]
        for thread in threads:
            thread.join()

    def pause(self) -> None:
        """Let whoever is chosen go on; nothing outside of `run`."""
        name = getattr(self._names, "name", "")
        if name in self._alive:
            self._pass_on()
            self._turns[name].acquire()

    def is_alive(self, name: str) -> bool:
        return name in self._alive

    def _act(self, name: str, action: Callable[[], object]) -> None:
        self._names.name = name
        self._turns[name].acquire()
        try:
            action()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001  # raised again by `run`
            self._errors.append(error)
            self._over.set()
        self._alive.remove(name)
        self._pass_on()

    def _pass_on(self) -> None:
        if self._alive:
            self._turns[self._choose(self._alive)].release()
        else:
            self._over.set()


class Machines:
    """Servers by their address, and the time; stands in for the module `time` too."""

    def __init__(self, addresses: Sequence[str], settings: ps.Settings, choose: Choose) -> None:
        self.turns = Turns(choose)
        self.now = 1.0
        self.sessions: list[Session] = []
        self._services = {address: Service(settings, address, tuple(addresses)) for address in addresses}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Wait: time stands almost still while there is a mover, so that it is never too late."""
        self.now += 0.0001 if self.turns.is_alive("mover") else 1.0
        self.turns.pause()

    def stop(self, address: str) -> None:
        """End a server: what it has not answered is never answered."""
        del self._services[address]

    def is_up(self, address: str) -> bool:
        return address in self._services

    def handle(self, address: str, request: m.Request, exchange: Exchange) -> Answer | None:
        service = self._services[address]
        service.coordinator.expire(self.now)
        return service.handle(request, exchange)

    def session(self, model: dict[str, np.ndarray], addresses: Sequence[str], worker: str) -> Session:
        tensors = describe(model)
        image = SharedImage.create(image_bytes(tensors))
        for name, view in image_views(image.values, tensors).items():
            np.copyto(view, model[name])
        join = m.Join(worker, tensors, proposed=1)
        group = ServerGroup(addresses, lambda address: TurnLink(self, address), image, join, ps.Limits())
        group.begin()
        self.sessions.append(Session(tensors, image, group))
        return self.sessions[-1]


class TurnLink:
    """A link whose every message lets somebody else go first. A failure is shared by many links."""

    shared = False

    def __init__(self, machines: Machines, address: str, failure: "Failure | None" = None) -> None:
        self._machines = machines
        self._address = address
        self._failure = failure
        self._caller = Caller(job="")
        self._replies: deque[tuple[m.Request, tuple[m.Reply, bytes] | None]] = deque()
        self._check_up()

    def send(self, request: m.Request, payload: Sequence[Buffer] = ()) -> None:
        self._machines.turns.pause()
        if self._failure:
            self._failure.before(request)
        self._replies.append((request, self._ask(request, b"".join(payload))))
        if self._failure:
            self._failure.after(request)

    def receive_with_payload(self) -> tuple[m.Reply, memoryview]:
        request, answered = self._replies.popleft()
        while answered is None:
            self._machines.sleep(0)
            answered = self._ask(request, b"")
        reply, payload = answered
        if isinstance(reply, m.Failed):
            raise from_code(reply.code, reply.message)
        return reply, memoryview(payload)

    def receive(self, targets: Iterable[memoryview] = ()) -> m.Reply:
        reply, payload = self.receive_with_payload()
        for target in targets:
            target[:] = payload[: target.nbytes]
            payload = payload[target.nbytes :]
        return reply

    def close(self) -> None:
        self._replies.clear()

    def _check_up(self) -> None:
        if not self._machines.is_up(self._address):
            raise ConnectionResetError(f"{self._address} has left")

    def _ask(self, request: m.Request, payload: bytes) -> tuple[m.Reply, bytes] | None:
        self._check_up()
        exchange = Exchange(self._caller, memoryview(payload), shared=False, now=self._machines.now)
        travelled = decode_request(m.encode(request))
        answer = self._machines.handle(self._address, travelled, exchange)
        if answer is None:
            return None
        return m.decode_reply(m.encode(answer.reply)), b"".join(byte_view(array) for array in answer.arrays)


class Failure:
    """Happens once, at the message of this number: before it arrives, or after it was carried out."""

    def __init__(self, error: BaseException, at: int, *, carried_out: bool) -> None:
        self._error = error
        self._left = at
        self._carried_out = carried_out
        self.at_message = ""

    def before(self, request: m.Request) -> None:
        self._left -= 1
        if self._left == 0 and not self._carried_out:
            self._happen(request)

    def after(self, request: m.Request) -> None:
        if self._left == 0 and self._carried_out:
            self._happen(request)

    def _happen(self, request: m.Request) -> None:
        self._left = -1
        self.at_message = type(request).__name__
        raise self._error
