"""Runs the pods that are bound to a node, each container a process of this machine, and tells what becomes of them.

No images, volumes or networks: a container is its command, its environment and a directory. What is written to either
output is one log, each line with its time, as a real kubelet keeps it.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from tests.apiserver.errors import RefusedError
from tests.apiserver.kinds import NODES, PODS
from tests.apiserver.objects import Body, Key, ObjectStore, stamp

Process = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of output."""

    at: str
    text: bytes


class Output:
    """What one container has written, for any number of readers."""

    def __init__(self) -> None:
        self._lines: list[Line] = []
        self._over = False
        self._changed = asyncio.Event()

    def write(self, text: bytes) -> None:
        """Add a line."""
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)
        at = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"
        self._lines.append(Line(at, text))
        self._wake()

    def close(self) -> None:
        """Say that nothing more will come."""
        self._over = True
        self._wake()

    @property
    def last(self) -> str:
        """What is told of a program that failed without a message of its own."""
        return b"\n".join(line.text for line in self._lines[-80:]).decode(errors="replace")

    async def read(self, *, follow: bool, tail: int | None) -> AsyncIterator[Line]:
        """Return what there is and, following, what comes until the container ends."""
        at = 0 if tail is None else max(0, len(self._lines) - tail)
        while True:
            changed, over = self._changed, self._over
            for line in self._lines[at:]:
                at += 1
                yield line
            if over or not follow:
                return
            await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Kubelet:
    """The kubelets of all nodes of one cluster."""

    def __init__(self, store: ObjectStore, directory: Path) -> None:
        self._store = store
        self._directory = directory
        self._outputs: dict[tuple[str, str], Output] = {}
        self._pods: dict[str, asyncio.Task[None]] = {}
        self._addresses = count(1)

    @classmethod
    @asynccontextmanager
    async def running(cls, store: ObjectStore, *, nodes: int) -> AsyncIterator["Kubelet"]:
        """Add nodes to a cluster and run what is bound to them; all that runs ends with the context."""
        for number in range(nodes):
            store.create(NODES, "", {"metadata": {"name": f"node-{number}"}}, "kubelet")
            store.merge(NODES, ("", f"node-{number}"), {"status": _node_status()}, "kubelet", part="status")
        directory = Path(tempfile.mkdtemp(prefix="gangline-pods-"))
        kubelet = cls(store, directory)
        watching = asyncio.create_task(kubelet._watch())
        try:
            yield kubelet
        finally:
            for task in (watching, *kubelet._pods.values()):
                task.cancel()
            await asyncio.gather(watching, *kubelet._pods.values(), return_exceptions=True)
            shutil.rmtree(directory, ignore_errors=True)

    def output(self, uid: str, container: str) -> Output | None:
        """What a container of a pod has written; None if it has not been started."""
        return self._outputs.get((uid, container))

    async def _watch(self) -> None:
        """Start every pod once it has a node."""
        while True:
            changed = self._store.changed
            for body in self._store.all(PODS):
                uid = body["metadata"]["uid"]
                if body["spec"].get("nodeName") and uid not in self._pods:
                    self._pods[uid] = asyncio.create_task(self._run(body))
            await changed.wait()

    async def _run(self, body: Body) -> None:
        """One pod from its start to its removal."""
        pod = _Pod(self._store, body)
        with suppress(RefusedError):  # it was removed by force
            pod.tell(podIP=f"10.244.0.{next(self._addresses)}", hostIP="127.0.0.1", startTime=stamp())
            failed = False
            for container in body["spec"].get("initContainers", ()):
                failed = failed or await self._contain(pod, container, "initContainerStatuses") != 0
            if not failed:
                containers = body["spec"]["containers"]
                codes = await asyncio.gather(*(self._contain(pod, each, "containerStatuses") for each in containers))
                failed = any(codes)
            pod.tell(phase="Failed" if failed else "Succeeded")
            await pod.deleted()
        with suppress(RefusedError):
            self._store.delete(PODS, pod.key, {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}})

    async def _contain(self, pod: "_Pod", container: Body, kind: str) -> int:
        """Run one container to its end; returns its exit code."""
        name = container["name"]
        output = self._outputs[pod.uid, name] = Output()
        began = stamp()
        try:
            process = self._spawn(pod, container)
        except OSError as error:
            output.close()
            ended = {"exitCode": 128, "reason": "StartError", "message": str(error), "finishedAt": began}
            pod.tell_container(kind, name, {"terminated": ended})
            return 128
        reading = asyncio.create_task(_pour(process, output))
        stopping = asyncio.create_task(_stop_in_time(pod, process))
        try:
            pod.tell_container(kind, name, {"running": {"startedAt": began}})
            code = await _exit_of(process)
        finally:
            stopping.cancel()
            with suppress(ProcessLookupError):  # what it started goes with it
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            await reading
        output.close()
        code = 128 - code if code < 0 else code
        reason, message = ("Error", output.last) if code else ("Completed", "")
        ended = {"exitCode": code, "reason": reason, "message": message, "startedAt": began, "finishedAt": stamp()}
        pod.tell_container(kind, name, {"terminated": ended})
        return code

    def _spawn(self, pod: "_Pod", container: Body) -> Process:
        directory = self._directory / pod.uid
        directory.mkdir(exist_ok=True)
        given = {item["name"]: str(item["value"]) for item in container.get("env", ()) if "value" in item}
        return subprocess.Popen(
            [*container.get("command", ()), *container.get("args", ())],
            env={"PATH": os.environ["PATH"], "HOME": str(directory), **given},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class _Pod:
    """One pod as its kubelet sees it."""

    def __init__(self, store: ObjectStore, body: Body) -> None:
        self._store = store
        self.uid = body["metadata"]["uid"]
        self.key: Key = (body["metadata"]["namespace"], body["metadata"]["name"])

    def now(self) -> Body:
        """The object as it is; refused if it is gone, or another one by now."""
        found = self._store.get(PODS, self.key)
        if found["metadata"]["uid"] != self.uid:
            raise RefusedError(404, "NotFound", "it is another pod")
        return found

    def tell(self, **status: Any) -> None:
        """Change fields of the status."""
        self.now()
        self._store.merge(PODS, self.key, {"status": status}, "kubelet", part="status")

    def tell_container(self, kind: str, name: str, state: Body) -> None:
        """Say what a container does now; a pod runs as soon as one of its own does."""
        others = [item for item in self.now()["status"].get(kind, ()) if item["name"] != name]
        running = {"phase": "Running"} if kind == "containerStatuses" and "running" in state else {}
        status = {"name": name, "image": "any", "imageID": "", "ready": "running" in state, "restartCount": 0}
        self.tell(**{kind: [*others, {**status, "state": state}]}, **running)

    async def gone(self) -> None:
        """Wait until it is removed; ends with the refusal that says so."""
        while True:
            changed = self._store.changed
            self.now()
            await changed.wait()

    async def deleted(self) -> Body:
        """Wait until somebody wants it gone; returns it as it is then."""
        while True:
            changed, found = self._store.changed, self.now()
            if "deletionTimestamp" in found["metadata"]:
                return found
            await changed.wait()


async def _stop_in_time(pod: _Pod, process: Process) -> None:
    """Ask a process to end once its pod is being deleted, and kill it when its grace is over or the pod is gone.

    As with a real kubelet, the grace is that of the first deletion: a later one shortens it in the object alone.
    """
    with suppress(RefusedError):
        found = await pod.deleted()
        process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(found["metadata"]["deletionGracePeriodSeconds"]):
                await pod.gone()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _exit_of(process: Process) -> int:
    """Wait for the process alone: asyncio's own would wait for whoever holds its output, too."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return process.wait()


async def _pour(process: Process, output: Output) -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), process.stdout
    )
    try:
        async for line in reader:
            output.write(line.rstrip(b"\n"))
    finally:
        transport.close()


def _node_status() -> Body:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
