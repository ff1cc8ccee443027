"""Servers and workers for the tests: servers as threads for speed, as processes where they are to be killed."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np

from gangline import ps, runtime
from gangline.ps.blocks import describe, image_bytes, image_views
from gangline.ps.protocol import messages as m
from gangline.ps.protocol.authentication import Credentials, prove
from gangline.ps.protocol.frames import Buffer
from gangline.ps.protocol.link import Link, RemoteLink
from gangline.ps.protocol.shared_image import SharedImage
from gangline.ps.server.loop import Server
from gangline.ps.worker.server_group import ServerGroup
from gangline.ps.worker.session import Session
from gangline.runtime.peers import split_address

JOB = "test"
SECRET_FILE = Path(__file__).with_name("secret.txt")
CREDENTIALS = Credentials(SECRET_FILE.read_bytes().strip())
dial = partial(RemoteLink, job=JOB, sender="test", credentials=CREDENTIALS)
DEADLINE_SECONDS = 60.0


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def make_environment(role: str, index: int, servers: Sequence[str], home: Path | None = None) -> dict[str, str]:
    return {
        "GANGLINE_JOB_ID": JOB,
        "GANGLINE_SECRET_FILE": str(SECRET_FILE),
        "GANGLINE_ROLE": role,
        "GANGLINE_INDEX": str(index),
        "GANGLINE_CLUSTER": json.dumps({"ps": list(servers)}),
        "GANGLINE_ADDRESS": servers[index] if role == "ps" else "",
        "CHECKPOINT_DIR": str(home or ""),
    }


def make_replica(servers: Sequence[str], index: int = 0, role: str = "worker") -> runtime.Replica:
    return runtime.current(make_environment(role, index, servers))


@contextmanager
def running_servers(number: int = 1, **settings: object) -> Iterator[tuple[str, ...]]:
    """Servers as threads of this process."""
    addresses = tuple(free_address() for _ in range(number))
    with running_server_threads(addresses, addresses, ps.Settings(**settings)):
        yield addresses


def make_server(address: str, cluster: tuple[str, ...], settings: ps.Settings, directory: Path | None = None) -> Server:
    return Server(address, servers=cluster, settings=settings, job=JOB, directory=directory, credentials=CREDENTIALS)


@contextmanager
def running_server_threads(
    addresses: Sequence[str], cluster: tuple[str, ...], settings: ps.Settings, directory: Path | None = None
) -> Iterator[None]:
    stop = threading.Event()
    threads = []
    for address in addresses:
        own = directory / address if directory else None
        server = make_server(address, cluster, settings, own)
        threads.append(threading.Thread(target=server.run, args=(stop.is_set,)))
        threads[-1].start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    """A bare socket of somebody who knows the secret."""
    with socket.create_connection(split_address(address), timeout=DEADLINE_SECONDS) as sock:
        prove(sock, CREDENTIALS)
        yield sock


class ServerProcess:
    """A real server process that can be killed and started again at the same address. Killed at the end of `with`."""

    def __init__(self, address: str, home: Path, *options: str, cluster: Sequence[str] = ()) -> None:
        self.address = address
        self._cluster = list(cluster) or [address]
        self._home = home
        self._options = options
        self.start()

    def start(self) -> None:
        index = self._cluster.index(self.address)
        environment = os.environ | make_environment("ps", index, self._cluster, self._home)
        command = [sys.executable, "-m", "gangline.ps", *self._options]
        self._process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        self._told = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def tell_to_stop(self) -> None:
        """Once: a process that is about to end has handed the signal back to the system, which would kill it."""
        if not self._told:
            self._process.terminate()
            self._told = True

    def stop(self) -> int:
        self.tell_to_stop()
        return self._process.wait(DEADLINE_SECONDS)

    def wait_for_snapshot(self) -> None:
        """Until a snapshot is written that holds all the server knows now: the next one may have begun before."""
        newest = self._newest_snapshot()
        wait_until(lambda: self._newest_snapshot() >= newest + 2, "two more snapshots")

    def _newest_snapshot(self) -> int:
        directory = self._home / f"ps-{self._cluster.index(self.address)}"
        return max((checkpoint.step for checkpoint in runtime.Checkpoints(directory).all()), default=0)


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited too long: {what}"
        threading.Event().wait(0.01)


class FlakyLink:
    """Breaks now and then: before a request leaves, or after it was carried out and before its reply came."""

    def __init__(self, address: str, chance: float, dice: random.Random, worker: str) -> None:
        self._link = RemoteLink(address, job=JOB, sender=worker, credentials=CREDENTIALS)
        self._chance, self._dice = chance, dice
        self.shared = False

    def send(self, request: m.Request, payload: Sequence[Buffer] = ()) -> None:
        self._perhaps_break()
        self._link.send(request, payload)

    def receive(self, targets: Iterable[memoryview] = ()) -> m.Reply:
        reply = self._link.receive(targets)
        self._perhaps_break()
        return reply

    def close(self) -> None:
        self._link.close()

    def _perhaps_break(self) -> None:
        if self._dice.random() < self._chance:
            self._link.close()
            raise ConnectionResetError("the test cut the line")


def flaky_session(model: dict[str, np.ndarray], server: str, *, index: int, chance: float) -> Session:
    """A session whose line is cut again and again, the same way for the same index."""
    tensors = describe(model)
    image = SharedImage.create(image_bytes(tensors))
    for name, view in image_views(image.values, tensors).items():
        np.copyto(view, model[name])
    worker = f"worker-{index}"
    dice = random.Random(index)

    def dial(address: str) -> Link:
        return FlakyLink(address, chance, dice, worker)

    join = m.Join(worker, tensors, proposed=time.time_ns() // 1_000_000)
    group = ServerGroup([server], dial, image, join, ps.Limits())
    group.begin()
    return Session(tensors, image, group)
